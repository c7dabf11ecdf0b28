"""How many samples does each test need to see a real gap? On real text, with the default embedder.

    python experiments/honesty/power.py [--trials 30] [NAME ...]     about half an hour on one core with the features cached; NAMEs: only these

Alternatives: decoders of GPT-2 large against human continuations of the same prompts (pairs) and of other prompts; human documents
and continuations into which 2 to 40% machine text is mixed, passages of books with 2 to 40% by a 5-gram model. Tests, all at 5%: the test of identity of the library; the permutation test on the bins
of the published score; held-out accuracy of a logistic regression (half of the units to learn, half to test, binomial); MMD with
a Gaussian kernel of median width, permutations of rows. n grows until every test sees the gap in nearly all trials or the data
end; a test that does so is not run again with more. Samples for 80% power come from linear interpolation in log n. Writes power.json, power.md and power.png
beside this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import settings
from scipy.stats import binom
from settings import LEVEL, PERMUTATIONS, Clock, binned_p_value, choose, learn

from mallow.evidence import Draws, run_identity_test
from mallow.samples import Samples

TRIALS, SEED = 30, 14
SIZES = (25, 50, 100, 200, 400, 500, 800, 1000, 2000)
MIXED_SIZES = (100, 200, 500, 1000, 2000)  # where a share of a few per cent is some samples
TICKS = (25, 50, 100, 200, 400, 1000, 2000)  # of the picture
ENOUGH = 0.95  # chosen: power from which a test is not run with more samples
POWER = 0.8
Draw = Callable[[int, np.random.Generator], tuple[Samples, Samples] | None]  # None: the data end


def identity(reference: Samples, model: Samples, seed: int) -> tuple[float, dict[str, float]]:
    learner = learn(reference, model, seed=seed)
    test = run_identity_test(learner.spaces, learner.units, 1, Draws(PERMUTATIONS, seed))
    return test.p_value, settings.statistics_alone(test)


def bins(reference: Samples, model: Samples, seed: int) -> float:
    return binned_p_value(reference.features, model.features, seed=seed)


def classifier(reference: Samples, model: Samples, seed: int) -> float:
    """Learned on half of the rows (both sides of a pair together), judged by the number of right answers on the others."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    n = len(reference.features)
    train = np.random.default_rng([seed, 4]).permutation(n) < n // 2
    x = np.concatenate([reference.features, model.features])
    side, train = np.repeat([0, 1], n), np.tile(train, 2)
    scaler = StandardScaler().fit(x[train])
    rule = LogisticRegression(C=0.01, max_iter=200).fit(scaler.transform(x[train]), side[train])
    right = int(np.sum(rule.predict(scaler.transform(x[~train])) == side[~train]))
    return float(binom.sf(right - 1, int(np.sum(~train)), 0.5))


def mmd(reference: Samples, model: Samples, seed: int) -> float:
    x = np.concatenate([reference.features, model.features]).astype(np.float64)
    squares = (x**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0)
    kernel = np.exp(-distances / np.median(distances[np.triu_indices(len(x), 1)]))
    n = len(reference.features)
    rng = np.random.default_rng([seed, 5])
    signs = np.repeat([[1.0 / n, -1.0 / (len(x) - n)]], [n, len(x) - n], axis=1)
    signs = np.concatenate([signs, rng.permuted(np.repeat(signs, PERMUTATIONS, axis=0), axis=1)])
    values = ((signs @ kernel) * signs).sum(axis=1)
    return float(np.mean(values >= values[0] * (1 - 1e-12)))


TESTS = {"this library": identity, "bins": bins, "classifier": classifier, "MMD": mmd}


def decoder(name: str, *, shared: bool) -> Draw:
    """Continuations of a decoder against human ones, of the same prompts or of others."""

    def draw(n: int, rng: np.random.Generator) -> tuple[Samples, Samples] | None:
        human, machine = settings.webtext("human"), settings.webtext(name)
        of_human, of_machine = settings.shared_rows(human, machine)
        order = rng.permutation(len(of_human))
        if len(order) < (n if shared else 2 * n):
            return None
        first, second = order[:n], order[:n] if shared else order[n : 2 * n]
        return choose(human, of_human[first], ids=shared), choose(machine, of_machine[second], ids=shared)

    return draw


def mixed(human: Callable[[], Samples], machine: Callable[[], Samples], share: float) -> Draw:
    """Human texts against other human texts, of which a share is replaced by machine texts."""

    def draw(n: int, rng: np.random.Generator) -> tuple[Samples, Samples] | None:
        replaced = round(share * n)
        order, others = rng.permutation(len(human().features)), rng.permutation(len(machine().features))
        if len(order) < 2 * n - replaced or len(others) < replaced:
            return None
        texts = [human().features[order[n : 2 * n - replaced]], machine().features[others[:replaced]]]
        rows = np.concatenate(texts)
        return choose(human(), order[:n], ids=False), Samples(features=rows[rng.permutation(n)])

    return draw


def _documents(name: str) -> Callable[[], Samples]:
    return lambda: settings.documents(name)


def _continuations(name: str) -> Callable[[], Samples]:
    return lambda: settings.webtext(name)


ALTERNATIVES: dict[str, Draw] = {
    **{f"{name}, same prompts": decoder(name, shared=True) for name in ("nucleus", "topk", "typical", "contrastive")},
    **{
        f"{name}, other prompts": decoder(name, shared=False)
        for name in ("nucleus", "topk", "typical", "contrastive", "greedy")
    },
    **{
        f"{share:.0%} GPT-2 small in human documents": mixed(
            _documents("human"), _documents("gpt2-small-unconditional"), share
        )
        for share in (0.02, 0.05, 0.1, 0.2, 0.4)
    },
    **{
        f"{share:.0%} typical in human continuations": mixed(_continuations("human"), _continuations("typical"), share)
        for share in (0.1, 0.2, 0.4)
    },
    **{
        f"{share:.0%} 5-gram stories in human stories": mixed(
            lambda: settings.stories(False), lambda: settings.stories(True), share
        )
        for share in (0.02, 0.05, 0.1, 0.2, 0.4)
    },
    "40% nucleus in human continuations": mixed(_continuations("human"), _continuations("nucleus"), 0.4),
}


def measure(name: str, draw: Draw, trials: int) -> dict[str, object]:
    """The power of every test at every n, and of each statistic of the library's test alone."""
    power: dict[str, dict[str, float]] = {test: {} for test in TESTS}
    alone: dict[str, dict[str, float]] = {}
    done: set[str] = set()
    for n in MIXED_SIZES if "% " in name else SIZES:
        rejected: dict[str, int] = {}
        single: dict[str, int] = {}
        for trial in range(trials):
            pair = draw(n, np.random.default_rng([SEED, n, trial, *name.encode()]))
            if pair is None:
                return {"trials": trials, "power": power, "alone": alone}
            for test in TESTS.keys() - done:
                p_value = TESTS[test](*pair, trial)
                if isinstance(p_value, tuple):
                    p_value, each = p_value
                    for statistic, own in each.items():
                        single[statistic] = single.get(statistic, 0) + (own < LEVEL)
                rejected[test] = rejected.get(test, 0) + (p_value < LEVEL)
        for test in TESTS:
            power[test][str(n)] = rejected[test] / trials if test in rejected else 1.0
        alone[str(n)] = {statistic: count / trials for statistic, count in single.items()}
        done = {test for test in TESTS if power[test][str(n)] >= ENOUGH}
        if len(done) == len(TESTS):
            break
    return {"trials": trials, "power": power, "alone": alone}


def samples_needed(power: dict[str, float]) -> float:
    """n at which the power is 80%, by linear interpolation in log n; infinite where the data end before."""
    sizes, values = np.array([int(n) for n in power]), np.maximum.accumulate(list(power.values()))
    if not len(values) or values[-1] < POWER:
        return np.inf
    return float(np.exp(np.interp(POWER, values, np.log(sizes))))


def report(results: dict[str, dict]) -> str:
    lines = [
        "# Samples of each side for 80% power at the 5% level, on real text",
        "",
        "Written by `python experiments/honesty/power.py` (seed 14). *> n*: not reached with n, the most that the data allow; ≤ n: reached with the fewest "
        "tried. *ratio*: this library to bins. In brackets the power with the most samples that the test was run with.",
        "",
        "| alternative | trials | " + " | ".join(TESTS) + " | ratio to bins |",
        "|---|---|" + "---|" * (len(TESTS) + 1),
    ]
    for name, row in results.items():
        cells, needed = [], {}
        for test in TESTS:
            power = row["power"][test]
            needed[test] = samples_needed(power)
            least, most = min(map(int, power)), max(map(int, power))
            number = (
                f"> {most}"
                if np.isinf(needed[test])
                else f"≤ {least}"
                if needed[test] <= least
                else f"{needed[test]:.0f}"
            )
            cells.append(f"{number} ({power[str(most)]:.2f})")
        own, other = needed["this library"], needed["bins"]
        most = max(map(int, row["power"]["bins"]))
        ratio = "" if np.isinf(own) else f"< {own / most:.2f}" if np.isinf(other) else f"{own / other:.2f}"
        lines.append(f"| {name} | {row['trials']} | {' | '.join(cells)} | {ratio} |")
    lines += ["", "Power at each n: this library / bins / classifier / MMD", ""]
    lines += ["| alternative | " + " | ".join(f"n = {n}" for n in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
    for name, row in results.items():
        cells = [
            " / ".join(f"{row['power'][test][str(n)]:.2f}" for test in TESTS) if str(n) in row["power"]["bins"] else ""
            for n in SIZES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    statistics = list(dict.fromkeys(each for row in results.values() for own in row["alone"].values() for each in own))
    lines += [
        "",
        "What each statistic of the test adds: share with p < .05 of each alone (without correction for their number), at the n whose joint power is nearest 80%",
        "",
        "| alternative | n | joint | " + " | ".join(statistics) + " |",
        "|---|---|---|" + "---|" * len(statistics),
    ]
    for name, row in results.items():
        power = {n: value for n, value in row["power"]["this library"].items() if row["alone"].get(n)}
        if power:
            n = min(power, key=lambda each: abs(power[each] - POWER))
            cells = [f"{row['alone'][n].get(each, float('nan')):.2f}" for each in statistics]
            lines.append(f"| {name} | {n} | {power[n]:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def picture(results: dict[str, dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 4
    rows = -(-len(results) // columns)
    figure, every = plt.subplots(
        rows, columns, figsize=(12, 2.3 * rows), layout="constrained", sharey=True, squeeze=False
    )
    for axes in every.flat[len(results) :]:
        axes.set_visible(False)
    for axes, (name, row) in zip(every.flat, results.items(), strict=False):
        for test, style in zip(TESTS, ("o-", "s--", "^:", "x-."), strict=True):
            power = row["power"][test]
            axes.plot([int(n) for n in power], list(power.values()), style, label=test, markersize=4)
        axes.axhline(POWER, color="grey", linewidth=0.6)
        axes.set(xscale="log", title=name, xticks=TICKS, xticklabels=TICKS, xlim=(22, 2300), ylim=(-0.03, 1.03))
        axes.title.set_fontsize(8)
        axes.tick_params(labelsize=7)
        axes.minorticks_off()
    every[0, 0].legend(fontsize=7)
    figure.supxlabel("samples of each side")
    figure.supylabel("power")
    figure.savefig(settings.HERE / "power.png", dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="alternatives to run; all others are kept from the last run"
    )
    parser.add_argument("--trials", type=int, default=TRIALS)
    options = parser.parse_args()
    known = settings.load("power.json")
    for name in options.names or ALTERNATIVES:
        clock = Clock()
        known[name] = measure(name, ALTERNATIVES[name], options.trials)
        print(name, known[name]["power"], f"{clock.seconds:.0f} s", flush=True)
        results = {each: known[each] for each in ALTERNATIVES if each in known}
        settings.save("power.json", results)
        (settings.HERE / "power.md").write_text(report(results))
    picture(results)


if __name__ == "__main__":
    main()
