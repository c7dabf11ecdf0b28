"""The path of penalties: from strong to weak, until the held-out loss has stopped falling."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mallow.estimate import choose_penalty, logistic_regression


def walk(losses):
    """The choice, and the penalties that were tried."""
    tried = []

    def held_out(penalty):
        tried.append(penalty)
        return losses[penalty], f"fit {penalty:g}"

    return choose_penalty(held_out, losses), tried


@pytest.mark.parametrize(
    ("losses", "choice", "tried"),
    [
        ({1.0: 5.0, 100.0: 3.0, 10.0: 2.0, 0.1: 6.0, 0.01: 0.0}, 10.0, [100.0, 10.0, 1.0, 0.1]),  # stopped after two
        ({100.0: 3.0, 10.0: 4.0, 1.0: 2.0, 0.1: 1.0}, 0.1, [100.0, 10.0, 1.0, 0.1]),  # one rise is not the end
        ({100.0: 3.0, 10.0: 3.0, 1.0: 3.0, 0.1: 0.0}, 100.0, [100.0, 10.0, 1.0]),  # the strongest of equals
        ({7.0: np.inf}, 7.0, [7.0]),
    ],
)
def test_the_penalty_with_the_least_loss_is_chosen(losses, choice, tried):
    assert walk(losses) == ((choice, f"fit {choice:g}"), tried)


def test_fits_that_stopped_early_raise_no_warning():
    def held_out(penalty):
        warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
        return penalty, None

    assert choose_penalty(held_out, (2.0, 1.0)) == (1.0, None)


def test_classes_of_different_size_are_balanced_on_request():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(900, 1)), rng.normal(1.0, 1.0, size=(100, 1))])
    label = np.repeat([0, 1], [900, 100])
    plain, balanced = (logistic_regression(tolerance=1e-6, balanced=flag).fit(points, label) for flag in (False, True))
    assert balanced.intercept_[0] - plain.intercept_[0] == pytest.approx(np.log(9), abs=0.3)
