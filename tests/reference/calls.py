"""Public calls whose results are recorded in calls.json: what they return, as plain numbers.

    python tests/reference/calls.py        writes calls.json again; do that only when a change of numbers is meant

The data are made here, so that the calls need nothing but the development environment.
"""

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

import mallow

HERE = Path(__file__).resolve().parent
CALLS: dict[str, Callable[[], Any]] = {}


def call(function: Callable[[], Any]) -> Callable[[], Any]:
    CALLS[function.__name__] = function
    return function


# --- data


def points(n: int, d: int, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, n, d]).normal(shift, 1.0, size=(n, d))


WORDS = [
    "the",
    "a",
    "river",
    "house",
    "runs",
    "walks",
    "slowly",
    "green",
    "old",
    "and",
    "over",
    "under",
    "stone",
    "light",
    "because",
    "never",
]


def sentences(n: int, seed: int, skew: float = 0.0) -> list[str]:
    """Texts of random words; `skew` makes the first words likelier."""
    rng = np.random.default_rng(seed)
    share = np.exp(-skew * np.arange(len(WORDS)))
    lengths = rng.integers(8, 30, n)
    return [" ".join(rng.choice(WORDS, size, p=share / share.sum())).capitalize() + "." for size in lengths]


def letters(texts: Any) -> np.ndarray:
    """A plain function as embedder: how often each of some letters occurs."""
    return np.array([[text.count(letter) for letter in "aeioutnsrhld"] for text in texts], dtype=np.float64)


def pixels(paths: Any) -> np.ndarray:
    from PIL import Image

    return np.stack([np.asarray(Image.open(path), dtype=np.float64).ravel() for path in paths])


def images(folder: Path, dark: float) -> Path:
    """The digits of scikit-learn as PNG files, some of them darkened."""
    from PIL import Image
    from sklearn.datasets import load_digits

    folder.mkdir()
    rng = np.random.default_rng(3)
    for place, digit in enumerate(load_digits().images[:300]):
        values = 15 * digit * (0.5 if rng.random() < dark else 1.0)
        Image.fromarray(values.astype(np.uint8)).save(folder / f"{place:03}.png")
    return folder


# --- numbers of results


def digest(array: Any) -> str:
    array = np.ascontiguousarray(array)
    return hashlib.sha256(repr((array.shape, array.dtype.str)).encode() + array.tobytes()).hexdigest()[:16]


def of_score(score: Any) -> dict[str, Any]:
    return {
        "mauve": score.mauve,
        "frontier_integral": score.frontier_integral,
        "midpoint": score.midpoint,
        "std": score.std,
        "interval": score.interval,
        "debiased": {name: astuple(one) for name, one in score.debiased.items()},
        "certified": {name: astuple(one) for name, one in score.certified.items()},
        "p_value": score.p_value,
        "self_score": score.self_score,
        "values": score.values,
        "n": score.n,
        "scale": score.scale,
        "curve": [digest(score.frontier.p_to_mix), digest(score.frontier.q_to_mix)],
        "masses": of_masses(score.masses),
    }


def of_masses(masses: Any) -> list[str]:
    found = [digest(masses.p), digest(masses.q)]
    if masses.partition is not None:
        found += [digest(masses.partition.p_labels), digest(masses.partition.q_labels)]
    return found


def of_comparison(comparison: Any) -> dict[str, Any]:
    return {
        "scores": {name: of_score(score) for name, score in comparison.scores.items()},
        "differences": [
            [one.first, one.second, one.difference, one.interval, one.p_value, one.adjusted]
            for one in comparison.differences
        ],
        "ranks": comparison.ranks,
        "groups": comparison.groups,
        "variance": comparison.variance,
        "winner": comparison.winner,
        "last": comparison.last,
    }


# --- the calls


@call
def score_of_arrays() -> Any:
    return of_score(mallow.score(points(600, 20), points(500, 20, 0.3, 1), rng=7))


@call
def score_by_other_measures() -> Any:
    x, y = points(300, 6), points(300, 6, 0.4, 1)
    measures = {
        "2021": mallow.MAUVE_2021,
        "neighbors": mallow.Measure(mallow.Neighbors()),
        "kernel density": mallow.Measure(mallow.KernelDensity(pooled=True)),
        "classifier": mallow.Measure(mallow.Classifier()),
        "gaussian": mallow.Measure(mallow.Gaussian()),
        "hellinger": mallow.Measure(divergence=mallow.HELLINGER2, scale=2.0),
    }
    return {name: of_score(mallow.score(x, y, measure=one, repeats=2)) for name, one in measures.items()}


@call
def score_of_texts_by_a_function() -> Any:
    return of_score(mallow.score(sentences(240, 1), sentences(240, 2, 0.1), embedder=letters, repeats=3))


@call
def score_of_texts_by_a_string_kernel() -> Any:
    return of_score(mallow.score(sentences(120, 1), sentences(120, 2, 0.1), embedder="ngram", repeats=2))


@call
def score_of_texts_by_the_default_embedder() -> Any:
    found = mallow.score(sentences(60, 1), sentences(60, 2, 0.3), repeats=2)
    return {name: getattr(found, name) for name in ("mauve", "frontier_integral", "midpoint")}


@call
def score_of_images() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        real, made = images(Path(folder, "real"), 0.0), images(Path(folder, "made"), 0.3)
        return of_score(mallow.score(real, made, embedder=pixels, repeats=2))


@call
def compare_arrays() -> Any:
    x = points(400, 8)
    systems = {"near": points(400, 8, 0.1, 1), "far": points(400, 8, 0.5, 2), "wide": 1.3 * points(400, 8, 0.0, 3)}
    return of_comparison(mallow.compare(x, systems, repeats=3, rng=2))


@call
def compare_generations() -> Any:
    x = points(150, 5)
    three = np.stack([points(150, 5, 0.3, seed) for seed in (1, 2, 3)], axis=1)
    return of_comparison(mallow.compare(x, {"three": three, "one": points(150, 5, 0.1, 4)}, repeats=2))


@call
def compare_texts_with_ids() -> Any:
    human = [{"id": i, "text": text} for i, text in enumerate(sentences(120, 1))]
    model = [
        {"id": i, "text": [a, b]} for i, (a, b) in enumerate(zip(sentences(120, 2), sentences(120, 3), strict=True))
    ]
    other = [{"id": i, "text": text} for i, text in reversed(list(enumerate(sentences(120, 4, 0.2))))]
    return of_comparison(mallow.compare(human, {"model": model, "other": other}, embedder=letters, repeats=2))


@call
def compare_with_a_baseline_and_shared_bins() -> Any:
    measure = mallow.Measure(mallow.Quantize(bins=20, codebook="shared"))
    systems = {"a": points(200, 4, 0.2, 1), "b": points(200, 4, 0.6, 2)}
    return of_comparison(mallow.compare(points(200, 4), systems, measure=measure, baseline="a", repeats=3))


@call
def permutation_test() -> Any:
    return mallow.permutation_test(points(200, 3), points(200, 3, 0.2, 1), permutations=199)


@call
def diagnose_texts() -> Any:
    human, model = sentences(300, 1), sentences(260, 2, 0.1) + ["Buy cheap gold watches now."] * 40
    found = mallow.diagnose(human, model, embedder=letters, rng=1)
    return {
        "gap": found.gap,
        "bins": found.bins,
        "regions": [
            [
                *(one.side, one.bin, one.share, one.reference, one.model, one.expected, one.p_value, one.adjusted),
                *(one.terms, one.lengths, [example.place for example in one.model_examples]),
            ]
            for one in (*found.missed, *found.invented)
        ],
    }


@call
def check() -> Any:
    human = points(500, 4)
    before = mallow.score(human, points(500, 4, 0.1, 1), rng=3)
    found = [mallow.check_regression(human, points(500, 4, shift, 2), before, rng=3) for shift in (0.1, 0.6)]
    return [[one.outcome, one.drop, one.interval, one.before, one.now] for one in found]


@call
def plan() -> Any:
    x, a, b = (points(200, 4, shift, seed) for seed, shift in enumerate((0, 0.3, 0.5)))
    found = mallow.plan_samples(x, a, b, detect=0.2)
    return [found.n, found.n_observed, found.pilot, found.unit]


@call
def baselines_of_features() -> Any:
    systems = {"near": points(200, 5, 0.1, 1), "far": points(200, 5, 0.8, 2)}
    return mallow.baselines.table(points(200, 5), systems, repeats=2).values


@call
def baselines_of_texts() -> Any:
    systems = {"near": sentences(80, 2), "far": sentences(80, 3, 0.5)}
    return mallow.baselines.table(sentences(80, 1), systems, embedder=letters, repeats=2).values


@call
def monitor() -> Any:
    found = mallow.Monitor(points(1200, 4), rng=5)
    for step in range(4):
        found.update(points(150, 4, 0.4, step))
    return {
        "score": of_score(found.compute()),
        "counts": digest(found.counts),
        "reference": digest(found.reference_counts),
    }


@call
def estimators() -> Any:
    x, y = points(160, 7), points(200, 7, 0.3, 1)
    options = {
        "quantize": mallow.Quantize(bins=12, restarts=2),
        "plain": mallow.Quantize(reduce=None, smoothing=mallow.theory.smoothing.laplace),
        "extrapolated": mallow.Quantize(smoothing=mallow.theory.extrapolated),
        "codebook": mallow.Quantize(codebook=mallow.Quantize(bins=9).fit(x, rng=1)),
        "neighbors": mallow.Neighbors(neighbors=4),
        "kernel density": mallow.KernelDensity(),
        "classifier": mallow.Classifier(),
        "gaussian": mallow.Gaussian(),
        "reduced": mallow.Gaussian(reduce=mallow.Reduce(dimension=3)),
    }
    return {name: of_masses(one(x, y, rng=4)) for name, one in options.items()}


@call
def compat() -> Any:
    found = mallow.compat.compute_mauve(p_features=points(250, 6), q_features=points(250, 6, 0.4, 1), seed=3)
    return [found.mauve, found.frontier_integral, found.mauve_star, found.frontier_integral_star, found.num_buckets]


@call
def sweep() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        texts = sentences(120, 1)
        model = mallow.generate.NGram.fit(texts, order=3)
        decoders, plan = ["nucleus:0.7,0.95", "greedy"], mallow.generate.GenerationPlan(max_new=6)
        found = mallow.sweep(texts, model, decoders, folder, plan, tokens=4, embedder=letters, repeats=2)
        return {name: [one.mauve, one.values] for name, one in found.comparison.scores.items()}


@call
def audit() -> Any:
    found = mallow.audit_embedder(sentences(240, 5), letters, repeats=2)
    effects = [[e.edit, e.mauve, e.certified, e.difference, e.low, e.high, e.seen] for e in found.effects]
    return [found.n, found.untouched, found.untouched_certified, effects]


@call
def confounds() -> Any:
    found = mallow.find_confounds(sentences(200, 1), {"spaced": [f" {text.lower()}" for text in sentences(200, 2)]})
    return [[one.system, one.kind, one.values] for one in found]


# --- recording


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value, default=float))


def machine() -> dict[str, str]:
    """What the last bits depend on."""
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    blas = next(one for one in threadpool_info() if one["user_api"] == "blas")
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "blas": f"{blas['internal_api']} {blas['version']}",
        "kernel": blas["architecture"],
        "threads": str(blas["num_threads"]),
    }


def run(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        return plain(CALLS[name]())


if __name__ == "__main__":
    names = sys.argv[1:] or list(CALLS)
    path = HERE / "calls.json"
    kept = json.loads(path.read_text()) if path.exists() and sys.argv[1:] else {"results": {}}
    kept["machine"] = machine()
    for name in names:
        sys.stderr.write(f"{name}\n")
        kept["results"][name] = run(name)
    path.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
