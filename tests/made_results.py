"""Results with numbers made by hand, and all that they say in print: nothing is estimated.

python tests/made_results.py        writes evaluate/shown again; do that only when a change of words or numbers is meant
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mallow.errors import Caveat
from mallow.evaluate import (
    AgreedDifference,
    Change,
    Check,
    Comparison,
    Difference,
    GapDifference,
    GroupScores,
    MatchedScore,
    Passport,
    PassportCheck,
    RobustComparison,
    SamplePlan,
    Score,
    Sweep,
    Track,
    Trend,
    verify_passport,
)
from mallow.evaluate._order import rank_systems
from mallow.evaluate._passport_check import Finding
from mallow.evidence import MAUVE_STAR, Evidence, IdentityTest, Signature
from mallow.explain import Reason
from mallow.results import Estimate
from mallow.theory import Masses, frontier

SHOWN = Path(__file__).resolve().parent / "evaluate" / "shown"

MASSES = Masses.from_histograms([0.5, 0.5], [0.25, 0.75])
FEW = Caveat("few samples", "only 200 samples.", values={"n": 300, "m": 200})


def made_score(mauve=0.9, area=0.95, high=0.97, p_value=0.03, self_score=0.98, n=(1300, 1200), **changes):
    """A score whose three summaries have different numbers everywhere."""
    curve = frontier(MASSES, grid=4)
    values = {
        "mauve": mauve,
        "frontier_integral": 0.02,
        "midpoint": 0.01,
        "std": {"mauve": 0.001, "frontier_integral": 0.002, "midpoint": 0.003},
        "interval": {
            "mauve": (mauve - 0.02, mauve + 0.01),
            "frontier_integral": (0.015, 0.026),
            "midpoint": (0.007, 0.014),
        },
        "debiased": {
            "mauve": Estimate(mauve + 0.03, mauve + 0.02, mauve + 0.05),
            "frontier_integral": Estimate(0.011, 0.006, 0.017),
            "midpoint": Estimate(0.005, 0.002, 0.009),
        },
        "certified": {
            "mauve": Estimate(area, 0.0, high),
            "frontier_integral": Estimate(0.013, 0.004, 1.0),
            "midpoint": Estimate(0.0065, 0.0021, 0.69),
        },
        "p_value": p_value,
        "self_score": {"mauve": self_score, "frontier_integral": 0.0044, "midpoint": 0.0022},
        "frontier": curve,
        "certified_frontier": curve,
        "masses": MASSES,
        "signature": Signature("0.1.0", "Measure(…)", "features", 4, n[0], n[1], 20, 2, 0),
        "caveats": (),
        "n": n,
        "scale": 5.0,
        "values": dict.fromkeys(("mauve", "frontier_integral", "midpoint"), (0.5, 0.25)),
    }
    return Score(**(values | changes))


def made_difference(first, second, value, p_value=0.2, adjusted=None, half=0.01):
    adjusted = p_value if adjusted is None else adjusted
    summaries = ("mauve", "frontier_integral", "midpoint")
    each = {name: value / (place + 1) for place, name in enumerate(summaries)}
    return Difference(
        first,
        second,
        difference=each,
        interval={name: (own - half, own + half / 2) for name, own in each.items()},
        p_value=dict.fromkeys(each, p_value),
        adjusted=dict.fromkeys(each, adjusted),
    )


def made_comparison(areas, apart=(), *, baseline=None, caveats=(), tested=True, **changes):
    """Systems with these certified areas, in this order; those in `apart` differ significantly."""
    scores = {
        name: made_score(0.9 - 0.05 * place, value, value + 0.02, n=(1300, 1200 - place), **changes)
        for place, (name, value) in enumerate(areas.items())
    }
    names = list(areas)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    if baseline is not None:
        pairs = [(name, baseline) for name in names if name != baseline]
    together = [set(pair) for pair in apart]
    differences = tuple(
        made_difference(a, b, areas[a] - areas[b], *((0.001, 0.004) if {a, b} in together else (0.2, 0.6)))
        for a, b in (pairs if tested else ())
    )
    ranks, groups = ({}, ()) if baseline else rank_systems(names, differences)
    first = next(iter(scores.values()))
    return Comparison(
        scores, differences, ranks, groups, {name: {} for name in names}, baseline, first.signature, caveats
    )


def made_passport(key=None):
    """Two repeats of three bins, and evidence about five samples in four units."""
    evidence = Evidence(
        np.array([0.8, 0.3, 0.5, -0.1, 0.9]),
        np.array([-0.6, 0.1, -0.4, -0.9, -0.2]),
        np.array([0, 0, 1, 2, 3]),
        np.array([0, 1, 1, 2, 3]),
        np.arange(4, dtype=np.uint64),
        IdentityTest(0.021, 99, True, False, {}),
    )
    empty = Passport(
        published={},
        certified={},
        p_value=0.021,
        reference_counts=(np.array([3, 1, 1]), np.array([2, 2, 1])),
        model_counts=(np.array([1, 1, 3]), np.array([1, 2, 2])),
        smoothing="krichevsky_trofimov",
        divergence="KL",
        scale=5.0,
        codebook=None,
        evidence=evidence,
        signature=Signature(
            "0.1.0", repr(MAUVE_STAR), "features", 2, 5, 5, 3, 2, 0, units="4 ids with 5 samples each side"
        ),
        caveats=(Caveat("few samples", "the score has a caveat of the kind “few samples”."),),
    )
    return replace(empty, published=empty.recompute_published(), certified=empty.recompute_certified()).seal(key)


# --- results of every kind, in every state that is told in other words

CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def cases(name: str, **each: Callable[[], Any]) -> None:
    CASES.update({f"{name}_{key}": function for key, function in each.items()})


def with_areas(*areas: float, **options: Any) -> Comparison:
    return made_comparison(dict(zip("abcdefgh", areas, strict=False)), **options)


@case
def score_with_everything() -> Score:
    told = [Reason("words", f"reason {place}", 0.001, 0.002, {"explained": 0.5}) for place in range(4)]
    shares = {
        "unlike": Estimate(0.2, 0.1299, 1.0),
        "new": Estimate(0.25, 0.1501, 1.0),
        "missed": Estimate(0.5, 0.4, 1.0),
    }
    return made_score(caveats=(FEW, replace(FEW, system="reference")), reasons=tuple(told), shares=shares)


@case
def score_of_a_monitor() -> Score:
    return made_score(certified={}, interval={}, debiased={}, p_value=1.0, certified_frontier=None)


cases(
    "comparison",
    of_one=lambda: with_areas(0.95),
    of_two_with_a_winner=lambda: with_areas(0.95, 0.9, apart=["ab"]),
    of_two_without_one=lambda: with_areas(0.95, 0.9),
    with_a_winner_and_a_last=lambda: with_areas(0.95, 0.9, 0.8, apart=["ab", "ac", "bc"]),
    with_a_last=lambda: with_areas(0.95, 0.9, 0.8, apart=["ac", "bc"], caveats=(FEW, replace(FEW, system="a"))),
    with_several_last=lambda: with_areas(0.95, 0.9, 0.8, 0.7, apart=["ac", "bc", "ad", "bd"]),
    with_nothing_apart=lambda: with_areas(0.95, 0.9, 0.8, apart=["ac"]),
    of_many_pairs=lambda: with_areas(0.95, 0.9, 0.85, 0.8, 0.75, apart=["ae", "ad"]),
    of_too_many_pairs=lambda: with_areas(0.95, 0.9, 0.85, 0.8, 0.75, 0.7, apart=["af"]),
    not_tested=lambda: with_areas(0.95, 0.9, tested=False),
    without_evidence=lambda: with_areas(0.95, 0.9, tested=False, certified={}, interval={}, debiased={}),
    with_a_baseline=lambda: with_areas(0.95, 0.9, 0.8, 0.7, 0.6, baseline="c", apart=["ac", "bc", "ce"]),
    with_an_untested_baseline=lambda: with_areas(0.95, 0.9, baseline="a", tested=False),
)


@case
def comparison_of_different_sizes() -> Comparison:
    made = with_areas(0.95, 0.9, 0.8)
    sizes = [
        replace(one, self_score=one.self_score | {"mauve": 0.98 - 0.01 * place})
        for place, one in enumerate(made.scores.values())
    ]
    return replace(made, scores=dict(zip(made.scores, sizes, strict=True)))


@case
def comparison_whose_differences_are_turned() -> Comparison:
    made = with_areas(0.95, 0.9, 0.8, apart=["ab", "ac", "bc"])
    return replace(made, differences=tuple(one.reverse() for one in reversed(made.differences)))


@case
def comparison_whose_baseline_comes_first() -> Comparison:
    made = with_areas(0.95, 0.9, 0.8, apart=["ab"], baseline="b")
    return replace(made, differences=tuple(one.reverse() for one in made.differences))


def made_check(outcome: Any, drop: float, low: float, high: float) -> Check:
    score = made_score(area=0.95 - drop)
    return Check(outcome, drop, (low, high), 0.02, 0.95, 0.95 - drop, score, (FEW,))


cases(
    "check",
    passed=lambda: made_check("passed", -0.03, -0.05, 0.01),
    passed_with_the_same_samples=lambda: made_check("passed", 0.0, 0.0, 0.0),
    passed_although_worse=lambda: made_check("passed", 0.01, 0.001, 0.02),
    regression=lambda: made_check("regression", 0.05, 0.03, 0.08),
    that_cannot_tell=lambda: made_check("cannot tell", 0.01, -0.02, 0.04),
    that_cannot_tell_although_worse=lambda: made_check("cannot tell", 0.02, 0.01, 0.04),
)


def made_gaps(value: float, p_value: float, caveats: tuple[Caveat, ...] = ()) -> GapDifference:
    scores = {"x": made_score(area=0.9 + value), "y": made_score(0.8, 0.9, 0.93, 0.2, n=(900, 1100))}
    return GapDifference(scores, made_difference("x", "y", value, p_value), (3, 4), caveats)


cases(
    "gaps",
    of_which_the_first_is_larger=lambda: made_gaps(-0.05, 0.01, (replace(FEW, system="x"), replace(FEW, system="y"))),
    of_which_the_second_is_larger=lambda: made_gaps(0.05, 0.049),
    that_are_alike=lambda: made_gaps(0.05, 0.05),
)


def made_groups(*adjusted: float, skipped: bool = True) -> GroupScores:
    names = "pqr"[: len(adjusted)]
    scores = {name: made_score(0.8 + 0.05 * place, 0.85, n=(1000 + place, 2000)) for place, name in enumerate(names)}
    few = {"s": (1, 4000), "t": (29, 30)} if skipped else {}
    return GroupScores(scores, dict(zip(names, adjusted, strict=True)), few, (replace(FEW, system="q"),))


cases(
    "groups",
    with_a_gap_in_some=lambda: made_groups(0.01, 0.05, 0.049),
    with_a_gap_in_all=lambda: made_groups(0.01, 0.02, skipped=False),
    with_a_gap_in_none=lambda: made_groups(0.2, 0.3),
)


def made_matched(before: float, after: float, p_value: float) -> MatchedScore:
    every = made_score()
    same, matched = (
        replace(
            made_score(mauve, n=(800, 700), p_value=p),
            certified={**every.certified, "frontier_integral": Estimate(cost, cost / 2, 1.0)},
        )
        for mauve, cost, p in ((0.88, before, 0.001), (0.93, after, p_value))
    )
    difference = made_difference("matched", "same size", 0.03)
    means = {"before": (1.5, 2.5), "matched": (1.75, 1.875)}
    return MatchedScore("length", every, same, matched, difference, 0.625, means, (FEW,))


cases(
    "matched_score",
    of_which_some_is_left=lambda: made_matched(0.02, 0.015, 0.049),
    of_which_nothing_is_left=lambda: made_matched(0.02, 0.0, 0.05),
    that_grew=lambda: made_matched(0.02, 0.03, 0.01),
    without_a_gap=lambda: made_matched(0.0, 0.0, 0.5),
)


def made_robust(first: float, second: float, p_value: float, apart: str = "ab") -> RobustComparison:
    """Two embedders; the second gives the systems in the other order if it finds so."""
    one = with_areas(0.95, 0.95 - first, apart=[apart])
    order = {"a": 0.9, "b": 0.9 - second} if second > 0 else {"b": 0.9 - second, "a": 0.9}
    other = made_comparison(order, apart=[apart])
    agreed = AgreedDifference("a", "b", {"one": first, "other": second}, p_value, p_value)
    return RobustComparison({"one": one, "other": other}, (agreed,), (replace(FEW, system="b"),))


cases(
    "robust_comparison",
    with_a_winner=lambda: made_robust(0.05, 0.03, 0.049),
    without_one=lambda: made_robust(0.05, 0.03, 0.05, apart=""),
    contested=lambda: made_robust(0.05, -0.03, 1.0),
)


def made_track(
    tau: float, p_value: float, areas: tuple[float, ...], changes: tuple[Change, ...], apart: Any = ()
) -> Track:
    names = [f"c{place}" for place in range(len(areas))]
    by_area = sorted(zip(names, areas, strict=True), key=lambda pair: -pair[1])
    pairs = [(names[i], names[j]) for i, j in apart]
    comparison = made_comparison(dict(by_area), pairs, caveats=(FEW,))
    steps = {name: 100.0 * (place + 1) for place, name in enumerate(names)}
    return Track(steps, comparison, Trend(tau, p_value), changes)


CLOSER = Change("c1", "c0", 0.1, 0.05, 0.16, 0.004)
FARTHER = Change("c2", "c1", -0.05, -0.08, -0.01, 0.03)
cases(
    "track",
    that_comes_closer=lambda: made_track(0.8, 0.049, (0.8, 0.9, 0.95), (CLOSER,), [(0, 1), (0, 2)]),
    that_goes_away=lambda: made_track(-0.8, 0.01, (0.95, 0.9, 0.8), (FARTHER,), [(0, 2)]),
    that_turns=lambda: made_track(0.2, 0.05, (0.8, 0.95, 0.9), (CLOSER, FARTHER), [(0, 1), (1, 2)]),
    that_may_have_turned=lambda: made_track(0.2, 0.7, (0.8, 0.95, 0.9), (CLOSER,), [(0, 1), (0, 2)]),
    that_stays=lambda: made_track(0.0, 1.0, (0.9, 0.91, 0.92), ()),
    whose_last_is_best=lambda: made_track(1.0, 0.3, (0.8, 0.85, 0.92), (), [(0, 2), (1, 2)]),
)


@case
def track_without_intervals() -> Track:
    made = made_track(0.8, 0.049, (0.8, 0.9, 0.95), (replace(CLOSER, at="c0"), FARTHER))
    scores = {name: replace(one, interval={}) for name, one in made.comparison.scores.items()}
    return replace(made, comparison=replace(made.comparison, scores=scores))


def made_sweep(*decoders: str, apart: Any = ()) -> Sweep:
    areas = {name: 0.95 - 0.05 * place for place, name in enumerate(decoders)}
    comparison = made_comparison(areas, apart, caveats=(FEW,))
    return Sweep(tuple(sorted(decoders)), comparison, "n-gram", {name: Path(f"{name}.jsonl") for name in decoders})


cases(
    "sweep",
    of_one_family=lambda: made_sweep(
        "nucleus:0.9", "greedy", "nucleus:0.5", apart=[("nucleus:0.9", "greedy"), ("nucleus:0.9", "nucleus:0.5")]
    ),
    of_two_families=lambda: made_sweep("nucleus:0.9", "top-k:50", "nucleus:0.5", "top-k:5"),
)


def made_plan(**changes: Any) -> SamplePlan:
    pilot = {"difference": -0.05, "low": -0.08, "high": -0.01, "standard error": 0.02, "n": 1300.0}
    return replace(SamplePlan(12345, 6789, 0.01, 0.8, 0.05, pilot, "samples", ()), **changes)


cases(
    "plan",
    of_samples=made_plan,
    of_prompts=lambda: made_plan(unit="prompts", n_observed=None, caveats=(FEW,), level=0.001, power=0.95),
)
cases(
    "passport",
    sealed=made_passport,
    signed=lambda: made_passport("secret"),
    check=lambda: verify_passport(made_passport()),
    check_with_a_key=lambda: verify_passport(made_passport("secret"), key="secret"),
    check_with_another_key=lambda: verify_passport(made_passport("secret"), key="another"),
    check_without_a_seal=lambda: verify_passport(made_passport(), key="secret"),
    check_that_fails_twice=lambda: PassportCheck(
        (Finding("a", "1", "2", False), Finding("b", "3", "3", True), Finding("c", "4", "5", False)), "0", (FEW,)
    ),
)


DRAWN = [
    *("score_with_everything", "score_of_a_monitor", "comparison_with_a_last", "comparison_without_evidence"),
    *("check_regression", "gaps_that_are_alike", "groups_with_a_gap_in_some", "matched_score_without_a_gap"),
    *(
        "robust_comparison_contested",
        "track_that_turns",
        "track_that_stays",
        "sweep_of_one_family",
        "sweep_of_two_families",
    ),
    *("plan_of_samples", "passport_sealed", "passport_check_that_fails_twice"),
]

# --- what they say


def numbers(value: Any) -> Any:
    """With ten digits, which all processors share."""
    if isinstance(value, dict):
        return {str(key): numbers(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(own) for own in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def describe(result: Any) -> str:
    """Everything that a result shows: text, tables, records, summary, what its JSON says besides, properties."""
    text, brief = str(result), numbers(result.brief())
    forms = (
        result.table,
        *(getattr(result, name, str) for name in ("mauve_table", "difference_table", "change_table")),
    )
    tables = [table for table in (form() for form in forms) if table not in text]
    also = result._also() | {
        name: getattr(result, name)
        for cls in type(result).__mro__
        for name, value in vars(cls).items()
        if isinstance(value, property) and name not in ("caveats", "measure", "contested")
    }
    besides = {name: value for name, value in numbers(also).items() if brief.get(name, ...) != value}
    parts = [repr(result), text, *tables, *(json.dumps(numbers(record)) for record in result._records())]
    parts += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in (brief | besides).items()]
    headline = result._headline()
    parts += [] if headline == text.splitlines()[0] else [headline]
    return wrapped(re.sub(r"\b[0-9a-f]{12,}\b", "…", "\n".join(parts)))  # digests


def wrapped(text: str) -> str:
    """The text with long lines broken, so that a change can be read."""
    lines = (
        textwrap.wrap(line, 118, subsequent_indent="    ") if len(line) > 118 else [line] for line in text.split("\n")
    )
    return "\n".join(part for parts in lines for part in parts)


def describe_plot(result: Any) -> str:
    """What a picture of a result shows: its frame, its labels, and each line with its points."""
    from matplotlib.figure import Figure

    return describe_axes(result.plot(Figure().subplots()))


def describe_axes(ax: Any) -> str:
    points = [(line.get_label(), numbers(np.asarray(line.get_xydata(), float).tolist())) for line in ax.lines]
    lines = [f"{'' if label.startswith('_') else label}: {own}" for label, own in points]
    ticks = [label.get_text() for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels()]
    names = [text for text in ticks if re.match("[a-z]", text)]  # numbers are chosen by matplotlib
    legend = [] if ax.get_legend() is None else [text.get_text() for text in ax.get_legend().get_texts()]
    bars = [[float(patch.get_y()), float(patch.get_width())] for patch in ax.patches if hasattr(patch, "get_width")]
    frame = [name for name, spine in ax.spines.items() if spine.get_visible()]
    head = f"{frame} | {ax.get_title()} | {ax.get_xlabel()} | {ax.get_ylabel()} | {numbers(ax.get_ylim())}"
    return wrapped("\n".join([head, *lines, str(names), str(legend), str(numbers(bars)), str(len(ax.collections))]))


def recorded() -> dict[str, str]:
    """What is recorded of every case: the files of the folder `shown`, one per result or picture."""
    return {path.stem: path.read_text(encoding="utf-8").removesuffix("\n") for path in sorted(SHOWN.glob("*.txt"))}


if __name__ == "__main__":
    shown = {name: describe(make()) for name, make in CASES.items()}
    shown |= {f"picture_of_{name}": describe_plot(CASES[name]()) for name in DRAWN}
    SHOWN.mkdir(exist_ok=True)
    for path in SHOWN.glob("*.txt"):
        path.unlink()
    for name, text in shown.items():
        (SHOWN / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(shown)} results\n")
