"""MAUVE* of decoders as the paper prints it, by the label of the table: what claims cite, and what their direction is tested against."""

from __future__ import annotations

import re

FULL, BEAM, TYPICAL = "tab:mauve:expt:webtext-full", "tab:mauve:expt:beam-search", "tab:mauve:expt:typical"
NEWS, STORIES, LM = "tab:mauve:expt:grover-appendix", "tab:mauve:expt:wp-appendix", "tab:mauve:expt:webtext-app-LM"
GOLD = "tab:mauve:expt:gold-correlation-main"
MAUVE = {  # label → system → printed MAUVE*, by size of the model where there are several
    FULL: {
        "ancestral": "0.655 0.446 0.878 0.908",
        "greedy": "0.019 0.024 0.026 0.033",
        "nucleus": "0.906 0.936 0.952 0.955",
        "adversarial": "0.043 0.044 0.035 0.057",
    },
    BEAM: {
        "greedy": "0.019",
        "beam": "0.040",
        "beam, no 4-gram twice": "0.438",
        "beam 8": "0.049",
        "beam 8, no 4-gram twice": "0.415",
        "ancestral": "0.655",
        "nucleus": "0.906",
    },
    TYPICAL: {
        "typical 0.2": "0.862",
        "typical 0.5": "0.896",
        "typical 0.7": "0.88",
        "typical 0.9": "0.939",
        "typical": "0.950",
        "typical 0.99": "0.914",
        "nucleus": "0.952",
        "ancestral": "0.878",
    },
    NEWS: {
        "ancestral": "0.754 0.836 0.847",
        "greedy": "0.012 0.013 0.013",
        "nucleus": "0.764 0.800 0.852",
    },
    STORIES: {"ancestral": "0.929", "nucleus": "0.940", "greedy": "0.013"},
}
NAMES = {
    "beam 4, no 4-gram twice": "beam, no 4-gram twice",
    "beam search": "beam",
    "beam 4": "beam",
    "adversarial text": "adversarial",
    "the adversary": "adversarial",
    "nucleus sampling": "nucleus",
    "ancestral sampling": "ancestral",
    "greedy decoding": "greedy",
    "nucleus 0.9": "nucleus",
    "nucleus 0.95": "nucleus",
    "nucleus:0.95": "nucleus",
    "typical 0.95": "typical",
}

NAME = r"(greedy decoding|greedy|ancestral|adversarial|typical 0\.2|typical 0\.95|typical|nucleus 0\.9|nucleus 0\.95|beam 4, no 4-gram twice|beam 4|beam 8, no 4-gram twice|beam 8|beam search|beam|nucleus sampling|ancestral sampling)"


def decoders(text: str) -> list[str]:
    """The decoders that a claim is about, by their names in the tables."""
    said = re.match(r"MAUVE rises with the size of the model, (\S+)", text)
    return [NAMES.get(each, each) for each in ([said[1]] if said else re.findall(rf"\b{NAME}", text))]


def numbers(label: str, text: str) -> str:
    """The printed MAUVE* of the decoders of a claim, of all sizes from the smallest; empty if the table has none of them."""
    known = MAUVE.get(label, {})
    cells = {name: known[name].replace(" ", ", ") for name in decoders(text) if name in known}
    about_other = re.search("perplexity|comes nearer|discriminator|MAUVE agrees", text)
    return "" if about_other else "; ".join(f"{name} {values}" for name, values in cells.items())
