"""`Monitor` as a watch for drift beside alibi-detect and evidently: false alarms in 1,000 looks, and the median delay.

    pip install --no-deps alibi-detect==0.13.0 evidently==0.7.23      into an environment of their own, with what they import and pandas < 3
    python experiments/honesty/drift.py [--runs 25] [--only NAME]      three minutes on one core, and much more for alibi-detect

Gaussians in four dimensions, a reference of 1,000 samples, 1,000 looks at 5 more samples each. Without drift, how many of
the streams raise an alarm at any look; with a change after 500 looks, how many samples later the alarm is raised.

- mallow: `Monitor(reference)`, and `Monitor(reference, tolerance=0.9)`, with their defaults.
- alibi-detect: `MMDDriftOnline`, window of 50 samples, an expected run time of 500 or 5,000 samples, and ten times this
  many (but 10,000 at most) bootstraps. It looks at every sample. A detector is configured for each of five references.
- evidently: `DataDriftPreset` with its defaults on the last 250 samples: half of the columns differ at p < 0.05 by
  Kolmogorov and Smirnov. This rule is computed by scipy, since a report takes 0.25 s; 10 reports must agree with it.

Writes drift.json and drift.md beside this file; streams that are in drift.json already are not run again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import ks_2samp
from settings import HERE, LEVEL, load, save, share_with_error

from mallow import EstimateWarning, Monitor
from mallow.engine import single_threaded_blas

WIDTH, REFERENCE, REFERENCES, LOOKS, SAMPLES, CHANGE, SEED = 4, 1000, 5, 1000, 5, 500, 32
WINDOW, LAST = 50, 250  # samples of a window: alibi-detect, evidently
RUN_TIMES = (500, 5000)
SHIFTS = {"no drift": 0.0, "shift by 0.5 σ": 0.5, "shift by 1 σ": 1.0, "shift by 2 σ": 2.0}
Batches = Iterator[np.ndarray]
Watch = Callable[[Batches], Iterator[bool]]
"""The detector of one reference: from batches to whether there is an alarm after each."""


def reference(number: int) -> np.ndarray:
    return np.random.default_rng([SEED, number]).normal(size=(REFERENCE, WIDTH))


def stream(shift: float, run: int) -> Batches:
    rng = np.random.default_rng([SEED, REFERENCES, run])
    for look in range(LOOKS):
        rows = rng.normal(size=(SAMPLES, WIDTH))
        rows[:, 0] += shift * (look >= CHANGE)
        yield rows


def monitor(tolerance: float | None) -> Callable[[np.ndarray], Watch]:
    def start(rows: np.ndarray) -> Watch:
        def watch(batches: Batches) -> Iterator[bool]:
            follower = Monitor(rows, tolerance=tolerance)
            for batch in batches:
                follower.update(batch)
                yield follower.alarm

        return watch

    return start


def alibi(run_time: int) -> Callable[[np.ndarray], Watch]:
    def start(rows: np.ndarray) -> Watch:
        import torch
        from alibi_detect.cd import MMDDriftOnline

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        detector = MMDDriftOnline(
            rows,
            ert=run_time,
            window_size=WINDOW,
            backend="pytorch",
            n_bootstraps=min(10 * run_time, 10_000),
            verbose=False,
        )

        def watch(batches: Batches) -> Iterator[bool]:
            torch.manual_seed(SEED)  # no stream depends on those before it
            detector.reset_state()
            for batch in batches:
                yield any(detector.predict(row)["data"]["is_drift"] for row in batch)

        return watch

    return start


def evidently(rows: np.ndarray) -> Watch:
    def watch(batches: Batches) -> Iterator[bool]:
        last = np.empty((0, WIDTH))
        for batch in batches:
            last = np.concatenate([last, batch])[-LAST:]
            yield len(last) == LAST and drifted(rows, last)

    return watch


def drifted(rows: np.ndarray, last: np.ndarray) -> bool:
    return np.mean([ks_2samp(rows[:, place], last[:, place]).pvalue < LEVEL for place in range(WIDTH)]) >= 0.5


def check_rule() -> None:
    """Reports of evidently must agree with `drifted`."""
    import pandas as pd
    from evidently import Report
    from evidently.presets import DataDriftPreset

    names, rng, rows = list("abcd"), np.random.default_rng(SEED), reference(0)
    for number in range(10):
        last = rng.normal(size=(LAST, WIDTH)) + 0.03 * number
        report = Report([DataDriftPreset()]).run(pd.DataFrame(last, columns=names), pd.DataFrame(rows, columns=names))
        assert (report.dict()["metrics"][0]["value"]["share"] >= 0.5) == drifted(rows, last)


DETECTORS: dict[str, Callable[[np.ndarray], Watch]] = {
    "mallow, any gap": monitor(None),
    "mallow, tolerance 0.9": monitor(0.9),
    **{f"alibi-detect, run time {run_time:,}": alibi(run_time) for run_time in RUN_TIMES},
    "evidently": evidently,
}


def first_alarms(name: str, runs: Sequence[int], row: dict[str, list[int | None]]) -> None:
    """Adds the look of the first alarm, from 1, of the streams with these numbers to those of each shift."""
    known = {title: dict(enumerate(row.get(title, []))) for title in SHIFTS}
    for number in range(REFERENCES):
        left = {
            title: [run for run in runs if run % REFERENCES == number and run not in known[title]] for title in SHIFTS
        }
        if any(left.values()):
            watch = DETECTORS[name](reference(number))
            for title, shift in SHIFTS.items():
                for run in left[title]:
                    looks = (look for look, alarm in enumerate(watch(stream(shift, run)), 1) if alarm)
                    known[title][run] = next(looks, None)
    row |= {title: [known[title][run] for run in sorted(known[title])] for title in SHIFTS}


def report(results: dict) -> str:
    lines = [
        "# A watch for drift, beside others",
        "",
        f"Written by `python experiments/honesty/drift.py`. Gaussians in {WIDTH} dimensions, a reference of {REFERENCE:,} samples, {LOOKS:,} looks at {SAMPLES} more samples each. "
        "*Any alarm*: the share of streams without drift with an alarm at any look, in per cent, ± standard error of the simulation. *Delay*: the median number of samples from the change, "
        f"after {CHANGE} looks, to the first alarm, of the streams that had none before; in brackets, the share of streams with a false alarm before the change.",
        "",
        f"| detector | streams without drift, and with each | any alarm without drift | {' | '.join(f'delay, {name}' for name in list(SHIFTS)[1:])} |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        null = row["no drift"]
        cells = [share_with_error(sum(look is not None for look in null), len(null))]
        for title in list(SHIFTS)[1:]:
            if title not in row:
                cells.append("–")
                continue
            kept = [look for look in row[title] if look is None or look > CHANGE]
            early = 1 - len(kept) / len(row[title])
            delays = np.sort([np.inf if look is None else (look - CHANGE) * SAMPLES for look in kept])
            middle = delays[(len(delays) - 1) // 2] if kept else np.nan
            shown = "no stream left" if not kept else f"{middle:.0f}" if np.isfinite(middle) else "more than 2,500"
            cells.append(f"{shown} ({100 * early:.0f}%)")
        counts = sorted({len(row[title]) for title in row if title != "no drift"})
        lines.append(f"| {name} | {' and '.join(map(str, [len(null), *counts]))} | {' | '.join(cells)} |")
    absent = [name for name in DETECTORS if name not in results]
    lines += [
        "",
        (f"Not run: {', '.join(absent)}, and what has a –. " if absent else "")
        + "An alarm of mallow holds at any look, for as long as one watches. The run time of alibi-detect is the expected number of samples until a false alarm, so some false alarms are meant; "
        "for 5% in 5,000 samples it would have to be about 97,000, and bootstraps ten times as many. evidently tests each window by itself; the change moves one column of four, and its rule asks for half of them. The tolerance of 0.9 does not ask for an alarm at a shift of "
        "0.5 σ, where MAUVE is 0.95.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=25, help="streams without drift, and with each change")
    parser.add_argument("--only", choices=DETECTORS, action="append", help="run this detector, and no other")
    options = parser.parse_args()
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore", EstimateWarning)
        check_rule()
        for name in options.only or DETECTORS:
            row = load("drift.json").get(name, {})
            first_alarms(name, range(options.runs), row)
            results = load("drift.json") | {name: row}  # another detector may have run meanwhile
            results = {name: results[name] for name in DETECTORS if name in results}
            save("drift.json", results)
            (HERE / "drift.md").write_text(report(results))
            print(name, f"{time.process_time():.0f} s", flush=True)


if __name__ == "__main__":
    main()
