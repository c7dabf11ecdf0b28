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
SAYS = {  # label → what a claim contains → the words of the paper, for figures and tables other than those above
    "fig:a:expt:model_selection:appendix": {
        r"nucleus sampling is best at p = 0\.95|nucleus 0\.95 is above": r"rates nucleus sampling with $p=0.95$",
        r"top-K sampling is best at 100 ≤ K ≤ 1000": r"top-$K$ sampling with $100 \le K \le 1000$ as the best choices",
    },
    "fig:embedding:news": {
        r"rank alike .*paper: 0\.971": r"is $\textbf{0.971}$",
        r"nearer to news than the model of stories": r"generations from Grover are closer to the RealNews distribution than GPT-2",
        r"finds (quality rises|that quality|nucleus|greedy)": r"rates larger models as better and nucleus sampling as better than ancestral sampling and greedy decoding",
    },
    "fig:embedding:roberta": {
        r"rank alike .*paper: 0\.962": r"have a Spearman rank correlation of $\textbf{0.962}$",
        r"rises with size, ancestral \(paper: RoBERTa does not": r"RoBERTa features do not capture the medium $\prec$ small $\prec$ large $\prec$ xl trend",
        r"rises with size, nucleus": r"They can quantify trends concerning model size and decoding",
        r"greedy (below ancestral|and beam are below)|nucleus 0\.95 above ancestral": r"both models identify the greedy $\prec$ ancestral $\prec$ nucleus trend",
    },
    "fig:embedding:non-deep": {
        r"kernel.* \(paper: weakly\)$": r"string kernel embeddings only identify these trends weakly and unreliably",
        r"GloVe finds": r"the GloVe embeddings identify the key trends concerning model size, decoding, and text length",
    },
    "fig:embedding:non-deep-permute": {
        r"own model, .* sees shuffled|GloVe does not see": r"\mauve with GPT-2 embeddings is sensitive to the order of words whereas GloVe embeddings are not",
    },
    "table:non-deep": {
        r"^N = 3 agrees best|^N = 5, λ = 0\.5 agrees best": r"these are $N=3$ for the $N$-gram kernel and $N=5, \lambda=0.5$ for the subsequence kernel",
        r"paper: 0\.727.*N-gram|paper: 0\.783.*subsequence": r"$1.00$ & $0.993$ & $0.727$ & $0.783$",
        r"GloVe rank alike .*paper: 0\.993": r"$1.00$ & $0.993$ & $0.727$ & $0.783$",
    },
    "fig:estimation": {
        r"^agrees": r"with the default vector quantization approach of $0.95$ to $1.0$",
        r"Gaussian approximation drops|agreement drops steeply": r"its performance steeply drops off at $m = 100$",
        r"may fail to fall with λ": r"can fail to hold in the non-parametric and parametric estimates if $m > 100$",
        r"robust to its number of bins|whatever k": r"the quantization performance is more robust to its hyperparameter (the quantization size $k$)",
        r"whatever c": r"Note that this does not change the induced rankings",
        r"tie, by (k-NN|classifier)": r"the $k$-nearest neighbor and classifier-based estimators report a tie between nucleus sampling with $p=0.9$ and $p=0.95$",
        r"0\.95 is above nucleus 0\.9, by quantisation": r"the vector quantization approach ranks $p=0.95$ as better than $p=0.9$",
        r"largest is above the smallest|is above (ancestral|greedy)": r"each of the estimation methods can identify most of the trends",
    },
    "fig:estimation-direct": {
        r"agrees weakly.*0\.430.*0\.371": r"$\mathbf{0.430}$ and its worst-case Spearman rank correlation",
        r"rises with size, nucleus": r"can identify the right trend for model size for nucleus sampling",
        r"rises with size, ancestral.*paper: medium is not below": r"fails to identify the right trend for ancestral sampling for medium $\prec$ small $\prec$ large",
        r"rates ancestral above nucleus": r"rating ancestral sampling as better than nucleus sampling",
    },
    "fig:kynka-pr-nlp": {
        r"^recall rises with size": r"the recall increases as expected",
        r"^precision falls with size": r"the precision decreases with increasing model scale",
        r"^precision rises with p|^recall falls with p": r"$p=1$ produces the most human-like text whereas $p=0.9$ best matches the diversity of human text",
        r"^precision rises with the length": r"the precision metric says that the generated text gets more human-like as its length increases",
    },
    "fig:vision": {
        r"ψ = 1 is nearer than ψ = 1\.2|1\.2 is nearer than ψ = 0\.7|0\.7 is nearer than ψ = 0\.3|0\.3 is nearer than ψ = 0 |same order": r"ordering of $\psi$: $1 \succ 1.2 \succ 0.7 \succ 0.3 \succ 0$",
        r"precision is higher at ψ = 0\.7|recall is higher at ψ = 1 ": r"precision and recall capture both quality and diversity trends",
    },
    "fig:vision-scaling": {
        r"rises along the ladder|newest model is the best|by the Fréchet distance": r"more recent models are better",
        r"precision rates an older model above": r"rates the oldest StyleGAN model as producing the most photorealistic images",
    },
    "tab:expt:gan-v-diffusion": {
        r"the GAN is above|by the Fréchet distance": r"outperforms the diffusion model by a large margin as per both \mauve and Fr\'echet distance",
    },
    "fig:main:bound:new": {
        r"^\([ad]\) neither bound": r"both bounds do not capture the right slope",
        r"^\(b\) the oracle bound": r"the oracle bound captures the right rate for small sample sizes where $k/n > 1$",
        r"^\(b\) the other bound": r"for large $n$, the distribution-independent bound is better at matching the slope",
        r"^\(c\) the oracle bound": r"where the oracle bound is better for large $k$",
        r"^the theorem is an upper bound": r"is still a valid upper bound",
    },
    "tab:smoothing": {
        r"^without smoothing the ranking is the same": r"Their Spearman rank correlations are $1.0$",
        r"^the number of empty bins grows": r"The number of empty bins increases with an increasing gap between the two distributions",
        r"^greedy has more empty bins": r"greedy decoding has around $30\%$ of the bins empty",
    },
    "table:fdiv": {r"agrees with MAUVE\*": r"all divergence frontier summaries correlate perfectly with each other"},
    "table:ot-corr": {
        r"agrees with MAUVE\*": r"We see from \Cref{table:ot-corr} that the plug-in optimal transport cost"
    },
    "table:fdiv-full": {
        r"^FI KL rates .* ancestral above .* nucleus": r"ranks ancestral sampling for the xl model as better than nucleus sampling for the small model",
        r"^MAUVE\* KL cannot tell": r"are not able to distinguish between these two",
    },
    "table:ot-full": {
        r"^MAUVE\* KL rates .* ancestral above .* nucleus": r"identifies the small model with nucleus sampling as being worse than the large and xl models with ancestral sampling",
        r"^transport rates .* against people": r"rates the medium-sized model as worse than GPT-2 small under nucleus sampling",
        r"^quantised transport rates .* nucleus above .* ancestral": r"The quantized OT cost rates GPT-2 small and medium models with nucleus sampling",
        r"^MAUVE_OT makes the same mistake": r"make the same mistake while",
    },
    "sec:best-practices": {
        r"the score goes down as n grows": r"the score typically goes down as the number of samples increases",
        r"standard deviation is larger with few samples": r"exhibits a larger standard deviation",
    },
    "sec:quant:practical": {
        r"k-means is among the best": r"the best quantization schemes are data-dependent, such as $k$-means clustering"
    },
    "thm:quant_error_fdiv": {
        r"level sets of the ratio have a small error": r"\inf_{|\Scal|\le 2k} \left| \Df{P}{Q} - \Df{P_\Scal}{Q_\Scal} \right|"
    },
    "thm:mauve:knn": {
        r"falls like n\^\(−2γ/\(d\+γ\)\)": r"the optimal rate is $n^{-2\gamma/(d+\gamma)}$",
        r"at most 3 \(\(k/n\)\^\(γ/d\) \+ 1/k\)": r"\le O\left( \left(\frac{k}{n}\right)^{\gamma/ d} + \frac{1}{k} \right)",
    },
}
TRANSPORT = {  # measure → its column in the table of transport costs
    "transport": "plug-in",
    "quantised transport": "quantised",
    "MAUVE_OT": "OT, linear",
    "MAUVE_OT bary": "OT, barycentric",
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


def improves_with_size(measure, decoder):
    """Whether the table of transport costs prints less for every larger model, or more for a summary."""
    with (ROOT / "tests/reference/webtext_divergences.csv").open(encoding="utf-8") as stream:
        rows = {row["system"]: float(row[TRANSPORT[measure]]) for row in csv.DictReader(stream)}
    kind = "sampling" if decoder == "ancestral" else "nucleus"
    values = [value for system, value in rows.items() if f" {kind}" in system]
    return rises(values if "MAUVE" in measure else [-value for value in values])


def rises(values):
    return all(later >= earlier for earlier, later in pairwise(values))


def claims():
    """All claims but those about length, which have a test of their own, and our own: (page, label, text)."""
    for path in sorted((ROOT / "experiments").rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for claim in content.get("claims", []) if isinstance(content, dict) else []:
            if not re.match("quality .* with length|beyond the paper: ", claim["text"]):
                yield path.relative_to(ROOT).as_posix(), claim["label"], claim["text"]


def contradicts(label, text):
    """Whether a claim is not what the paper prints: None if it is neither numbers nor a quotation."""
    if match := re.match(r"(.+) improves with size, ([a-z]+)(.*)", text):
        return improves_with_size(match[1], match[2]) == ("medium is below small" in match[3])
    if label in SAYS:
        return False if any(re.search(part, text) for part in SAYS[label]) else None
    for pattern, holds in RULES.items():
        if match := re.match(pattern, text):
            return not holds(label, *match.groups())
    return None if not any(label == own and part in text for own, part in QUOTES) else False


def test_every_claim_has_the_direction_of_the_printed_numbers():
    found = list(claims())
    assert len(found) > 350
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
    cited = {(label, text): numbers(label, text) for _, label, text in claims() if label in MAUVE}
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
    assert contradicts("sec:quant:practical", "greedy is below human text and the four other decoders") is None
    assert contradicts("fig:kynka-pr-nlp", "precision rises with size, ancestral") is None


def test_transport_by_size_has_the_direction_of_the_table():
    noted = "transport improves with size, nucleus:0.95 (paper: but medium is below small)"
    assert not contradicts("fig:ot-v-mauve", noted)
    assert contradicts("fig:ot-v-mauve", "transport improves with size, nucleus:0.95")
    assert contradicts("fig:ot-v-mauve", noted.replace("transport", "quantised transport"))


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
    said = [quote for each in SAYS.values() for quote in each.values()]
    assert [quote for quote in [*QUOTES.values(), *BY_LENGTH.values(), *said] if quote not in flat] == []


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
