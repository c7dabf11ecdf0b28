"""Claims on the pages of experiments are what the paper prints: the direction of each follows from the printed numbers of its label."""

import csv
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "experiments"))
from printed import BEAM, FULL, GOLD, LM, MAUVE, NAME, NAMES, NEWS, TYPICAL, numbers

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT.parent / "shared" / "paper" / "mauve-jmlr-2023.tex"

DEVIATION = {TYPICAL: 0.005}  # the larger of the printed two
EXCEPTIONS = {(NEWS, "nucleus", "ancestral"): 1}  # sizes at which the table says the opposite, as the text does
PERPLEXITY = {  # of the largest model of a table
    FULL: {"people": 12.602, "ancestral": 31.886, "greedy": 1.278, "adversarial": 12.554, "nucleus": 14.143},
    NEWS: {"people": 15.356, "ancestral": 22.656, "greedy": 1.796, "nucleus": 14.834},
}
ACCURACY = {"nucleus": 68.586, "ancestral": 78.098, "greedy": 99.712}  # of the discriminator on stories


def printed(label, system):
    known = MAUVE[label] | ({"ancestral": "0.878"} if label == TYPICAL else {})
    return [float(value) for value in known[NAMES.get(system, system)].split()]


def is_above(label, better, worse):
    """Whether the table prints more for one system than for another, at every size, but for the sizes it excepts itself."""
    pairs = list(zip(printed(label, better), printed(label, worse), strict=True))
    wrong = sum(one <= other for one, other in pairs)
    return wrong <= EXCEPTIONS.get((label, NAMES.get(better, better), NAMES.get(worse, worse)), 0)


def near(label, system):
    return -abs(PERPLEXITY[label][NAMES.get(system, system)] - PERPLEXITY[label]["people"])


COLUMNS = {
    "perplexity": "Gen. PPL",
    "Zipf": "Zipf Coef.",
    "repetition": "REP",
    "distinct-4": "Distinct-4",
    "self-BLEU": "Self-BLEU",
}


def closer_with_size(label, statistic, decoder):
    """Whether a statistic comes nearer to the value of people at every printed size."""
    name = "news_metrics.csv" if label == NEWS else "webtext_metrics.csv"
    with (ROOT / "tests" / "reference" / name).open(encoding="utf-8") as stream:
        rows = {row["system"]: float(row[COLUMNS[statistic]]) for row in csv.DictReader(stream)}
    kind = "sampling" if decoder == "ancestral" else "nucleus"
    gaps = [abs(value - rows["human"]) for system, value in rows.items() if f" {kind}" in system]
    return all(after < before for before, after in pairwise(gaps))


RULES = {  # what a claim says → whether the printed numbers of its label say the same
    rf"{NAME} is above {NAME}\b(?! 0\.)": is_above,
    rf"{NAME} is below {NAME}": lambda label, worse, better: is_above(label, better, worse),
    rf"adversarial text is rated poorly: below {NAME}": lambda label, better: is_above(
        FULL, better, "adversarial"
    ),  # the table of news has no adversary
    r"typical sampling is best at τ = (\S+), of": lambda label, _: all(
        is_above(label, "typical", name) for name in MAUVE[label] if name.startswith("typical ")
    ),
    r"no 4-gram twice raises beam search": lambda label: is_above(label, "beam, no 4-gram twice", "beam"),
    r"and leaves it below ancestral": lambda label: is_above(label, "ancestral", "beam, no 4-gram twice"),
    rf"{NAME} and {NAME} are comparable": lambda label, one, other: (
        abs(printed(label, one)[0] - printed(label, other)[0]) < 2 * DEVIATION[label]
    ),
    r"MAUVE rises with the size of the model, (\S+)(.*)": lambda label, decoder, note: (
        rises(printed(label, decoder)) != ("paper: but" in note)
    ),
    rf"by perplexity {NAME} is nearer to (?:human text|people) than {NAME}": lambda label, one, other: (
        near(label, one) > near(label, other)
    ),
    rf"perplexity falls for the adversary: nearer to human text than {NAME}": lambda _, other: (
        near(FULL, "adversarial") > near(FULL, other)
    ),
    rf"the perplexity of adversarial text is nearer to that of people than {NAME}'s": lambda _, other: (
        near(FULL, "adversarial") > near(FULL, other)
    ),
    r"(\S+) comes nearer to that of people with size, (\S+)(?! \(paper: no,)(?: \((.*)\))?$": lambda label, *what: (
        closer_with_size(label, *what[:2]) != bool(what[2])  # a note says that the table has it otherwise
    ),
    rf"the perplexity of {NAME} is below that of people": lambda label, one: (
        PERPLEXITY[label][one] < PERPLEXITY[label]["people"]
    ),
    rf"the discriminator, like MAUVE, rates nucleus 0.95 above {NAME}": lambda label, other: (
        ACCURACY["nucleus"] < ACCURACY[other] and is_above(label, "nucleus", other)
    ),
}
QUOTES = {  # claims about a sentence or a figure without numbers → the words of the paper
    (LM, "JS favours greedy"): r"JS consistently favors greedy decoding",
    (LM, "ε-perplexity favours ancestral"): r"$\eps$-PPL favors ancestral sampling",
    (LM, "SP cannot tell ancestral"): r"unable to distinguish between ancestral sampling and nucleus sampling",
    (NEWS, "(paper: no, it prefers small models)"): r"all prefer smaller Grover sizes",
    (GOLD, "MAUVE agrees with a discriminator"): r"\mauve correlates the highest with the discrimination accuracy",
}
BY_LENGTH = {  # how quality changes with length, and by which measure → the words of the paper
    ("falls", "MAUVE"): r"showing a decrease in quality as generation length grows",
    ("rises", "Fréchet"): r"distance indicates \textit{improving} quality as the length increases",
    ("is not monotone", "perplexity gap"): r"generation perplexity shows non-monotonic quality trends",
    ("stays the same", "sparsemax"): r"such as the sparsemax score~\cite{martins2020sparse} remain constant",
    ("falls", "MAUVE, Gaussian"): r"the parametric approximation identifies the correct dependence on the text length",
    ("rises", "transport"): r"longer model generations drift closer to the human distribution rather than farther away",
    (
        "falls",
        "quantised transport",
    ): r"quantized optimal transport costs and their frontier summary variants capture the correct",
    ("falls", "MAUVE_OT"): r"frontier summary variants capture the correct dependence in terms of text length",
    (
        "rises",
        "precision",
    ): r"the precision metric says that the generated text gets more human-like as its length increases",
}


def length_claims():
    """How quality changes with length, and by which measure, on every page that speaks of it: (page, change, measure)."""
    pattern = r"quality (.+?) with length(?: by (MAUVE, Gaussian|[^,]+))?, "
    for path in sorted((ROOT / "experiments").rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for claim in content.get("claims", []) if isinstance(content, dict) else []:
            if match := re.match(pattern, claim["text"]):
                yield path.relative_to(ROOT).as_posix(), match[1], (match[2] or "MAUVE").removesuffix(" distance")


def rises(values):
    return all(later >= earlier for earlier, later in pairwise(values))


def claims():
    """The claims under the labels of the tables above: (page, label, text)."""
    for path in sorted((ROOT / "experiments").rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for claim in content.get("claims", []) if isinstance(content, dict) else []:
            if claim["label"] in {*MAUVE, LM, GOLD}:
                yield path.relative_to(ROOT).as_posix(), claim["label"], claim["text"]


def contradicts(label, text):
    """Whether a claim is not what the paper prints: None if it is neither numbers nor a quotation."""
    for pattern, holds in RULES.items():
        if match := re.match(pattern, text):
            return not holds(label, *match.groups())
    return None if not any(label == own and part in text for own, part in QUOTES) else False


def test_every_claim_has_the_direction_of_the_printed_numbers():
    found = list(claims())
    assert len(found) > 100
    wrong = [claim for claim in found if contradicts(*claim[1:])]
    unknown = [claim for claim in found if contradicts(*claim[1:]) is None]
    assert (wrong, unknown) == ([], [])


def test_every_claim_about_length_has_the_direction_of_a_sentence():
    found = list(length_claims())
    assert {page for page, *_ in found} >= {
        f"experiments/{name}.json" for name in ("family/lengths", "webtext/documents", "decoding/results")
    }
    assert {(change, measure) for _, change, measure in found} == set(BY_LENGTH)


def test_claims_about_decoders_cite_what_the_paper_prints():
    cited = {(label, text): numbers(label, text) for _, label, text in claims()}
    bare = [key for key, cell in cited.items() if not cell and re.match(rf"{NAME} (is|and)|MAUVE rises", key[1])]
    assert bare == []
    assert (
        numbers(BEAM, "beam 4, no 4-gram twice is above beam 4 (MiniLM)") == "beam, no 4-gram twice 0.438; beam 0.040"
    )


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (FULL, "greedy is above adversarial (MiniLM)"),
        (BEAM, "greedy is above beam 4"),
        (TYPICAL, "typical 0.2 is above typical 0.95"),
        (TYPICAL, "nucleus 0.95 and typical 0.2 are comparable"),
        (FULL, "MAUVE rises with the size of the model, ancestral"),
        (FULL, "by perplexity ancestral is nearer to people than greedy"),
        (NEWS, "by perplexity greedy is nearer to human text than ancestral, 1.1M"),
    ],
)
def test_a_reversed_claim_is_noticed(label, text):
    assert contradicts(label, text)


def test_a_claim_that_the_paper_does_not_make_is_noticed():
    assert contradicts(FULL, "contrastive search is above all") is None


def test_numbers_and_quotations_are_those_of_the_source():
    if not SOURCE.is_file():
        pytest.skip(f"needs {SOURCE}, which is not part of the repository")
    source = SOURCE.read_text(encoding="utf-8")
    for label, systems in MAUVE.items():
        end = source.index(rf"\label{{{label}}}")
        table = source[source.rindex(r"\begin{table", 0, end) : end]
        missing = [value for each in systems.values() for value in each.split() if value not in table]
        assert missing == ([] if label != TYPICAL else ["0.878"]), label  # ancestral sampling is in the full table
    flat = re.sub(r"\s+", " ", source)
    assert [quote for quote in [*QUOTES.values(), *BY_LENGTH.values()] if quote not in flat] == []


def test_agreement_is_that_of_the_printed_tables(monkeypatch):
    """The printed correlations in the text of the claims are those that experiments/people/tables.py checks."""
    monkeypatch.syspath_prepend(ROOT / "experiments")
    from claims import AGREEMENT

    entries = json.loads((ROOT / "experiments/people/tables.json").read_text(encoding="utf-8"))["entries"]
    given = {(one["label"], one["row"], one["column"]): one["printed"] for one in entries}
    names = {
        "TV*": "TV",
        "Hellinger²*": "H²",
        "transport": "plug-in",
        "Fréchet distance": "Fréchet",
        "quantised transport": "quantised",
    }
    names |= {"MAUVE_OT": "OT, linear", "MAUVE_OT bary": "OT, barycentric"}
    for label, (least, row) in AGREEMENT.items():
        for each, (mauve, people) in row.items():
            column = names.get(each, each)
            assert given[label, "MAUVE*", column] == mauve
            assert float(given[label, "BT/Human-like", column]) == float(people)
            assert float(mauve) >= least
