"""The verdicts of claims on several steps, from what the studies have stored: after a change of the rule in claims.py no study needs to run again.

python experiments/rejudge.py      seconds; writes the verdicts into the JSON files and the tables at the end of their pages
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from claims import NOISE, Claim, Measured, all_positive, claims_table, every, monotone, rising_values, trend

HERE = Path(__file__).resolve().parent
Verdicts = dict[str, dict[str, str]]
"""Text of a claim → its verdicts."""
STEPS_NOT_STORED = "; held-out: the single steps are not stored"


def load(page: str) -> dict:
    return json.loads((HERE / f"{page}.json").read_text(encoding="utf-8"))


def measured(rows: Mapping[str, Mapping[str, Sequence[float]]], key: str) -> Measured:
    return {name: tuple(row[key]) for name, row in rows.items() if key in row}


def by_size(rows: Mapping[str, object], decoder: str) -> list[str]:
    """The systems of a decoder, from the smallest model to the largest: the order of the file."""
    return [name for name in rows if name.endswith(f"M {decoder}")]


def quality(rows: Mapping, names: Sequence[str]) -> dict[str, str]:
    return rising_values(measured(rows, "MAUVE*"), measured(rows, "certified"), names)


def line(values: Sequence[float], errors: Sequence[float], sign: int = 1) -> dict[str, str]:
    return {"measure": monotone([sign * value for value in values], errors)}


def sizes(content: dict) -> Verdicts:
    rows, found = content["values"], {}
    for text in texts(content):
        if match := re.match(r"MAUVE rises with the size of the model, (\S+)", text):
            found[text] = quality(rows, by_size(rows, match[1]))
        elif match := re.match(r"(\S+) comes nearer to that of people with size, ([^ ]+)", text):
            names = by_size(rows, match[2])
            off = [abs(rows[name][match[1]][0] - rows["reference"][match[1]][0]) for name in names]
            found[text] = line(off, [rows[name][match[1]][1] for name in names], -1) | quality(rows, names)
    return found


def divergences(content: dict) -> Verdicts:
    rows, found = load("family/sizes-books")["values"], {}
    for text in texts(content):
        if match := re.match(r"(.+) improves with size, (\S+)", text):
            names = by_size(rows, match[2])
            own = [[content[part][name][match[1]] for name in names] for part in ("values", "errors")]
            found[text] = line(*own, 1 if "MAUVE" in match[1] else -1) | quality(rows, names)
    return found


def direct(content: dict) -> Verdicts:
    rows, found = load("family/sizes-books")["values"], {}
    for text in texts(content):
        if match := re.match(r"it rises with size, (\S+), (\d+) tokens", text):
            names = by_size(content["values"], match[1])
            own = [content["values"][name][match[2]] for name in names]
            found[text] = line([one["area"] for one in own], [one["error"] for one in own]) | quality(rows, names)
    return found


def precision_recall(content: dict) -> Verdicts:
    rows, every_length, n, found = load("family/sizes-books")["values"], load("family/lengths")["values"], 2000, {}
    for text in texts(content):
        kind, direction, title = re.match(r"(\S+) (rises|falls) with (.+)", text).groups()
        if title.startswith("the length, "):
            each = every_length[title.removeprefix("the length, ")].values()
            own = [one[kind][0] for one in each]
            said = {
                name: monotone(*zip(*(one[key] for one in each), strict=True))
                for name, key in (("MAUVE*", "MAUVE*"), ("held-out", "certified"))
            }
        else:
            what, setting = title.split(", ")
            values = content["values"]
            names = (
                by_size(values, setting)
                if what == "size"
                else [
                    *sorted(name for name in values if name.startswith(f"{setting} nucleus:")),
                    f"{setting} ancestral",
                ]
            )
            own = [values[name][kind] for name in names]
            said = quality(rows, names if direction == "rises" else names[::-1])
        errors = [float(np.sqrt(value * (1 - value) / n)) for value in own]
        found[text] = line(own, errors, 1 if direction == "rises" else -1) | said
    return found


WORSE = dict.fromkeys(("Fréchet", "transport", "quantised transport", "perplexity gap"), 1)
"""Measures that are larger for worse text; of the others, less is worse."""


KINDS = {"falls": "falls", "rises": "rises", "is not monotone": "not monotone", "stays the same": "stays"}


def lengths(content: dict) -> Verdicts:
    found = {}
    for text in texts(content):
        kind, measure, system = re.match(r"quality (.+?) with length(?: by (.+))?, (\S+ \S+)$", text).groups()
        each = content["values"][system].values()

        def said(name: str, kind: str, each=each) -> str:
            return trend(kind, [-WORSE.get(name, -1) * one[name][0] for one in each], [one[name][1] for one in each])

        both = {"MAUVE*": said("MAUVE*", "falls"), "held-out": said("certified", "falls")}
        found[text] = ({"measure": said(measure, KINDS[kind])} if measure else {}) | both
    return found


def embeddings(content: dict) -> Verdicts:
    found = {}
    for text in texts(content):
        if match := re.match(r"(\w+): (.+) finds that quality rises with size, (\S+)", text):
            domain, name, decoder = match.groups()
            one = content["results"][domain][name]
            said = rising_values(one["MAUVE"], one["certified"], by_size(one["MAUVE"], decoder))
            found[text] = one["sizes"][decoder] = said
    return found


def decoding(content: dict) -> Verdicts:
    """The certified areas are in the text of the claim; their errors follow from the limits as in `claims.evidence`."""
    found = {}
    for claim in content["claims"]:
        if match := re.match(r"quality falls with length, (.+) \(MiniLM\)$", claim["text"]):
            each = list(content["lengths"].values())
            certified = [float(value) for value in claim["detail"].split("certified ")[1].split(", ")]
            highs = [one["certified"][match[1]] for one in each]
            errors = [value * np.log(high / value) / 1.645 for value, high in zip(certified, highs, strict=True)]
            found[claim["text"]] = {
                "MAUVE*": monotone(
                    *([sign * one[key][match[1]] for one in each] for sign, key in ((-1, "mauve"), (1, "error")))
                ),
                "held-out": monotone([-value for value in certified], errors),
            }
    return found


def psi(content: dict) -> Verdicts:
    """The order of ψ, whose single steps are claims of their own by held-out evidence."""
    found, order = {}, ("ψ = 0", "ψ = 0.3", "ψ = 0.7", "ψ = 1.2", "ψ = 1")
    for embedder, rows in content["values"].items():
        steps = [
            claim["verdicts"]["held-out"]
            for claim in content["claims"]
            if claim["text"].startswith("MAUVE: ") and claim["text"].endswith(f"({embedder})")
        ]
        mauve = monotone(*([rows[name][key] for name in order] for key in ("MAUVE*", "standard error")))
        said = line(*([rows[name][key] for name in order] for key in ("Fréchet", "± (Fréchet)")), -1)
        found[f"the Fréchet distance has the same order ({embedder})"] = said | {
            "MAUVE*": mauve,
            "held-out": every(steps),
        }
    return found


LADDER = ("independent pixels", "Gaussian, 10 components", "Gaussian, 100 components", "VAE", "GAN")


def ladder(content: dict) -> Verdicts:
    """Models of digits: of slow embedders the single steps of held-out evidence are not stored, and so a rise is undecided unless it was refuted."""
    found = {}
    for claim in content["claims"]:
        if match := re.match(r"MAUVE rises along the ladder of models \((.+)\)$", claim["text"]):
            rows = [row for name, row in content["values"][match[1]].items() if name != "real"]
            mauve = monotone(*([row[key] for row in rows] for key in ("MAUVE*", "standard error")))
            if certified := content.get("certified", {}).get(match[1]):
                held_out = monotone(*zip(*(certified[name] for name in LADDER), strict=True))
                found[claim["text"]] = {"MAUVE*": mauve, "held-out": held_out}
                continue
            held_out = claim["verdicts"]["held-out"]
            found[claim["text"]] = {"MAUVE*": mauve, "held-out": NOISE if held_out == "holds" else held_out}
            claim["detail"] = claim["detail"].removesuffix(STEPS_NOT_STORED)
            claim["detail"] += STEPS_NOT_STORED if held_out != "does not hold" else ""
    return found


def quantisers(content: dict) -> Verdicts:
    """Pairs of decoders by MAUVE*; of held-out evidence, which was decided pair by pair after its own correction, the verdicts stay."""
    found = {}
    for claim in content["claims"]:
        if match := re.match(
            r"beyond the paper: (\S+) is below human text and the four other decoders \((.+)\)$", claim["text"]
        ):
            values = content["scores"][match[2]]["mauve"]
            own, own_error = values[match[1]]
            others = [values[name] for name in values if name not in ("greedy", "beam")]
            mauve = all_positive(
                [one - own for one, _ in others], [float(np.hypot(error, own_error)) for _, error in others]
            )
            found[claim["text"]] = claim["verdicts"] | {"MAUVE*": mauve}
    return found


def texts(content: dict) -> list[str]:
    return [claim["text"] for claim in content["claims"]]


PAGES = {
    "family/sizes-books": sizes,
    "family/sizes-news": sizes,
    "family/divergences": divergences,
    "family/direct": direct,
    "family/precision_recall": precision_recall,
    "family/lengths": lengths,
    "family/embeddings": embeddings,
    "decoding/results": decoding,
    "digits/digits": psi,
    "digits/models": ladder,
    "quantisers/results": quantisers,
}


def main() -> None:
    for page, judge in PAGES.items():
        content = load(page)
        folder, _, name = page.partition("/")
        written = HERE / folder / f"{folder if name == 'results' else name}.md"
        before = claims_table(Claim(**claim) for claim in content["claims"])
        old = written.read_text(encoding="utf-8")
        if not old.endswith(before):
            sys.exit(f"{written} does not end with the claims of {page}.json.")
        found = judge(content)
        for claim in content["claims"]:
            new = found.get(claim["text"], claim["verdicts"])
            if new != claim["verdicts"]:
                print(page, "|", claim["text"], "|", claim["verdicts"], "→", new)
            claim["verdicts"] = new
        after = claims_table(Claim(**claim) for claim in content["claims"])
        written.write_text(old.removesuffix(before) + after, encoding="utf-8")
        path = HERE / f"{page}.json"
        path.write_text(json.dumps(content, indent=1, ensure_ascii=path.stem == "results") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
