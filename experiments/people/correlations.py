"""(b) The paper's tables of correlations, from its printed means, standard deviations and scores.

    python experiments/people/correlations.py      half a minute

Writes correlations.json, correlations.md and correlations.png beside this file.
"""

from __future__ import annotations

import csv

import numpy as np
from common import HERE, PRINTED, read_printed, save, table

from mallow.human import Ranking, bradley_terry, correlate, worst_case_spearman

VOTES = 90  # per pair of systems, as published
TRIES = 1000  # of values that round to the printed ones


def printed() -> dict[str, dict[str, float]]:
    with (PRINTED / "webtext_correlations.csv").open() as stream:
        return {row.pop("criterion"): {k: float(v) for k, v in row.items()} for row in csv.DictReader(stream)}


def expected_ranking(scores: dict[str, float], votes: float) -> Ranking:
    """The ranking of votes that come out exactly as the scores say: it has these scores, and the errors of so many votes."""
    names = list(scores)
    w = np.array([scores[name] for name in names]) / 100
    wins = votes / (1 + np.exp(w[None, :] - w[:, None]))
    np.fill_diagonal(wins, 0)
    return bradley_terry(wins, names)


def reachable(
    metric: dict[str, tuple[float, float]], target: dict[str, float], seed: int
) -> tuple[float, float, set[float]]:
    """The worst cases of values and deviations that round to the printed ones: least, greatest, and all, to three decimals."""
    rng = np.random.default_rng(seed)
    systems = [name for name in metric if name != "human"]
    digits = 0.0005
    found = set()
    for _ in range(TRIES):
        ideal = metric["human"][0] + rng.uniform(-digits, digits)
        mean = np.array([metric[name][0] for name in systems]) + rng.uniform(-digits, digits, len(systems))
        std = np.maximum(
            np.array([metric[name][1] for name in systems]) + rng.uniform(-digits, digits, len(systems)), 0
        )
        found.add(round(worst_case_spearman(-abs(mean - ideal), std, [target[name] for name in systems]), 3))
    return min(found), max(found), found


def main() -> None:
    metrics, people = read_printed("webtext_metrics.csv"), read_printed("webtext_human_scores.csv")
    scores = {name: {system: value for system, (value, _) in own.items()} for name, own in people.items()}
    expected = printed()
    plain = correlate(metrics, people, reference="human", draws=500)
    page = ["# (b) Metrics against people: the published tables", ""]
    page += [
        "## Worst-case Spearman (`tab:mauve:expt:gold-correlation-main`, rows BT)",
        "",
        "From the printed means, standard deviations (`tab:mauve:expt:webtext-full`) and scores "
        "(`tab:mauve:expt:webtext-human-eval-all`); in brackets the printed value where it differs.",
        "",
    ]
    rows, differing = [], []
    for criterion, row in expected.items():
        cells = [criterion]
        for metric, value in row.items():
            worst = plain.of(metric, criterion).worst_case
            same = abs(worst - value) < 5e-4
            cells.append(f"{worst:.3f}" if same else f"**{worst:.3f}** [{value:.3f}]")
            if not same:
                low, high, found = reachable(metrics[metric], scores[criterion], seed=0)
                differing.append((metric, criterion, value, worst, low, high, value in found))
        rows.append(cells)
    page += [
        table(["", *next(iter(expected.values()))], rows),
        "",
        "Entries that do not follow from the printed tables:",
        "",
    ]
    rows = [
        [f"{metric}, {criterion}", f"{value:.3f}", f"{worst:.3f}", f"{low:.3f} to {high:.3f}", "yes" if seen else "no"]
        for metric, criterion, value, worst, low, high, seen in differing
    ]
    head = [
        "entry",
        "printed",
        "follows",
        "worst cases of values that round to the printed ones",
        "the printed one among them",
    ]
    page += [table(head, rows), ""]
    page += [
        "REP is printed with three decimals and takes the values 0.001 to 0.010: rounding makes ties, and its worst case is not "
        "determined by the table. For Self-BLEU two ends that are equal in three decimals make the difference.",
        "",
        "## With the errors of people",
        "",
        f"The paper prints no errors of the scores. {VOTES} independent votes per pair that come out as the scores say would have these "
        "(`bradley_terry` of the expected counts); half of the votes, as the rule of 25 s leaves of the 720 published annotations, "
        "make the intervals wider. Votes of one person depend on each other, so that the true errors are larger.",
        "",
    ]
    intervals = {}
    for votes in (VOTES, VOTES // 2):
        rankings = {criterion: expected_ranking(own, votes) for criterion, own in scores.items()}
        given = {
            criterion: {name: (score, (one.interval[name][1] - score) / 1.96) for name, score in one.scores.items()}
            for criterion, one in rankings.items()
        }
        found = correlate(metrics, given, reference="human")
        page += [
            f"### {votes} votes per pair",
            "",
            found.table("markdown"),
            "",
            *(f"- {line}" for line in found.sentences()),
            "",
        ]
        intervals[votes] = {
            f"{one.metric} / {one.criterion}": [one.spearman.value, one.spearman.low, one.spearman.high, one.p_value]
            for one in found.correlations
        }
        if votes == VOTES:
            found.figure().savefig(HERE / "correlations.png", dpi=60)
            errors = {c: float(np.mean([std for _, std in own.values()])) for c, own in given.items()}
            apart = {c: sum(d.significant for d in one.differences) for c, one in rankings.items()}
            page += [
                f"The standard error of a score is about {np.mean(list(errors.values())):.1f} points; "
                + ", ".join(f"{count} of 36 pairs can be told apart by {c}" for c, count in apart.items())
                + ".",
                "",
            ]
    between = {}
    names = list(scores)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            one = correlate({first: people[first]}, {second: people[second]}, draws=100).of(first, second)
            between[f"{first} / {second}"] = one.spearman.value
    page += ["## Between the questions (`tab:mauve:expt:webtext-human-eval-all`)", ""]
    page += [
        table(
            ["", "follows", "printed"],
            [
                ["Human-like / Interesting", f"{between['Human-like / Interesting']:.3f}", "0.917"],
                ["Human-like / Sensible", f"{between['Human-like / Sensible']:.3f}", "0.917"],
                ["Interesting / Sensible", f"{between['Interesting / Sensible']:.3f}", "0.967"],
            ],
        ),
        "",
        "The last two are exchanged in the caption (erratum 7).",
        "",
        "![All metrics and criteria](correlations.png)",
    ]
    worst = {f"{one.metric} / {one.criterion}": one.worst_case for one in plain.correlations}
    results = {
        "worst case": worst,
        "differing": [list(map(str, row)) for row in differing],
        "intervals": intervals,
        "between": between,
    }
    save("correlations", results, "\n".join(page))


if __name__ == "__main__":
    main()
