"""Figures in the documentation are those of committed results: each sentence is written again from its file of results.

A new figure needs a row in `CLAIMS`, below the JSON file that it rests on: the page, the sentence with {…} for each number,
and where each number is in the file. "matching > trials" is data["matching"]["trials"]; a number that is not in the file
as it is printed has a function instead.
"""

import importlib.util
import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mallow

ROOT = Path(__file__).resolve().parent.parent
Number = str | Callable[[Any], Any]  # where it is in a file of results, or how it is computed from the whole file


class Claim(NamedTuple):
    """A sentence of a page, and the numbers of a file of results that belong into it."""

    page: str
    sentence: str
    numbers: list[Number]
    file: str = ""

    def written(self, change: Callable[[Any], Any] = lambda number: number) -> str:
        """The sentence with the numbers that the file has now."""
        data = json.loads((ROOT / self.file).read_text(encoding="utf-8"))
        return words(self.sentence.format(*(change(find(number)(data)) for number in self.numbers)))


def find(number: Number) -> Callable[[Any], Any]:
    """The function that takes a number out of a file of results."""
    if not isinstance(number, str):
        return number

    def walk(data: Any) -> Any:
        for key in number.split(" > "):
            data = data[int(key) if isinstance(data, list) else key]
        return data

    return walk


def words(text: str) -> str:
    """The text with single spaces, wherever its lines end."""
    return re.sub(r"\s+", " ", text)


def percent(number: Number) -> Number:
    """A share, as a percentage."""
    return lambda data: 100 * find(number)(data)


def rounded_up(number: Number) -> Number:
    """To two digits, as a bound is printed."""
    return lambda data: math.ceil(100 * find(number)(data)) / 100


def to_tens(number: Number, digits: int = 1) -> Number:
    """A whole number, rounded to tens, or to hundreds with two digits; of a list, its mean."""
    return lambda data: round(round(statistics.mean(np.atleast_1d(find(number)(data)).tolist()), -digits))


def extremes(rows: Callable[[Any], list[float]]) -> list[Number]:
    """The least and the largest of some numbers."""
    return [lambda data: min(rows(data)), lambda data: max(rows(data))]


def with_power(setting: str) -> Number:
    """n at which 80% of the trials detect the gap, interpolated between the sizes that were tried."""

    def needed(data: Any) -> int:
        power = data[setting]["power"]["this library"]
        values = np.maximum.accumulate(list(power.values()))
        above = int(np.argmax(values >= 0.8))
        assert values[above] >= 0.8
        sizes = np.log([int(size) for size in power])
        return round(math.exp(np.interp(0.8, values[: above + 1], sizes[: above + 1])))

    return needed


def false_alarms(*, exact: bool) -> Callable[[Any], list[float]]:
    """Percentages of false alarms of the test of identity, in the settings where it is exact or in the others."""
    return lambda data: [
        100 * row["test"] / row["trials"] for row in data.values() if "test" in row and row["exact"] is exact
    ]


def falls_with_length(kind: str | None) -> Number:
    """The number of decoders whose quality falls with length by "held-out" evidence or "MAUVE*"; None: of decoders."""

    def count(data: Any) -> int:
        claims = [claim for claim in data["claims"] if claim["text"].startswith("quality falls with length")]
        return sum(kind is None or claim["verdicts"][kind] == "holds" for claim in claims)

    return count


def too_high(setting: str) -> Number:
    """How far a certified value is above the truth."""
    return lambda data: data["slack"][setting]["value"] - data["slack"][setting]["truth"][0]


def valid_passports(data: Any) -> int:
    """How many were made, if all were valid as made and none with one digit changed."""
    passports = data["passports"]
    assert (passports["valid as made"], passports["valid with one digit changed"]) == (1, 0)
    return int(passports["trials"])


def mark_without_pairs(name: str) -> Number:
    """The mark of embedders that were tried without pairs."""
    return lambda data: "" if "pairs" in data[name] else " †"


def untouched(name: str) -> Number:
    """The audit's value for texts that were not edited, which older results call "floor"."""
    return lambda data: data[name]["audit"].get("untouched", data[name]["audit"].get("floor"))


def rests_on(file: str, *claims: tuple[str, str, list[Number]]) -> list[Claim]:
    """Claims whose numbers are in this file."""
    return [Claim(page, sentence, numbers, file) for page, sentence, numbers in claims]


HELD_OUT, CHOICES = "docs/explanation/held-out.md", "docs/explanation/choices.md"
IS_IT_GOOD, QUESTIONS = "docs/explanation/is-it-good.md", "docs/how-to/questions.md"
MAUVE_TEXT, PEOPLE = "docs/mauve-text.md", "docs/people.md"
FIRST = "One generation for each prompt"  # of the two runs in decoders.json
LENGTH = "matching > length alone: gap claimed before, at the same size, matched"
DECODERS = {"nucleus": "nucleus", "top-k": "topk", "typical": "typical", "contrastive": "contrastive", "beam": "beam"}
DECODERS |= {"greedy": "greedy"}
EMBEDDERS = {"GloVe 50d": "", "MiniLM int8": "yes", "MiniLM": "", "USE multilingual": "yes", "SmolLM2 last": ""}
EMBEDDERS |= {"3-gram kernel": "yes"}
FID_MATCHES = {f"`--match {name}`": name for name in ("torch-fidelity", "pytorch-fid", "clean-fid")}
FID_MATCHES |= {"`--embedder inception` alone": "mallow's own resize"}

CLAIMS: list[Claim] = [
    *rests_on(
        "experiments/readme/score.json",
        ("README.md", "scores {:.3f} by published MAUVE", ["mauve"]),
        ("README.md", "real text against real text ({:.3f})", ["self_score"]),
        ("README.md", "MAUVE is at most {:.2f}, with 95 % confidence", [rounded_up("at_most")]),
        (
            HELD_OUT,
            "contrastive search with GPT-2 large scores {:.3f}, more than real text against real text ({:.3f}, README)",
            ["mauve", "self_score"],
        ),
        (IS_IT_GOOD, "In the README's example it is {:.3f} with 1,000 texts", ["self_score"]),
    ),
    *rests_on(
        "experiments/honesty/decoders.json",  # six decoders of GPT-2 large
        *(
            (
                IS_IT_GOOD,
                f"| {shown} | {{:.3f}} | {{:.3f}} ({{:.3f}}) |",
                [f"{FIRST} > scores > {name} > {key}" for key in ("MAUVE*", "certified > 0", "certified > 1")],
            )
            for shown, name in DECODERS.items()
        ),
        (
            "docs/results.md",
            "certified MAUVE goes from {:.2f} down to {:.2f}",
            [f"{FIRST} > scores > {name} > certified > 0" for name in ("nucleus", "contrastive")],
        ),
        (
            "docs/how-to/tune-p.md",
            "nucleus sampling is certified at {:.3f}, top-k at {:.3f}, typical at {:.3f}, contrastive search at {:.3f}, "
            "and greedy and beam search at {:.3f}",
            [
                f"{FIRST} > scores > {name} > certified > 0"
                for name in ("nucleus", "topk", "typical", "contrastive", "beam")
            ],
        ),
        (
            HELD_OUT,
            "{:.2f} certified, {:.2f} MAUVE\\* of the same features",
            [f"{FIRST} > spearman > certified, published", f"{FIRST} > spearman > MAUVE*, published"],
        ),
    ),
    *rests_on(
        "experiments/honesty/nulls-seed-14.json",
        *(
            (page, sentence, [*extremes(false_alarms(exact=True)), lambda data: max(false_alarms(exact=False)(data))])
            for page, sentence in {
                HELD_OUT: "{:.1f} to {:.1f} %, and {:.1f} % in the one setting where the test is approximate",
                "experiments/honesty/README.md": "test of identity rejects {:.1f} to {:.1f} %, and {:.1f} % of 400 rows",
            }.items()
        ),
    ),
    *rests_on(
        "experiments/honesty/certificates-seed-14.json",
        (
            HELD_OUT,
            "in {:.0f} to {:.0f} % of 200 trials of each of fifteen known pairs",
            extremes(
                lambda data: [
                    100 * count / row["trials"] for row in data["settings"].values() for count in row["holds"]
                ]
            ),
        ),
        (
            HELD_OUT,
            "for a true area of {:.2f}, with 1,000 samples, the certified value is {:.2f} too high in 5 dimensions and "
            "{:.2f} too high in 400",
            ["slack > 5, 1000 > truth > 0", too_high("5, 1000"), too_high("400, 1000")],
        ),
    ),
    *rests_on(
        "experiments/honesty/power.json",
        (
            HELD_OUT,
            "{} samples show top-k, {} typical, {} contrastive",
            [with_power(f"{name}, same prompts") for name in ("topk", "typical", "contrastive")],
        ),
        (CHOICES, "differs from human text (other prompts) | {} |", [with_power("greedy, other prompts")]),
        (
            CHOICES,
            "differs (same prompts) | {} to {} |",
            [with_power("contrastive, same prompts"), with_power("topk, same prompts")],
        ),
        (
            CHOICES,
            "see that nucleus sampling differs (same prompts) | {} |",
            [with_power("nucleus, same prompts")],
        ),
    ),
    *rests_on(
        "experiments/power/results.json",
        (CHOICES, "with MAUVE 0.85 and 0.75 apart | about {:,} |", [to_tens("rows > 1 > n", 2)]),
        (CHOICES, "with MAUVE 0.97 and 0.92 apart | about {:,} |", [to_tens("rows > 0 > n", 2)]),
    ),
    *rests_on(
        "experiments/honesty/monitor.json",
        (
            "docs/how-to/training.md",
            "(400 runs of 100 looks: {:.1f} to {:.1f} %",
            extremes(lambda data: [100 * row["alarms"] / row["runs"] for row in data["nulls"]]),
        ),
    ),
    *rests_on(
        "experiments/decoding/results.json",
        (
            "docs/generating.md",
            "With {} prompts, quality falls with length for {} of the {} decoders by held-out evidence, and for {} by "
            "MAUVE\\*",
            ["n", *map(falls_with_length, ("held-out", None, "MAUVE*"))],
        ),
    ),
    *rests_on(
        "experiments/embedders/results.json",
        *(
            (
                "docs/choosing.md",
                f"| {name}{{}} | {light} | {{}} |{' {:.2f} |' * 8} {{:.3f}} |",
                [
                    mark_without_pairs(name),
                    f"{name} > n",
                    *(f"{name} > scores > {system}" for system in ("greedy", "beam", "typical", "contrastive")),
                    *(f"{name} > {key}" for key in ("scores > nucleus", "scores > topk", "spearman", "gap")),
                    untouched(name),
                ],
            )
            for name, light in EMBEDDERS.items()
        ),
        (
            IS_IT_GOOD,
            "{:.2f} with MiniLM, {:.2f} with GloVe, {:.2f} with SmolLM2 ({} prompts)",
            [
                *(f"{name} > scores > greedy" for name in ("MiniLM int8", "GloVe 50d", "SmolLM2 last")),
                "SmolLM2 last > n",
            ],
        ),
        (CHOICES, "| MiniLM, 8 bits (default) | yes | yes | no | {:.0f} |", ["MiniLM int8 > audit > rate"]),
        (CHOICES, "| GloVe | no | yes | no | {:,} |", [to_tens("GloVe 50d > audit > rate")]),
        (CHOICES, "| SmolLM2, a causal language model | yes | yes | yes | {:.0f} |", ["SmolLM2 last > audit > rate"]),
    ),
    *rests_on(
        "benchmarks/scores.json",
        (
            MAUVE_TEXT,
            "takes {:.1f} s with one repeat and {:.1f} s with five, where one call of mauve-text takes {:.1f} s and five "
            "calls {:.1f} s: {:.1f} and {:.1f} times as fast",
            [
                "small > mallow.score(x, y, repeats=1), all that it returns (s)",
                "small > mallow.score(x, y), five repeats, all that it returns (s)",
                "small > mauve-text, one call (s)",
                "small > mauve-text, five calls (s)",
                "small > one repeat, times faster",
                "small > five repeats, times faster",
            ],
        ),
        (
            MAUVE_TEXT,
            "is {:.1f} times as fast with one repeat and {:.0f} times with five",
            [f"small > inner path, {count}, times faster" for count in ("one repeat", "five repeats")],
        ),
        (
            MAUVE_TEXT,
            "five repeats | {:.0f} times as fast | 1 |",
            ["small > inner path, five repeats, times faster"],
        ),
        (
            MAUVE_TEXT,
            "the whole call is {:.1f} times and the published score alone {:.1f} times as fast, with {:.1f} and {:.1f} "
            "times the memory of the input",
            [
                "large > times faster",
                "large > inner path, times faster",
                "large > peak memory of the process / input (input included)",
                "large > the same of the inner path",
            ],
        ),
        (MAUVE_TEXT, "The cost of a call grows like n^{:.2f}", ["growth > exponent"]),
        ("docs/scale.md", "grows with the exponent {:.2f} from 5,000 + 5,000", ["growth > exponent"]),
    ),
    *rests_on(
        "experiments/image_embedders/fid.json",
        *(
            ("docs/how-to/fid.md", f"| {shown} | {{:.4f}} |", [f"mallow > {name}"])
            for shown, name in FID_MATCHES.items()
        ),
        ("docs/how-to/fid.md", "| torch-fidelity 0.4.0 | {:.4f} |", ["torch-fidelity 0.4.0"]),
    ),
    *rests_on(
        "experiments/beyond/results.json",
        (
            QUESTIONS,
            "a gap is claimed in {:.0f} % of {} trials before, in {:.0f} % with as many samples at random, and in {:.0f} "
            "% of the matched ones",
            [percent(f"{LENGTH} > 0"), "matching > trials", percent(f"{LENGTH} > 1"), percent(f"{LENGTH} > 2")],
        ),
        (
            QUESTIONS,
            "certified MAUVE is {:.2f} after matching",
            ["matching > top-k against human > certified before, same size, matched > 2"],
        ),
        (
            QUESTIONS,
            "group was named in {:.0f} % of {} trials",
            [percent("groups > no gap, five groups: any claimed"), "groups > trials"],
        ),
        (
            QUESTIONS,
            "Of {0} pairs of equal systems, and of {0} that two embedders order in opposite ways, a winner was named in "
            "{1:.0f} and {2:.0f} %; of {0} pairs of which one is nearer for both, in {3:.0f} %",
            [
                "agreement > trials",
                percent("agreement > equal systems: winner named"),
                percent("agreement > one is nearer for each: winner named"),
                percent("agreement > the second is nearer for both: winner named"),
            ],
        ),
        (
            QUESTIONS,
            "one was called larger in {:.0f} % of {} trials ({:.0f} % with pairs), of shifts of 0.9 and 0.5 in {:.0f} %",
            [
                percent("gaps > Gaussians, equal gaps > one is called larger"),
                "gaps > Gaussians, equal gaps > trials",
                percent("gaps > Gaussians, equal gaps, pairs > one is called larger"),
                percent("gaps > Gaussians, shifts 0.9 and 0.5 > one is called larger"),
            ],
        ),
        (QUESTIONS, "Of {} passports all were valid as made, and none with one digit changed", [valid_passports]),
    ),
    *rests_on(
        "experiments/people/arena.json",
        (
            PEOPLE,
            'intervals are {:.1f} points wide with `"half"` and {:.1f} with `"random"`, and {} against {} of 190 pairs',
            [f"ties > {name} > {key}" for key in ("width", "told apart") for name in ("half", "random")],
        ),
        (
            PEOPLE,
            "the judges are worth a factor of {:.2f} to {:.2f} in votes",
            extremes(lambda data: [row["gain"] for row in data["beside people"]]),
        ),
        (PEOPLE, "scores {} lie in people's intervals", ["judges > gpt4 > inside"]),
        (
            PEOPLE,
            "wins {:.3f} of GPT-4's untied votes, {:.3f} of GPT-3.5's, and {:.3f} of people's",
            [f"judges > {name} > left" for name in ("gpt4", "gpt35", "people")],
        ),
    ),
    *rests_on(
        "experiments/people/coverage.json",
        (
            PEOPLE,
            "intervals held in {:.0f} % or more of {} trials in each of {} settings",
            [
                lambda data: 100 * min(row["held"] for row in data["settings"]),
                "trials",
                lambda data: len(data["settings"]),
            ],
        ),
    ),
    *rests_on(
        "benchmarks/annotation.json",
        (
            "docs/study.md",
            "were acknowledged within {:.0f} ms, at {:.0f} answers per second",
            [
                "4 s between pairs > answer acknowledged, p95 (ms)",
                "4 s between pairs > answers per second",
            ],
        ),
    ),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=[f"{claim.page}: {claim.sentence[:60]}" for claim in CLAIMS])
def test_a_figure_is_that_of_its_result(claim):
    assert claim.written() in words((ROOT / claim.page).read_text(encoding="utf-8"))


def test_a_wrong_figure_is_noticed():
    claim = next(claim for claim in CLAIMS if claim.page == "docs/results.md")
    assert claim.written(lambda number: number + 0.02) not in words((ROOT / claim.page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "table", ["experiments/embedders/embedders.md", "experiments/image_embedders/image_embedders.md"]
)
def test_the_tables_of_embedders_are_those_of_the_experiments(table):
    rows = re.findall(r"^\|.*\|$", (ROOT / table).read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) > 5
    assert [row for row in rows if row not in page] == []


def test_the_page_of_benchmarks_is_written_from_the_results():
    spec = importlib.util.spec_from_file_location("benchmark_report", ROOT / "benchmarks" / "report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), "run `python benchmarks/report.py`"


def indented(page: str, first: str) -> str:
    """The block of output on a page that begins with these words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    start = text.index(f"    {first}")
    lines = text[start:].split("\n")
    count = next(number for number, line in enumerate(lines) if line and not line.startswith("    "))
    return "\n".join(line.removeprefix("    ") for line in lines[:count]).rstrip()


def test_the_output_in_the_readme_is_that_of_the_command():
    """experiments/readme/run.py runs the command and keeps what it prints."""
    kept = (ROOT / "experiments" / "readme" / "score.txt").read_text(encoding="utf-8")
    verdict, table, signature = (words(part) for part in kept.strip().split("\n\n"))
    shown = indented("README.md", "The gap is real").split("\n\n")
    assert [words(part) for part in shown[:2]] == [verdict, table]
    parts = [re.escape(part) for part in words(shown[2]).split("...")]
    assert re.fullmatch(".*".join(parts), signature)


def test_the_score_on_the_page_of_results_is_that_of_the_readme():
    rng = np.random.default_rng(0)
    human, machine, _ = (rng.normal(shift, 1.0, size=(1000, 16)) for shift in (0.0, 0.2, 0.5))
    printed = str(mallow.score(human, machine)).split("\n\n")
    verdict, table, units = indented("docs/results.md", "The gap is real").split("\n\n")
    assert words(table) == words(printed[1])
    assert words(units) == words(printed[2])
    assert words(printed[0]).startswith(words(verdict).removesuffix(" …"))
