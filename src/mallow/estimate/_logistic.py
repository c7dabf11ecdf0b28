"""Logistic regression whose L2 penalty is chosen by the loss on held-out points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression


# From strong to weak, in units of 1/(training samples). The last four are the paper's range, 1/n to 10⁻³/n.
PENALTIES = (1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.1, 0.01, 0.001)

_PATIENCE = 2  # chosen: weaker penalties still tried once the held-out loss has stopped falling
_MOST_STEPS = 1000  # chosen: far more than a converging fit needs (100 is scikit-learn's default)

Outcome = TypeVar("Outcome")


def logistic_regression(*, tolerance: float, balanced: bool = False) -> LogisticRegression:
    """An unfitted model, which starts each new fit from the weights of the last one.

    Set the weight λ of the penalty ½λ‖w‖² with ``model.set_params(C=1 / λ)`` before each fit.

    Parameters
    ----------
    tolerance : float
        The largest gradient component at which the optimiser stops.
    balanced : bool
        Whether each class has half of the total weight in training, whatever its size.
    """
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(
        solver="lbfgs",
        tol=tolerance,
        max_iter=_MOST_STEPS,
        warm_start=True,
        class_weight="balanced" if balanced else None,
    )


def choose_penalty(
    held_out: Callable[[float], tuple[float, Outcome]], penalties: Iterable[float] = PENALTIES
) -> tuple[float, Outcome]:
    """The penalty with the least held-out loss, with what was computed for it.

    Penalties are tried from strong to weak, until two in a row have not lowered the loss.

    Parameters
    ----------
    held_out : callable
        Fits with a penalty and returns the loss on held-out points, with anything worth keeping from that fit.
    penalties : iterable of float
        At least one; see `PENALTIES`.

    Examples
    --------
    >>> choose_penalty(lambda penalty: (abs(penalty - 3.0), f"fitted with {penalty:g}"))
    (3.0, 'fitted with 3')
    """
    from sklearn.exceptions import ConvergenceWarning

    strongest, *weaker = sorted(penalties, reverse=True)
    with warnings.catch_warnings():
        # A fit that has not converged was stopped early; its held-out loss is compared like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = strongest
        least, outcome = held_out(strongest)
        misses = 0
        for penalty in weaker:
            loss, candidate = held_out(penalty)
            if loss < least:
                best, least, outcome, misses = penalty, loss, candidate, 0
            else:
                misses += 1
            if misses == _PATIENCE:
                break
    return best, outcome
