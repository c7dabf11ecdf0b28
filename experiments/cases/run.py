"""Six decisions as a user meets them: what mallow says, what it costs, and what one would have decided wrongly.

    python experiments/cases/run.py      a few seconds; corpus.py and checkpoints.py compute what no other experiment has

Writes a page and a picture for each case beside this file, from results of experiments that are in the repository.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot

HERE = Path(__file__).resolve().parent
Rows = Sequence[Sequence[object]]


def load(path: str) -> dict:
    return json.loads((HERE.parent / path).read_text())


def table(heads: Sequence[str], rows: Rows) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def places(rank: Sequence[int]) -> str:
    low, high = rank
    return str(low) if low == high else f"{low} to {high}"


def listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"


def write(name: str, *paragraphs: str) -> None:
    (HERE / f"{name}.md").write_text("\n\n".join([*paragraphs, f"![Picture]({name}.png)"]) + "\n")


def dots(name: str, labels: Sequence[str], series: dict[str, Sequence[float]], title: str) -> None:
    """One row per label, one mark per series."""
    figure, ax = pyplot.subplots(figsize=(7, 0.45 * len(labels) + 1.4))
    for (label, values), mark in zip(series.items(), "os^", strict=False):
        ax.plot(values, np.arange(len(labels)), mark, label=label)
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlabel(title)
    ax.grid(axis="x", alpha=0.3)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    figure.savefig(HERE / f"{name}.png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def decoder() -> None:
    study = load("honesty/decoders.json")["One generation for each prompt"]
    scores, steps = study["scores"], load("mauve_text/steps.json")
    seen = {name: float(np.mean(each["mauve-text, mauve"])) for name, each in steps.items()}
    rows = [
        (
            name,
            f"{seen[name]:.3f}" if name in seen else "–",
            f"{score['MAUVE*']:.3f}",
            f"{score['certified'][1]:.3f}",
            places(score["rank"]),
        )
        for name, score in scores.items()
    ]
    dots(
        "decoder",
        list(scores),
        {
            "MAUVE*": [score["MAUVE*"] for score in scores.values()],
            "at most, by held-out evidence": [score["certified"][1] for score in scores.values()],
        },
        "MAUVE of GPT-2 large on WebText",
    )
    write(
        "decoder",
        "# Which decoder?",
        "GPT-2 large continues 1,000 prompts of WebText with six decoders, and one has to be chosen.",
        "    mallow compare human.jsonl nucleus=nucleus.jsonl topk=topk.jsonl contrastive=contrastive.jsonl …",
        table(["decoder", "mauve-text", "MAUVE*", "at most (95%)", "rank"], rows),
        f"**What mauve-text would have said**: contrastive search {seen['contrastive']:.3f}, nucleus sampling {seen['nucleus']:.3f}. The two look equally "
        "good.",
        f"**What mallow says**: MAUVE of contrastive search is at most {scores['contrastive']['certified'][1]:.3f}, of nucleus sampling at most "
        f"{scores['nucleus']['certified'][1]:.3f}; nucleus sampling has the smallest proven gap, after correction for all pairs. The bins of the "
        "published score count a few directions only, in which both decoders look like people.",
        "**What one would have decided wrongly**: to take contrastive search, since the values are equal and its texts do not depend on luck.",
        "**What it costs**: no further texts. The evidence for one system of 1,000 + 1,000 texts takes a few seconds of processor time once texts are "
        "embedded ([decoders.md](../honesty/decoders.md), [steps.md](../mauve_text/steps.md)).",
    )


def checkpoint() -> None:
    results = load("cases/checkpoints.json")
    rows = results["rows"]
    shown = [
        (
            name,
            f"{row['training loss']:.2f}",
            f"{row['loss on other digits']:.2f}",
            f"{row['as mauve-text']:.3f}",
            f"{row['at most']:.3f}",
            places(row["rank"]),
        )
        for name, row in rows.items()
    ]
    lowest = {
        key: min(rows, key=lambda name, key=key: rows[name][key]) for key in ("training loss", "loss on other digits")
    }
    published = max(rows, key=lambda name: rows[name]["as mauve-text"])
    first = min(results["best"], key=lambda name: int(name.split()[1]))
    dots(
        "checkpoint",
        list(rows),
        {
            "as mauve-text": [row["as mauve-text"] for row in rows.values()],
            "at most, by held-out evidence": [row["at most"] for row in rows.values()],
        },
        "MAUVE of ten checkpoints",
    )
    write(
        "checkpoint",
        "# Which checkpoint?",
        "A mixture of 20 Gaussians is trained on 800 digits, and ten checkpoints of the run are kept: `python experiments/cases/checkpoints.py`. "
        "The set-up was chosen because its checkpoints differ: with 60 full Gaussians and 600 digits, no two of ten could be told apart.",
        "    mallow compare digits.npy step2=step2.npy step4=step4.npy …",
        table(["checkpoint", "training loss", "loss on other digits", "as mauve-text", "at most (95%)", "rank"], shown),
        f"**What others would have said**: the training loss chooses {lowest['training loss']}, the loss on other digits {lowest['loss on other digits']}, and the "
        f"highest value of mauve-text's estimator {published}. Three rules, three answers, each without a hint that it may be luck.",
        f"**What mauve-text would have said**: its estimator gives {rows[published]['as mauve-text']:.3f} for {published} and {rows[first]['as mauve-text']:.3f} for {first}, as if training were worth continuing.",
        f"**What mallow says**: {results['verdict']} From {first} on no checkpoint is shown to be better than another. So take the one that the loss on other data prefers, or stop early.",
        f"**What one would have decided wrongly**: to train up to {published} and to report the highest of ten values as the result.",
        f"**What it costs**: {results['seconds']:.0f} s of processor time for ten checkpoints of 500 samples, with all 45 pairs.",
    )


def gan() -> None:
    values = load("digits/models.json")["values"]
    rows = []
    for embedder in ("LeNet-5", "pixels", "EfficientNet-Lite0", "Inception-v3"):
        model, real = values[embedder]["GAN"], values[embedder]["real"]
        rows.append(
            (
                embedder,
                model["n"],
                f"{model['MAUVE*']:.3f}",
                f"{model['certified, at most']:.3f}",
                f"{model['Fréchet']:.4g} (real {real['Fréchet']:.3g})",
                f"{model['precision']:.2f}, {model['recall']:.2f}",
            )
        )
    dots(
        "gan",
        [f"{row[0]}, n = {row[1]}" for row in rows],
        {
            "MAUVE*": [float(row[2]) for row in rows],
            "at most, by held-out evidence": [float(row[3]) for row in rows],
            "precision": [float(row[5].split(",")[0]) for row in rows],
        },
        "a GAN of digits",
    )
    lenet = values["LeNet-5"]["GAN"]
    reads = load("image_embedders/results.json")["embedders"]["Inception-v3"]["rate"]
    write(
        "gan",
        "# Is the GAN good enough?",
        "A GAN writes digits. By eye most are fine. Are they like MNIST, and does the answer depend on the features?",
        "    mallow score mnist/ gan/ --embedder efficientnet      mallow baselines mnist/ gan/ --all",
        table(["features", "n", "MAUVE*", "at most (95%)", "Fréchet distance", "precision, recall"], rows),
        f"**What others would have said**: precision and recall of {lenet['precision']:.2f} and {lenet['recall']:.2f} with the features of a classifier of digits: as good as real digits. "
        f"The Fréchet distance has no scale: {lenet['Fréchet']:,.0f} means something only beside the value of real digits.",
        f"**What mauve-text would have said**: it was not run here. The published score with other bins (MAUVE*) is {min(float(row[2]) for row in rows):.2f} to {max(float(row[2]) for row in rows):.2f}, by the features, "
        "and says neither whether that is a gap nor how large it is at least.",
        f"**What mallow says**: a gap with all four features. In the features of the classifier MAUVE is at most {lenet['certified, at most']:.2f}, in those of Inception-v3 at most "
        f"{values['Inception-v3']['GAN']['certified, at most']:.2f} with 200 images. A limit holds for the images, whichever features it came from, so the smallest one is what is known.",
        "**What one would have decided wrongly**: to ship the GAN after looking at precision and recall with features that were trained to ignore what is wrong with it.",
        f"**What it costs**: {values['Inception-v3']['GAN']['n']} images are enough here; Inception-v3 reads {reads:.0f} images per second of processor time ([image_embedders.md](../image_embedders/image_embedders.md)). [models.md](../digits/models.md) has all models and a ladder of damages.",
    )


def judge() -> None:
    study = load("people/arena.json")
    rows = [
        (name, f"{row['left']:.2f}", f"{row['agreement']:.2f}", f"{row['spearman']:.2f}", f"{row['inside']} of 20")
        for name, row in study["judges"].items()
    ]
    judges = [name for name in study["judges"] if name != "people"]
    dots(
        "judge",
        judges,
        {
            "share of the left side": [study["judges"][name]["left"] for name in judges],
            "agrees with people": [study["judges"][name]["agreement"] for name in judges],
            "Spearman with people": [study["judges"][name]["spearman"] for name in judges],
        },
        "judges of 16,000 battles",
    )
    best, beside = study["judges"]["gpt4"], study["beside people"][-1]
    write(
        "judge",
        "# May a language model judge instead of people?",
        "16,000 battles of 20 chat systems were judged by people and by three language models.",
        "    mallow rank votes.jsonl      mallow correlate …",
        table(
            [
                "judge",
                "share of the left side",
                "agrees with people",
                "Spearman with people",
                "scores inside people's intervals",
            ],
            rows,
        ),
        f"**What a correlation would have said**: {best['spearman']:.3f} with people, so votes by people can be saved.",
        "**What mauve-text would have said**: nothing. It compares texts with texts, and here there are only votes.",
        f"**What mallow says**: the best judge agrees with people on {100 * best['agreement']:.0f}% of battles, and only {best['inside']} of 20 of its scores lie inside people's intervals. "
        f"gpt35 prefers the left side in {100 * study['judges']['gpt35']['left']:.0f}% of battles. Beside {beside['labelled']:,} votes by people, votes of all three judges are worth {100 * (beside['gain'] - 1):.0f}% more votes by people, and unlimited votes of "
        f"judges could never be worth more than {100 / (1 - study['explained by judges']) - 100:.0f}%.",
        "**What one would have decided wrongly**: to rank systems by a judge. The order of very different systems is right, and most scores are not.",
        "**What it costs**: a second of processor time. [arena.md](../people/arena.md) has the ranking and the combination of people and judges.",
    )


def corpus() -> None:
    results = load("cases/corpus.json")
    rows = [
        (
            f"{100 * float(share):.0f}%",
            f"{100 * row['estimate'][0]:.0f}% ({100 * row['estimate'][1]:.0f} to {100 * row['estimate'][2]:.0f}%)",
            f"{int(100 * row['shares']['new'])}%",  # a lower bound
            f"{row['p']:.2g}",
            f"{row['at most']:.3f}",
            f"{row['as mauve-text']:.3f}",
        )
        for share, row in results.items()
    ]
    planted = [100 * float(share) for share in results]
    figure, ax = pyplot.subplots(figsize=(5, 4))
    values = 100 * np.array([row["estimate"] for row in results.values()])
    ax.errorbar(planted, values[:, 0], np.abs(values[:, 1:].T - values[:, 0]), fmt="o", label="estimate, 95% interval")
    ax.plot(planted, [100 * row["shares"]["new"] for row in results.values()], "s", label="at least, without examples")
    ax.plot([0, 45], [0, 45], color="gray", linewidth=0.8)
    ax.set(xlabel="planted share of machine texts, %", ylabel="share, %")
    ax.legend(frameon=False)
    figure.savefig(HERE / "corpus.png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    seconds = max(row["seconds"] for row in results.values())
    write(
        "corpus",
        "# How much of the corpus did a machine write?",
        "500 texts of 60 words, some of them by a 5-gram model that continues passages of books. The user has 1,000 passages by people, and 500 texts by the machine: "
        "`python experiments/cases/corpus.py`.",
        "    from mallow.evaluate import estimate_share\n    estimate_share(people, machine, corpus)        # with examples\n"
        '    mallow.score(people, corpus).shares["new"].low  # without: at least so much',
        table(
            ["planted", "estimate (95% interval)", "at least, without examples", "p", "MAUVE at most", "as mauve-text"],
            rows,
        ),
        f"**What mauve-text would have said**: {', '.join(row[-1] for row in rows[:-1])} and {rows[-1][-1]}. With 10 and 20% of machine texts it reports what it reports of a clean corpus.",
        "**What mallow says**: an interval for the share where there are examples of the machine, and a lower bound where there are none. The bound is cautious.",
        "**What one would have decided wrongly**: to call the corpus clean since its MAUVE is about that of a clean one.",
        f"**What it costs**: {seconds:.1f} s of processor time per corpus once texts are embedded. The estimate is only as good as the examples: texts by a machine that writes otherwise bias it.",
    )


def same_model() -> None:
    study = load("same_model/run.json")
    variants = study["power"]
    counts = ["1", "2", "5", "10"]

    def cell(row: dict) -> str:
        return f"{row['mallow']:.2f} / {'–' if row['peer'] is None else format(row['peer'], '.2f')}"

    rows = [(name, *(cell(row[count]) for count in counts)) for name, row in variants.items()]
    rows.append(("*no difference*", *(cell(study["nulls"][count]) for count in counts)))
    first = {
        name: next((int(count) for count in counts if row[count]["mallow"] >= 0.8), None)
        for name, row in variants.items()
    }
    noticed = [
        f"{name} with {count} sample{'s' * (count > 1)} of each prompt" for name, count in first.items() if count
    ]
    unnoticed = [name for name, count in first.items() if not count]
    figure, ax = pyplot.subplots(figsize=(7, 4))
    for name, row in variants.items():
        ax.plot([int(count) for count in counts], [row[count]["mallow"] for count in counts], "o-", label=name)
    ax.axhline(0.05, color="gray", linewidth=0.8)
    ax.set(xlabel="samples of each of 25 prompts", ylabel="share of trials that tell the variant apart", xscale="log")
    ax.set_xticks([1, 2, 5, 10], counts)
    ax.minorticks_off()
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(HERE / "same_model.png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    write(
        "same_model",
        "# Is it still the same model?",
        "A provider may have changed quantisation or sampling behind the same name. A user keeps completions of 25 prompts from the day of the release, and compares.",
        "    mallow same release.jsonl today.jsonl",
        "How often a variant of SmolLM2-135M is told from the model, mallow / model-equality-testing:",
        table(["variant", *(f"{count} sample{'s' * (count != '1')}" for count in counts)], rows),
        "**What mauve-text would have said**: with 25 to 250 texts nothing. It has no test, and its value with so few samples is mostly that of the sample size.",
        f"**What mallow says**: in at least 80% of trials it notices {listed(noticed)}. With ten samples of each prompt it does not notice {listed(unnoticed)}: "
        "a p-value above 0.05 does not show that the model is the same. If a difference is proven, it also says how many prompts or samples show one of this size.",
        "**What one would have decided wrongly**: to blame one's own prompts for worse answers, or the provider for luck.",
        "**What it costs**: 50 to 250 short completions. [run.md](../same_model/run.md) has the details and the error of the simulation.",
    )


CASES: tuple[Callable[[], None], ...] = (decoder, checkpoint, gan, judge, corpus, same_model)


if __name__ == "__main__":
    for case in CASES:
        case()
