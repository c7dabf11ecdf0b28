"""Does the alarm of `Monitor` hold at every look, and how soon does it sound?

    python experiments/honesty/monitor.py [--runs 400]      about six minutes on one core; with texts embedded before, or left out

Without a gap: 400 runs per setting, each with its own reference and a look after each of 100 batches; counted are runs with any alarm. Beside it
the naive way, the same test at 5% for a single look, looked at 100 times. With a gap: how many samples of the model were seen when the
alarm sounded. Independent runs of a model are passed to the test as a whole and looked at afterwards, which gives exactly the
p-values of `Monitor.update` after every batch; the first run of each setting is also made by `Monitor.update`, and compared.
The method, its constants and the views were chosen on Gaussians, Student's t, log-normal and clustered points (seeds 1 to 9)
and on WebText; the families marked * were not looked at before. Writes monitor.json and monitor.md beside this file.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import settings
from settings import LEVEL, Clock, save, share_with_error

from mallow import EstimateWarning, Monitor, Samples
from mallow.engine import single_threaded_blas
from mallow.evidence import SequentialTest

LOOKS = 100
SEED = 14
VIEWS = ("mean", "fine mean", "spread", "bins")
Draw = Callable[[int, np.random.Generator], np.ndarray]


def gaussian(width: int) -> Draw:
    return lambda size, rng: rng.normal(size=(size, width))


def student(width: int, freedom: float) -> Draw:
    return lambda size, rng: rng.standard_t(freedom, size=(size, width))


def clusters(width: int) -> Draw:
    centres = 3 * np.random.default_rng(3).normal(size=(8, width))
    shares = [0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.03, 0.02]
    return lambda size, rng: centres[rng.choice(8, size, p=shares)] + rng.normal(size=(size, width))


def skewed(width: int) -> Draw:
    mixing = np.random.default_rng(4).normal(size=(width, width)) * np.arange(1, width + 1) ** -1.0
    return lambda size, rng: rng.exponential(size=(size, width)) @ mixing.T


def zeros(width: int) -> Draw:
    """Counts, most of them 0."""
    return lambda size, rng: rng.poisson(np.arange(1, width + 1) ** -1.0, size=(size, width)).astype(float)


NULLS: list[tuple[str, Draw, int, tuple[int, ...]]] = [
    ("Gaussian, d = 16", gaussian(16), 1000, (10, 50, 200)),
    ("Gaussian, d = 16", gaussian(16), 4000, (10, 200)),
    ("Student's t with 2 degrees of freedom, d = 16", student(16, 2), 1000, (10, 50)),
    ("Student's t with 2 degrees of freedom, d = 16", student(16, 2), 4000, (50,)),
    ("Cauchy, d = 16", student(16, 1), 100, (10,)),
    ("8 clusters of unequal size, d = 16", clusters(16), 1000, (10,)),
    ("skewed and correlated, d = 50 *", skewed(50), 1000, (50,)),
    ("counts, most of them 0, d = 30 *", zeros(30), 1000, (50,)),
]


# A run: the least p-value of each view at one look, after each batch


def follow(monitor: Monitor, rows: np.ndarray, batch: int) -> np.ndarray:
    """The p-value of each view at each look alone, (looks, views), as `Monitor.update` computes it batch by batch."""
    test: SequentialTest = monitor._test
    looks, tails = test.start(), []
    values = [np.rint(one * 2**20).astype(np.int64) for one in test.views.values(rows)]
    labels = test.codebook.labels(rows)
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        looks.rows += len(rows[part])
        looks.size_squares = looks.rows
        new = [*(one[part].sum(axis=0) for one in values), np.bincount(labels[part], minlength=len(test.weights))]
        looks.sums = [old + more for old, more in zip(looks.sums, new, strict=True)]
        looks.squares = [old + int((one[part] ** 2).sum()) for old, one in zip(looks.squares, values, strict=True)]
        looks.tails = [1.0] * len(VIEWS)
        test._look(looks)
        tails.append(looks.tails)
    return np.array(tails)


def thresholds(monitor: Monitor) -> np.ndarray:
    """The p-value of a single look below which each view raises an alarm."""
    low, high = np.full(len(VIEWS), -18.0), np.zeros(len(VIEWS))
    for _ in range(20):
        middle = (low + high) / 2
        p = [test.p_value(10**tail) for test, tail in zip(monitor._test.tests, middle, strict=True)]
        sure = len(VIEWS) * np.array(p) < LEVEL
        low, high = np.where(sure, middle, low), np.where(sure, high, middle)
    return 10**low


def first_alarm(tails: np.ndarray, limits: np.ndarray | float) -> int | None:
    """The number of the first look with an alarm, from 1."""
    sounded = np.flatnonzero((tails < limits).any(axis=1))
    return int(sounded[0]) + 1 if len(sounded) else None


def check(monitor: Monitor, rows: np.ndarray, batch: int, tails: np.ndarray) -> None:
    """Stop if `Monitor.update` finds something else."""
    for start in range(0, len(rows), batch):
        monitor.update(rows[start : start + batch])
    assert monitor._looks.tails == tails.min(axis=0).tolist(), (monitor._looks.tails, tails.min(axis=0))
    monitor.reset()


# The studies


def study_nulls(runs: int) -> list[dict]:
    results = []
    for place, (name, draw, size, batches) in enumerate(NULLS):
        clock = Clock()
        naive, alone = ({batch: [] for batch in batches} for _ in range(2))
        for run in range(runs):
            rng = np.random.default_rng([SEED, place, run])
            monitor = Monitor(draw(size, rng), rng=run)
            for batch in batches:
                rows = draw(LOOKS * batch, rng)
                tails = follow(monitor, rows, batch)
                if run == 0:
                    check(monitor, rows, batch, tails)
                least = tails.min(axis=0)
                p = [test.p_value(tail) for test, tail in zip(monitor._test.tests, least, strict=True)]
                alone[batch].append(len(VIEWS) * np.array(p) < LEVEL)
                naive[batch].append(len(VIEWS) * least.min() < LEVEL)
        for batch in batches:
            by_view = dict(zip(VIEWS, np.mean(alone[batch], axis=0), strict=True))
            results.append(
                {
                    "name": name,
                    "reference": size,
                    "batch": batch,
                    "runs": runs,
                    "alarms": int(np.any(alone[batch], axis=1).sum()),
                }
                | {"naive": sum(naive[batch]), "by_view": by_view}
            )
        print(f"{name}, reference {size}: {results[-1]['alarms']} alarms, {clock.seconds:.0f} s", flush=True)
    return results


def prompts(kind: str, share: float, run: int) -> Monitor:
    """100 looks at samples of prompts, a `share` of whose variance lies between prompts; reference of 1,000."""
    rng = np.random.default_rng([SEED, 100, run])

    def texts(topics: np.ndarray) -> np.ndarray:
        return np.sqrt(share) * topics + np.sqrt(1 - share) * rng.normal(size=topics.shape)

    topics = rng.normal(size=(1000, 16))
    names = [f"prompt {place}" for place in range(1000)]
    monitor = Monitor(Samples(features=texts(topics), ids=names), rng=run)
    others = rng.normal(size=(500, 16))
    for look in range(LOOKS):
        if kind == "shared with the reference, once":
            rows, ids = texts(topics[10 * look : 10 * look + 10]), names[10 * look : 10 * look + 10]
        elif kind == "four samples each":
            place = np.repeat(np.arange(5 * look, 5 * look + 5), 4)
            rows, ids = texts(others[place]), [f"other {one}" for one in place]
        elif kind == "four samples each, ids withheld":
            rows, ids = texts(others[np.repeat(np.arange(5 * look, 5 * look + 5), 4)]), None
        else:  # the same 50 in every batch
            rows, ids = texts(others[:50]), [f"other {one}" for one in range(50)]
        monitor.update(Samples(features=rows, ids=ids))
    return monitor


KINDS = (
    "shared with the reference, once",
    "four samples each",
    "the same 50 in every batch",
    "four samples each, ids withheld",
)


def study_prompts(runs: int) -> list[dict]:
    results = []
    for kind in KINDS:
        clock = Clock()
        alarms = sum(prompts(kind, 0.5, run).alarm for run in range(runs))
        results.append({"name": kind, "runs": runs, "alarms": alarms})
        print(f"{kind}: {alarms} of {runs}, {clock.seconds:.0f} s", flush=True)
    return results


def change(rows: np.ndarray, place: int | None = None, shift: float = 0.0, width: float = 1.0) -> np.ndarray:
    rows = width * rows
    if place is not None:
        rows[:, place] += shift
    return rows


GAPS: list[tuple[str, int, Callable[[np.ndarray], np.ndarray]]] = [
    ("one mean shifted by 0.1 σ", 16, lambda rows: change(rows, 0, 0.1)),
    ("one mean shifted by 0.2 σ", 16, lambda rows: change(rows, 0, 0.2)),
    ("one mean shifted by 0.3 σ", 16, lambda rows: change(rows, 0, 0.3)),
    ("one mean shifted by 0.5 σ", 16, lambda rows: change(rows, 0, 0.5)),
    ("one mean shifted by 1 σ", 16, lambda rows: change(rows, 0, 1.0)),
    ("all widths × 0.9", 16, lambda rows: change(rows, width=0.9)),
    ("all widths × 0.8", 16, lambda rows: change(rows, width=0.8)),
    ("all widths × 1.1", 16, lambda rows: change(rows, width=1.1)),
    ("shift by 1 σ along a direction with 0.1% of the largest variance", 100, lambda rows: change(rows, 70, 1.0)),
]


def study_gaps(runs: int) -> list[dict]:
    """Samples seen until the alarm, for each gap; Gaussians, reference of 2,000, batches of 50."""
    results, batch, clock = [], 50, Clock()
    for width in (16, 100):
        scale = np.exp(-np.arange(width) / 20) if width == 100 else np.ones(width)  # e^-7 = 0.1% of the variance at 70
        seen: dict[str, dict[str, list]] = {}
        for run in range(runs):
            rng = np.random.default_rng([SEED, 200, width, run])
            monitor = Monitor(rng.normal(size=(2000, width)) * scale, rng=run)
            limits = thresholds(monitor)
            rows = rng.normal(size=(LOOKS * batch, width))
            for name, d, alter in GAPS:
                if d != width:
                    continue
                tails = follow(monitor, alter(rows) * scale, batch)
                ways = {"all": limits, "naive": LEVEL / len(VIEWS)}
                for way, limit in ways.items():
                    seen.setdefault(name, {}).setdefault(way, []).append(first_alarm(tails, limit))
                for place, view in enumerate(VIEWS):
                    only = first_alarm(tails[:, [place]], limits[place])
                    seen[name].setdefault(view, []).append(only)
        results += [
            {"name": name, "width": width, "runs": runs, "batch": batch}
            | {way: summarise(one, batch) for way, one in ways.items()}
            for name, ways in seen.items()
        ]
    print(f"gaps: {clock.seconds:.0f} s", flush=True)
    return results


def study_texts(runs: int) -> list[dict]:
    """Samples seen until the alarm, batches of 10: decoders against human texts on the same prompts, and human texts alone."""
    human, clock, results = settings.webtext("human"), Clock(), []
    documents = settings.documents("human").features
    cases = {name: settings.webtext(name).features for name in settings.DECODERS}
    for name, rows in {"other human documents": None, **cases}.items():
        seen: dict[str, list] = {}
        for run in range(runs):
            rng = np.random.default_rng([SEED, 300, run])
            if rows is None:  # a perfect model: documents of the same source
                order = rng.permutation(len(documents))
                reference, model = documents[order[:600]], documents[order[600:]]
            else:
                reference, model = human.features, rows[rng.permutation(len(rows))]
            monitor = Monitor(reference, rng=run)
            limits = thresholds(monitor)
            tails = follow(monitor, model[: len(model) // 10 * 10].astype(np.float64), 10)
            ways = {"all": (tails, limits), "naive": (tails, LEVEL / len(VIEWS)), "bins": (tails[:, 3:], limits[3:])}
            for way, (values, limit) in ways.items():
                seen.setdefault(way, []).append(first_alarm(values, limit))
        results.append(
            {"name": name, "runs": runs, "batch": 10} | {way: summarise(one, 10) for way, one in seen.items()}
        )
    print(f"texts: {clock.seconds:.0f} s", flush=True)
    return results


def summarise(alarms: list[int | None], batch: int) -> dict:
    """The share of runs with an alarm, and the quartiles of the samples seen until then over all runs (None: more)."""
    times = np.sort([np.inf if one is None else one * batch for one in alarms])
    quartiles = [times[round(q * (len(times) - 1))] for q in (0.25, 0.5, 0.75)]
    return {
        "share": float(np.isfinite(times).mean()),
        "quartiles": [int(one) if np.isfinite(one) else None for one in quartiles],
    }


# The tables


def report(results: dict) -> str:
    lines = [
        "# The alarm of `Monitor`: valid at every look",
        "",
        "Written by `python experiments/honesty/monitor.py`. Promised: without a gap, at most 5% of runs raise an alarm at any of their "
        "100 looks. *naive*: the same test for a single look at 5%, looked at 100 times. Shares in per cent, ± standard error of the "
        "simulation. Families marked * were not looked at while the method was chosen; all seeds are new.",
        "",
        "| no gap | reference | batch | runs | alarm | naive |",
        "|---|---|---|---|---|---|",
    ]
    for row in results["nulls"]:
        shares = " | ".join(share_with_error(row[way], row["runs"]) for way in ("alarms", "naive"))
        lines.append(f"| {row['name']} | {row['reference']} | {row['batch']} | {row['runs']} | {shares} |")
    lines += [
        "",
        "Prompts: half of the variance lies between prompts, reference of 1,000, 100 looks.",
        "",
        "| no gap, the model's prompts | runs | alarm |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['name']} | {row['runs']} | {share_with_error(row['alarms'], row['runs'])} |"
        for row in results["prompts"]
    ]
    lines += [
        "",
        "How soon: samples of the model seen when the alarm sounds, median (quartiles) of all runs, or the share of runs with an alarm within "
        "100 looks. Gaussians, reference of 2,000, batches of 50. *naive* is quicker since it also cries without cause. The last four "
        "columns: each view alone, at its share of the 5%.",
        "",
        "| gap | d | runs | alarm | naive | " + " | ".join(VIEWS) + " |",
        "|---|---|---|---|---|" + "---|" * len(VIEWS),
    ]
    for row in results["gaps"]:
        cells = " | ".join(time_text(row[way]) for way in ("all", "naive", *VIEWS))
        lines.append(f"| {row['name']} | {row['width']} | {row['runs']} | {cells} |")
    if "texts" in results:
        lines += [
            "",
            "Real text: GPT-2 large on WebText against 1,000 human continuations of the same prompts (default embedder, 384 wide, no ids), "
            "batches of 10, up to 1,000 samples in random order; and human documents against 600 others, up to 390.",
            "",
            "| text | runs | alarm | naive | bins alone |",
            "|---|---|---|---|---|",
        ]
        for row in results["texts"]:
            cells = " | ".join(time_text(row[way]) for way in ("all", "naive", "bins"))
            lines.append(f"| {row['name']} | {row['runs']} | {cells} |")
    lines += ["", f"Computed in {results['seconds']:.0f} s on one core."]
    return "\n".join(lines) + "\n"


def time_text(summary: dict) -> str:
    low, middle, high = summary["quartiles"]
    if middle is None:
        return f"{100 * summary['share']:.0f}%"
    return f"{middle} ({low} to {'more' if high is None else high})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400, help="runs of each setting without a gap; a quarter with one")
    runs = parser.parse_args().runs
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core: threads would only start and wait
    clock = Clock()
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore", EstimateWarning)
        results = {
            "seed": SEED,
            "looks": LOOKS,
            "nulls": study_nulls(runs),
            "prompts": study_prompts(max(1, runs // 8)),
        }
        results["gaps"] = study_gaps(max(1, runs // 4))
        if settings.DATA.is_dir():
            results["texts"] = study_texts(max(1, runs // 10))
    results["seconds"] = clock.seconds
    save("monitor.json", results)
    Path(__file__).with_name("monitor.md").write_text(report(results))


if __name__ == "__main__":
    main()
