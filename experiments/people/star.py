"""(a) What can be fitted from a star: people against each of eight systems, 720 of the published annotations.

    python experiments/people/star.py      a few seconds; needs ../shared/data/human-eval

Writes star.json, star.md and star.png beside this file.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from common import ANNOTATIONS, HERE, QUESTIONS, published, save, table

from mallow.human import Ranking, check_annotators, rank, read_votes


def gaps(ranking: Ranking) -> dict[str, tuple[float, float, float]]:
    """System → its score minus that of people, with the 95% interval."""
    found = {}
    for one in ranking.differences:
        low, high = one.interval
        if one.first == "human":
            found[one.second] = (-one.difference, -high, -low)
        elif one.second == "human":
            found[one.first] = (one.difference, low, high)
    return found


def main() -> None:
    votes, everything = read_votes(ANNOTATIONS), read_votes(ANNOTATIONS, min_seconds=0)
    known = published()
    flagged = check_annotators(everything).flagged
    results: dict[str, object] = {"annotators": len(everything.annotators), "flagged": len(flagged)}
    page = ["# (a) A star: people against each of eight systems", ""]
    page += [
        f"{len(everything) // 3} annotations by {len(everything.annotators)} people, 90 per system, three questions each. "
        f"{len(votes) // 3} took at least 25 s. Scores are differences from the text by people, in points, with 95% intervals "
        "clustered by annotator; beside them the published differences, which come from all 36 pairs.",
        "",
    ]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained", sharey=True)
    for ax, question in zip(axes, QUESTIONS, strict=True):
        ranking, all_times = rank(votes, question=question), rank(everything, question=question)
        own, other = gaps(ranking), gaps(all_times)
        full = {name: score - known[question]["human"] for name, score in known[question].items() if name != "human"}
        order = sorted(full, key=lambda name: known["human-like"][name])
        inside = sum(own[name][1] <= full[name] <= own[name][2] for name in order)
        left = rank(votes, question=question, effects=["left"]).effects["left"]
        out = [name for name in flagged if name in votes.annotators]
        without = gaps(rank(votes, question=question, exclude=out))
        significant = sum(one.significant for one in ranking.differences)
        rows = [
            [
                name,
                f"{own[name][0] + 0.0:+.1f}",
                f"{own[name][1]:+.0f} to {own[name][2]:+.0f}",
                f"{full[name]:+.1f}",
                f"{other[name][0]:+.1f}",
                f"{without[name][0]:+.1f}",
            ]
            for name in reversed(order)
        ]
        head = ["system", "star", "95% interval", "published", "star, all times", "star, without flagged people"]
        page += [f"## {question}", "", table(head, rows), ""]
        page += [
            f"The published difference lies in the interval for {inside} of 8 systems. {significant} of 36 pairs can be told apart. "
            f"Standing on the left is worth {left.value:+.1f} points ({left.low:+.1f} to {left.high:+.1f}).",
            "",
        ]
        results[question] = {
            "star": {name: own[name] for name in order},
            "published": {name: full[name] for name in order},
            "inside": inside,
            "told apart": significant,
            "left": [left.value, left.low, left.high],
            "all times": {name: other[name][0] for name in order},
            "without flagged": {name: without[name][0] for name in order},
            "misfit": ranking.misfit,
        }
        for place, name in enumerate(order):
            value, low, high = own[name]
            ax.plot([low, high], [place, place], color="0.75", linewidth=7, solid_capstyle="butt")
            ax.plot(value, place, "ko", markersize=5, label="720 annotations, 25 s or more" if not place else None)
            ax.plot(full[name], place, "D", color="#d55e00", markersize=6, label="published" if not place else None)
        ax.axvline(0, color="0.6", linewidth=1)
        ax.set_yticks(range(len(order)), order)
        ax.set_title(question)
        ax.set_xlabel("points above text by people")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(HERE / "star.png", dpi=90)
    page += [
        "## What a star can and cannot say",
        "",
        "- Eight pairs fix eight differences: every score is the log-odds of one pair, and nothing is left to check the model with.",
        "- Two systems are compared through people only, so that the error of their difference is that of two pairs. With about 46 "
        "votes per pair it is about 40 points, as large as most published differences: the order of the systems is not settled.",
        "- In the files of the study a tie is stored as “slightly the first”. This moves votes to the left, and part of what standing "
        "on the left is worth here comes from it; it cannot be undone.",
        "",
        "![Differences from people](star.png)",
    ]
    save("star", results, "\n".join(page))


if __name__ == "__main__":
    main()
