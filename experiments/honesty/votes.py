"""Do the claims about votes hold where votes share items and annotators?

    python experiments/honesty/votes.py [trials] [intervals] [fit] [plan]    about 12 minutes on one core with 400 trials, the default; or only some parts

Each system has a strength of its own on each item (`items spread`) and for each annotator (`annotators spread`), in log-odds, around its
mean strength. The truth is the Bradley–Terry score of the average vote over all items and annotators. Counted are

- how often the 95% intervals of `rank`, of scores and of differences, hold the truth, and those that treat votes as independent;
- how often `rank` claims anything false: a significant difference (after correction) that does not exist or has the other sign;
- how often the intervals of `rank_with_judges` and of `correlate` hold;
- how often `rank` says that the scores do not explain the votes, where each pair of systems differs from item to item and from person to
  person, but not on the whole; beside it, the check that treats votes as independent;
- how often the goal of `plan_votes`, a significant difference with 80% power, is reached with the planned votes.

The method was chosen on the first family. The second family, with other seeds, was looked at once, afterwards. Writes votes.json and
votes.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import sys
import warnings
from itertools import combinations

import numpy as np
from scipy.special import expit
from settings import HERE, LEVEL, load, save, share_with_error

from mallow.human import Vote, Votes, VoteSharing, bradley_terry, correlate, plan_votes, rank, rank_with_judges

USUAL = {"systems": 4, "votes": 600, "items": 20, "annotators": 40, "item": 0.5, "annotator": 0.3, "spread": 1.2}
# What differs from the usual setting. "uneven": items, annotators or both get random numbers of votes.
FAMILIES = {
    1: {
        "20 items": {},
        "20 items, strong effects": {"item": 1.0, "annotator": 0.0},
        "20 items, no effects": {"item": 0.0, "annotator": 0.0},
        "100 items": {"items": 100},
        "20 items, 8 annotators": {"annotators": 8},
        "20 items, 8 annotators, effects of these alone": {"annotators": 8, "item": 0.0, "annotator": 0.5},
        "8 equal systems, no effects": {"systems": 8, "votes": 1000, "item": 0.0, "annotator": 0.0, "spread": 0.0},
        "8 equal systems, 20 items": {"systems": 8, "votes": 1000, "item": 0.7, "spread": 0.0},
        "uneven items": {"uneven": "items", "item": 1.0},
        "12 uneven annotators": {"uneven": "annotators", "annotators": 12, "annotator": 0.6},
        "30% ties": {"ties": 0.3},
        "8 items, 6 annotators": {"items": 8, "annotators": 6},
        "4 equal systems, 8 items, 6 annotators, no effects": {
            "items": 8,
            "annotators": 6,
            "item": 0.0,
            "annotator": 0.0,
            "spread": 0.0,
        },
        "two systems": {"systems": 2, "votes": 200},
    },
    2: {
        "15 items": {"items": 15, "votes": 450, "item": 0.8},
        "20 items, 5 systems, few votes": {"systems": 5, "votes": 300, "item": 0.7, "annotator": 0.5},
        "20 items, many votes": {"votes": 3000, "item": 0.4, "annotator": 0.2},
        "50 items": {"items": 50, "item": 0.7, "systems": 6, "votes": 1200},
        "100 items, 100 annotators": {"items": 100, "annotators": 100, "item": 1.0, "annotator": 0.6},
        "20 items, 5 annotators": {"annotators": 5, "annotator": 0.5},
        "10 annotators, each vote on another item": {"items": 600, "annotators": 10, "annotator": 0.7},
        "10 equal systems, 30 items": {"systems": 10, "votes": 1500, "items": 30, "item": 0.6, "spread": 0.0},
        "6 equal systems, 7 items, 7 annotators": {"systems": 6, "items": 7, "annotators": 7, "spread": 0.0},
        "10 equal systems, no effects": {
            "systems": 10,
            "votes": 800,
            "items": 25,
            "annotators": 15,
            "item": 0.0,
            "annotator": 0.0,
            "spread": 0.0,
        },
        "uneven items and annotators": {"uneven": "both", "items": 30, "annotators": 25, "item": 0.7, "annotator": 0.4},
        "15% ties, wide spread": {"ties": 0.15, "spread": 2.4, "systems": 5, "votes": 800},
        "three systems, 12 items": {"systems": 3, "items": 12, "votes": 360, "item": 0.9},
    },
}


def true_scores(strengths: np.ndarray, effects: float, ties: float) -> np.ndarray:
    """Bradley–Terry scores of the average vote, all pairs equally often; by quadrature over the normal effects."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    gaps = strengths[:, None] - strengths[None, :]
    chance = (expit(gaps[..., None] + 2**0.5 * effects * nodes) * weights).sum(axis=-1) / weights.sum()
    wins = ties / 2 + (1 - ties) * chance
    np.fill_diagonal(wins, 0.0)
    scores = bradley_terry(wins).scores
    return np.array([scores[str(i)] for i in range(len(strengths))])


def numbers(rng: np.random.Generator, count: int, votes: int, uneven: bool) -> np.ndarray:
    if uneven:
        return rng.choice(count, votes, p=rng.dirichlet(np.ones(count)))
    return rng.permutation(np.arange(votes) % count)


def draw(rng: np.random.Generator, one: dict, judged: int = 0) -> Votes:
    """Votes of people; with `judged`, a judge votes on them and on so many other pairs, and errs in a fifth of them."""
    k, votes = one["systems"], one["votes"] + judged
    strengths = one["strengths"] if "strengths" in one else np.linspace(-0.5, 0.5, k) * one["spread"]
    by_item = strengths + one["item"] * rng.normal(size=(one["items"], k))
    by_annotator = one["annotator"] * rng.normal(size=(one["annotators"], k))
    items = numbers(rng, one["items"], votes, one.get("uneven") in ("items", "both"))
    people = numbers(rng, one["annotators"], votes, one.get("uneven") in ("annotators", "both"))
    pairs = np.array(list(combinations(range(k), 2)))[rng.integers(k * (k - 1) // 2, size=votes)]
    pairs = np.where(rng.random(votes)[:, None] < 0.5, pairs, pairs[:, ::-1])
    value = by_item[items[:, None], pairs] + by_annotator[people[:, None], pairs]
    gap = value[:, 0] - value[:, 1]
    if "pair" in one:  # each pair has a difference of its own on each item and for each person
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        own = one["pair"] * (
            rng.normal(size=(one["items"], k, k))[items, low, high]
            + rng.normal(size=(one["annotators"], k, k))[people, low, high]
        )
        gap += np.where(pairs[:, 0] == low, own, -own) + np.where(pairs[:, 0] == low, 1, -1) * (
            one.get("misfit", 0.0) * ((low == 0) & (high == 1))
        )
    left = rng.random(votes) < expit(gap)
    tied = rng.random(votes) < one.get("ties", 0.0)
    wrong = rng.random(votes) < 0.2
    made = []
    for place in range(votes):
        systems = [str(i) for i in pairs[place]]
        answer = 0 if tied[place] else -1 if left[place] else 1
        prompt = f"item {items[place]}"
        if place < one["votes"]:
            made.append(Vote(*systems, answer, "better", f"person {people[place]}", prompt, None, task=str(place)))
        if judged:
            seen = -answer if wrong[place] else answer
            made.append(Vote(*systems, seen, "better", "judge", prompt, None, task=str(place), judge=True))
    return Votes(tuple(made))


def wins_of(votes: Votes, k: int) -> np.ndarray:
    wins = np.zeros((k, k))
    for vote in votes:
        left, right = int(vote.left), int(vote.right)
        wins[left, right] += vote.points
        wins[right, left] += 1 - vote.points
    return wins


def holds(ranking, truth: np.ndarray) -> tuple[list[bool], list[bool], bool, float]:
    """Intervals of scores and of differences that hold the truth, whether a claim is false, and the mean width of the latter."""
    scores = [low <= truth[int(name)] <= high for name, (low, high) in ranking.interval.items()]
    pairs, false, widths = [], False, []
    for one in ranking.differences:
        gap, (low, high) = truth[int(one.first)] - truth[int(one.second)], one.interval
        pairs.append(low <= gap <= high)
        widths.append(high - low)
        false |= one.significant and one.difference * gap <= 1e-9
    return scores, pairs, false, float(np.mean(widths))


def run(family: int, name: str, trials: int) -> dict[str, object]:
    one = USUAL | FAMILIES[family][name]
    strengths = np.linspace(-0.5, 0.5, one["systems"]) * one["spread"]
    truth = true_scores(strengths, (one["item"] ** 2 + one["annotator"] ** 2) ** 0.5, one.get("ties", 0.0))
    seen: dict[str, list] = {key: [] for key in ("scores", "differences", "false", "width", "independent", "its width")}
    for trial in range(trials):
        votes = draw(np.random.default_rng([family, list(FAMILIES[family]).index(name), trial]), one)
        scores, pairs, false, width = holds(rank(votes), truth)
        _, usual, _, narrow = holds(
            bradley_terry(wins_of(votes, one["systems"]), [str(i) for i in range(one["systems"])]), truth
        )
        for key, value in zip(
            seen, (np.mean(scores), np.mean(pairs), false, width, np.mean(usual), narrow), strict=True
        ):
            seen[key].append(value)
    false = int(np.sum(seen["false"]))
    return {"trials": trials} | {key: float(np.mean(values)) for key, values in seen.items()} | {"false claims": false}


def run_others(trials: int) -> list[dict[str, object]]:
    """`rank_with_judges` and `correlate`, on 20 items."""
    rows = []
    for effects in (0.0, 0.7):
        one = USUAL | {"systems": 5, "spread": 1.5, "item": effects, "annotator": effects / 2, "annotators": 12}
        strengths = np.linspace(-0.5, 0.5, 5) * one["spread"]
        truth = true_scores(strengths, (one["item"] ** 2 + one["annotator"] ** 2) ** 0.5, 0.0)
        judged, agreed = [], []
        for trial in range(trials):
            rng = np.random.default_rng([3, round(10 * effects), trial])
            both = rank_with_judges(draw(rng, one, judged=1200))
            judged.append(np.mean(holds(both.ranking, truth)[1]))
            people = rank(draw(rng, one | {"votes": 150}))
            true = truth + 60 * rng.normal(size=5)  # of a metric
            order = np.corrcoef(*(np.argsort(np.argsort(side)) for side in (true, truth)))[0, 1]
            metric = {"metric": {str(i): (value + 15 * rng.normal(), 15.0) for i, value in enumerate(true)}}
            (found,) = correlate(metric, people, draws=500, rng=rng).correlations
            agreed.append(found.spearman.low - 1e-9 <= order <= found.spearman.high + 1e-9)
        rows.append(
            {"effects": effects, "trials": trials, "with judges": np.mean(judged), "correlations": np.mean(agreed)}
        )
    return rows


FITS = {
    "4 systems, 20 items, 40 annotators": {"pair": 0.7},
    "8 systems, 20 items, 40 annotators": {"pair": 0.7, "systems": 8, "votes": 1000},
    "4 systems, 60 items, 8 annotators": {"pair": 0.7, "items": 60, "annotators": 8},
    "5 systems, 30 items, 30 annotators, many votes": {"pair": 0.5, "systems": 5, "votes": 2000, "items": 30, "annotators": 30},
    "4 systems, 20 items, no effects": {"pair": 0.0, "item": 0.0, "annotator": 0.0},
    "4 systems, 20 items, one pair is off by 0.8": {"pair": 0.0, "misfit": 0.8},
}  # fmt: skip


def run_fit(name: str, trials: int) -> dict[str, object]:
    """How often the fit is said to be bad: as a whole, and of any pair; then both if votes count as independent."""
    one, seen = USUAL | FITS[name], []
    for trial in range(trials):
        votes = draw(np.random.default_rng([4, list(FITS).index(name), trial]), one)
        names = [str(i) for i in range(one["systems"])]
        both = rank(votes), bradley_terry(wins_of(votes, one["systems"]), names)
        seen.append(
            [claim for own in both for claim in (own.misfit < LEVEL, any(c.adjusted < LEVEL for c in own.checks))]
        )
    return {"trials": trials, "bad": np.sum(seen, axis=0)}


# systems, their scores on the average vote, prompts and annotators
PLANS = {
    "2 systems, 30 prompts, 40 annotators": ((60.0, 0.0), VoteSharing(30, 40)),
    "2 systems, 100 prompts, 15 annotators": ((40.0, 0.0), VoteSharing(100, 15)),
    "3 systems, 50 prompts, 50 annotators": ((80.0, 40.0, 0.0), VoteSharing(50, 50)),
    "2 systems, 25 prompts, wide spread": ((100.0, 0.0), VoteSharing(25, None, 90.0)),
    "2 systems, nothing shared": ((40.0, 0.0), VoteSharing()),
}


def run_plan(name: str, trials: int) -> dict[str, object]:
    """How often the difference that a plan is for is significant; and with the votes of a plan that takes them as independent."""
    scores, sharing = PLANS[name]
    wanted = {str(i): score for i, score in enumerate(scores)}
    item = sharing.prompt_spread / 100 if sharing.prompts else 0.0
    person = sharing.annotator_spread / 100 if sharing.annotators else 0.0
    flatter = np.sqrt(
        1 + np.pi / 8 * 2 * (item**2 + person**2)
    )  # of the average vote: the score is smaller by this factor
    plans = [plan_votes(wanted, sharing=own) for own in (sharing, VoteSharing())]
    reached = []
    for plan in plans:
        setting = {
            "systems": len(scores), "votes": plan.votes, "items": sharing.prompts or plan.votes, "annotators": sharing.annotators or plan.votes,
            "item": item, "annotator": person, "strengths": flatter * np.array(scores) / 100,
        }  # fmt: skip
        first, second = plan.goal.systems
        hits = 0
        for trial in range(trials):
            ranking = rank(draw(np.random.default_rng([5, list(PLANS).index(name), trial]), setting))
            found = next(one for one in ranking.differences if {one.first, one.second} == {first, second})
            better = found.first if found.difference > 0 else found.second
            hits += found.p_value < LEVEL and better == min(first, second)
        reached.append(hits)
    return {"trials": trials, "votes": [plan.votes for plan in plans], "reached": reached}


def report(results: dict) -> str:
    lines = [
        "# Votes that share items and annotators",
        "",
        "Written by `python experiments/honesty/votes.py`. Shares in per cent; 95% are promised for intervals, at most",
        "5% of studies with a false claim. *Wider*: the mean width of the intervals of differences, as a multiple of those that treat votes as",
        "independent.",
        "",
    ]
    for family, rows in results["families"].items():
        what = "on which the method was chosen" if int(family) == 1 else "looked at once, afterwards"
        lines += [
            f"## Family {family}, {what}",
            "",
            "| setting | scores | differences | votes as independent | wider | studies with a false claim |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for name, row in rows.items():
            cells = (f"{100 * row[key]:.1f}" for key in ("scores", "differences", "independent"))
            wider = f"{row['width'] / row['its width']:.2f}"
            lines.append(
                f"| {name} | {' | '.join(cells)} | {wider} | {share_with_error(row['false claims'], row['trials'])} |"
            )
        lines.append("")
    lines += [
        "## Judges and correlations, five systems, 20 items, 12 annotators",
        "",
        "| spread between items | differences with judges | correlations |",
    ]
    lines.append("|---|---|---|")
    for row in results["others"]:
        lines.append(f"| {row['effects']:g} | {100 * row['with judges']:.1f} | {100 * row['correlations']:.1f} |")
    lines += [
        "",
        "## Is the fit said to be bad?",
        "",
        "As a whole, and of any pair (p < .05, corrected for all pairs); then the same if votes count as independent. At most 5 are meant, but for the last row.",
        "",
        "| setting | whole | any pair | whole, independent | any pair, independent |",
        "|---|---|---|---|---|",
    ]
    for name, row in results["fit"].items():
        lines.append(f"| {name} | {' | '.join(share_with_error(count, row['trials']) for count in row['bad'])} |")
    lines += [
        "",
        "## Planned power",
        "",
        "The share of studies in which the planned difference is significant, with the planned votes; 80 are promised. Beside it: with the votes of a plan "
        "that takes them as independent.",
        "",
        "| setting | planned votes | reached | votes, if independent | reached |",
        "|---|---|---|---|---|",
    ]
    for name, row in results["plan"].items():
        cells = (
            f"{votes:,} | {share_with_error(hits, row['trials'])}"
            for votes, hits in zip(row["votes"], row["reached"], strict=True)
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    parts = sys.argv[2:] or ["intervals", "fit", "plan"]
    warnings.simplefilter("ignore")  # few items and few annotators are the point
    results = load("votes.json")
    if "intervals" in parts:
        results["families"] = {
            str(family): {name: run(family, name, trials) for name in settings} for family, settings in FAMILIES.items()
        }
        results["others"] = run_others(trials)
    if "fit" in parts:
        results["fit"] = {name: run_fit(name, trials) for name in FITS}
    if "plan" in parts:
        results["plan"] = {name: run_plan(name, trials) for name in PLANS}
    save("votes.json", results)
    (HERE / "votes.md").write_text(report(results))


if __name__ == "__main__":
    main()
