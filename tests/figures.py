"""The figures of the documentation: page, words with a hole for each number, file of results, and where the numbers are in it.

Each entry of `CLAIMS` reads: this page contains these words, and the numbers in them are what this function returns for this
file. A new figure on a page needs an entry here. tests/test_figures.py writes each sentence from its results and looks for it.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HONESTY, PEOPLE = "experiments/honesty", "experiments/people"
LENGTH = "length alone: gap claimed before, at the same size, matched"
DECODERS = {"nucleus": "nucleus", "top-k": "topk", "typical": "typical", "contrastive": "contrastive", "beam": "beam", "greedy": "greedy"}  # fmt: skip


def first_run(data: dict[str, Any]) -> dict[str, Any]:
    """Scores by decoder, one generation for each prompt."""
    return data["One generation for each prompt"]["scores"]


def certified(*names: str) -> Callable[[dict[str, Any]], list[float]]:
    return lambda data: [first_run(data)[name]["certified"][0] for name in names]


def decoder_row(name: str) -> Callable[[dict[str, Any]], list[float]]:
    """Published MAUVE, the certified value, and its 95% upper bound, rounded up."""
    return lambda data: [
        first_run(data)[name]["MAUVE*"],
        first_run(data)[name]["certified"][0],
        math.ceil(100 * first_run(data)[name]["certified"][1]) / 100,
    ]


def first_by_samples(data: dict[str, Any]) -> list[int]:
    """In how many rows a command of mallow needs the fewest samples, and the number of rows."""

    def fewest(ways: dict[str, Any], *, ours: bool) -> float:
        found = [one.get("samples per side") for way, one in ways.items() if way.startswith("mallow") == ours]
        return min((n for n in found if n is not None), default=math.inf)

    rows = data["rows"].values()
    return [sum(fewest(ways, ours=True) <= min(fewest(ways, ours=False), 800) for ways in rows), len(rows)]


def samples_for_power(*settings: str) -> Callable[[dict[str, Any]], list[int]]:
    """n at which 80% of trials see the gap, between the sizes that were tried."""

    def needed(power: dict[str, float]) -> int:
        values = np.maximum.accumulate(list(power.values()))
        above = int(np.argmax(values >= 0.8))
        assert values[above] >= 0.8
        sizes = np.log([int(size) for size in power])
        return round(math.exp(np.interp(0.8, values[: above + 1], sizes[: above + 1])))

    return lambda data: [needed(data[name]["power"]["this library"]) for name in settings]


def alarms(data: dict[str, Any]) -> list[float]:
    """Per cent of false alarms of the test: least, most, and most of the approximate one."""
    rates = [(100 * row["test"] / row["trials"], row["exact"]) for row in data.values() if "test" in row]
    exact = [rate for rate, known in rates if known]
    return [min(exact), max(exact), max(rate for rate, known in rates if not known)]


def reached(rows: list[dict[str, Any]]) -> list[float]:
    """Per cent of plans with which the difference was found."""
    return [100 * row["reached"] / row["plans"] for row in rows]


def share_reached(rows: list[dict[str, Any]]) -> list[float]:
    """Per cent of all plans with which the difference was found, and how many plans there were."""
    plans = sum(row["plans"] for row in rows)
    return [100 * sum(row["reached"] for row in rows) / plans, plans]


def falls_with_length(claims: list[dict[str, Any]]) -> list[int]:
    """For how many decoders held-out evidence says so, how many there are, for how many MAUVE* says so."""
    verdicts = [claim["verdicts"] for claim in claims if claim["text"].startswith("quality falls with length")]
    by_evidence, by_score = (sum(one[kind] == "holds" for one in verdicts) for kind in ("held-out", "MAUVE*"))
    return [by_evidence, len(verdicts), by_score]


def small(name: str) -> Callable[[dict[str, Any]], list[float]]:
    return lambda data: [data["small"][name]]


CLAIMS: list[tuple[str, str, str, Callable[[Any], Any]]] = [
    # what contrastive search scores, and what is certified
    *(
        ("README.md", f"| {shown} | {{0:.2f}} | {{2:.2f}} |", f"{HONESTY}/decoders.json", decoder_row(name))
        for shown, name in (
            ("nucleus", "nucleus"),
            ("top-k", "topk"),
            ("contrastive search", "contrastive"),
            ("greedy", "greedy"),
        )
    ),
    ("README.md", "In {} of {} real cases, `mallow` sees the gap", "benchmarks/decision.json", first_by_samples),
    *(
        (page, "at most {:.2f}", "experiments/readme/score.json", lambda d: [math.ceil(100 * d["at_most"]) / 100])
        for page in ("docs/faq.md", "docs/read-your-result.md", "docs/glossary.md")
    ),
    (
        "docs/explanation/meaning.md",
        "contrastive search with GPT-2 large scores {:.3f}, more than real text against real text ({:.3f}, README)",
        "experiments/readme/score.json",
        lambda d: [d["mauve"], d["self_score"]],
    ),
    (
        "docs/explanation/meaning.md",
        "In the README's example it is {:.3f} with 1,000 texts",
        "experiments/readme/score.json",
        lambda d: [d["self_score"]],
    ),
    # six decoders of GPT-2 large
    *(
        (
            "docs/explanation/meaning.md",
            f"| {shown} | {{:.2f}} | {{:.2f}} ({{:.2f}}) |",
            f"{HONESTY}/decoders.json",
            decoder_row(name),
        )
        for shown, name in DECODERS.items()
    ),
    (
        "docs/results.md",
        "certified MAUVE goes from {:.2f} down to {:.2f}",
        f"{HONESTY}/decoders.json",
        certified("nucleus", "contrastive"),
    ),
    (
        "docs/generating.md",
        "nucleus sampling is certified at {:.3f}, top-k at {:.3f}, typical at {:.3f}, contrastive search at {:.3f}, and greedy and beam search at {:.3f}",
        f"{HONESTY}/decoders.json",
        certified("nucleus", "topk", "typical", "contrastive", "beam"),
    ),
    (
        "docs/explanation/meaning.md",
        "{:.2f} certified, {:.2f} MAUVE\\* of the same features",
        f"{HONESTY}/decoders.json",
        lambda d: [
            d["One generation for each prompt"]["spearman"][name]
            for name in ("certified, published", "MAUVE*, published")
        ],
    ),
    # promises that were measured
    (
        "docs/explanation/meaning.md",
        "{:.1f} to {:.1f}%, and at most {:.1f}% where the test is approximate",
        f"{HONESTY}/nulls-seed-14.json",
        alarms,
    ),
    (
        f"{HONESTY}/README.md",
        "test of identity rejects {:.1f} to {:.1f}% where it is exact, and at most {:.1f}% where it is approximate",
        f"{HONESTY}/nulls-seed-14.json",
        alarms,
    ),
    (
        "docs/explanation/meaning.md",
        "in {:.0f} to {:.0f}% of 200 or 400 trials of each of {} known pairs",
        f"{HONESTY}/certificates-seed-14.json",
        lambda d: (
            [
                100 * f(each / row["trials"] for row in d["settings"].values() for each in row["holds"])
                for f in (min, max)
            ]
            + [len(d["settings"])]
        ),
    ),
    (
        f"{HONESTY}/README.md",
        "all three limits hold in {:.1f} to {:.0f}% of 200 or 400 trials",
        f"{HONESTY}/certificates-seed-14.json",
        lambda d: [
            100 * f(each / row["trials"] for row in d["settings"].values() for each in row["holds"]) for f in (min, max)
        ],
    ),
    (
        f"{HONESTY}/README.md",
        "the worse system wins in {:.1f}% of {} trials",
        f"{HONESTY}/winners.json",
        lambda d: [100 * (row := next(iter(d.values())))["wrong"] / row["trials"], row["trials"]],
    ),
    (
        "docs/explanation/meaning.md",
        "for a true area of {:.2f}, with 1,000 samples, the certified value is {:.2f} too high in 5 dimensions and {:.2f} too high in 400",
        f"{HONESTY}/certificates-seed-14.json",
        lambda d: [
            d["slack"]["5, 1000"]["truth"][0],
            *(d["slack"][k]["value"] - d["slack"][k]["truth"][0] for k in ("5, 1000", "400, 1000")),
        ],
    ),
    (
        "docs/explanation/meaning.md",
        "{} samples show top-k, {} typical, {} contrastive",
        f"{HONESTY}/power.json",
        samples_for_power("topk, same prompts", "typical, same prompts", "contrastive, same prompts"),
    ),
    (
        "docs/choosing.md",
        "differs from human text (other prompts) | {} |",
        f"{HONESTY}/power.json",
        samples_for_power("greedy, other prompts"),
    ),
    (
        "docs/choosing.md",
        "differs (same prompts) | {} to {} |",
        f"{HONESTY}/power.json",
        samples_for_power("contrastive, same prompts", "topk, same prompts"),
    ),
    (
        "docs/choosing.md",
        "see that nucleus sampling differs (same prompts) | {} |",
        f"{HONESTY}/power.json",
        samples_for_power("nucleus, same prompts"),
    ),
    (
        "docs/choosing.md",
        "with MAUVE 0.91 and 0.71 apart (8 columns) | about {} |",
        f"{HONESTY}/plan.json",
        lambda d: [round(d["chosen"][0]["n"][1], -1).__round__()],
    ),
    (
        "docs/choosing.md",
        "with MAUVE 0.86 and 0.71 apart (8 columns) | about {} |",
        f"{HONESTY}/plan.json",
        lambda d: [round(d["confirmed"][2]["n"][1], -1).__round__()],
    ),
    (
        f"{HONESTY}/README.md",
        "plans for 80% power reach {:.0f}, {:.0f} and {:.0f}% where constants were chosen",
        f"{HONESTY}/plan.json",
        lambda d: reached(d["chosen"]),
    ),
    (
        f"{HONESTY}/README.md",
        "and {:.0f}, {:.0f}, {:.0f} and {:.0f}% in settings that were looked at once",
        f"{HONESTY}/plan.json",
        lambda d: reached(d["confirmed"]),
    ),
    (
        f"{HONESTY}/README.md",
        "{:.0f}% of all {} plans",
        f"{HONESTY}/plan.json",
        lambda d: share_reached(d["chosen"] + d["confirmed"]),
    ),
    (
        f"{HONESTY}/README.md",
        "without drift {} of {} streams raise an alarm (with a tolerance {} of {}), {} of {} of alibi-detect's online MMD with an expected run time of 500 samples, and {} of {} of evidently's preset",
        f"{HONESTY}/drift.json",
        lambda d: [
            number
            for name in ("mallow, any gap", "mallow, tolerance 0.9", "alibi-detect, run time 500", "evidently")
            for number in (sum(look is not None for look in d[name]["no drift"]), len(d[name]["no drift"]))
        ],
    ),
    (
        f"{HONESTY}/README.md",
        "The interval of an estimated share of {:.0f}, {:.0f}, {:.0f} and {:.0f}% holds in {:.1f}, {:.1f}, {:.1f} and {:.1f}%",
        f"{HONESTY}/shares.json",
        lambda d: [
            *(100 * row["share"] for row in d["estimates"]),
            *(100 * row["covered"] / row["trials"] for row in d["estimates"]),
        ],
    ),
    (
        "docs/integrations.md",
        "(400 runs of 100 looks: {:.1f} to {:.1f}%",
        f"{HONESTY}/monitor.json",
        lambda d: [f(100 * row["alarms"] / row["runs"] for row in d["nulls"]) for f in (min, max)],
    ),
    (
        "docs/generating.md",
        "With {} prompts, quality falls with length for {} of the {} decoders by held-out evidence, and for {} by MAUVE\\*",
        "experiments/decoding/results.json",
        lambda d: [d["n"], *falls_with_length(d["claims"])],
    ),
    (
        "docs/paper.md",
        "{} of the {} entries with people follow from `table:fdiv-full` and `table:ot-full`",
        "experiments/people/tables.json",
        lambda d: [d["count"]["people"]["follows"], sum(d["count"]["people"].values())],
    ),
    # embedders
    *(
        (
            "docs/choosing.md",
            f"| {name}{{}} | {light} | {{}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.3f}} |",
            "experiments/embedders/results.json",
            lambda d, name=name: [
                "" if "pairs" in d[name] else " †",
                d[name]["n"],
                *(d[name]["scores"][each] for each in ("greedy", "beam", "typical", "contrastive", "nucleus", "topk")),
                d[name]["spearman"],
                d[name]["gap"],
                d[name]["audit"].get("untouched", d[name]["audit"].get("floor")),
            ],
        )
        for name, light in (
            ("GloVe 50d", ""),
            ("MiniLM int8", "yes"),
            ("MiniLM", ""),
            ("USE multilingual", "yes"),
            ("SmolLM2 last", ""),
            ("3-gram kernel", "yes"),
        )
    ),
    (
        "docs/explanation/meaning.md",
        "0.08 as published, {:.2f} with MiniLM",
        f"{HONESTY}/decoders.json",
        lambda d: [first_run(d)["greedy"]["MAUVE*"]],
    ),
    (
        "docs/explanation/meaning.md",
        "{:.2f} with GloVe, {:.2f} with SmolLM2 ({} prompts)",
        "experiments/embedders/results.json",
        lambda d: [
            *(d[name]["scores"]["greedy"] for name in ("GloVe 50d", "SmolLM2 last")),
            d["SmolLM2 last"]["n"],
        ],
    ),
    (
        "docs/choosing.md",
        "| MiniLM, 8 bits (default) | yes | yes | no | {:.0f} † |",
        "benchmarks/embedding.json",
        lambda d: [2 / d["minilm"]["256 tokens"]["integer products (processor s per text)"]],
    ),
    (
        "docs/faq.md",
        "The default takes {:.0f} ms of processor time for a text of 128 tokens and {:.0f} ms for 256",
        "benchmarks/embedding.json",
        lambda d: [
            1000 * d["minilm"][f"{length} tokens"]["integer products (processor s per text)"] for length in (128, 256)
        ],
    ),
    (
        "docs/choosing.md",
        "found in {:.0f}% of {} trials among stories and in {:.0f}% among news (float32: {:.0f}% and {:.0f}%)",
        "experiments/embedders/products.json",
        lambda d: [
            100 * d["machine text"]["stories"]["found"]["int8"],
            d["machine text"]["stories"]["trials"],
            100 * d["machine text"]["news"]["found"]["int8"],
            *(100 * d["machine text"][name]["found"]["float32"] for name in ("stories", "news")),
        ],
    ),
    (
        "docs/choosing.md",
        "the upper bounds on six decoders with {:,} prompts differ by at most {:.3f}",
        "experiments/embedders/products.json",
        lambda d: [
            d["options"]["prompts"],
            max(abs(one["int8"]["certified"][1] - one["float32"]["certified"][1]) for one in d["decoders"].values()),
        ],
    ),
    (
        "docs/choosing.md",
        "| GloVe | no | yes | no | {:,} |",
        "experiments/embedders/results.json",
        lambda d: [round(d["GloVe 50d"]["audit"]["rate"], -1).__round__()],
    ),
    (
        "docs/choosing.md",
        "| SmolLM2, a causal language model | yes | yes | yes | {:.0f} |",
        "experiments/embedders/results.json",
        lambda d: [d["SmolLM2 last"]["audit"]["rate"]],
    ),
    # one model or two
    (
        "docs/how-to/questions.md",
        "rounding its weights to 3 bits was detected in {:.0f}% of {} trials, to 4 bits in {:.0f}%, to 8 bits in {:.0f}%, a system "
        "prompt in {:.0f}%, a fine-tune in {:.0f}%, a watermark in {:.0f}%, a temperature of 0.9 rather than 1 in {:.0f}%, and "
        "top-p 0.9 in {:.0f}%",
        "experiments/same_model/run.json",
        lambda d: [
            100 * d["power"]["3 bits"]["5"]["mallow"],
            d["power"]["3 bits"]["5"]["trials"],
            *(
                100 * d["power"][name]["5"]["mallow"]
                for name in (
                    "4 bits",
                    "8 bits",
                    "system prompt",
                    "fine-tune",
                    "watermark",
                    "temperature 0.9",
                    "top-p 0.9",
                )
            ),
        ],
    ),
    (
        "docs/how-to/questions.md",
        "[new studies of that size](../../experiments/same_model/plan.md) found the difference in {:.0f}% of {}",
        "experiments/same_model/plan.json",
        lambda d: [
            100 * np.mean([found for row in d.values() for found in row["found"]]),
            sum(len(row["found"]) for row in d.values()),
        ],
    ),
    # scores of items
    (
        "docs/how-to/questions.md",
        "no winner was named in {} trials, and no pair was called different. When the passages were ignored, at least one pair was called different in {:.0f}% of trials",
        f"{HONESTY}/items.json",
        lambda d: [
            d["equal"]["10 passages of 20 items"]["trials"]
            if not d["equal"]["10 passages of 20 items"]["any pair"]
            else -1,
            100
            * d["equal"]["10 passages of 20 items"]["any pair, ignored"]
            / d["equal"]["10 passages of 20 items"]["trials"],
        ],
    ),
    (
        "docs/how-to/questions.md",
        "Four systems answered {:,} questions of grade-school-math. All of them differ: {:.3f} of the answers are right for the "
        "best system and {:.3f} for the next one. A difference of 0.02 between these two would need about {:,} questions.",
        f"{HONESTY}/items.json",
        lambda d: [
            d["school"]["items"],
            *list(d["school"]["means"].values())[:2],
            d["school"]["pairs"]["175b_verification - 6b_verification"]["items for 0.02"],
        ],
    ),
    # spaces
    (
        "docs/evidence.md",
        "EfficientNet's features give MAUVE at most {:.3f}, texture {:.3f}, and both together {:.3f}",
        "experiments/eyes/images.json",
        lambda d: [d["certificates"]["350"][name][1] for name in ("EfficientNet", "texture", "both")],
    ),
    # mauve-text beside it
    (
        "docs/switching.md",
        "takes {:.1f} s with one repeat and {:.1f} s with five. One call of mauve-text takes {:.1f} s and five calls {:.1f} s, so mallow is {:.1f} and {:.1f} times as fast",
        "benchmarks/scores.json",
        lambda d: [
            d["small"][name]
            for name in (
                "mallow.score(x, y, repeats=1), all that it returns (s)",
                "mallow.score(x, y), five repeats, all that it returns (s)",
                "mauve-text, one call (s)",
                "mauve-text, five calls (s)",
                "one repeat, times faster",
                "five repeats, times faster",
            )
        ],
    ),
    (
        "docs/switching.md",
        "is {:.1f} times as fast with one repeat and {:.0f} times with five",
        "benchmarks/scores.json",
        lambda d: [d["small"][f"inner path, {count}, times faster"] for count in ("one repeat", "five repeats")],
    ),
    (
        "docs/switching.md",
        "random starts gets {:.3f}, as mauve-text does, with k-means++ {:.3f}, and the greedy k-means++ of mallow {:.3f}",
        "experiments/mauve_text/starts.json",
        lambda d: [sum(values["mauve"]) / len(values["mauve"]) for values in d.values()],
    ),
    (
        "docs/switching.md",
        "the 95% upper bound on its MAUVE is {2:.2f} ([why]",
        f"{HONESTY}/decoders.json",
        decoder_row("contrastive"),
    ),
    (
        "docs/switching.md",
        "five repeats | {:.0f} times as fast | 1 |",
        "benchmarks/scores.json",
        small("inner path, five repeats, times faster"),
    ),
    (
        "docs/switching.md",
        "the whole call is {:.1f} times and the published score by itself {:.1f} times as fast, with {:.1f} and {:.1f} times the memory of the input",
        "benchmarks/scores.json",
        lambda d: [
            d["large"][name]
            for name in (
                "times faster",
                "inner path, times faster",
                "peak memory of the process / input (input included)",
                "the same of the inner path",
            )
        ],
    ),
    (
        "docs/switching.md",
        "The cost of a call grows like n^{:.2f}",
        "benchmarks/scores.json",
        lambda d: [d["growth"]["exponent"]],
    ),
    (
        "docs/scale.md",
        "grows with the exponent {:.2f} from 5,000 + 5,000",
        "benchmarks/scores.json",
        lambda d: [d["growth"]["exponent"]],
    ),
    # FID
    *(
        (
            "docs/switching.md",
            f"| {shown} | {{:.4f}} |",
            "experiments/image_embedders/fid.json",
            lambda d, name=name: [d["mallow"][name]],
        )
        for shown, name in (
            ("`--match torch-fidelity`", "torch-fidelity"),
            ("`--match pytorch-fid`", "pytorch-fid"),
            ("`--match clean-fid`", "clean-fid"),
            ("`--embedder inception` without `--match`", "mallow's own resize"),
        )
    ),
    (
        "docs/switching.md",
        "| torch-fidelity 0.4.0 | {:.4f} |",
        "experiments/image_embedders/fid.json",
        lambda d: [d["torch-fidelity 0.4.0"]],
    ),
    # questions beyond one score
    (
        "docs/how-to/questions.md",
        "a gap is claimed in {:.0f}% of {} trials with all samples, in {:.0f}% with a random selection, and in {:.0f}% with matched samples",
        "experiments/beyond/results.json",
        lambda d: [
            100 * d["matching"][LENGTH][0],
            d["matching"]["trials"],
            *(100 * share for share in d["matching"][LENGTH][1:]),
        ],
    ),
    (
        "docs/how-to/questions.md",
        "certified MAUVE is {:.2f} after matching",
        "experiments/beyond/results.json",
        lambda d: [d["matching"]["top-k against human"]["certified before, same size, matched"][2]],
    ),
    (
        "docs/how-to/questions.md",
        "group was reported in {:.0f}% of {} trials",
        "experiments/beyond/results.json",
        lambda d: [100 * d["groups"]["no gap, five groups: any claimed"], d["groups"]["trials"]],
    ),
    (
        "docs/how-to/questions.md",
        "Among {0} pairs of equal systems, and among {0} pairs that two embedders put in opposite orders, a winner was reported in {1:.0f}% and {2:.0f}%. If one system was closer for both embedders, it won in {3:.0f}% of {0} pairs",
        "experiments/beyond/results.json",
        lambda d: [
            d["agreement"]["trials"],
            *(
                100 * d["agreement"][f"{name}: winner named"]
                for name in ("equal systems", "one is nearer for each", "the second is nearer for both")
            ),
        ],
    ),
    (
        "docs/how-to/questions.md",
        "was called larger in {:.0f}% of {} trials ({:.0f}% with pairs), and the larger of two shifts, 0.9 and 0.5, in {:.0f}%",
        "experiments/beyond/results.json",
        lambda d: [
            100 * d["gaps"]["Gaussians, equal gaps"]["one is called larger"],
            d["gaps"]["Gaussians, equal gaps"]["trials"],
            *(
                100 * d["gaps"][f"Gaussians, {name}"]["one is called larger"]
                for name in ("equal gaps, pairs", "shifts 0.9 and 0.5")
            ),
        ],
    ),
    (
        "docs/how-to/questions.md",
        "Of {} passports all were consistent when made, and none with one digit changed",
        "experiments/beyond/results.json",
        lambda d: (
            [d["passports"]["trials"]]
            if (d["passports"]["valid as made"], d["passports"]["valid with one digit changed"]) == (1, 0)
            else []
        ),
    ),
    # people
    (
        "docs/study.md",
        'intervals are {:.1f} points wide with `"half"` and {:.1f} with `"random"`, and {} against {} of 190 pairs',
        f"{PEOPLE}/arena.json",
        lambda d: [d["ties"][name][key] for key in ("width", "told apart") for name in ("half", "random")],
    ),
    (
        "docs/study.md",
        "the judges are worth a factor of {:.2f} to {:.2f} in votes",
        f"{PEOPLE}/arena.json",
        lambda d: [f(row["gain"] for row in d["beside people"]) for f in (min, max)],
    ),
    (
        "docs/study.md",
        "Only {} of GPT-4's 20 scores lie in people's intervals",
        f"{PEOPLE}/arena.json",
        lambda d: [d["judges"]["gpt4"]["inside"]],
    ),
    (
        "docs/study.md",
        "wins {:.3f} of GPT-4's untied votes, {:.3f} of GPT-3.5's, and {:.3f} of people's",
        f"{PEOPLE}/arena.json",
        lambda d: [d["judges"][name]["left"] for name in ("gpt4", "gpt35", "people")],
    ),
    (
        "docs/study.md",
        "intervals held in {:.0f}% or more of {} trials in each of {} settings",
        f"{PEOPLE}/coverage.json",
        lambda d: [100 * min(row["held"] for row in d["settings"]), d["trials"], len(d["settings"])],
    ),
    (
        "docs/study.md",
        "95% of the answers were acknowledged within {:.0f} ms and the next pair shown within {:.0f} ms, at {:.1f} ms of processor time per answer",
        "benchmarks/annotation.json",
        lambda d: [
            d["500 annotators, 4.7 s between pairs"][name]
            for name in ("answer acknowledged, p95 (ms)", "next pair shown, p95 (ms)", "processor time per answer (ms)")
        ],
    ),
    (
        "docs/study.md",
        "the page took {:.0f} answers per second from 200 annotators, at {:.1f} ms",
        "benchmarks/annotation.json",
        lambda d: [
            d["200 annotators, no waiting"][name] for name in ("answers per second", "processor time per answer (ms)")
        ],
    ),
]
