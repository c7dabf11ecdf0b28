"""Language models: the features of a text are those of the plain model on that text alone, whatever the batch."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mallow.compat import compute_mauve
from mallow.embed import LanguageModel
from mallow.embed import _language_model as hidden_states
from mallow.embed import _language_model as language
from mallow.embed._language_model import find_last_mlp, only_at_places, pooled_states
from mallow.errors import InputError
from name_digests import name_digest
from tiny_models import save_tiny_gguf, save_tiny_model, tiny_config, tiny_tokenizer, torch, transformers

CAUSAL = ("gpt2", "llama", "opt", "mistral")
SENTENCES = [
    "A short one.",
    "The quick brown fox jumps over the lazy dog, and then it does so again.",
    "Grüße aus 東京 👩‍👩‍👧‍👦🏳️‍🌈!",
    "שלום עולם، مرحبا بالعالم",
    "x",
    "The quick brown fox jumps over the lazy dog, and then it does so again!",
    " \n\t ",
    "word " * 200,
    "Another one of middling length, about the weather.",
]


def tokenizer(side="right"):
    """Byte-level BPE of 300 entries without a padding token."""
    return tiny_tokenizer(SENTENCES, special=("<s>", "</s>", "<x>"), padding_side=side)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of a model with random weights, by architecture."""
    folders = {}

    def folder(kind, side="right"):
        if (kind, side) not in folders:
            path = tmp_path_factory.mktemp(f"{kind}-{side}")
            folders[kind, side] = save_tiny_model(path, tiny_config(kind, vocabulary=300), tokenizer(side))
        return folders[kind, side]

    return folder


def by_hand(path, texts, pooling, limit):
    """One text at a time through the plain model: no padding, no mask, nothing of mallow."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    return pooled_by_hand(model, tokenizer, texts, pooling, limit)


def pooled_by_hand(model, tokenizer, texts, pooling, limit):
    rows = []
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([tokenizer(text)["input_ids"][:limit] or [tokenizer.eos_token_id]])
            states = model(input_ids=ids).last_hidden_state[0]
            rows.append({"last": states[-1], "cls": states[0], "mean": states.mean(0)}[pooling].numpy())
    return np.stack(rows)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("kind", "pooling"),
    [(kind, pooling) for kind in CAUSAL for pooling in ("last", "mean")]
    + [(kind, pooling) for kind in ("bert", "roberta") for pooling in ("cls", "mean")]
    + [("t5", "mean"), ("xlnet", "last")],
)
def test_features_are_those_of_the_text_alone(tiny, kind, pooling, side):
    path = tiny(kind, side)
    embedder = LanguageModel(path, pooling=pooling, device="cpu")
    expected = by_hand(path, SENTENCES, pooling, 64)
    assert len(np.unique(expected.round(3), axis=0)) == len(SENTENCES)  # the comparison can fail
    rows = embedder(SENTENCES)
    assert rows.dtype == np.float32
    assert_allclose(rows, expected, atol=1e-4, rtol=0)
    with pytest.MonkeyPatch.context() as patch:  # padding of most of a batch, which the default avoids
        patch.setattr(language, "within_memory", wasteful)
        assert_allclose(embedder(SENTENCES), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("kind", "pooling"), [("gpt2", "last"), ("llama", "mean"), ("bert", "cls")])
def test_a_hidden_layer_may_be_chosen(tiny, kind, pooling):
    path = tiny(kind)
    tokens = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    layers = model.config.num_hidden_layers
    with torch.inference_mode():
        every = [
            model(input_ids=torch.tensor([tokens(text)["input_ids"]]), output_hidden_states=True)
            for text in SENTENCES[:3]
        ]
    pick = {"last": lambda states: states[-1], "cls": lambda states: states[0], "mean": lambda states: states.mean(0)}[
        pooling
    ]
    for layer in (0, 1, -2, layers):
        expected = np.stack([pick(one.hidden_states[layer][0]).numpy() for one in every])
        rows = LanguageModel(path, pooling=pooling, device="cpu", layer=layer)(SENTENCES[:3])
        assert_allclose(rows, expected, atol=1e-4, rtol=0)
    plain = LanguageModel(path, pooling=pooling, device="cpu")
    assert "layer=1, max_length=1024" in LanguageModel(path, pooling=pooling, device="cpu", layer=1).name
    assert "layer" not in plain.name
    with pytest.raises(
        InputError, match=rf"`layer` must be from 0, the input embeddings, to {layers}, .*; got {layers + 1}\."
    ):
        LanguageModel(path, device="cpu", layer=layers + 1)(SENTENCES[:1])
    with pytest.raises(InputError, match=r"`layer` must be a whole number or None, for the last layer; got 1\.5\."):
        LanguageModel(path, layer=1.5)


def wasteful(lengths, budget, compute, **_):
    yield np.arange(len(lengths)), compute(np.arange(len(lengths)))


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_neither_order_nor_batch_size_matters(tiny, kind):
    embedder = LanguageModel(tiny(kind), device="cpu")
    expected = embedder(SENTENCES)
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    assert_allclose(embedder([SENTENCES[place] for place in order]), expected[order], atol=1e-5, rtol=0)
    alone = LanguageModel(tiny(kind), device="cpu", token_budget=1)
    assert_allclose(alone(SENTENCES), expected, atol=1e-5, rtol=0)


def test_stream_gives_the_longest_first_and_each_place_once(tiny):
    embedder = LanguageModel(tiny("gpt2"), device="cpu", token_budget=100)
    places = [part.tolist() for part, _ in embedder.stream(SENTENCES)]
    assert places[0] == [7]
    assert sorted(place for some in places for place in some) == list(range(len(SENTENCES)))
    assert callable(embedder.stream)
    assert embedder.kind == "text"


@pytest.mark.parametrize(("kind", "side"), [("gpt2", "right"), ("roberta", "right"), ("opt", "left"), ("t5", "right")])
def test_texts_are_cut_to_what_the_model_can_read(tiny, kind, side):
    """Position tables end at 64 tokens: one more would be an index error (RoBERTa: 66 entries, of which 64 usable)."""
    path = tiny(kind, side)
    expected = LanguageModel(path, max_length=64, device="cpu")(["word " * 64])
    assert_allclose(LanguageModel(path, max_length=1024, device="cpu")(["word " * 200]), expected, atol=1e-5)


def test_max_length_cuts(tiny):
    path = tiny("gpt2")
    rows = LanguageModel(path, max_length=5, device="cpu")(SENTENCES)
    assert_allclose(rows, by_hand(path, SENTENCES, "last", 5), atol=1e-4)


def test_a_million_characters_emoji_and_right_to_left(tiny, recwarn):
    texts = ["a" * 1_000_000, "👍🏽" * 1000, "مرحبا " * 1000, " " * 1000]
    assert np.isfinite(LanguageModel(tiny("gpt2"), device="cpu")(texts)).all()
    assert not recwarn.list


def test_a_text_without_tokens_is_the_token_that_ends_a_text(tiny):
    path = tiny("gpt2")
    empty, end = LanguageModel(path, device="cpu")(["", "</s>"])
    assert_allclose(empty, end, atol=1e-6)


def test_a_text_without_tokens_and_no_such_token(tiny, tmp_path):
    model = transformers.AutoModel.from_pretrained(tiny("gpt2"))
    model.save_pretrained(tmp_path)
    without_end = tokenizer()
    without_end.eos_token = None
    without_end.save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match=r"at least one token each, but the text at 1 has none, .* Leave such texts out\."
    ):
        LanguageModel(str(tmp_path), device="cpu")(["a", ""])


def test_tokens_are_as_good_as_texts(tiny):
    embedder = LanguageModel(tiny("gpt2"))
    own = transformers.AutoTokenizer.from_pretrained(tiny("gpt2"))
    tokens = [own(text)["input_ids"] for text in SENTENCES]
    np.testing.assert_allclose(embedder.of_tokens(tokens), embedder(SENTENCES), atol=1e-6)
    with pytest.raises(InputError, match="`tokens` must hold at least one token per text, but the text at 1 has none"):
        embedder.of_tokens([[1], []])


def test_compute_mauve_takes_texts_and_tokens(tiny):
    words = " ".join(SENTENCES).split()
    rng = np.random.default_rng(0)
    p, q = ([" ".join(rng.choice(words[: 20 * k], 6)) for _ in range(40)] for k in (1, 2))
    embedder, name = LanguageModel(tiny("gpt2")), tiny("gpt2")
    own = transformers.AutoTokenizer.from_pretrained(name)
    tokens = [torch.tensor([own(text)["input_ids"]]) for text in q]  # the form in which mauve-text takes them
    result = compute_mauve(p_text=p, q_tokens=tokens, featurize_model_name=name, num_buckets=5)
    plain = compute_mauve(embedder(p), embedder(q), num_buckets=5)
    assert result.mauve == pytest.approx(plain.mauve, abs=1e-9)
    np.testing.assert_array_equal(result.p_hist, plain.p_hist)


# --- memory and speed


def test_memory_that_runs_out_halves_the_batch(tiny, monkeypatch):
    path = tiny("gpt2")
    expected = LanguageModel(path, device="cpu")(SENTENCES * 4)
    sizes, states = [], hidden_states._states

    def little(model, ids, mask, layer=None):
        sizes.append(ids.numel())
        if ids.numel() > 150:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return states(model, ids, mask, layer)

    monkeypatch.setattr(hidden_states, "_states", little)
    assert_allclose(LanguageModel(path, device="cpu")(SENTENCES * 4), expected, atol=1e-5)
    assert max(sizes) > 150
    monkeypatch.setattr(
        hidden_states, "_states", lambda model, ids, mask, layer=None: little(model, ids.repeat(1, 200), mask, layer)
    )
    monkeypatch.setattr(language, "is_causal", lambda torch, model: True)
    monkeypatch.setattr(language, "find_last_mlp", lambda torch, model: None)
    with pytest.raises(InputError, match=r"single sample of length 64 .* Set a smaller max_length, or use a smaller"):
        LanguageModel(path, device="cpu")(SENTENCES)


def test_attention_takes_its_fast_path_and_keeps_nothing(tiny, monkeypatch):
    seen = []
    forward = transformers.GPT2Model.forward

    def spy(self, *args, **options):
        output = forward(self, *args, **options)
        seen.append((self.config._attn_implementation, options.get("attention_mask"), output.past_key_values))
        assert not self.training
        assert torch.is_inference_mode_enabled()
        assert output.hidden_states is None
        return output

    monkeypatch.setattr(transformers.GPT2Model, "forward", spy)
    LanguageModel(tiny("gpt2"), device="cpu")(SENTENCES)
    assert set(seen) == {("sdpa", None, None)}


def test_fused_activation_is_used_and_is_the_same_function(tiny):
    network, causal, _ = LanguageModel(tiny("gpt2"), device="cpu")._load(torch)
    assert causal
    assert type(network.h[0].mlp.act).__name__ == "GELUTanh"
    x = torch.linspace(-8, 8, 1001)
    slow = transformers.activations.ACT2FN["gelu_new"]
    assert_allclose(network.h[0].mlp.act(x), slow(x), atol=2e-6)


@pytest.mark.parametrize(("kind", "expected"), [("gpt2", True), ("llama", True), ("mistral", True), ("opt", False)])
def test_last_mlp_runs_for_one_token_where_it_can(tiny, kind, expected):
    network, _, mlp = LanguageModel(tiny(kind), device="cpu")._load(torch)
    assert (mlp is not None) is expected
    if mlp is not None:
        seen = []
        mlp.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
        with only_at_places(mlp) as chosen:
            pooled_states(torch, network, [np.arange(5, 15), np.arange(5, 12)], "last", causal=True, chosen=chosen)
        pooled_states(torch, network, [np.arange(5, 15)], "last", causal=True, chosen=chosen)
        assert seen == [(2, 1, 32), (1, 10, 32)]  # and the hook is gone afterwards


def test_last_mlp_is_left_alone_where_the_result_would_differ(tiny):
    network, *_ = LanguageModel(tiny("gpt2"), device="cpu")._load(torch)
    mlp = network.h[-1].mlp
    forward = mlp.forward
    mlp.forward = lambda states: 100 * forward(states - states.cummax(1).values)  # depends on the tokens before
    assert find_last_mlp(torch, network) is None


def test_a_model_that_is_causal_by_name_only_is_detected(tiny):
    assert LanguageModel(tiny("xlnet"), device="cpu")._load(torch)[1] is False


def test_budget():
    assert language._token_budget("cpu", None, 1280, 4) == 1024
    assert language._token_budget("mps", None, 1280, 2) == 16384
    small, large = (language._token_budget("cuda", gigabytes << 30, 1280, 2) for gigabytes in (2, 16))
    assert 4096 < small < large < 262_144
    assert language._token_budget("cuda", 0, 1280, 2) == 1024
    assert language._token_budget("cuda", 1 << 40, 64, 2) == 262_144


# --- names


def test_name_of_a_folder_has_the_digest_of_its_content(tiny):
    path = tiny("gpt2")
    expected = f"LanguageModel({Path(path).name}@{name_digest(path)}, pooling=last, max_length=1024, float32)"
    embedder = LanguageModel(path, device="cpu")
    assert embedder.name == expected
    assert LanguageModel(path, device="cpu", token_budget=7).name == expected
    assert LanguageModel(tiny("bert"), device="cpu").name.endswith("pooling=mean, max_length=1024, float32)")
    assert len({LanguageModel(path, pooling=pooling).name for pooling in ("last", "mean")}) == 2
    assert len({LanguageModel(path, max_length=length).name for length in (8, 9)}) == 2
    assert len({LanguageModel(path, dtype=dtype).name for dtype in ("float32", "float16")}) == 2
    assert pickle.loads(pickle.dumps(embedder)) == embedder


def test_name_and_features_of_a_hub_model_have_its_commit(tiny, tmp_path):
    """A cache as the hub's client lays it out, offline, with two revisions."""
    commits = {"main": "ab" * 20, "old": "cd" * 20}
    root = tmp_path / "hub" / "models--someone--tiny"
    for (ref, commit), kind in zip(commits.items(), ("gpt2", "llama"), strict=True):
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "refs" / ref).write_text(commit)
        (root / "snapshots").mkdir(exist_ok=True)
        shutil.copytree(tiny(kind), root / "snapshots" / commit)
    code = (
        "import json, sys; from mallow.embed._language_model import LanguageModel\n"
        "def message(make):\n"
        "    try: return make()\n"
        "    except ValueError as error: return str(error)\n"
        "main, old = LanguageModel('someone/tiny', device='cpu'), LanguageModel('someone/tiny', 'old', device='cpu')\n"
        "gone = LanguageModel('someone/tiny', revision='gone')\n"
        "print(json.dumps([main.name, old.name, main(['abc']).tolist(), old(['abc']).tolist(), message(lambda: gone.name)]))"
    )
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PATH": "", "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    main, old, main_rows, old_rows, gone = json.loads(run.stdout)
    assert main == "LanguageModel(someone/tiny@abababababab, pooling=last, max_length=1024, float32)"
    assert old == "LanguageModel(someone/tiny@cdcdcdcdcdcd, pooling=last, max_length=1024, float32)"
    assert_allclose(main_rows, by_hand(tiny("gpt2"), ["abc"], "last", 64), atol=1e-4)
    assert_allclose(old_rows, by_hand(tiny("llama"), ["abc"], "last", 64), atol=1e-4)
    assert gone.startswith("`model` someone/tiny at 'gone' is not among the downloaded models, and the hub cannot")
    assert run.stderr == ""  # no bars, no reports of unused weights


# --- real weights


def test_minilm_knows_what_texts_mean(minilm_folder):
    path = str(minilm_folder)
    texts = ["A cat sat on the mat.", "The stock market fell sharply today.", "There is a kitten on the rug."]
    texts += ["Shares dropped on Wall Street."]
    rows = LanguageModel(path, device="cpu")(texts)
    assert_allclose(rows, by_hand(path, texts, "mean", 512), atol=1e-4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    alike = unit @ unit.T
    assert min(alike[0, 2], alike[1, 3]) > 0.5 > 0.2 > max(alike[0, 1], alike[2, 3])


def test_gguf(tmp_path, monkeypatch, capfd):
    """A real GGUF file of a real model is read in tests/generate/test_causal.py, which takes twenty seconds."""
    pytest.importorskip("gguf", reason="needs gguf: pip install 'mallow[gguf]'")
    pytest.importorskip("accelerate", reason="needs accelerate: pip install 'mallow[gguf]'")
    texts = ["The capital of France is", "The capital city of France is called", "2 + 2 ="]
    path = save_tiny_gguf(tmp_path / "tiny.gguf", texts)
    loaded = []
    for auto in ("AutoModel", "AutoTokenizer"):
        load = getattr(transformers, auto).from_pretrained
        monkeypatch.setattr(
            getattr(transformers, auto),
            "from_pretrained",
            lambda *args, load=load, **options: loaded.append(load(*args, **options)) or loaded[-1],
        )
    embedder = LanguageModel(path, device="cpu")
    assert embedder.name == f"LanguageModel({path.name}@{name_digest(path)}, pooling=last, max_length=1024, float32)"
    assert not loaded  # the name is cheap
    rows = embedder(texts)
    tokenizer, (model, _) = loaded
    assert rows.shape == (3, 32)
    assert capfd.readouterr().err == ""  # no bars
    assert_allclose(rows, pooled_by_hand(model, tokenizer, texts, "last", 1024), atol=1e-4)


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pooling": "lsat"},
            r"`pooling` must be one of 'last', 'mean', 'cls' or None; got 'lsat'\. Did you mean last\?",
        ),
        ({"pooling": "max pool"}, r"`pooling` must be one of 'last', 'mean', 'cls' or None; got 'max pool'\.$"),
        ({"max_length": 0}, r"`max_length` must be an integer of at least 1; got 0\."),
        ({"token_budget": 0}, r"`token_budget` must be an integer of at least 1; got 0\."),
    ],
    ids=["near", "far", "length", "budget"],
)
def test_options_are_checked_at_the_door(options, message):
    with pytest.raises(InputError, match=message):
        LanguageModel(**options)


@pytest.mark.parametrize(
    ("kind", "pooling", "message"),
    [
        ("gpt2", "cls", r"`pooling` must be 'last' or 'mean', because .* is a causal model; got 'cls'\."),
        ("bert", "last", r"`pooling` must be 'mean' or 'cls', because .* is a bidirectional model; got 'last'\."),
        ("t5", "last", r"`pooling` must be 'mean', because .* is an encoder–decoder model; got 'last'\."),
    ],
)
def test_pooling_that_the_model_does_not_have(tiny, kind, pooling, message):
    embedder = LanguageModel(tiny(kind), pooling=pooling)
    with pytest.raises(InputError, match=message):
        embedder(["a"])
    with pytest.raises(InputError, match=message):
        _ = embedder.name


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (["a", 3], r"`samples` must hold texts \(str\); got 3 \(int\) at place 1\."),
        (["a", None], r"`samples` must hold texts \(str\); got None"),
        ("abc", r"`samples` must be a list of texts; got a single str\. Put it into a list\."),
        ([], r"`samples` must hold at least one text; got none\."),
        (["a", "b\ud800"], r"`samples` must hold valid Unicode; got '\\ud800', half of a pair, at place 1"),
    ],
    ids=["int", "none", "str", "empty", "surrogate"],
)
def test_samples_are_checked_before_anything_is_loaded(samples, message):
    with pytest.raises(InputError, match=message):
        LanguageModel("no-such-model")(samples)
