"""Is a gap or a winner claimed where there is none? At most 7% are allowed where 5% are meant.

    python experiments/honesty/nulls.py [--seed 14] [--trials N] [NAME ...]     about half an hour on one core, one to two minutes for most settings; NAMEs: only these settings

Each trial draws a reference and systems that have its distribution (or, in the last settings, one common other distribution)
and counts: p_value < .05 of the test of identity; a certificate whose 95% limit of the area is below 1; a difference of two
systems with p < .05; with eight systems, any difference that is significant after Holm's correction, and a winner. Beside it the
test as it was before: permutations of rows on the bins of the published score. 400 trials on synthetic samples, 200 on real text; of some settings the test alone. *Best of 20*: of
the same samples with other names of units and features times a constant, the least p-value counts; nothing else can be chosen, since there is no seed.
Writes nulls-seed-SEED.json and nulls-seed-SEED.md beside this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import settings
from settings import LEVEL, Clock, best_difference_p_value, binned_p_value, choose, evidence_of, learn, share_with_error

from mallow.evidence import difference_between, holm, run_permutations
from mallow.samples import Samples
from mallow.theory import KL

TRIALS = {"synthetic": 400, "real": 200, "test": 400}
RETOLD = 20  # forms of the same samples, of which the best is taken
Draw = Callable[[np.random.Generator], list[Samples]]  # the reference, then the systems


def mixture(size: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Four clusters whose places never change."""
    centres = np.random.default_rng([3, width]).normal(size=(4, width))
    return centres[rng.integers(4, size=size)] + rng.normal(size=(size, width))


def independent(*sizes: int, width: int = 10, tails: float | None = None) -> Draw:
    def draw(rng: np.random.Generator) -> list[Samples]:
        if tails is None:
            return [Samples(features=mixture(size, width, rng)) for size in sizes]
        return [Samples(features=rng.standard_t(tails, size=(size, width))) for size in sizes]

    return draw


def prompts(
    count: int, *generations: int, share: float, width: int = 10, shared: bool = True, gap: float = 0.0
) -> Draw:
    """So many texts for each of `count` prompts in every set; `share` is the part of the variance that a prompt decides.

    `shared`: whether all sets answer the same prompts. `gap` moves all systems, not the reference.
    """

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets, topics = [], mixture(count, width, rng)
        for place, each in enumerate(generations):
            if not shared:
                topics = mixture(count, width, rng)
            number = np.repeat(np.arange(count), each)
            noise = mixture(len(number), width, rng)
            features = np.sqrt(share) * topics[number] + np.sqrt(1 - share) * noise
            names = [f"{number}" if shared else f"{place} {number}" for number in number]
            sets.append(Samples(features=features + gap * (place > 0) / np.sqrt(width), ids=names))
        return sets

    return draw


def rows_and_groups(rows: int, groups: int, size: int) -> Draw:
    """Single rows against groups: nothing can be exchanged as it is."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        [reference] = prompts(rows, 1, share=0.5)(rng)
        [model] = prompts(groups, size, share=0.5)(rng)
        return [reference, Samples(features=model.features, ids=[f"model {name}" for name in model.ids])]

    return draw


def authors(first: tuple[int, int], second: tuple[int, int], width: int = 10) -> Draw:
    """So many authors with so many texts each on either side; half of the variance is that of authors."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets = []
        for side, (count, each) in enumerate((first, second)):
            author = np.repeat(np.arange(count), each)
            features = rng.normal(size=(count, width))[author] + rng.normal(size=(len(author), width))
            sets.append(Samples(features=features, ids=[f"{side} {one}" for one in author]))
        return sets

    return draw


def skewed(*sizes: int) -> Draw:
    """Log-normal samples."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        return [Samples(features=rng.lognormal(size=(size, 1))) for size in sizes]

    return draw


def twice(count: int, *, ids: bool) -> Draw:
    """Every sample of both sides is there twice."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets = []
        for place in range(2):
            order = rng.permutation(2 * count)
            number = np.tile(np.arange(count), 2)[order]
            names = [f"{place} {each}" for each in number] if ids else None
            sets.append(Samples(features=mixture(count, 10, rng)[number], ids=names))
        return sets

    return draw


def sorted_rows(size: int, order: Callable[[np.ndarray], np.ndarray], width: int | None = None) -> Draw:
    """Both sets without ids, in the order of a number for each row; with `width`, rows of a mixture."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets = []
        for _ in range(2):
            first = rng.normal(size=(size, 1)) * [1, 1] + 1e-3 * rng.normal(size=(size, 2))
            features = first if width is None else mixture(size, width, rng)
            sets.append(Samples(features=features[np.argsort(order(features), kind="stable")]))
        return sets

    return draw


def nearest_centre(features: np.ndarray) -> np.ndarray:
    """The topic of each row of a mixture."""
    centres = np.random.default_rng([3, features.shape[1]]).normal(size=(4, features.shape[1]))
    return np.argmin(((features[:, None] - centres) ** 2).sum(axis=2), axis=1)


def real_sorted(source: Callable[[], Samples], *, by_name: bool, size: int = 250) -> Draw:
    """Two disjoint sets of texts of one source, each sorted: by author, or by the main axis of the features."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        samples = source()
        keys = np.array(samples.ids) if by_name else along_main_axis(source)
        rows = rng.permutation(len(samples.features))
        sides = rows[:size], rows[size : 2 * size]
        return [choose(samples, side[np.argsort(keys[side], kind="stable")], ids=False) for side in sides]

    return draw


def human_stories() -> Samples:
    return settings.stories(machine=False)


@cache
def along_main_axis(source: Callable[[], Samples]) -> np.ndarray:
    features = source().features
    return features @ np.linalg.svd(features - features.mean(axis=0), full_matrices=False)[2][0]


def partly_shared(count: int, answered: int, share: float, width: int = 10) -> Draw:
    """A reference with more prompts than the model was given."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        reference, model = prompts(count, 1, 1, share=share, width=width)(rng)
        return [reference, model.take(range(answered))]

    return draw


def copies(size: int, copied: int, width: int = 50) -> Draw:
    """A model some of whose rows are copies of the reference, without ids."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        reference, fresh = mixture(size, width, rng), mixture(size - copied, width, rng)
        return [Samples(features=reference), Samples(features=np.concatenate([fresh, reference[:copied]]))]

    return draw


def of_few_kinds(kinds: int, size: int = 300, width: int = 5) -> Draw:
    """Rows that are equal by nature, such as short answers."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        values = np.random.default_rng([4, kinds]).normal(size=(kinds, width))
        return [Samples(features=values[rng.integers(kinds, size=size)]) for _ in range(2)]

    return draw


def elsewhere(width: int = 10, size: int = 250) -> Draw:
    """Two systems that are equally far from the reference, in different directions."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets = []
        for axis in (None, 0, 1):
            features = rng.normal(size=(size, width))
            if axis is not None:
                features[:, axis] += 0.6
            sets.append(Samples(features=features))
        return sets

    return draw


def real(source: Callable[[], Samples], size: int = 250) -> Draw:
    """Two disjoint sets of texts of one source."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        order = rng.permutation(len(source().features))
        return [choose(source(), rows, ids=False) for rows in (order[:size], order[size : 2 * size])]

    return draw


def real_groups(source: Callable[[], Samples], groups: int, most: int) -> Draw:
    """Texts of some authors or books against those of others; an author or a book is a unit, with up to `most` texts."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        samples = source()
        names = rng.permutation(sorted(set(samples.ids)))[: 2 * groups]
        rows_of: dict[str, list[int]] = {str(name): [] for name in names}
        for row in rng.permutation(len(samples.features)):
            own = rows_of.get(samples.ids[row])
            if own is not None and len(own) < most:
                own.append(int(row))
        halves = names[:groups], names[groups:]
        return [
            choose(samples, np.array([row for name in half for row in rows_of[str(name)]]), ids=True) for half in halves
        ]

    return draw


def real_generations(decoder: str, *, human: bool, size: int = 300) -> Draw:
    """Two generations of one decoder for the same prompts; with the human text as reference both are equally far from it."""

    def draw(rng: np.random.Generator) -> list[Samples]:
        sets = [settings.webtext(decoder, 0), settings.webtext(decoder, 1)]
        if human:
            sets = [settings.webtext("human"), *sets]
        rows = settings.shared_rows(*sets)
        chosen = rng.permutation(len(rows[0]))[:size]
        swap = rng.random(size) < 0.5
        a, b = sets[-2].features[rows[-2][chosen]], sets[-1].features[rows[-1][chosen]]
        names = [sets[0].ids[row] for row in rows[0][chosen]]
        both = [np.where(swap[:, None], b, a), np.where(swap[:, None], a, b)]
        features = [sets[0].features[rows[0][chosen]], *both] if human else both
        return [Samples(features=each, ids=names) for each in features]

    return draw


# name → how samples are drawn, which kind of samples they are, whether the systems equal the reference
SETTINGS: dict[str, tuple[Draw, str, bool]] = {
    "iid, n = 300, d = 10": (independent(300, 300), "synthetic", True),
    "pairs, ρ = 0.9": (prompts(300, 1, 1, share=0.9), "synthetic", True),
    "75 shared prompts × 4 on both sides": (prompts(75, 4, 4, share=0.5), "synthetic", True),
    "75 prompts × 4, other prompts on each side": (prompts(75, 4, 4, share=0.5, shared=False), "synthetic", True),
    "each sample twice, ids known": (twice(150, ids=True), "synthetic", True),
    "each sample twice, no ids": (twice(150, ids=False), "synthetic", True),
    "n = 1000, m = 150": (independent(1000, 150), "synthetic", True),
    "heavy tails (t, 3 degrees), d = 20": (independent(300, 300, width=20, tails=3.0), "synthetic", True),
    "d > n: n = 100, d = 300": (independent(100, 100, width=300), "synthetic", True),
    "400 rows against 100 × 4": (rows_and_groups(400, 100, 4), "synthetic", True),
    "one reference, 4 generations per prompt": (prompts(100, 1, 4, share=0.5), "synthetic", True),
    "eight equal systems, n = 200, pairs": (prompts(200, *[1] * 9, share=0.5), "synthetic", True),
    "two equal systems with a gap, pairs": (prompts(250, 1, 1, 1, share=0.5, gap=0.6), "synthetic", False),
    "two equal systems with a gap, 1 and 4 generations": (
        prompts(100, 1, 1, 4, share=0.5, gap=0.6),
        "synthetic",
        False,
    ),
    "two systems equally far, other directions": (elsewhere(), "synthetic", False),
    "sorted by one column, n = 300": (sorted_rows(300, lambda rows: rows[:, 0]), "synthetic", True),
    "sorted by topic, n = 300, d = 10": (sorted_rows(300, nearest_centre, 10), "synthetic", True),
    "400 prompts, of which the model has 200, ρ = 0.9": (partly_shared(400, 200, 0.9), "synthetic", True),
    "half of the model copied from the reference, no ids": (copies(300, 150), "synthetic", True),
    "all of the model copied from the reference, no ids": (copies(300, 300), "synthetic", True),
    "300 rows of 30 kinds": (of_few_kinds(30), "synthetic", True),
    "300 rows of 600 kinds": (of_few_kinds(600), "synthetic", True),
    "human news, sorted by author": (real_sorted(settings.news, by_name=True), "real", True),
    "human stories, sorted by the main axis": (real_sorted(human_stories, by_name=False), "real", True),
    "5 authors × 80 against 400 rows": (authors((5, 80), (400, 1)), "test", True),
    "10 authors × 40 against 400 rows": (authors((10, 40), (400, 1)), "test", True),
    "40 authors × 5 against 10 × 20": (authors((40, 5), (10, 20)), "test", True),
    "log-normal, 300 against 10": (skewed(300, 10), "test", True),
    "best of 20 names and scales, 150 pairs, d = 10": (prompts(150, 1, 1, share=0.5), "test", True),
    "best of 20 scales, n = 150 and 140, d = 10": (independent(150, 140), "test", True),
    "human news (Reuters)": (real(settings.news), "real", True),
    "human books": (real(settings.books), "real", True),
    "human web text": (real(lambda: settings.webtext("human")), "real", True),
    "news, 25 authors × 10 against 25 others": (real_groups(settings.news, 25, 10), "real", True),
    "books, 100 titles against 100 others": (real_groups(settings.books, 100, 4), "real", True),
    "nucleus, two generations of 300 prompts": (real_generations("nucleus", human=False), "real", True),
    "human against two generations of typical": (real_generations("typical", human=True), "real", False),
}


def run_trial(draw: Draw, equals_reference: bool, seed: int, trial: int, *, bins: bool) -> dict[str, object]:
    """One set of samples: what is claimed about it, with or without the test as it was before."""
    rng = np.random.default_rng([seed, trial])
    reference, *systems = draw(rng)
    learner = learn(reference, *systems, seed=trial)
    claims: dict[str, object] = {}
    certificates = []
    for place in range(1, len(systems) + 1):
        evidence, certificate = evidence_of(learner, place, seed=trial)
        certificates.append(certificate)
        if place == 1 and equals_reference:
            claims["test"] = evidence.test.p_value < LEVEL
            claims["exact"] = evidence.test.exact
            claims["certificate"] = certificate.estimates["mauve"].high < 1.0
            claims["below"] = 1.0 - certificate.estimates["mauve"].high
            if bins:
                claims["bins"] = binned_p_value(reference.features, systems[0].features, seed=trial) < LEVEL
            claims["alone"] = {name: value < LEVEL for name, value in settings.statistics_alone(evidence.test).items()}
    if len(systems) > 1:
        claims |= compare_systems(learner, certificates)
    return claims


def run_test(draw: Draw, name: str, seed: int, trial: int) -> dict[str, object]:
    """The test of identity alone; the least p-value where the best of several forms of the same samples is taken."""
    sides = draw(np.random.default_rng([seed, trial]))
    forms = range(RETOLD) if name.startswith("best of") else [0]
    tests = [
        run_permutations(*settings.retell(sides, form), permutations=settings.PERMUTATIONS, rng=trial) for form in forms
    ]
    least = min(tests, key=lambda one: one.p_value)
    return {
        "test": least.p_value < LEVEL,
        "exact": least.exact,
        "alone": {key: value < LEVEL for key, value in settings.statistics_alone(tests[0]).items()},
        "least p": least.p_value,
    }


def compare_systems(learner, certificates) -> dict[str, bool]:
    """Whether any difference is significant by Holm, and whether one system beats all others.

    The common witness only raises p-values, so it is asked only if the certificates alone could be significant.
    """
    pairs = list(combinations(range(len(certificates)), 2))
    if min(best_difference_p_value(certificates[a], certificates[b]) for a, b in pairs) * len(pairs) >= LEVEL:
        return {"difference": False, "winner": False}
    differences = [
        difference_between(learner, (a + 1, b + 1), (certificates[a], certificates[b]), KL) for a, b in pairs
    ]
    significant = np.array(holm([each.p_value["mauve"] for each in differences])) < LEVEL
    wins = np.zeros(len(certificates), int)
    for (a, b), each, real_one in zip(pairs, differences, significant, strict=True):
        wins[a if each.value["mauve"] > 0 else b] += real_one
    return {"difference": bool(significant.any()), "winner": bool(wins.max() == len(certificates) - 1)}


CLAIMS = ("test", "certificate", "difference", "winner", "bins")


def summarise(trials: list[dict], seconds: float) -> dict[str, object]:
    row: dict[str, object] = {"trials": len(trials), "seconds": round(seconds)}
    for name in CLAIMS:
        if name in trials[0]:
            row[name] = sum(bool(trial[name]) for trial in trials)
    if "exact" in trials[0]:
        row["exact"] = all(trial["exact"] for trial in trials)
        names = sorted({name for trial in trials for name in trial["alone"]})
        row["alone"] = {name: sum(trial["alone"].get(name, False) for trial in trials) for name in names}
        if "below" in trials[0]:
            row["largest false limit below 1"] = max(trial["below"] for trial in trials)
        if "least p" in trials[0]:
            row["least p"] = min(trial["least p"] for trial in trials)
    return row


def report(results: dict[str, dict], seed: int) -> str:
    lines = [
        "# False alarms, in per cent of trials with their standard error",
        "",
        f"Written by `python experiments/honesty/nulls.py --seed {seed}`. Meant: at most 5; allowed: 7. *test*: p_value < .05. *certificate*: the "
        "95% limit of the area is below 1. *difference*: any difference of systems is significant after Holm's correction; *winner*: one system "
        "beats all others. *bins, before*: the permutation test of single rows on bins, on the same samples. *exact*: whether "
        "all units could be exchanged.",
        "",
        "| setting | trials | exact | test | certificate | difference | winner | bins, before |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        cells = [share_with_error(row[claim], row["trials"]) if claim in row else "" for claim in CLAIMS]
        exact = "" if "exact" not in row else "yes" if row["exact"] else "no"
        lines.append(f"| {name} | {row['trials']} | {exact} | {' | '.join(cells)} |")
    lines += ["", "Each statistic of the test alone (p < .05 without any correction), in per cent:", ""]
    statistics = sorted({name for row in results.values() for name in row.get("alone", {})})
    lines += [f"| setting | {' | '.join(statistics)} |", "|---|" + "---|" * len(statistics)]
    for name, row in results.items():
        if "alone" in row:
            cells = [
                f"{100 * row['alone'][each] / row['trials']:.1f}" if each in row["alone"] else "" for each in statistics
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="settings to run; all others are kept from the last run"
    )
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--trials", type=int, help="instead of 400 on synthetic samples and 200 on real text")
    parser.add_argument("--bins", action="store_true", help="measure the test as it was before once more")
    options = parser.parse_args()
    file = f"nulls-seed-{options.seed}"
    known = settings.load(f"{file}.json")
    for name in options.names or SETTINGS:
        draw, family, equals_reference = SETTINGS[name]
        clock, count = Clock(), options.trials or TRIALS[family]
        if family == "test":
            trials = [run_test(draw, name, options.seed, trial) for trial in range(count)]
        else:
            before = known.get(name, {})
            bins = options.bins or before.get("trials") != count
            trials = [run_trial(draw, equals_reference, options.seed, trial, bins=bins) for trial in range(count)]
        row = summarise(trials, clock.seconds)
        if family != "test" and not bins and "bins" in before:
            row["bins"] = before["bins"]  # of the same samples
        known[name] = row
        results = {each: known[each] for each in SETTINGS if each in known}
        settings.save(f"{file}.json", results)
        (settings.HERE / f"{file}.md").write_text(report(results, options.seed))
        print(name, known[name], flush=True)


if __name__ == "__main__":
    main()
