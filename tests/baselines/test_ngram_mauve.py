"""n-gram models of both sides: equal sides, no model scores what it was fitted to, different texts."""

import numpy as np
import pytest
from pytest import approx

from mallow.baselines import ngram_mauve
from mallow.errors import InputError
from mallow.generate import NGram
from mallow.theory import area, integral


def test_equal_texts_have_equal_masses_in_any_order(manual):
    texts = [text[:200] for text in manual[:30]]
    masses = ngram_mauve(texts, texts[::-1], order=3)
    assert masses.p == approx(masses.q)
    assert area(masses, scale=5) == approx(1)
    other = [text[200:400] for text in manual[:30] if len(text) > 200]
    a, b = ngram_mauve(texts, other, order=2), ngram_mauve(texts[::-1], other, order=2)
    assert integral(a) == approx(integral(b), rel=1e-12)
    assert integral(a) == approx(integral(ngram_mauve(other, texts, order=2).swap()), rel=1e-12)


def test_no_model_scores_a_text_that_it_was_fitted_to(monkeypatch):
    texts = [f"{a} {b} {c}" for a in "xyz" for b in "xyz" for c in "xyz"]
    fitted, fit, log_prob = {}, NGram.fit, NGram.log_prob

    def watched_fit(texts, **options):
        model = fit(texts, min_count=1, **options)
        fitted[id(model)] = (model, set(texts))
        return model

    def watched_log_prob(model, tokens, prefix=None):
        assert model.decode(tokens[:-1]) not in fitted[id(model)][1]
        assert tokens[-1] == 0
        return log_prob(model, tokens)

    monkeypatch.setattr(NGram, "fit", watched_fit)
    monkeypatch.setattr(NGram, "log_prob", watched_log_prob)
    masses = ngram_mauve(texts[:20], texts[7:] + texts[7:], order=2)  # duplicates within a side and on both
    assert masses.p.shape == (20 + 40,)
    assert len(fitted) == 4


def test_different_texts_have_different_masses():
    rng = np.random.default_rng(0)
    human, near, far = ([" ".join(rng.choice([*words], 12)) for _ in range(80)] for words in ("abcd", "abcd", "wxyz"))
    close, apart = ngram_mauve(human, near, order=2), ngram_mauve(human, far, order=2)
    assert integral(close) < 0.5 < 0.98 < integral(apart)
    assert apart.p[: len(human)].sum() == approx(1, abs=0.01)  # atoms at the reference texts come first


@pytest.mark.parametrize(
    ("reference", "model", "message"),
    [
        ("ab", ["a"], r"`reference` must be a list of texts, none of them empty\."),
        (["ab"], [""], r"`model` must be a list of texts, none of them empty\."),
        (
            ["ab"],
            ["a", "b"],
            r"`reference` must hold enough different texts .* halves; one half of its 1 texts is empty\.",
        ),
        (["a", "b"], [], r"`model` must hold enough different texts .* halves; one half of its 0 texts is empty\."),
    ],
)
def test_bad_texts_are_refused(reference, model, message):
    with pytest.raises(InputError, match=message):
        ngram_mauve(reference, model)
