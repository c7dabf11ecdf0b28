"""Telltale signs of the model: traits that differ between the sides and correlate with the held-out score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mallow.engine import settle, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import as_features
from mallow.evidence import LEVEL, Evidence, holm
from mallow.explain._candidates import (
    Candidate,
    Kind,
    answers_candidate,
    column_candidates,
    distance_candidate,
    judge_traits,
    prompt_candidate,
    standardise,
)
from mallow.explain._looks import image_candidates
from mallow.explain._unit_tests import UnitTests, one_sided
from mallow.explain._words import split_texts, style_candidates, word_candidates
from mallow.results import at_most, p_text
from mallow.samples import Samples

_MOST = 5  # reasons; chosen
_IN_A_SENTENCE = 3  # of them; chosen
_LEAST_SHARE = 0.01  # share of the evidence that a reason must explain; chosen
_FAMILIES = 2  # families of candidates with separate (Holm) corrections; p-values are then multiplied by this
_TESTS = 2  # tests of each candidate: that it differs, and that it correlates with the score
_LARGE = 0.8  # standard deviations. The usual word for this difference is "large"
_IMAGES = 250  # images of each side that are opened; chosen: about a second


@dataclass(frozen=True)
class Reason:
    """A difference between the sides that correlates with the held-out score.

    Attributes
    ----------
    kind : "words", "length", "trait" or "region"
        "region" is about the position of the samples among all features.
    text : str
        A phrase about the model's samples, for "Telltale signs: …": no capital, no full stop.
    p_value : float
        For "it does not differ, or does not correlate with the held-out score". Valid for shared prompts and for
        several samples per prompt.
    adjusted : float
        The p-value after correction for everything that was tested.
    values : dict
        The numbers of the phrase, by name; "explained" is the share of the evidence that it accounts for.
    terms : tuple of str
        The words and pairs of words in the phrase; empty unless it is about words.
    """

    kind: Kind
    text: str
    p_value: float
    adjusted: float
    values: dict[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()


def verdict_text(p_value: float, most: float, n: tuple[int, int], reasons: Sequence[Reason] = ()) -> str:
    """Whether there is a gap, a bound on its size, and, if it is real, the first of its reasons.

    `p_value` comes from the test of identity, and `most` is the 95% upper bound of MAUVE.

    Examples
    --------
    >>> verdict_text(1e-9, 0.2379, (1000, 1000))
    'The gap is real: with 95% confidence MAUVE is at most 0.2379 (p < 1e-5).'
    >>> verdict_text(0.31, 1.0, (1000, 500))
    'No gap was shown with this embedder and this many samples (1,000 and 500; p = 0.31).'
    """
    p, limit = p_text(p_value), at_most(most)
    if p_value >= LEVEL:  # then no limit is below 1: `Evidence.certify`
        return f"No gap was shown with this embedder and this many samples ({n[0]:,} and {n[1]:,}; {p})."
    if float(limit) == 1.0:
        text = f"The gap is real ({p}), but too small to be measured with this few samples."
    else:
        text = f"The gap is real: with 95% confidence MAUVE is at most {limit} ({p})."
    if reasons:
        text += f" Telltale signs: {'; '.join(reason.text for reason in reasons[:_IN_A_SENTENCE])}."
    return text


def find_reasons(reference: Samples, model: Samples, evidence: Evidence) -> tuple[Reason, ...]:
    """The telltale signs: differences between the sides that correlate with the held-out score.

    The most important comes first.

    For texts: words and pairs of words, lengths, repetition and vocabulary, punctuation, capitals, numbers, the traits
    of `find_confounds`, and the similarity of texts to their prompts. For images: size, brightness, contrast, colour,
    detail, blur, noise, traces of JPEG, crop and repeated textures of 250 of each side. For features: columns with
    different means or spreads. For all: the distance from the centre of the features and, if both sides have several
    samples of a prompt, their similarity.

    A trait is a reason if it passes two tests over units, which allow for shared prompts and several samples per
    prompt. First, its mean differs between model and reference. Second, among samples of the same side, samples in
    which the trait is more like the model have lower held-out scores. So a difference that the score does not detect is
    not a reason, and neither is a topic that affects the score but that both sides share. P-values of the first test
    are corrected (Holm) for everything that was tested, p-values of the second for all traits that passed the first,
    and both for being two tests.

    A flaw that all images of the model share cannot correlate with the score among them. It is a reason if it passes
    the first test and its means are at least 0.8 standard deviations apart. Such reasons come last.

    The first reason is the trait that explains most of the mean difference between the scores of both sides: the slope
    of the score within the sides times the difference of the trait. The next is the trait that explains most of the
    remaining difference, so equivalent traits are not both shown. "explained" is the share of the difference that a
    reason explains.

    The samples have features, and are in the order of the evidence. There are at most five reasons, and none if the
    test of identity finds no gap at the 5% level, if nothing was learned (all held-out scores are 0), or if nothing is
    significant.
    """
    _check_sizes(reference, model, evidence)
    tests = UnitTests.of(evidence)
    if evidence.test.p_value >= LEVEL or tests.gap <= 0:
        return ()
    with single_threaded_blas():
        candidates = _judge_differences(reference, model, tests, evidence)
        differing = [replace(candidate, adjusted=_TESTS * _FAMILIES * candidate.adjusted) for candidate in candidates]
        clear = [candidate for candidate in differing if candidate.adjusted < LEVEL]
        chosen = _choose_reasons(tests, _confirm(tests, clear))
        return settle((*chosen, *_large_differences(clear, chosen))[:_MOST])


def _check_sizes(reference: Samples, model: Samples, evidence: Evidence) -> None:
    for name, samples, scores in (
        ("reference", reference, evidence.reference_scores),
        ("model", model, evidence.model_scores),
    ):
        if len(samples) != len(scores):
            raise InputError(
                f"`evidence` must be about these samples, but it has {len(scores)} scores for the {len(samples)} "
                f"samples of `{name}`. Gather it again."
            )


def _judge_differences(reference: Samples, model: Samples, tests: UnitTests, evidence: Evidence) -> list[Candidate]:
    """All candidates with the p-values of their differences.

    There are two families, corrected separately, for each kind of samples.
    """
    features = standardise(*(as_features("features", side.require_features()) for side in (reference, model)))
    distance = distance_candidate(features)
    level = LEVEL / (_TESTS * _FAMILIES)
    shared = [distance, *answers_candidate(reference, model, evidence)]
    if reference.kind == "text":
        texts = [*reference.require_texts(), *model.require_texts()]
        tokens = split_texts(texts)
        styles = style_candidates(texts, tokens, tests.n)
        traits = [*shared, *prompt_candidate(reference, model), *styles]
        return [*judge_traits(tests, traits), *word_candidates(tokens, tests, level)]
    if reference.kind == "image":
        return [*judge_traits(tests, shared), *_judge_images(reference, model, tests, evidence)]
    return [*judge_traits(tests, shared), *column_candidates(features, tests, level)]


def _judge_images(reference: Samples, model: Samples, tests: UnitTests, evidence: Evidence) -> list[Candidate]:
    """Traits of the first images in the order of their units. All other images get the average trait."""
    n = tests.n
    of_p, of_q = (np.sort(unit_sums.indices[:_IMAGES]) for unit_sums in tests.sums)
    some = replace(
        evidence,
        reference_scores=evidence.reference_scores[of_p],
        model_scores=evidence.model_scores[of_q - n],
        reference_units=evidence.reference_units[of_p],
        model_units=evidence.model_units[of_q - n],
    )
    paths = [*reference.require_images(), *model.require_images()]
    chosen = np.concatenate([of_p, of_q])
    drawn_tests = UnitTests.of(some)
    judged = []
    for candidate in judge_traits(drawn_tests, image_candidates([paths[row] for row in chosen])):
        every = np.repeat(drawn_tests.side_means(candidate.trait[:, None])[0], [tests.n, tests.m])
        every[chosen] = candidate.trait
        low, high = candidate.trait[: len(of_p)], candidate.trait[len(of_p) :]
        spread = float(np.sqrt((low.var() + high.var()) / 2.0))
        effect = abs(float(high.mean() - low.mean())) / spread if spread else 0.0
        judged.append(replace(candidate, trait=every, effect=effect))
    return judged


def _confirm(tests: UnitTests, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that also correlate with the score, in the direction in which they differ.

    P-values are for both tests.
    """
    if not candidates:
        return []
    columns = np.stack([candidate.trait for candidate in candidates], axis=1)
    means = tests.side_means(columns)
    _, z = tests.association(columns)
    p_values = one_sided(z * np.sign(means[:, 0] - means[:, 1]))
    adjusted = _TESTS * np.array(holm(p_values.tolist()))
    return [
        replace(
            candidate,
            p_value=max(candidate.p_value, float(p_values[index])),
            adjusted=max(candidate.adjusted, float(adjusted[index])),
        )
        for index, candidate in enumerate(candidates)
        if adjusted[index] < LEVEL
    ]


def _large_differences(candidates: Sequence[Candidate], chosen: Sequence[Reason]) -> list[Reason]:
    """Candidates that differ so much that they need not go with the score, the largest difference first."""
    large = sorted((each for each in candidates if each.effect >= _LARGE), key=lambda each: -each.effect)
    reasons = []
    for candidate in large:
        text, values = candidate.phrase(*candidate.means)
        if text and all(text != reason.text for reason in chosen):
            values = values | {"explained": 0.0}
            reasons.append(Reason(candidate.kind, text, candidate.p_value, candidate.adjusted, values, candidate.terms))
    return reasons


def _choose_reasons(tests: UnitTests, candidates: Sequence[Candidate]) -> tuple[Reason, ...]:
    """The candidates that explain most of the score. Each explains part of the remainder of those before it."""
    if not candidates:
        return ()
    columns = np.stack([candidate.trait for candidate in candidates], axis=1)
    means = tests.side_means(columns)
    phrases = [candidate.phrase(*candidate.means) for candidate in candidates]
    left_to_tell = np.array([bool(text) for text, _ in phrases])
    lengths = [
        index for index, candidate in enumerate(candidates) if candidate.kind == "length" and left_to_tell[index]
    ]
    left_to_tell[lengths[1:]] = False  # a different length is more informative than a varying length
    left, reasons = tests, list[Reason]()
    while len(reasons) < _MOST:
        slope, _ = left.association(columns)
        share = slope * (means[:, 0] - means[:, 1]) / tests.gap
        open_share = left.gap / tests.gap
        # A trait that explains more than the whole gap leaves a gap of the opposite sign.
        closed = np.where(left_to_tell, abs(open_share) - np.abs(open_share - share), 0.0)
        best = int(np.argmax(closed))
        if closed[best] < _LEAST_SHARE:
            break
        candidate, (text, values) = candidates[best], phrases[best]
        values = values | {"explained": float(closed[best])}
        reasons.append(Reason(candidate.kind, text, candidate.p_value, candidate.adjusted, values, candidate.terms))
        left_to_tell[best] = False
        left = left.without(slope[best] * columns[:, best])
    return tuple(sorted(reasons, key=lambda reason: -reason.values["explained"]))
