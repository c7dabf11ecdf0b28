"""Questions beyond one score, where the answer is known: matched scores, groups, two gaps, several embedders, on real texts.

    python experiments/beyond/run.py [--trials 100] [NAME …]     about ten minutes on one core

- matching: news cut to 60 to 120 words against news cut to 40 to 100 (the same but for length: nothing should be left), and
  human WebText against GPT-2 large with top-k sampling (a gap should be left).
- groups: news against news in five groups (no gap anywhere; how often is one claimed?), and GPT-2 large with top-k samples
  in one of three groups and nucleus samples in the others.
- gaps: two halves of the prompts with one decoder (equal gaps), and with two decoders (a quarter of the trials); Gaussians with
  equal gaps, with pairs.
- robust: four decoders of GPT-2 large on 500 prompts, under MiniLM and GloVe.
- agreement: Gaussians under two embedders that see four coordinates each: equal systems (no winner should be named), one that is
  nearer for both, and two of which each embedder finds another one nearer (no winner should be named).
- passport: how large the file is, and how long it takes to make and to verify.
- passports: those of small scores, verified as they are and with one digit changed.
SIGINT (Ctrl-C) ends the trials early; those that were done are kept, and counted. Features are those of GloVe, unless it says otherwise. Nothing was tuned on these data. Writes results.json and beyond.md beside this file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["MALLOW_CACHE"] = "off"  # the same made-up texts have other features in every trial
import argparse
import gzip
import json
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "memorisation"))
import texts as pools

import mallow
from mallow.embed import embed_samples, find_embedder
from mallow.evaluate._passport import canonical_digest

HERE = Path(__file__).resolve().parent
LEVEL = 0.05
DECODERS = ("nucleus", "topk", "contrastive", "greedy")
PROMPTS = 500  # of those under two embedders


_stopped: list[bool] = []


def until_stopped(trials: int) -> Iterator[int]:
    """The numbers of the trials, as long as nobody has interrupted."""
    for trial in range(trials):
        if _stopped and trial:
            return
        yield trial


def glove(own: list[str], ids: list[str] | None = None) -> mallow.Samples:
    """Texts with GloVe features."""
    return embed_samples(mallow.Samples(texts=own, ids=ids), find_embedder("glove", kind="text"), progress=False)


def webtext_texts(name: str) -> dict[str, str]:
    """Human continuations or those of a decoder, by the number of the prompt; empty ones are left out."""
    file = pools.DATA / f"webtext-gpt2-large/{name}.jsonl.gz"
    if not file.exists():
        sys.exit(f"This study needs {file}, which is not part of the repository (../shared/data beside the checkout).")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line)["gen"] for line in lines]
    own = {str(i): row[0] if isinstance(row, list) else row for i, row in enumerate(rows)}
    return {i: text for i, text in own.items() if text.strip()}


@cache
def webtext(name: str) -> mallow.Samples:
    """The same with GloVe features."""
    own = webtext_texts(name)
    return glove(list(own.values()), list(own))


def matching(trials: int) -> dict[str, Any]:
    """How often a gap is claimed before and after length is matched."""
    news = pools.texts("news")
    only, rejected, explained = 500, [], []
    for trial in until_stopped(trials):
        rng = np.random.default_rng([22, trial])
        order = rng.permutation(len(news))
        cut = [rng.integers(60, 121, only), rng.integers(40, 101, only)]
        sides = [
            glove(
                [" ".join(news[place].split()[:count]) for place, count in zip(order[at : at + only], own, strict=True)]
            )
            for at, own in ((0, cut[0]), (only, cut[1]))
        ]
        one = mallow.score(*sides, match="length", repeats=1, rng=trial)
        rejected.append([one.before.p_value < LEVEL, one.same_size.p_value < LEVEL, one.matched.p_value < LEVEL])
        explained.append(one.explained)
    shares = np.mean(rejected, axis=0).tolist()
    human, model = (webtext(name) for name in ("human", "topk"))
    real = mallow.score(human, model, match="length", repeats=2)
    known = [one for one in explained if one is not None]
    return {
        "length alone: gap claimed before, at the same size, matched": shares,
        "length alone: share of the certified gap that goes, mean": float(np.mean(known)) if known else None,
        "trials": len(rejected),
        "top-k against human": {
            "kept": real.kept,
            "certified before, same size, matched": [
                one.certified["mauve"].value for one in (real.before, real.same_size, real.matched)
            ],
            "p after": real.matched.p_value,
            "explained": real.explained,
            "mean lengths": real.means,
        },
    }


def groups(trials: int) -> dict[str, Any]:
    """How often any of five groups is claimed to have a gap, without one and with one."""
    found = []
    pool = glove(list(pools.texts("news")))
    for trial in until_stopped(trials):
        rng = np.random.default_rng([23, trial])
        order = rng.permutation(len(pool))
        labels = np.arange(500) % 5
        one = mallow.score(
            pool.take(order[:500]).bare(), pool.take(order[500:1000]).bare(), by=(labels, labels), repeats=1, rng=trial
        )
        found.append(bool(one.with_gap))
    human, nucleus, topk = (webtext(name) for name in ("human", "nucleus", "topk"))
    shared = sorted(set(human.ids) & set(nucleus.ids) & set(topk.ids), key=int)
    rows = {
        name: {each: place for place, each in enumerate(own.ids)}
        for name, own in (("h", human), ("n", nucleus), ("t", topk))
    }
    labels = [int(each) % 3 for each in shared]
    features = np.array(
        [
            (topk if label == 0 else nucleus).features[rows["t" if label == 0 else "n"][each]]
            for each, label in zip(shared, labels, strict=True)
        ]
    )
    mixed = mallow.Samples(features=features, ids=shared)
    known = human.take([rows["h"][each] for each in shared])
    real = mallow.score(known, mixed, by=(labels, labels), repeats=1)
    return {
        "no gap, five groups: any claimed": float(np.mean(found)),
        "trials": len(found),
        "top-k in group 0, nucleus in 1 and 2: corrected p": real.adjusted,
        "certified": {name: one.certified["mauve"].value for name, one in real.scores.items()},
    }


def gaps(trials: int) -> dict[str, Any]:
    """How often one of two equal gaps is called larger, and whether unequal ones are."""

    def gaussian(rng: np.random.Generator, shift: float, common: float) -> tuple[np.ndarray, np.ndarray]:
        topics = rng.normal(size=(300, 8))
        sides = [np.sqrt(common) * topics + np.sqrt(1 - common) * rng.normal(size=(300, 8)) for _ in range(2)]
        return sides[0], sides[1] + shift * np.eye(8)[0]

    found: dict[str, list[bool]] = {}
    for trial in until_stopped(trials):
        rng = np.random.default_rng([24, trial])
        for name, first, second, common in (
            ("Gaussians, equal gaps", 0.6, 0.6, 0.0),
            ("Gaussians, equal gaps, pairs", 0.6, 0.6, 0.5),
            ("Gaussians, no gaps", 0.0, 0.0, 0.0),
            ("Gaussians, shifts 0.9 and 0.5", 0.9, 0.5, 0.0),
        ):
            pairs = {"a": gaussian(rng, first, common), "b": gaussian(rng, second, common)}
            found.setdefault(name, []).append(mallow.compare_gaps(pairs, repeats=1, rng=trial).larger is not None)
    human = webtext("human")
    for trial in until_stopped(trials):
        rng = np.random.default_rng([25, trial])
        for names in (("topk", "topk"), ("nucleus", "nucleus"), ("nucleus", "topk"), ("topk", "greedy")):
            if names[0] != names[1] and trial >= trials // 4:
                continue
            models = [webtext(name) for name in names]
            known = sorted(set(human.ids).intersection(*(own.ids for own in models)), key=int)
            order = rng.permutation(known).tolist()
            halves = [order[: len(order) // 2], order[len(order) // 2 :]]
            pairs = {
                f"{name} {place}": (_with_ids(human, half), _with_ids(model, half))
                for place, (name, model, half) in enumerate(zip(names, models, halves, strict=True))
            }
            one = mallow.compare_gaps(pairs, repeats=1, rng=trial)
            found.setdefault(f"halves of the prompts: {names[0]}, {names[1]}", []).append(one.larger is not None)
    return {name: {"trials": len(own), "one is called larger": float(np.mean(own))} for name, own in found.items()}


def _with_ids(samples: mallow.Samples, ids: list[str]) -> mallow.Samples:
    place = {each: i for i, each in enumerate(samples.ids)}
    return samples.take([place[each] for each in ids])


def robust(trials: int) -> dict[str, Any]:
    """Four decoders under two embedders."""
    known = {}
    for name in ("human", *DECODERS):
        own = {i: text for i, text in webtext_texts(name).items() if int(i) < PROMPTS}
        known[name] = mallow.Samples(texts=list(own.values()), ids=list(own))
    result = mallow.compare_embedders(
        known["human"], {name: known[name] for name in DECODERS}, ["minilm", "glove"], repeats=1
    )
    return {
        "verdict": result.verdict,
        "winner by embedder": {name: one.winner for name, one in result.comparisons.items()},
        "certified": {
            name: {system: score.certified["mauve"].value for system, score in one.scores.items()}
            for name, one in result.comparisons.items()
        },
        "pairs": [
            {"first": one.first, "second": one.second, "corrected p": one.adjusted, "closer": one.better}
            for one in result.differences
        ],
    }


class Lookup:
    """An embedder whose features are known: text → row, of which it sees some columns."""

    def __init__(self, name: str, rows: dict[str, np.ndarray], columns: slice = slice(None)) -> None:
        self.name, self.rows, self.columns = name, rows, columns

    def __call__(self, some: Sequence[str]) -> np.ndarray:
        """The features of texts."""
        return np.array([self.rows[text][self.columns] for text in some])


def agreement(trials: int) -> dict[str, Any]:
    """How often a winner is named of two systems that are equal, that differ, and that embedders order in opposite ways."""
    moved = {
        "equal systems": (slice(8), slice(8)),
        "the second is nearer for both": (slice(8), slice(0)),
        "one is nearer for each": (slice(4), slice(4, 8)),
    }
    found: dict[str, list[bool]] = {}
    for trial in until_stopped(trials):
        rng = np.random.default_rng([27, trial])
        for title, columns in moved.items():
            points = {name: rng.normal(size=(200, 8)) for name in ("human", "a", "b")}
            for name, own in zip(("a", "b"), columns, strict=True):
                points[name][:, own] += 0.5
            texts = {name: [f"{name} {row}" for row in range(200)] for name in points}
            rows = {text: row for name, own in points.items() for text, row in zip(texts[name], own, strict=True)}
            halves = [Lookup("first half", rows, slice(4)), Lookup("second half", rows, slice(4, 8))]
            systems = {name: texts[name] for name in ("a", "b")}
            result = mallow.compare_embedders(texts["human"], systems, halves, repeats=1, rng=trial)
            found.setdefault(title, []).append(result.winner is not None)
    return {
        "trials": len(found["equal systems"]),
        **{f"{title}: winner named": float(np.mean(own)) for title, own in found.items()},
    }


def passport(trials: int) -> dict[str, Any]:
    """Size and time of a passport."""
    human, model = webtext("human"), webtext("topk")
    score = mallow.score(human, model)
    began = time.perf_counter()
    made = mallow.make_passport(score, human, model)
    middle = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "passport.json")
        path.write_text(made.to_json())
        size = path.stat().st_size
        check = mallow.verify_passport(path)
    end = time.perf_counter()
    text, missed = made.to_json(), 0
    places = [place for place, letter in enumerate(text) if letter.isdigit()]
    rng = np.random.default_rng(26)
    for place in rng.choice(places, 200, replace=False):
        try:
            data = json.loads(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        except json.JSONDecodeError:  # a number that begins with 0
            continue
        missed += canonical_digest(data) == data["digest"]
    return {
        "kB": round(size / 1000),
        "seconds to make": round(middle - began, 2),
        "seconds to verify": round(end - middle, 2),
        "valid": check.consistent,
        "changed digits, of 200, that keep the digest": missed,
        "n": list(score.n),
    }


def passports(trials: int) -> dict[str, Any]:
    """How often a passport is found valid: as it was made, and with one digit changed."""
    valid, changed = [], []
    for trial in until_stopped(trials):
        rng = np.random.default_rng([28, trial])
        sides = rng.normal(size=(200, 4)), rng.normal(rng.uniform(0, 1), 1, size=(200, 4))
        text = mallow.make_passport(mallow.score(*sides, repeats=1, rng=trial), *sides).to_json()
        valid.append(mallow.verify_passport(mallow.evaluate.Passport.from_json(text)).consistent)
        places = [place for place, letter in enumerate(text) if letter in "12345678"]
        place = int(rng.choice(places))
        other = text[:place] + str(int(text[place]) + 1) + text[place + 1 :]
        try:
            changed.append(mallow.verify_passport(mallow.evaluate.Passport.from_json(other)).consistent)
        except mallow.InputError:  # it is no passport any more
            changed.append(False)
    return {
        "trials": len(valid),
        "valid as made": float(np.mean(valid)),
        "valid with one digit changed": float(np.mean(changed)),
    }


STUDIES: dict[str, Callable[[int], dict[str, Any]]] = {
    "matching": matching,
    "groups": groups,
    "gaps": gaps,
    "robust": robust,
    "agreement": agreement,
    "passport": passport,
    "passports": passports,
}


def main() -> None:
    """Run, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(STUDIES))
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore", mallow.EstimateWarning)
    signal.signal(signal.SIGINT, lambda *_: _stopped.append(True))
    file = HERE / "results.json"
    for name in options.names:
        began = time.process_time()
        found = STUDIES[name](options.trials)
        known = json.loads(file.read_text()) if file.exists() else {}  # others may run beside this
        known[name] = found | {"processor seconds": round(time.process_time() - began)}
        print(name, f"{known[name]['processor seconds']} s", flush=True)
        file.write_text(json.dumps(known, indent=1) + "\n")
        lines = [
            "# Questions beyond one score",
            "",
            "`python experiments/beyond/run.py`: what is counted is said there.",
            "",
        ]
        for study, found in known.items():
            lines += [f"## {study}", "", "```json", json.dumps(found, indent=1, ensure_ascii=False), "```", ""]
        (HERE / "beyond.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
