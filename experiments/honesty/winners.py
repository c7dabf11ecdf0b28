"""Does the worse of two systems win, or one of two that are equal? `mallow.compare` may name a wrong winner in at most 5% of trials.

    python experiments/honesty/winners.py [--trials 400] [NAME ...]     about an hour on one core; NAMEs: only these settings

A certificate is a proven gap, and the system with the larger proven gap need not be farther away: its gap may only be easier to see. In
the first settings one system has the larger gap, but the other one's is easier to see, a shift of one column. In the next ones both
systems are the same, with different numbers of samples or spaces. In the last ones the nearer system is the one that should win. The settings
after the first three were looked at once, when everything was chosen. Writes winners.json and winners.md beside this file.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import settings
from certificates import by_samples, shift_truth, summaries
from settings import Clock, share_with_error

import mallow
from mallow.samples import Samples

TRIALS = 400
Rows = np.ndarray


def gaussian(size: int, width: int, shift: float = 0.0) -> Callable[[np.random.Generator], Rows]:
    """Standard, moved along the first column."""

    def draw(rng: np.random.Generator) -> Rows:
        rows = rng.normal(size=(size, width))
        rows[:, 0] += shift
        return rows

    return draw


def in_another_space(
    draw: Callable[[np.random.Generator], Rows], shift: float
) -> Callable[[np.random.Generator], Samples]:
    """The same, also seen in a space of three columns, moved along each."""

    def both(rng: np.random.Generator) -> Samples:
        rows = draw(rng)
        return Samples(features=rows, spaces={"other": rng.normal(shift, 1.0, size=(len(rows), 3))})

    return both


def correlated(size: int, width: int, correlation: float) -> Callable[[np.random.Generator], Rows]:
    """Each second column correlates with the one before it."""

    def draw(rng: np.random.Generator) -> Rows:
        rows = rng.normal(size=(size, width))
        rows[:, 1::2] = correlation * rows[:, ::2] + np.sqrt(1 - correlation**2) * rows[:, 1::2]
        return rows

    return draw


def bent(size: int, width: int, part: float) -> Callable[[np.random.Generator], Rows]:
    """Each second column partly follows the square of the one before it."""

    def draw(rng: np.random.Generator) -> Rows:
        rows = rng.normal(size=(size, width))
        square = (rows[:, ::2] ** 2 - 1) / np.sqrt(2)
        rows[:, 1::2] = part * square + np.sqrt(1 - part**2) * rows[:, 1::2]
        return rows

    return draw


def three_signs(size: int, width: int) -> Callable[[np.random.Generator], Rows]:
    """The product of the first three columns is positive; every two of them are independent."""

    def draw(rng: np.random.Generator) -> Rows:
        rows = rng.normal(size=(size, width))
        rows[:, 2] = np.abs(rows[:, 2]) * np.sign(rows[:, 0] * rows[:, 1])
        return rows

    return draw


def truth_by_samples(draw: Callable[[np.random.Generator], Rows], log_ratio: Callable[[Rows], Rows]) -> float:
    def both(rng: np.random.Generator) -> tuple[Samples, Samples]:
        rows = draw(rng)
        return Samples(features=rng.normal(size=rows.shape)), Samples(features=rows)

    return by_samples(log_ratio, both)[0]


def correlated_truth(width: int, correlation: float) -> float:
    def log_ratio(rows: Rows) -> Rows:
        spread = 1 - correlation**2
        rest = (rows[:, 1::2] - correlation * rows[:, ::2]) ** 2 / spread
        return 0.5 * (rest - rows[:, 1::2] ** 2 + np.log(spread)).sum(axis=1)

    return truth_by_samples(correlated(200_000, width, correlation), log_ratio)


def bent_truth(width: int, part: float) -> float:
    def log_ratio(rows: Rows) -> Rows:
        spread = 1 - part**2
        rest = (rows[:, 1::2] - part * (rows[:, ::2] ** 2 - 1) / np.sqrt(2)) ** 2 / spread
        return 0.5 * (rest - rows[:, 1::2] ** 2 + np.log(spread)).sum(axis=1)

    return truth_by_samples(bent(200_000, width, part), log_ratio)


def three_signs_truth() -> float:
    return summaries(np.array([0.5, 0.5]), np.array([1.0, 0.0]))[0]


@dataclass(frozen=True)
class Setting:
    """A reference and two systems, with the true MAUVE of both in their features. At most `allowed` per cent of wrong winners."""

    reference: Callable[[np.random.Generator], Rows | Samples]
    systems: tuple[Callable[[np.random.Generator], Rows | Samples], Callable[[np.random.Generator], Rows | Samples]]
    truth: Callable[[], tuple[float, float]]
    allowed: int = 5


SETTINGS = {
    "a shift of 0.6 and correlations of 0.25, d = 20, n = 1000": Setting(
        gaussian(1000, 20),
        (gaussian(1000, 20, 0.6), correlated(1000, 20, 0.25)),
        lambda: (shift_truth(0.6)[0], correlated_truth(20, 0.25)),
    ),
    "equal, no gap, 60 against 2,000, d = 50": Setting(
        gaussian(1000, 50), (gaussian(60, 50), gaussian(2000, 50)), lambda: (1.0, 1.0), 6
    ),
    "equal, both shifted by 1, 60 against 2,000, d = 50": Setting(
        gaussian(1000, 50),
        (gaussian(60, 50, 1.0), gaussian(2000, 50, 1.0)),
        lambda: (shift_truth(1.0)[0], shift_truth(1.0)[0]),
        6,
    ),
    "equal, both shifted by 0.5, 60 against 600 that are also seen in another space, d = 20": Setting(
        in_another_space(gaussian(600, 20), 0.0),
        (gaussian(60, 20, 0.5), in_another_space(gaussian(600, 20, 0.5), 1.0)),
        lambda: (shift_truth(0.5)[0], shift_truth(0.5)[0]),
        6,
    ),
    "a shift of 0.6 and columns that follow squares, d = 10, n = 1000": Setting(
        gaussian(1000, 10),
        (gaussian(1000, 10, 0.6), bent(1000, 10, 0.4)),
        lambda: (shift_truth(0.6)[0], bent_truth(10, 0.4)),
    ),
    "a shift of 0.6 and signs of three columns, d = 6, n = 1000": Setting(
        gaussian(1000, 6),
        (gaussian(1000, 6, 0.6), three_signs(1000, 6)),
        lambda: (shift_truth(0.6)[0], three_signs_truth()),
    ),
    "shifts of 0.5 and 0.8, 400 against 100, d = 10": Setting(
        gaussian(400, 10),
        (gaussian(400, 10, 0.5), gaussian(100, 10, 0.8)),
        lambda: (shift_truth(0.5)[0], shift_truth(0.8)[0]),
    ),
    "shifts of 0.5 and 1, d = 20, n = 500": Setting(
        gaussian(500, 20),
        (gaussian(500, 20, 0.5), gaussian(500, 20, 1.0)),
        lambda: (shift_truth(0.5)[0], shift_truth(1.0)[0]),
    ),
}


def measure(setting: Setting, trials: int) -> dict[str, object]:
    truth = setting.truth()
    counts = {"first": 0, "second": 0, "none": 0, "turned round": 0}
    for trial in range(trials):
        rng = np.random.default_rng([29, trial])
        reference, first, second = setting.reference(rng), *(draw(rng) for draw in setting.systems)
        comparison = mallow.compare(reference, {"first": first, "second": second}, repeats=1)
        counts[comparison.winner or "none"] += 1
        [difference] = comparison.differences
        counts["turned round"] += difference.p_value["mauve"] == 1.0 and difference.difference["mauve"] != 0.0
    wrong = counts["first"] + counts["second"] if truth[0] == truth[1] else counts["second"]
    return {"truth": truth, "trials": trials, "allowed": setting.allowed, **counts, "wrong": wrong}


def report(results: dict[str, dict]) -> str:
    lines = [
        "# Winners: which of two systems `mallow.compare` names, in per cent of trials",
        "",
        "Written by `python experiments/honesty/winners.py`. *True MAUVE*: of the first and the second system. *Turned round*: richer views showed the other "
        "order, so that no winner was named. *Wrong*: the worse system, or either of two equal ones; after it, how much is allowed.",
        "",
        "| setting | trials | true MAUVE | first | second | no clear winner | turned round | wrong | allowed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        shares = " | ".join(
            f"{100 * row[each] / row['trials']:.1f}" for each in ("first", "second", "none", "turned round")
        )
        truth = ", ".join(f"{value:.3f}" for value in row["truth"])
        wrong = share_with_error(row["wrong"], row["trials"])
        lines.append(f"| {name} | {row['trials']} | {truth} | {shares} | {wrong} | {row['allowed']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="settings to run; others are kept from the last run")
    parser.add_argument("--trials", type=int, default=TRIALS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = settings.load("winners.json")
    for name in options.names or SETTINGS:
        clock = Clock()
        known[name] = measure(SETTINGS[name], options.trials)
        results = {each: known[each] for each in SETTINGS if each in known}
        settings.save("winners.json", results)
        (settings.HERE / "winners.md").write_text(report(results))
        print(name, known[name], f"{clock.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
