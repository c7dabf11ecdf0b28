"""Quadrature along a frontier: nodes that are symmetric and shared, and polynomials that are integrated exactly."""

import numpy as np
import pytest
from pytest import approx

from mallow.theory._frontier import EDGES, _forms, panel_errors, panel_integrals, panel_nodes

SOME = np.array([-3.0, -1.0, 1.0, 3.0])


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    _forms.cache_clear()


def test_nodes_rise_are_symmetric_and_contain_the_edges():
    for edges in (EDGES, SOME):
        nodes = panel_nodes(edges)
        assert len(nodes) == 12 * (len(edges) - 1) + 1
        assert (np.diff(nodes) > 0).all()
        assert (nodes == -nodes[::-1]).all()
        assert (nodes[::12] == edges).all()
        inside = (nodes[:13] - (nodes[0] + nodes[12]) / 2) / ((nodes[12] - nodes[0]) / 2)
        assert inside == approx(-np.cos(np.pi * np.arange(13) / 12))


@pytest.mark.parametrize(("a", "b"), [(0, 1), (3, 2), (12, 1), (5, 12), (12, 12)])
def test_polynomials_of_degree_twelve_are_integrated_exactly(a, b):
    """∫ y dx with y = u^a and x = u^b is b/(a + b)·u^(a + b)."""
    u = panel_nodes(SOME)
    found = panel_integrals(u**a, u**b)
    expected = np.diff(SOME ** float(a + b)) * b / (a + b)
    assert found == approx(expected, rel=1e-10, abs=1e-8 * 3.0 ** (a + b))


def test_panels_keep_leading_axes():
    u = panel_nodes(SOME)
    y = np.stack([np.ones_like(u), u, np.sin(u)])
    found = panel_integrals(y, np.broadcast_to(u, y.shape))
    assert found.shape == (3, 3)
    assert found[0] == approx(np.diff(SOME))
    assert found[1] == approx(np.diff(SOME**2) / 2)
    assert found[2] == approx(-np.diff(np.cos(SOME)))


def test_errors_are_small_for_smooth_curves_and_large_at_kinks():
    u = panel_nodes(SOME)
    smooth, kink = np.exp(u), np.abs(u - 2.0)
    assert (panel_errors(smooth, smooth) < 1e-7).all()
    assert (panel_errors(u, kink)[:2] < 1e-12).all()
    assert panel_errors(u, kink)[2] > 1e-3
    assert panel_errors(kink, u)[2] == approx(panel_errors(u, kink)[2])
    batch = np.stack([u, kink])
    assert panel_errors(batch, np.stack([u, u])) == approx(panel_errors(kink, u))  # the largest of the batch
    # Twice as far along x, twice the error.
    assert panel_errors(2 * u, kink) == approx(2 * panel_errors(u, kink))


def test_the_last_two_coefficients_are_the_error():
    """Of a Chebyshev polynomial of degree 12 or 11 on one panel, with amplitude 1, against a line of length 2."""
    u = panel_nodes(SOME)
    middle = u[12:25]  # from −1 to 1
    for degree, size in ((12, 1.0), (11, 1.0), (10, 0.0)):
        y = np.zeros_like(u)
        y[12:25] = np.cos(degree * np.arccos(np.clip(middle, -1, 1)))
        assert panel_errors(u, y)[1] == approx(2.0 * size, abs=1e-12)
