"""Which pairs of systems are compared: D-optimal for a budget, and sides that are balanced."""

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallow.errors import InputError
from mallow.human import AllPairs, DOptimal

NAMES = "abcdefgh"


def log_det(counts, systems, scores):
    """The log-determinant of the information, from the definition."""
    total = np.zeros((len(systems), len(systems)))
    for (a, b), count in counts.items():
        p = 1 / (1 + np.exp(-(scores.get(a, 0.0) - scores.get(b, 0.0)) / 100))
        edge = np.zeros(len(systems))
        edge[systems.index(a)], edge[systems.index(b)] = 1.0, -1.0
        total += count * p * (1 - p) * np.outer(edge, edge)
    sign, value = np.linalg.slogdet(total[1:, 1:])
    return value if sign > 0 else -np.inf


@settings(max_examples=40)
@given(st.integers(3, 4), st.integers(0, 4), st.lists(st.floats(-200, 200), min_size=4, max_size=4))
def test_no_other_design_of_the_budget_is_clearly_better(size, more, values):
    """By trying all of them."""
    systems = list(NAMES[:size])
    scores = dict(zip(systems, values, strict=False))
    budget = size - 1 + more
    pairs = list(combinations(systems, 2))
    every = ({pair: choice.count(pair) for pair in pairs} for choice in combinations_with_replacement(pairs, budget))
    best = max(log_det(counts, systems, scores) for counts in every)
    chosen = DOptimal(budget, scores)(systems)
    assert sum(chosen.values()) == budget
    assert (
        log_det(chosen, systems, scores) >= best - 0.05
    )  # no exchange of a single comparison helps; one of several might, by little


@settings(max_examples=20)
@given(st.integers(3, 6), st.lists(st.floats(-150, 150), min_size=6, max_size=6))
def test_a_large_budget_fulfils_the_equivalence_theorem(size, values):
    """Kiefer and Wolfowitz: in an optimal design no comparison has a standardised variance above the number of parameters."""
    systems = list(NAMES[:size])
    scores = dict(zip(systems, values, strict=False))
    budget = 2000
    chosen = DOptimal(budget, scores)(systems)
    pairs = list(combinations(range(size), 2))
    first, second = np.array(pairs).T
    w = np.array([scores[name] for name in systems]) / 100
    p = 1 / (1 + np.exp(-(w[first] - w[second])))
    weights = p * (1 - p)
    shares = np.array([chosen.get((systems[i], systems[j]), 0) for i, j in pairs]) / budget
    full = np.zeros((size, size))
    edges = np.eye(size)[first] - np.eye(size)[second]
    full[1:, 1:] = np.linalg.inv((edges.T @ ((weights * shares)[:, None] * edges))[1:, 1:])
    variance = weights * (full[first, first] + full[second, second] - 2 * full[first, second])
    assert variance.max() <= (size - 1) * 1.02


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_equal_systems_are_compared_equally_often(size):
    systems = list(NAMES[:8] + "i")[:size]
    pairs = size * (size - 1) // 2
    assert DOptimal(4 * pairs)(systems) == AllPairs(4)(systems)


def test_bad_budgets():
    with pytest.raises(InputError, match="`budget` must be at least 3 comparisons to connect 4 systems; got 2"):
        DOptimal(2)(list("abcd"))
    with pytest.raises(InputError, match=r"`scores` must name systems of the study \(a, b\); got c"):
        DOptimal(5, {"c": 1.0})(["a", "b"])
    with pytest.raises(InputError, match="`budget` must be an integer of at least 1"):
        DOptimal(0)
