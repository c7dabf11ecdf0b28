"""Measures by model size and decoder, for stories and for news.

    python experiments/family/sizes.py [books | news]       minutes, after train.py and systems.py

The analogue of tab:mauve:expt:webtext-full, tab:mauve:expt:grover-appendix (news), tab:mauve:expt:wp-appendix (stories),
tab:mauve:expt:beam-search and tab:mauve:expt:typical. Writes sizes-DOMAIN.json, .md and .png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import json

import numpy as np
from claims import Claim, above, claims_table, grid, rising, standard_errors, verdict, write
from measured import COUNTED, EMBEDDER, SCORED, comparison, features, statistics, written
from pictures import Panel, draw
from settings import DOMAINS, Domain, available
from systems import COUNT, FEW, MIDDLE, System, generations, human

from mallow import Comparison
from mallow.baselines import discriminator_accuracy

HERE = Path(__file__).resolve().parent


def table(domain: Domain, systems: list[System], scores: Comparison) -> dict[str, dict[str, float]]:
    errors = standard_errors(scores)
    reference = human(domain)
    x = features(domain, reference)
    rows = {"reference": dict(statistics(domain, None))}
    for name in ["human", *(system.name for system in systems)]:
        score = scores.scores[name]
        system = next((each for each in systems if each.name == name), None)
        rows[name] = dict(statistics(domain, system)) if system else {}
        samples = generations(domain, system) if system else human(domain, other=True)
        rows[name] |= {
            "discriminator": discriminator_accuracy(x, features(domain, samples), rng=0),
            "MAUVE*": score.mauve,
            "± (standard error)": errors[name],
            "certified, at most": score.certified["mauve"].high,
            "n": score.n[1],
        }
    return rows


def judge(domain: Domain, systems: list[System], scores: Comparison, rows: dict) -> list[Claim]:
    have = {system.name for system in systems}
    claims, middle, last = [], MIDDLE[domain.name], domain.sizes[-1]
    full = "tab:mauve:expt:webtext-full" if domain.name == "books" else "tab:mauve:expt:grover-appendix"

    def claim(label: str, text: str, verdicts: dict[str, str], *names: str) -> None:
        shown = ", ".join(f"{rows[name]['MAUVE*']:.3f}" for name in names)
        claims.append(Claim(label, text, verdicts, shown))

    for decoder in ("ancestral", "nucleus:0.95", "greedy"):
        names = [f"{size} {decoder}" for size in domain.sizes if f"{size} {decoder}" in have]
        if len(names) > 1:
            claim(full, f"MAUVE rises with the size of the model, {decoder}", rising(scores, names), *names)
    for size in domain.sizes:
        if {f"{size} greedy", f"{size} ancestral", f"{size} nucleus:0.95"} <= have:
            both = f"{size} ancestral", f"{size} greedy"
            claim(full, f"ancestral is above greedy, {size}", above(scores, *both), *both)
            both = f"{size} nucleus:0.95", f"{size} ancestral"
            claim(full, f"nucleus 0.95 is above ancestral, {size}", above(scores, *both), *both)
    pairs = [
        (full, "adversarial text is rated poorly: below ancestral", "ancestral", "adversarial"),
        ("tab:mauve:expt:beam-search", "beam search is below ancestral", "ancestral", "beam:4"),
        ("tab:mauve:expt:beam-search", "no 4-gram twice raises beam search", "beam:4:no-repeat=4", "beam:4"),
        ("tab:mauve:expt:beam-search", "and leaves it below ancestral", "ancestral", "beam:4:no-repeat=4"),
        ("tab:mauve:expt:beam-search", "beam search is above greedy", "beam:4", "greedy"),
        ("tab:mauve:expt:typical", "typical 0.95 is above typical 0.2", "typical:0.95", "typical:0.2"),
        ("tab:mauve:expt:typical", "nucleus 0.95 is not above typical 0.95", "typical:0.95", "nucleus:0.95"),
    ]
    for label, text, better, worse in pairs:
        both = f"{middle} {better}", f"{middle} {worse}"
        if set(both) <= have:
            found = above(scores, *both)
            if any("beam" in name for name in both):  # few texts in few bins: its MAUVE* is not comparable
                del found["MAUVE*"]
            claim(label, f"{text}, {middle}", found, *both)
    for text, near, far in (
        (f"by perplexity greedy is nearer to human text than ancestral, {last}", f"{last} greedy", f"{last} ancestral"),
        (
            f"perplexity falls for the adversary: nearer to human text than nucleus 0.95, {middle}",
            f"{middle} adversarial",
            f"{middle} nucleus:0.95",
        ),
    ):
        if {near, far} <= have:
            said, detail = perplexity_verdict(rows, near, far)
            claims.append(Claim(full, text, {"measure": said} | above(scores, near, far), detail))
    return claims


def perplexity_verdict(rows: dict, near: str, far: str) -> tuple[str, str]:
    """Whether the perplexity of one system is nearer to that of people than another's, with the errors of all three."""
    true = rows["reference"]["perplexity"]
    gaps = [rows[name]["perplexity"] - true for name in (near, far)]
    errors = [rows[name]["± (perplexity)"] for name in (near, far, "reference")]
    errors[2] *= abs(np.sign(gaps[1]) - np.sign(gaps[0]))  # that of people cancels where both are on one side
    off = np.abs(gaps)
    said = verdict(float(off[1] - off[0]), float(np.linalg.norm(errors)))
    return said, f"{off[0]:.1f} and {off[1]:.1f} from {true:.1f}"


def picture(domain: Domain, rows: dict[str, dict[str, float]], trained: dict[str, dict[str, float]]) -> None:
    published, certified = {}, {}
    for decoder in ("greedy", "ancestral", "nucleus:0.95"):
        sizes = [size for size in domain.sizes if f"{size} {decoder}" in rows]
        at = [round(trained[size]["parameters"] / 1e6, 2) for size in sizes]
        own = [rows[f"{size} {decoder}"] for size in sizes]
        published[decoder] = at, [row["MAUVE*"] for row in own], [row["± (standard error)"] for row in own]
        certified[decoder] = at, [row["certified, at most"] for row in own]
    level = {"other human text": rows["human"]["MAUVE*"]}
    panels = [
        Panel(
            f"{domain.name}: MAUVE*; bars: one standard error", "million parameters", published, log=True, level=level
        ),
        Panel(f"{domain.name}: certified, MAUVE at most", "million parameters", certified, log=True),
    ]
    draw(HERE / f"sizes-{domain.name}.png", panels)


def run(domain: Domain) -> None:
    systems = written(domain)
    scores = comparison(domain, systems)
    rows = table(domain, systems, scores)
    trained = json.loads((HERE / f"training-{domain.name}.json").read_text())
    claims = judge(domain, systems, scores, rows)
    head = ["size", "parameters", "tokens", "perplexity per token", "perplexity per word"]
    page = f"The family on {domain.name}, embedder: {EMBEDDER}: `python experiments/family/sizes.py {domain.name}`.\n\n"
    page += f"Text statistics are of the first {COUNTED} texts, perplexity of the first {SCORED} under the largest model, {domain.sizes[-1]}. MAUVE* of beam search, which has few "
    page += f"texts, is in n/10 = {FEW // 10} bins and not comparable with that of the others, in {COUNT // 10}. Held-out perplexities:\n\n"
    page += grid(
        head,
        [
            [
                size,
                f"{one['parameters']:,}",
                f"{one['tokens']:,}",
                one["perplexity per token"],
                one["perplexity per word"],
            ]
            for size, one in trained.items()
        ],
    )
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    page += "\n" + grid(
        ["system", *columns], [[name, *(row.get(key, "") for key in columns)] for name, row in rows.items()]
    )
    page += "\n" + claims_table(claims)
    write(
        __file__, f"sizes-{domain.name}", {"values": rows, "signature": str(scores.signature), "claims": claims}, page
    )
    picture(domain, rows, trained)


def main() -> None:
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or reversed(DOMAINS):
        run(available(name))


if __name__ == "__main__":
    main()
