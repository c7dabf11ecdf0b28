"""(c) On the texts that people judged: held-out evidence and MAUVE* of each system against the votes.

    python experiments/people/texts.py      two minutes on one core; needs ../shared/data/human-eval and mallow[minilm]

Writes texts.json, texts.md and texts.png beside this file.
"""

from __future__ import annotations

import ast
import gzip
import html
import json
import re

from common import ANNOTATIONS, HERE, QUESTIONS, published, save, table

import mallow
from mallow.human import correlate, rank_all, read_votes


def plain(text: str) -> str:
    """The text without its HTML paragraphs."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))).strip()


def system_name(name: str) -> str:
    return " ".join(ast.literal_eval(name)) if name.startswith("(") else name


def read_texts() -> dict[str, dict[str, str]]:
    """System → prompt → text, each text once."""
    texts: dict[str, dict[str, str]] = {}
    with gzip.open(ANNOTATIONS, "rt", encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            for side in "ab":
                name = system_name(row[f"Input.model_{side}"])
                texts.setdefault(name, {})[str(row["Input.idx"])] = plain(row[f"Input.completion{side}"])
    return texts


def main() -> None:
    texts = read_texts()
    samples = {name: mallow.Samples(texts=list(own.values()), ids=list(own)) for name, own in texts.items()}
    human = samples.pop("human")
    comparison = mallow.compare(human, samples, repeats=5)
    rankings = rank_all(read_votes(ANNOTATIONS))
    few = correlate(comparison, rankings)
    full = {
        question: {name: score for name, score in own.items() if name != "human"}
        for question, own in published().items()
    }
    known = correlate(comparison, full)
    rows = []
    for name, score in comparison.scores.items():
        one = score.certified["mauve"]
        low, high = score.interval["mauve"]
        votes = rankings.rankings["human-like"]
        rows.append(
            [
                name,
                str(score.n[1]),
                f"{score.mauve:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{one.value:.3f}",
                f"{one.high:.3f}",
                f"{score.p_value:.2g}",
                f"{votes.scores[name]:+.0f}",
                f"{published()['human-like'][name]:+.0f}",
            ]
        )
    head = ["system", "texts", "MAUVE*", "95% of repeat samples", "certified", "95% upper bound", "p-value (no gap)"]
    page = ["# (c) On the texts that people judged", ""]
    page += [
        f"{len(texts['human'])} texts by people against 90 texts of each system, the same that were judged, without markup; the default "
        "embedder (MiniLM) and the default measure. Prompts that both sides share count as pairs.",
        "",
        table([*head, "people (720 votes)", "people (published)"], rows),
        "",
        comparison.verdict,
        "",
        "## Against the votes on the same texts (366 of 720, 25 s or more)",
        "",
        few.table("markdown"),
        "",
        "## Against the published scores (all 36 pairs, taken as exact)",
        "",
        known.table("markdown"),
        "",
    ]
    told = sum(one.significant for one in comparison.differences)
    pairs = len(comparison.differences)
    seen = [name for name, score in comparison.scores.items() if score.p_value < 0.05]
    shut = ", ".join(
        f"{one.spearman.low:+.2f} to {one.spearman.high:+.2f} for {one.metric}"
        for one in few.correlations
        if one.criterion == "human-like"
    )
    whole = ", ".join(
        f"{one.criterion} {one.spearman.value:.2f} ({one.spearman.low:.2f} to {one.spearman.high:.2f})"
        for one in known.correlations
        if one.metric == "certified MAUVE"
    )
    page += [
        "## What can and cannot be seen",
        "",
        f"- A gap to people is found for {len(seen)} of 8 systems at the 5% level"
        + (f": {', '.join(seen)}." if seen else "."),
        f"- {told} of {pairs} differences between systems are significant by held-out evidence, and none of 36 by the votes.",
        f"- With the votes on the same texts nothing can be said: the intervals of the correlations are {shut}. The errors of 46 votes "
        "per system are as large as the differences between the systems.",
        "- The published MAUVE* of 90 texts cannot order these systems: other draws of 90 texts would move each score by more than the "
        f"systems differ, and all are near the self-score ({next(iter(comparison.scores.values())).self_score['mauve']:.3f}). The paper "
        "used 5,000 texts and features of GPT-2 large.",
        f"- Held-out evidence on the same 90 texts orders them much as people did in the whole study: {whole}. Most limits are 1.000, so "
        "that little is certain about any single system; it is the order that agrees.",
        "",
        "![Metric against people](texts.png)",
    ]
    figure = few.figure()
    figure.savefig(HERE / "texts.png", dpi=70)
    results = {
        "scores": {
            name: {
                "n": list(score.n),
                "mauve": score.mauve,
                "interval": list(score.interval["mauve"]),
                "certified": score.certified["mauve"].value,
                "certified at most": score.certified["mauve"].high,
                "p": score.p_value,
                "self-score": score.self_score["mauve"],
            }
            for name, score in comparison.scores.items()
        },
        "signature": str(comparison.signature),
        "significant differences": [told, pairs],
        "against the votes": few._records(),
        "against the published scores": known._records(),
        "questions": list(QUESTIONS),
        "caveats": [str(caveat) for caveat in comparison.caveats],
    }
    save("texts", results, "\n".join(page))


if __name__ == "__main__":
    main()
