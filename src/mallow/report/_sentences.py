"""Values in words: sentences of the page, numbers, letters of groups, marked texts, small copies of files."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import warnings
import wave
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mallow.errors import InputError
from mallow.evaluate import Comparison, Difference, Score
from mallow.explain import Diagnosis, verdict_text
from mallow.results import join_names, p_text
from mallow.samples import AUDIO_SUFFIXES, decode_audio

if TYPE_CHECKING:
    from markupsafe import Markup


_AUTHORS = (
    "Pillutla, Krishna and Liu, Lang and Thickstun, John and Welleck, Sean and Swayamdipta, Swabha and "
    "Zellers, Rowan and Oh, Sewoong and Choi, Yejin and Harchaoui, Zaid"
)
# The published pipeline: MAUVE* with any number of bins, divergence and scale, which Methods lists separately.
_PUBLISHED = re.compile(
    r"Measure\(Quantize\(bins=\w+, smoothing=krichevsky_trofimov, "
    r"reduce=Reduce\(variance=([\d.]+), normalise=True\)\), KL, "
)
_LONGEST_TEXT = 600  # characters of an example; chosen: a paragraph or two
_THUMBNAIL = 192  # pixels; chosen: twice the size at which it is shown, for sharp screens
_SECONDS, _RATE = 5, 16000  # of a recording in the page; chosen: 160 kB, enough for speech
_POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e-0?(\d+)(?!\w)")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def default_title(comparison: Comparison) -> str:
    """The title of the page."""
    names = list(comparison.scores)
    return f"{names[0]} against the reference" if len(names) == 1 else f"{len(names)} systems against the reference"


def verdict(comparison: Comparison) -> str:
    """The systems with the smallest and the largest proven gap; for a single system, whether there is a gap."""
    [*scores] = comparison.scores.values()
    return scores[0].verdict if len(scores) == 1 else comparison.verdict


def reason_sentence(comparison: Comparison) -> str:
    """The difference behind the verdict, between the first system and the next; "" if none was tested."""
    pair = _deciding(comparison)
    if pair is None:
        return ""
    value, (low, high) = pair.difference["mauve"], pair.interval["mauve"]
    return (
        f"The reason: the certified MAUVE of {pair.first} is {format_number(abs(value), 4)} "
        f"{'above' if value >= 0 else 'below'} the value of {pair.second} (95% interval of the difference: "
        f"{format_number(low, 4)} to {format_number(high, 4)}; {p_text(pair.adjusted['mauve'])} after correction)."
    )


def _deciding(comparison: Comparison) -> Difference | None:
    """The first system, and the next one that it was compared with."""
    first = next(iter(comparison.scores))
    return next((pair for pair in comparison.ordered_differences() if first in pair.systems), None)


def gap_sentence(comparison: Comparison) -> str:
    """The proven gap of the first system; "" if the verdict includes it."""
    if len(comparison.scores) == 1:
        return ""
    name, score = next(iter(comparison.scores.items()))
    most = score.certified["mauve"].high if score.certified else 1.0
    text = verdict_text(score.p_value, most, score.n)
    return f"How close is {name} to the reference? {text}"


def material(comparison: Comparison) -> str:
    """The comparison in one line: the numbers of samples, and the embedder."""
    of_reference = sorted({score.n[0] for score in comparison.scores.values()})
    of_systems = sorted({score.n[1] for score in comparison.scores.values()})
    system = "the system" if len(comparison.scores) == 1 else "each system"
    return (
        f"{_extent(of_reference)} samples of the reference, {_extent(of_systems)} of {system}, "
        f"embedded by {short_embedder(comparison.signature.embedder)}."
    )


def short_embedder(embedder: str) -> str:
    """The embedder without its options, which are in the signature."""
    short = embedder.split(",")[0].split("@")[0]
    return f"{short})" if "(" in short and not short.endswith(")") else short


def _extent(numbers: Sequence[int]) -> str:
    least, most = numbers[0], numbers[-1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def regions_in_words(diagnosis: Diagnosis) -> str:
    """The words of clusters that a system misses and invents beyond chance."""
    parts = []
    for verb, regions in (("misses", diagnosis.missed), ("invents", diagnosis.invented)):
        beyond = [region for region in regions if region.significant]
        if beyond:
            names = dict.fromkeys(f"“{region.terms[0]}”" for region in beyond if region.terms)
            parts.append(f"{verb} {join_names(list(names)[:3])}" if names else f"{verb} some clusters")
    return "; ".join(parts) or "no cluster beyond chance"


def pipeline_in_words(measure: str) -> str:
    """The steps from features to a score, for a paper; "" for a measure that only its signature describes.

    Examples
    --------
    >>> pipeline_in_words("Measure(Neighbors(neighbors=5), KL, scale=5)")
    ''
    """
    match = _PUBLISHED.match(measure)
    if match is None:
        return ""
    return (
        f"Features were scaled to length 1, reduced by PCA to {100 * float(match[1]):g}% of their variance and "
        "clustered by k-means, and counts were smoothed by adding ½ (MAUVE* with the Kullback–Leibler divergence)."
    )


def telling_words(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The words in the reasons of a diagnosis, which are marked in its samples."""
    return tuple(dict.fromkeys(term for reason in diagnosis.reasons for term in reason.terms))


def systems_by_signature(scores: dict[str, Score]) -> dict[str, tuple[str, ...]]:
    """Each signature once, with the systems that it belongs to."""
    systems: dict[str, tuple[str, ...]] = {}
    for name, score in scores.items():
        line = str(score.signature)
        systems[line] = (*systems.get(line, ()), name)
    return systems


def bibtex(version: str) -> str:
    """The citations: the paper, and the version of the library that was used."""
    return f"""@article{{pillutla2023mauve,
  title   = {{{{MAUVE}} Scores for Generative Models: Theory and Practice}},
  author  = {{{_AUTHORS}}},
  journal = {{Journal of Machine Learning Research}},
  volume  = {{24}},
  number  = {{356}},
  pages   = {{1--92}},
  year    = {{2023}}
}}

@software{{mallow,
  title   = {{mallow}},
  author  = {{{{The mallow developers}}}},
  version = {{{version}}},
  license = {{Apache-2.0}},
  note    = {{Measures the gap between what a generative model produces and the data it should match}}
}}"""


def format_number(value: float, digits: int = 3) -> str:
    """A number with this many decimals and a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


def typeset(text: str) -> str:
    """Small numbers as powers of ten, and no line break within "p < …".

    Examples
    --------
    >>> typeset("p < 1e-6, or 5.1e-12")
    'p\\xa0<\\xa010⁻⁶, or 5.1·10⁻¹²'
    """

    def power(match: re.Match[str]) -> str:
        ten = f"10⁻{match[2].translate(_SUPERSCRIPTS)}"
        return ten if match[1] == "1" else f"{match[1]}·{ten}"

    return re.sub(r"\bp ([<=]) ", "p\u00a0\\1\u00a0", _POWER.sub(power, text))


def group_letters(number: int) -> str:
    """The letters of a group, numbered from 0: A, B, …, Z, AA, AB, …"""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def shorten_text(text: str) -> str:
    """The beginning of a text, and the length of the rest."""
    rest = len(text) - _LONGEST_TEXT
    return text if rest <= 0 else f"{text[:_LONGEST_TEXT]} … ({rest:,} more characters)"


def mark_terms(text: str, terms: Iterable[str]) -> Markup:
    """A text for the page, escaped, in which all occurrences of words and pairs of words are marked.

    Examples
    --------
    >>> print(mark_terms("The Cat & the catalogue; the, cat", ["cat", "the cat"]))
    <mark>The Cat</mark> &amp; the catalogue; <mark>the, cat</mark>
    """
    from markupsafe import Markup, escape

    patterns = [r"\W+".join(map(re.escape, term.split())) for term in sorted(terms, key=len, reverse=True)]
    patterns = [pattern for pattern in patterns if pattern]
    if not patterns:
        return escape(text)
    parts, after = [], 0
    for match in re.finditer(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", text, re.IGNORECASE):
        parts += [escape(text[after : match.start()]), Markup("<mark>"), escape(match[0]), Markup("</mark>")]
        after = match.end()
    return Markup("").join([*parts, escape(text[after:])])


def thumbnail(path: str) -> str | None:
    """A small copy of an image as a data: address; None without Pillow, or if Pillow cannot read the file."""
    if importlib.util.find_spec("PIL") is None:
        return None
    from PIL import Image

    try:
        with warnings.catch_warnings():  # the page shows an unusual image, or its path
            warnings.filterwarnings("ignore", module=r"PIL\b")
            with Image.open(path) as image:
                image.thumbnail((_THUMBNAIL, _THUMBNAIL))
                stream = io.BytesIO()
                image.convert("RGBA").save(stream, "PNG")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"


def player(path: str) -> str | None:
    """The beginning of a recording as a data: address of a small .wav file, in one channel; None for other files."""
    if Path(path).suffix.lower() not in AUDIO_SUFFIXES:
        return None
    try:
        values, rate = decode_audio(path)
    except InputError:  # the page shows its path
        return None
    step = -(-rate // _RATE)  # so many values become their mean
    sound = values[: _SECONDS * rate].mean(axis=1)
    sound = sound[: max(1, len(sound) // step) * step]
    sound = sound.reshape(-1, min(step, len(sound))).mean(axis=1)
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(round(rate / step))
        file.writeframes(np.rint(np.clip(sound, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
