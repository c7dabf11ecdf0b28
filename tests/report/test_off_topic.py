"""A report lists texts that are off topic beside their prompts."""

import numpy as np
import pytest

from mallow import Samples
from mallow.report import compare_and_diagnose, html

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def words(rng, count):
    return ["".join(rng.choice(LETTERS, size=rng.integers(3, 9))) for _ in range(count)]


def lengths(texts):
    return np.array([[len(text), text.count("a"), text.count("e")] for text in texts], dtype=float)


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_texts_stand_beside_their_prompts():
    rng = np.random.default_rng(0)
    topics = [words(rng, 6) for _ in range(60)]
    prompts = [" ".join(topic) for topic in topics]
    texts = [" ".join([*rng.permutation(topic), *words(rng, 6)]) for topic in topics]
    reference = Samples(texts=texts, prompts=prompts)
    systems = {"dealt": Samples(texts=[*texts[1:], texts[0]], prompts=prompts), "same": reference}
    comparison, diagnoses = compare_and_diagnose(reference, systems, embedder=lengths, repeats=1)
    page = html(comparison, diagnoses=diagnoses)
    assert page.count("<h4>Off topic</h4>") == 1
    first = diagnoses["dealt"].off_topic[0]
    assert first.prompt == prompts[first.place]
    for cell in (first.prompt, first.text, f"{first.cosine:.2f}".replace("-", "−"), f"{first.reference:.2f}"):
        assert f">{cell}</bdi>" in page
    for reasons in (comparison.scores["dealt"].reasons, diagnoses["dealt"].reasons):
        assert any(reason.text.startswith("farther from their prompts (mean cosine ") for reason in reasons)
    assert "farther from their prompts" in page
