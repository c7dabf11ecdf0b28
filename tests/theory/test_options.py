"""The defaults of the theory: those that its pages and docstrings name."""

import inspect

import pytest

import mallow
from mallow import KL, smoothing
from mallow.theory import KL_INTEGRAL, bounds, transport

DEFAULTS = {
    bounds.gamma: {"constant": 0.5},
    bounds.statistical_bound: {"divergence": KL_INTEGRAL, "constant": 0.0, "using": None},
    bounds.oracle_bound: {"m": None, "divergence": KL_INTEGRAL, "constant": 0.0, "using": None},
    bounds.uniform_bound: {"m": None, "least_lam": 0.1, "divergence": KL},
    bounds.uniform_statistical_bound: {"least_lam": 0.1, "divergence": KL},
    bounds.suggested_neighbors: {"smoothness": 1.0},
    smoothing.add_constant: {"constant": 0.5},
    smoothing.absolute_discounting: {"discount": 0.5},
    transport.linear_frontier: {"tolerance": 1e-3},
    transport.linear_frontier.quiet: {"tolerance": 1e-3},
    transport.barycentric_frontier: {"tolerance": 1e-3},
    transport.barycentric_frontier.quiet: {"tolerance": 1e-3},
    transport.entropic_linear_frontier: {"regulariser": None, "points": 63},
    transport.entropic_linear_frontier.quiet: {"regulariser": None, "points": 63},
    transport.entropic_barycentric_frontier: {"regulariser": None, "points": 63},
    transport.entropic_barycentric_frontier.quiet: {"regulariser": None, "points": 63},
    transport.sliced_cost: {"directions": 256, "rng": 0},
    mallow.Masses.from_log_ratio: {"pooled": False},
    mallow.frontier: {"divergence": KL, "grid": None},
    mallow.area: {"divergence": KL, "grid": None},
    mallow.Divergence: {"term": None, "smooth": False},
}


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda function: function.__name__)
def test_defaults(function):
    parameters = inspect.signature(function).parameters
    found = {name: parameters[name].default for name in DEFAULTS[function]}
    assert found == DEFAULTS[function]


def test_calls_without_options_are_those_with_the_defaults():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
    masses = transport.point_masses([[0.0], [1.0], [5.0]], [[2.0], [3.5]])
    assert bounds.gamma(p, 10) == bounds.gamma(p, 10, 0.5)
    assert bounds.statistical_bound(5, 20) == bounds.statistical_bound(5, 20, divergence=KL_INTEGRAL, constant=0.0)
    assert bounds.oracle_bound(p, q, 20) == bounds.oracle_bound(p, q, 20, 20, divergence=KL_INTEGRAL, constant=0.0)
    assert bounds.uniform_bound(p, q, 20) == bounds.uniform_bound(p, q, 20, least_lam=0.1)
    assert bounds.suggested_neighbors(5000, 3) == bounds.suggested_neighbors(5000, 3, smoothness=1.0)
    for build in (transport.linear_frontier, transport.barycentric_frontier):
        assert build(masses).p_to_mix.tolist() == build(masses, tolerance=1e-3).p_to_mix.tolist()
    for build in (transport.entropic_linear_frontier, transport.entropic_barycentric_frontier):
        assert build(masses).p_to_mix.tolist() == build(masses, points=63).p_to_mix.tolist()
    own = mallow.Divergence("own", lambda t: (t - 1.0) ** 2)
    assert (own.smooth, own.term) == (False, None)
    assert mallow.Masses.from_log_ratio([0.1], [0.2]).split == 1
