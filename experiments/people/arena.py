"""(d) The arena: ranking of 20 systems by 16,000 votes, three ways to count ties, and judges beside people.

    python experiments/people/arena.py [--trials 100]      about three minutes on one core; needs ../shared/data/arena-judges

Writes arena.json, arena.md and arena.png beside this file.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from common import HERE, SHARED, save, table
from scipy.stats import spearmanr

from mallow.human import Ranking, Vote, Votes, rank, rank_with_judges, read_votes

LABELLED, UNLABELLED = (500, 2000), 8000
JUDGES = ("gpt4", "claude", "gpt35")


def compare_ties(votes: Votes) -> tuple[dict[str, object], list[str]]:
    rows, results = [], {}
    rankings = {}
    for ties in ("half", "random", "davidson"):
        begin = time.perf_counter()
        ranking = rank(votes, ties=ties)
        seconds = time.perf_counter() - begin
        rankings[ties] = ranking
        width = float(np.mean([high - low for low, high in ranking.interval.values()]))
        spread = float(np.std(list(ranking.scores.values())))
        apart = sum(one.significant for one in ranking.differences)
        results[ties] = {"scores": ranking.scores, "width": width, "told apart": apart, "misfit": ranking.misfit}
        rows.append(
            [
                ties,
                f"{width:.1f}",
                f"{width / spread:.3f}",
                f"{apart} of 190",
                f"{ranking.misfit:.2g}",
                f"{seconds:.2f} s",
            ]
        )
    names = list(rankings["half"].scores)
    same = [
        float(spearmanr(*(np.array([rankings[t].scores[n] for n in names]) for t in ("half", other)))[0])
        for other in ("random", "davidson")
    ]
    head = ["ties", "mean width of intervals", "width / spread of scores", "pairs told apart", "p of the fit", "time"]
    text = [
        table(head, rows),
        "",
        f"Spearman of the scores with those of “half”: random {same[0]:.3f}, Davidson {same[1]:.3f}.",
    ]
    results["spearman with half"] = same
    return results, text


def judge_alone(votes: Votes, judge: str) -> Votes:
    own = (replace(vote, judge=False, annotator="") for vote in votes if vote.judge and vote.annotator == judge)
    return Votes(tuple(own))


def ceiling(votes: Votes, whole: Ranking) -> float:
    """The share of the variance of people's votes, beyond their scores, that the votes of all judges explain."""
    alone = {judge: rank(judge_alone(votes, judge)) for judge in JUDGES}
    battles: dict[str, dict[str, Vote]] = {}
    for vote in votes:
        battles.setdefault(vote.task, {})[vote.annotator or "people"] = vote
    rows, rest = [], []
    for own in battles.values():
        if len(own) < 1 + len(JUDGES):
            continue
        first, second = own["people"].left, own["people"].right
        rest.append(own["people"].points - whole.probability(first, second))
        row = [1.0]
        for judge in JUDGES:
            points = own[judge].points
            row += [points, float(points == 0.5), alone[judge].probability(first, second)]
        rows.append(row)
    design, y = np.array(rows), np.array(rest)
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return 1.0 - float((left**2).sum() / (y**2).sum())


def resample(battles: list[list[Vote]], labelled: int, unlabelled: int, rng: np.random.Generator) -> Votes:
    """Battles drawn with replacement, so that all battles are the population; people's votes of the first ones are known."""
    drawn = rng.integers(len(battles), size=labelled + unlabelled)
    made = []
    for task, place in enumerate(drawn):
        made += [replace(vote, task=str(task)) for vote in battles[place] if vote.judge or task < labelled]
    return Votes(tuple(made))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    votes = read_votes(SHARED / "arena-judges" / "battles.csv.gz")
    page = ["# (d) The arena: 16,000 votes on 20 systems", ""]
    truth = rank(votes, effects=["left"])
    page += [truth.verdict, "", truth.table("markdown"), "", f"{truth.fit_sentence} {truth.effect_lines()[0]}.", ""]
    ties, text = compare_ties(votes)
    page += ["## Ties", "", *text, ""]
    page += ["## The judges by themselves", ""]
    whole = rank(votes)
    rows, judged = [], {}
    names = list(whole.scores)
    people = {vote.task: vote for vote in votes if not vote.judge}
    for judge in ("people", *JUDGES):
        alone = whole if judge == "people" else rank(judge_alone(votes, judge))
        untied = [v.answer < 0 for v in votes if v.answer and (v.annotator == judge if v.judge else judge == "people")]
        same = [v.winner == people[v.task].winner for v in votes if v.judge and v.annotator == judge]
        inside = sum(whole.interval[n][0] <= alone.scores[n] <= whole.interval[n][1] for n in names)
        rho = float(spearmanr(*(np.array([one.scores[n] for n in names]) for one in (whole, alone)))[0])
        judged[judge] = {
            "left": float(np.mean(untied)),
            "agreement": float(np.mean(same)) if same else 1.0,
            "spearman": rho,
            "inside": inside,
        }
        agreement = "–" if judge == "people" else f"{np.mean(same):.3f}"
        rows.append([judge, f"{np.mean(untied):.3f}", agreement, f"{rho:.3f}", f"{inside} of 20"])
    head = [
        "",
        "share of the left side",
        "agrees with people",
        "Spearman with people",
        "scores inside people's 95% intervals",
    ]
    page += [table(head, rows), ""]
    battles: dict[str, list[Vote]] = {}
    for vote in votes:
        battles.setdefault(vote.task, []).append(vote)
    groups = [own for own in battles.values() if len(own) == 4]
    population = rank(Votes(tuple(v for own in groups for v in own)))
    page += ["## Judges beside people", ""]
    page += [
        f"{trials} times, {UNLABELLED:,} battles with the judges' votes alone and a few with people's votes were drawn with replacement. The scores "
        "of all battles by people are the truth. Effective votes: as many votes of people alone would be as precise.",
        "",
    ]
    rows, powered = [], []
    rng = np.random.default_rng(0)
    for labelled in LABELLED:
        for judges in (("gpt4",), JUDGES):
            inside, alone, gains, errors = [], [], [], []
            for _ in range(trials):
                one = rank_with_judges(resample(groups, labelled, UNLABELLED, rng), judges=judges)
                for name, score in population.scores.items():
                    low, high = one.ranking.interval[name]
                    inside.append(low <= score <= high)
                    low, high = one.people.interval[name]
                    alone.append(low <= score <= high)
                    errors.append(((one.ranking.scores[name] - score) ** 2, (one.people.scores[name] - score) ** 2))
                gains.append(one.effective / labelled)
            squares = np.mean(errors, axis=0)
            row = {
                "labelled": labelled,
                "judges": list(judges),
                "coverage": float(np.mean(inside)),
                "coverage of people alone": float(np.mean(alone)),
                "gain": float(np.mean(gains)),
                "gain in squared error": float(squares[1] / squares[0]),
            }
            powered.append(row)
            rows.append(
                [f"{labelled}, {' + '.join(judges)}", f"{row['coverage']:.3f}", f"{row['coverage of people alone']:.3f}",
                 f"{labelled * row['gain']:.0f}", f"{row['gain']:.2f}", f"{row['gain in squared error']:.2f}"]
            )  # fmt: skip
    head = [
        "people's votes, judges",
        "coverage of 95%",
        "of people alone",
        "effective votes",
        "gain",
        "gain in true squared error",
    ]
    page += [table(head, rows), ""]
    share = ceiling(votes, whole)
    page += [
        f"The intervals hold. The gain is small, and cannot be large here: of what people's scores leave unexplained in their single votes, the "
        f"votes of all three judges explain {share:.3f}, so that even unlimited votes of judges would be worth a factor of at most "
        f"1 / (1 − {share:.3f}) = {1 / (1 - share):.2f}. A ranking by a judge alone would look precise and be wrong for most systems.",
        "",
        "![Scores by people and by judges](arena.png)",
    ]
    figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
    for place, judge in enumerate(JUDGES):
        alone = rank(judge_alone(votes, judge))
        marker = "os^"[place]
        colour = ("#0072b2", "#d55e00", "#009e73")[place]
        ax.plot([whole.scores[n] for n in names], [alone.scores[n] for n in names], marker, color=colour, label=judge)
    ends = np.array([-130.0, 160.0])
    ax.plot(ends, ends, color="0.6", linewidth=1)
    ax.set_xlabel("score by people")
    ax.set_ylabel("score by the judge alone")
    ax.legend()
    figure.savefig(HERE / "arena.png", dpi=80)
    save(
        "arena",
        {
            "scores": truth.scores,
            "left": truth.effects["left"].value,
            "ties": ties,
            "judges": judged,
            "beside people": powered,
            "explained by judges": share,
        },
        "\n".join(page),
    )


if __name__ == "__main__":
    main()
