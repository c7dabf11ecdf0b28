"""Sentence-transformers models: their own pooling and scaling, whatever the batch."""

import pickle
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from mallow.embed import SentenceModel
from mallow.errors import InputError

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[sentence]'")
if (
    find_spec("sentence_transformers") is None
):  # not imported here: it takes seconds, and every process collects all tests
    pytest.skip("needs sentence-transformers: pip install 'mallow[sentence]'", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def real(minilm_folder):
    return SentenceModel(minilm_folder, device="cpu")


@pytest.fixture(scope="module")
def texts(webtext):
    whole = webtext(4)
    return [whole[0], "", "A short one.", whole[1][:300], "😀 שלום 中文", whole[2] * 3, " \n", whole[3][:80]]


@pytest.fixture(scope="module")
def rows(real, texts):
    return real(texts)


def copied(folder, to):
    """The model with another set of small files and the same weights."""
    shutil.copytree(folder, to, copy_function=lambda a, b: Path(b).symlink_to(a))
    return to


def test_it_is_the_mean_over_the_tokens_scaled_to_length_one(minilm_folder, texts, rows):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(minilm_folder))
    model = transformers.AutoModel.from_pretrained(str(minilm_folder)).eval()
    for text, row in zip(texts, rows, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**inputs).last_hidden_state[0].mean(dim=0).numpy()
        assert row == approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert rows.dtype == np.float32


def test_a_row_does_not_depend_on_its_batch(real, texts, rows):
    assert replace(real, batch_tokens=1)(texts) == approx(rows, abs=1e-5)
    assert replace(real, batch_tokens=10**6)(texts[::-1])[::-1] == approx(rows, abs=1e-5)


def test_long_texts_come_first_and_every_place_once(real, texts):
    parts = [places.tolist() for places, _ in replace(real, batch_tokens=300).stream(texts)]
    assert len(parts) > 2
    assert parts[0] == [5]
    assert sorted(place for part in parts for place in part) == list(range(len(texts)))


def test_another_length(real, texts, rows):
    short = replace(real, max_length=8)(texts[:3])
    assert np.abs(short[0] - rows[0]).max() > 0.01
    assert short[1:] == approx(rows[1:3], abs=1e-5)


def test_a_million_characters(real):
    long, cut = real(["中文 " * 333_333, "中文 " * 600])
    assert long == approx(cut, abs=1e-5)


def test_long_words_are_not_cut_short(real):
    # Both are 254 unknown words; the first ones of the long words fill many characters with few tokens.
    long, short = real([("x" * 120 + " ") * 400, "\U000130b8 " * 254])
    assert long == approx(short, abs=1e-5)


def test_the_name_tells_the_weights_and_the_length(real, minilm_folder, tmp_path):
    assert real.name.startswith("SentenceModel(model@")
    assert real.name.endswith(", max_length=own, float32)")
    assert replace(real, max_length=9).name.endswith(", max_length=9, float32)")
    assert replace(real, batch_tokens=9, device=None).name == real.name
    other = copied(minilm_folder, tmp_path / "model")
    (other / "1_Pooling" / "config.json").unlink()
    (other / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    assert SentenceModel(other).name != real.name


def test_it_is_a_value_that_pickles(real):
    assert pickle.loads(pickle.dumps(real)) == real
    assert callable(real.stream)
    assert real.kind == "text"


def test_the_missing_package_is_named_before_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"'gpt2' needs sentence-transformers, .* pip install '.*\[sentence\]'$"):
        _ = SentenceModel("gpt2").name


def test_a_commit_of_the_hub_goes_into_the_name(monkeypatch, tmp_path):
    import huggingface_hub

    commit = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    asked = []

    def fetch(model, file, revision):
        asked.append((model, file, revision))
        return str(tmp_path / "snapshots" / commit / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    embed = SentenceModel("someone/model", revision="v2")
    assert embed.name == "SentenceModel(someone/model@c9745ed1d9f2, max_length=own, float32)"
    assert asked == [("someone/model", "modules.json", "v2")]


# --- what is refused


def test_a_hub_model_of_another_kind(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    def lacking(*_, **__):
        raise EntryNotFoundError("404")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lacking)
    with pytest.raises(InputError, match=r"which has a modules\.json; 'gpt2' has none\. Use LanguageModel for other"):
        _ = SentenceModel("gpt2").name


def test_a_folder_of_another_kind(tmp_path):
    with pytest.raises(InputError, match=r"which has a modules\.json; .* has none\. Use LanguageModel for other"):
        SentenceModel(tmp_path)


def test_a_folder_that_cannot_be_loaded(tmp_path):
    (tmp_path / "modules.json").write_text(
        '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]', encoding="utf-8"
    )
    with pytest.raises(
        InputError,
        match=r"^`model` must be a model saved by sentence-transformers, but the files of .* cannot be loaded: ",
    ):
        SentenceModel(tmp_path, device="cpu")(["a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, r"`max_length` must be an integer of at least 1; got 0"),
        ({"batch_tokens": 0}, r"`batch_tokens` must be an integer of at least 1; got 0"),
    ],
    ids=["length", "tokens"],
)
def test_bad_options_are_refused(real, options, message):
    with pytest.raises(InputError, match=message):
        replace(real, **options)


def test_more_tokens_than_the_model_has_places_for(real):
    with pytest.raises(
        InputError, match=r"failed on texts of up to 600 tokens: .* If it takes fewer tokens, lower `max_length`"
    ):
        replace(real, max_length=600)(["good day " * 400])


def test_a_tokenizer_without_padding(minilm_folder, monkeypatch):
    import sentence_transformers

    original = sentence_transformers.SentenceTransformer

    def unpadded(*arguments, **options):
        model = original(*arguments, **options)
        model.tokenizer.pad_token = None
        return model

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", unpadded)
    with pytest.raises(
        InputError, match=r"must have a tokenizer with a padding token, .* has none\. Set tokenizer\.pad_token"
    ):
        SentenceModel(minilm_folder, device="cpu")(["a"])


@pytest.mark.parametrize("samples", ["good", ["good", None], []], ids=["string", "null", "none"])
def test_samples_must_be_texts(real, samples):
    with pytest.raises(InputError, match="`samples` must"):
        real(samples)


def test_the_missing_package_is_named(monkeypatch, real):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"sentence_transformers is needed .* pip install '.*\[sentence\]'$"):
        real(["good"])
