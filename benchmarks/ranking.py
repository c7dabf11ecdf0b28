"""A ranking of 20 systems from 27,000 votes, and worst-case Spearman of 30 systems.

    pip install choix evalica
    python benchmarks/ranking.py

The votes are simulated from Bradley–Terry with 30% ties. `mallow.human.rank` gives scores, errors clustered by annotator, all
differences with corrected p-values and the check of every pair; choix and evalica give the scores alone, from the same votes.
Each time is the best of five calls with their defaults, in CPU seconds, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import choix
import evalica
import numpy as np

import mallow
from mallow.human import Vote, Votes, bradley_terry, rank, worst_case_spearman

SYSTEMS, VOTES, PEOPLE = 20, 27_000, 500


def best_time(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return round(min(times), 4)


def main() -> None:
    rng = np.random.default_rng(0)
    strengths = rng.normal(0, 0.7, SYSTEMS)
    left = rng.integers(SYSTEMS, size=VOTES)
    right = (left + rng.integers(1, SYSTEMS, size=VOTES)) % SYSTEMS
    won = rng.random(VOTES) < 1 / (1 + np.exp(strengths[right] - strengths[left]))
    tied = rng.random(VOTES) < 0.3
    who = rng.integers(PEOPLE, size=VOTES)
    answers = np.where(tied, 0, np.where(won, -1, 1))
    votes = Votes(
        tuple(
            Vote(str(a), str(b), int(answer), "better", f"w{person}", "", None)
            for a, b, answer, person in zip(left, right, answers, who, strict=True)
        )
    )
    wins = np.zeros((SYSTEMS, SYSTEMS))
    np.add.at(wins, (left, right), np.where(tied, 0.5, won))
    np.add.at(wins, (right, left), np.where(tied, 0.5, ~won))
    games = [
        (int(a), int(b)) if answer < 0 else (int(b), int(a))
        for a, b, answer in zip(left, right, answers, strict=True)
        if answer
    ]
    outcomes = [
        evalica.Winner.Draw if t else evalica.Winner.X if w else evalica.Winner.Y
        for t, w in zip(tied, won, strict=True)
    ]
    names = [str(a) for a in left], [str(b) for b in right]
    mean, target = rng.normal(size=30), rng.normal(size=30)
    result = {
        "mallow": mallow.__version__,
        "choix": version("choix"),
        "evalica": version("evalica"),
        "systems": SYSTEMS,
        "votes": VOTES,
        "rank, from votes, with errors by annotator, mallow (CPU s)": best_time(lambda: rank(votes)),
        "rank, ties after Davidson, side effect, mallow (CPU s)": best_time(
            lambda: rank(votes, ties="davidson", effects=["left"])
        ),
        "bradley_terry, from counts, Newton, mallow (CPU s)": best_time(lambda: bradley_terry(wins)),
        "bradley_terry, from counts, Zermelo, mallow (CPU s)": best_time(lambda: bradley_terry(wins, method="zermelo")),
        "scores alone, evalica bradley_terry (CPU s)": best_time(lambda: evalica.bradley_terry(*names, outcomes)),
        "scores alone, without ties, choix opt_pairwise (CPU s)": best_time(lambda: choix.opt_pairwise(SYSTEMS, games)),
        "worst-case Spearman of 30 systems, overlap of a few, mallow (CPU s)": best_time(
            lambda: worst_case_spearman(mean, np.full(30, 0.1), target)
        ),
        "worst-case Spearman of 30 systems, overlap of all, mallow (CPU s)": best_time(
            lambda: worst_case_spearman(mean, np.full(30, 5.0), target)
        ),
    }
    text = json.dumps(result, indent=1)
    print(text)
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
