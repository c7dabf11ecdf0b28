"""Measures by model size and decoder, for stories and for news.

    python experiments/family/sizes.py [books | news | epoch]       minutes, after train.py and systems.py; epoch after books

The analogue of tab:mauve:expt:webtext-full, tab:mauve:expt:grover-appendix (news), tab:mauve:expt:wp-appendix (stories),
tab:mauve:expt:beam-search and tab:mauve:expt:typical. Epoch: models of stories that have read all of them once, beside those that have read 800,000 tokens.
Writes sizes-DOMAIN.json, .md and .png beside this file.
"""

from __future__ import annotations

import sys
import warnings
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import json

import numpy as np
from claims import (
    Claim,
    above,
    all_above,
    claims_table,
    comparable,
    evidence,
    grid,
    monotone,
    pair_text,
    published,
    rank_agreement,
    rising,
    verdict,
    write,
)
from measured import COUNTED, EMBEDDER, SCORED, comparison, features, kept, statistics, written
from pictures import Panel, draw
from settings import DOMAINS, EPOCH, FAMILY, Domain, available
from systems import COUNT, EVERY_SIZE, FEW, MIDDLE, System, generations, human

from mallow import Comparison
from mallow.baselines import discriminator_accuracy

HERE = Path(__file__).resolve().parent


COMPARABLE = "nucleus 0.95 and typical 0.95 are comparable"
TITLES = {"epoch": "all stories"}
WITH_STYLE = "with style"
STATISTICS = ("perplexity", "Zipf", "repetition", "distinct-4", "self-BLEU")


def table(domain: Domain, systems: list[System], scores: Comparison) -> dict[str, dict[str, tuple[float, float]]]:
    """Every measure of each system, of other human text and of the reference, with its standard error."""
    x = features(domain, human(domain))
    mauve, certified = published(scores), evidence(scores)
    rows = {"reference": dict(statistics(domain, None))}
    for name in ["human", *(system.name for system in systems)]:
        system = next((each for each in systems if each.name == name), None)
        rows[name] = dict(statistics(domain, system)) if system else {}
        y = features(domain, generations(domain, system) if system else human(domain, other=True))
        accuracy = kept(domain, "discriminator", name, lambda y=y: discriminator_accuracy(x, y, rng=0))
        tested = (len(x) + len(y)) / 4  # a quarter is held out
        rows[name] |= {
            "discriminator": (accuracy, float(np.sqrt(accuracy * (1 - accuracy) / tested))),
            "MAUVE*": mauve[name],
            "certified": certified[name],
            "certified, at most": (scores.scores[name].certified["mauve"].high, 0.0),
            "n": (scores.scores[name].n[1], 0.0),
        }
    return rows


def tables_of(domain: Domain) -> str:
    """Which tables of the paper a domain is compared with."""
    return "news" if domain.name == "news" else "books"


def measures_of(domain: Domain) -> list[str]:
    """The statistics of a domain: models that have read all stories have no better one that could measure their perplexity."""
    return [name for name in STATISTICS if (domain.name, name) != ("epoch", "perplexity")]


def judge(domain: Domain, systems: list[System], scores: Comparison, coarse: Comparison, rows: dict) -> list[Claim]:
    have = {system.name for system in systems}
    claims, middle, last = [], MIDDLE[domain.name], domain.sizes[-1]
    full = {"books": "tab:mauve:expt:webtext-full", "news": "tab:mauve:expt:grover-appendix"}[tables_of(domain)]

    def claim(label: str, text: str, verdicts: dict[str, str], *names: str) -> None:
        shown = ", ".join(f"{rows[name]['MAUVE*'][0]:.3f}" for name in names)
        claims.append(Claim(label, text, verdicts, shown))

    for decoder in ("ancestral", "nucleus:0.95", "greedy"):
        names = [f"{size} {decoder}" for size in domain.sizes if f"{size} {decoder}" in have]
        if len(names) > 1:
            note = (
                " (paper: but medium is below small)" if (tables_of(domain), decoder) == ("books", "ancestral") else ""
            )
            claim(full, f"MAUVE rises with the size of the model, {decoder}{note}", rising(scores, names), *names)
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
        ("tab:mauve:expt:beam-search", "beam 8 is below ancestral", "ancestral", "beam:8"),
        ("tab:mauve:expt:beam-search", "beam 8, no 4-gram twice is above beam 8", "beam:8:no-repeat=4", "beam:8"),
        ("tab:mauve:expt:beam-search", "beam 8, no 4-gram twice is below ancestral", "ancestral", "beam:8:no-repeat=4"),
        ("tab:mauve:expt:typical", "typical 0.95 is above typical 0.2", "typical:0.95", "typical:0.2"),
        ("tab:mauve:expt:typical", "typical 0.95 is above ancestral", "typical:0.95", "ancestral"),
        ("tab:mauve:expt:typical", COMPARABLE, "typical:0.95", "nucleus:0.95"),
    ]
    for label, text, better, worse in pairs:
        both = f"{middle} {better}", f"{middle} {worse}"
        if set(both) <= have:
            few = any("beam" in name for name in both)  # whose MAUVE* is comparable in few bins for both alone
            shown = ", ".join(f"{(coarse if few else scores).scores[name].mauve:.3f}" for name in both)
            shown += f" in {FEW // 10} bins" if few else ""
            said = above(coarse if few else scores, *both)
            claims.append(Claim(label, f"{text}, {middle}", comparable(said) if text == COMPARABLE else said, shown))
    near, far = f"{last} greedy", f"{last} ancestral"
    if domain.name == "books" and {near, far} <= have:  # the table of news has it otherwise
        off = distances(rows, "perplexity", near, far)
        said = verdict(off[1][0] - off[0][0], float(np.hypot(off[0][1], off[1][1])))
        detail = f"{off[0][0]:.1f} and {off[1][0]:.1f} from {rows['reference']['perplexity'][0]:.1f}"
        text = f"by perplexity greedy is nearer to human text than ancestral, {last}"
        claims.append(Claim(full, text, {"measure": said} | above(scores, near, far), detail))
    if len(domain.sizes) > 1:
        claims += by_size(domain, rows, scores, full)
    best = f"{middle} nucleus:0.95"
    others = [f"{middle} {each}" for each in ("nucleus:0.9", "nucleus:0.99", "ancestral")]
    if domain.name == "epoch" and {best, *others} <= have:
        text = f"nucleus sampling is best at p = 0.95, of 0.9, 0.95, 0.99 and 1, {middle}"
        claim(
            "fig:a:expt:model_selection:appendix",
            text,
            all_above(scores, [(best, each) for each in others]),
            best,
            *others,
        )
    if tables_of(domain) == "books":
        for worse in ("ancestral", "greedy"):
            names = f"{middle} nucleus:0.95", f"{middle} {worse}"
            (a, a_error), (b, b_error) = (rows[name]["discriminator"] for name in names)
            said = {"measure": verdict(b - a, float(np.hypot(a_error, b_error)))} | above(scores, *names)
            text = f"the discriminator, like MAUVE, rates nucleus 0.95 above {worse}, {middle}"
            claims.append(Claim("tab:mauve:expt:wp-appendix", text, said, f"accuracy {a:.3f} and {b:.3f}"))
    return claims if domain.name == "epoch" else claims + by_discriminator(domain, rows)  # of many systems


def distances(rows: dict, measure: str, *names: str) -> list[tuple[float, float]]:
    """How far systems are from the reference by a measure, with errors that ignore the one that all share, that of the reference."""
    true, _ = rows["reference"][measure]
    return [(abs(rows[name][measure][0] - true), rows[name][measure][1]) for name in names]


NOT_EVERY = " (paper: not at every step)"
PRINTED = {  # what the tables of the paper show instead
    ("books", "perplexity"): " (paper: not from large to xl)",
    **{("books", name): NOT_EVERY for name in ("Zipf", "repetition", "distinct-4", "self-BLEU")},
    **{("news", name): " (paper: no, it prefers small models)" for name in ("Zipf", "repetition", "distinct-4")},
    ("news", "self-BLEU"): NOT_EVERY,
}


def by_size(domain: Domain, rows: dict, scores: Comparison, label: str) -> list[Claim]:
    """Which statistics come nearer to those of people with size, as MAUVE does."""
    claims = []
    for decoder in ("ancestral", "nucleus:0.95"):
        names = [f"{size} {decoder}" for size in domain.sizes]
        quality = rising(scores, names)
        for measure in measures_of(domain):
            off = distances(rows, measure, *names)
            said = {"measure": monotone([-value for value, _ in off], [error for _, error in off])} | quality
            shown = ", ".join(f"{value:.3g}" for value, _ in off)
            text = f"{measure} comes nearer to that of people with size, {decoder}{PRINTED.get((tables_of(domain), measure), '')}"
            claims.append(Claim(label, text, said, shown))
    return claims


def by_discriminator(domain: Domain, rows: dict) -> list[Claim]:
    """Rank correlation of every measure with the accuracy of a discriminator (paper: the rows Disc. Acc.)."""
    label, printed = "tab:mauve:expt:gold-correlation-main", {"books": 0.905, "news": 0.956}[tables_of(domain)]
    names = [name for name in rows if name not in ("reference", "human") and "beam" not in name]
    accuracy = {name: (-rows[name]["discriminator"][0], rows[name]["discriminator"][1]) for name in names}
    certified = {name: rows[name]["certified"] for name in names}
    mauve = {name: rows[name]["MAUVE*"] for name in names}
    both = {"MAUVE*": rank_agreement(mauve, accuracy), "held-out": rank_agreement(certified, accuracy)}
    text = f"MAUVE agrees with a discriminator (ρ ≥ 0.9; paper: {printed}); held-out: the certified area agrees with it"
    said = {kind: verdict(rho - 0.9, error) for kind, (rho, error) in both.items()}
    detail = "; ".join(f"{kind}: ρ = {rho:.3f} ± {error:.3f}" for kind, (rho, error) in both.items())
    claims = [Claim(label, text, said, f"{detail}, {len(names)} systems")]
    for measure in measures_of(domain):
        near = {
            name: (-value, error) for name, (value, error) in zip(names, distances(rows, measure, *names), strict=True)
        }
        pairs = {"MAUVE*": (mauve, accuracy), "held-out": (mauve, certified)}
        said, shown = {}, []
        for kind, (ours, gold) in pairs.items():
            (rho, error), (other, other_error) = rank_agreement(ours, gold), rank_agreement(near, gold)
            said[kind] = verdict(rho - other, float(np.hypot(error, other_error)))
            shown.append(
                f"{rho:.3f} and {other:.3f} ± {other_error:.3f} with {'the discriminator' if kind == 'MAUVE*' else 'held-out'}"
            )
        text = f"MAUVE agrees with a discriminator better than {measure} does; held-out: with the certified area"
        claims.append(Claim(label, text, said, "; ".join(shown)))
    return claims


def picture(domain: Domain, rows: dict[str, dict[str, float]], trained: dict[str, dict[str, float]]) -> None:
    scored, certified = {}, {}
    groups = {"": FAMILY, ", all stories once": EPOCH}
    for decoder, note in product(("greedy", "ancestral", "nucleus:0.95"), groups):
        sizes = [size for size in groups[note] if f"{size} {decoder}" in rows]
        at = [round(trained[size]["parameters"] / 1e6, 2) for size in sizes]
        own = [rows[f"{size} {decoder}"] for size in sizes]
        if own:
            name = decoder + note
            scored[name] = at, [row["MAUVE*"][0] for row in own], [row["MAUVE*"][1] for row in own]
            certified[name] = at, [row["certified, at most"][0] for row in own]
    title = TITLES.get(domain.name, domain.name)
    level = {"other human text": rows["human"]["MAUVE*"][0]}
    panels = [
        Panel(f"{title}: MAUVE*; bars: one standard error", "million parameters", scored, log=True, level=level),
        Panel(f"{title}: certified, MAUVE at most", "million parameters", certified, log=True),
    ]
    draw(HERE / f"sizes-{domain.name}.png", panels)


def cell(pair: tuple[float, float] | None) -> str:
    """A value with its standard error, where one is known."""
    if pair is None:
        return ""
    value, error = pair
    shown = f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{shown} ± {error:.2g}" if error > 0 else shown


def systems_table(rows: dict[str, dict[str, tuple[float, float]]]) -> str:
    known = [name for name in STATISTICS if name in rows["reference"]]
    certified = ["certified, at most", *([WITH_STYLE] if any(WITH_STYLE in row for row in rows.values()) else [])]
    columns = [*known, "discriminator", "MAUVE*", *certified, "n"]
    return grid(["system", *columns], [[name, *(cell(row.get(key)) for key in columns)] for name, row in rows.items()])


def styled(domain: Domain, scores: Comparison, rows: dict) -> list[Claim]:
    """What evidence that sees the style of the texts too says of nucleus sampling; its limits become a column of the table."""
    for name, score in scores.scores.items():
        rows[name][WITH_STYLE] = (score.certified["mauve"].high, 0.0)
    claims, full = [], {"books": "tab:mauve:expt:webtext-full", "news": "tab:mauve:expt:grover-appendix"}
    for size in domain.sizes:
        both = f"{size} nucleus:0.95", f"{size} ancestral"
        if set(both) <= set(scores.scores):
            text = f"nucleus 0.95 is above ancestral, {size}, held-out evidence {WITH_STYLE}"
            claims.append(Claim(full[tables_of(domain)], text, above(scores, *both), pair_text(scores, *both)))
    return claims


def run(domain: Domain) -> None:
    systems = written(domain)
    scores = comparison(domain, systems)
    rows = table(domain, systems, scores)
    trained = json.loads((HERE / f"training-{domain.name}.json").read_text())
    claims = judge(domain, systems, scores, comparison(domain, systems, full=False), rows)
    claims += styled(domain, comparison(domain, systems, style=True), rows)
    head = ["size", "parameters", "tokens", "perplexity per token", "perplexity per word"]
    page = f"The family on {TITLES.get(domain.name, domain.name)}, embedder: {EMBEDDER}: `python experiments/family/sizes.py {domain.name}`.\n\n"
    page += f"n = {COUNT} texts per system, ± standard error. Text statistics are means over sets of {COUNTED} texts"
    if "perplexity" in measures_of(domain):
        page += f", perplexity is of {SCORED} texts under the largest model, {domain.sizes[-1]}"
    page += ". "
    if any("beam" in system.name for system in systems):
        page += f"MAUVE* of beam search, which has {FEW} texts, is in n/10 = {FEW // 10} bins and not comparable with that of the others, in {COUNT // 10}; claims about it have MAUVE* of both in {FEW // 10} bins. "
    if "perplexity" in measures_of(domain):
        page += f"The adversary of {MIDDLE[domain.name]} aims at the perplexity of people under {MIDDLE[domain.name]}, not under the model that measures it here: adversary.md has one that aims at the judge. "
    page += "In rows about another measure, columns MAUVE* and held-out say what these find of the same systems. Held-out perplexities:\n\n"
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
    page += "\n" + systems_table(rows)
    page += f"\nEvidence is by the features alone. Column *{WITH_STYLE}*: what is certified, at most, if the style of the texts counts too, as by default.\n"
    earlier = {}
    if domain.name == "epoch":
        every = json.loads((HERE / "sizes-books.json").read_text())["values"]
        earlier = {name: row for name, row in every.items() if name.split()[-1] in ("reference", *EVERY_SIZE)}
        trained = json.loads((HERE / "training-books.json").read_text()) | trained
        page += (
            "\nModels that have read 800,000 tokens, from sizes-books.md: the same prompts, reference and embedder.\n\n"
        )
        page += systems_table(earlier)
    page += "\n" + claims_table(claims)
    write(
        __file__, f"sizes-{domain.name}", {"values": rows, "signature": str(scores.signature), "claims": claims}, page
    )
    picture(domain, earlier | rows, trained)


def main() -> None:
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or reversed(DOMAINS):
        run(available(name))


if __name__ == "__main__":
    main()
