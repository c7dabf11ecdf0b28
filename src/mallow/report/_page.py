"""One self-contained HTML page: no network, no files beside it, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import re
import secrets
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mallow.errors import InputError
from mallow.evaluate import Comparison
from mallow.report import _sentences as words
from mallow.report import _svg as svg
from mallow.report._comparison import Scored, as_comparison

if TYPE_CHECKING:
    import jinja2

    from mallow.errors import Caveat
    from mallow.explain import Diagnosis

__all__ = ["html", "write"]

_LONGEST = 600  # characters of an example that are shown
_THUMBNAIL = 192  # pixels
# Characters that HTML or UTF-8 cannot carry; a sample may hold any.
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_TITLES = {"mauve": "MAUVE", "frontier_integral": "Frontier integral", "midpoint": "Mid-point"}


def html(
    comparison: Scored,
    *,
    diagnoses: Mapping[str, Diagnosis] | None = None,
    findings: Iterable[Caveat] = (),
    title: str | None = None,
) -> str:
    """The report as an HTML page that needs nothing else: ranking, frontiers, differences, doubts, settings.

    The same results give the same page, to the last byte.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    diagnoses : mapping system → Diagnosis, or None
        Where each system's gap is, with examples: what `mallow.diagnose` found.
    findings : iterable of Caveat
        What `mallow.find_confounds` found in the samples.
    title : str or None
        None: what was compared.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import score
    >>> rng = np.random.default_rng(0)
    >>> human, machine = rng.normal(size=(1000, 4)), rng.normal(0.5, 1.0, size=(1000, 4))
    >>> page = html(score(human, machine, repeats=2), title="Is 1 < 2?")
    >>> "<h1>Is 1 &lt; 2?</h1>" in page
    True
    """
    from markupsafe import Markup

    found = as_comparison(comparison)
    unknown = [name for name in diagnoses or {} if name not in found.scores]
    if unknown:
        raise InputError(
            f"`diagnoses` must be of the systems compared ({', '.join(found.scores)}); got one of {unknown[0]!r}."
        )
    style, script = _source("style.css"), _source("script.js")
    page = (
        _environment()
        .get_template("report.html")
        .render(
            title=title or words.headline(found),
            policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:",
            style=Markup(style),  # our own file
            script=Markup(script),  # our own file
            diagnoses=diagnoses or {},
            findings=tuple(findings),
            **_context(found),
        )
    )
    return _UNSHOWABLE.sub("\ufffd", page)


def write(
    path: str | os.PathLike[str],
    comparison: Scored,
    *,
    diagnoses: Mapping[str, Diagnosis] | None = None,
    findings: Iterable[Caveat] = (),
    title: str | None = None,
) -> None:
    """Write the page of `html` to a file, whole or not at all: a file that stood there is replaced at once.

    Parameters
    ----------
    path : path
        Its folder must exist.
    comparison, diagnoses, findings, title :
        As in `html`.
    """
    target = Path(path).expanduser()
    if os.path.isdir(target):  # False where it cannot be looked at
        raise InputError(f"{os.fspath(path)}: is a folder, not a file. Name a file in it.")
    if not os.path.isdir(target.parent):
        raise InputError(f"{os.fspath(path)}: the folder {target.parent} does not exist. Make it first.")
    page = html(comparison, diagnoses=diagnoses, findings=findings, title=title)
    hidden = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with hidden.open("xb") as stream:
            stream.write(page.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, target)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}.") from error
    finally:
        hidden.unlink(missing_ok=True)


@lru_cache(maxsize=1)  # compiling the templates takes longer than filling them
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "p_value": _p_value, "shortened": _shortened, "thumbnail": _thumbnail}
    return environment


def _context(found: Comparison) -> dict[str, Any]:
    """What the template shows of the results."""
    scores = found.scores
    axis, strips = svg.score_strips(scores)
    return {
        "comparison": found,
        "verdict": words.verdict(found),
        "settings": (settings := words.settings(found)),
        "bibtex": words.bibtex(settings.version),
        "summaries": _TITLES,
        "letters": _letters(found),
        "axis": axis,
        "strips": strips,
        "squares": {name: (svg.exponentiated_square(one), svg.cost_square(one)) for name, one in scores.items()},
        "bins": sorted({one.masses.partition.bins for one in scores.values() if one.masses.partition is not None}),
        "repeats": sorted({len(one.values["mauve"]) for one in scores.values()}),
        "sizes": sorted({one.n for one in scores.values()}),
        "scales": sorted({one.scale for one in scores.values()}),
    }


def _letters(found: Comparison) -> dict[str, tuple[str, ...]]:
    """System → the letters of its groups: systems that share one cannot be told apart."""
    return {
        name: tuple(_letter(place) for place, group in enumerate(found.groups) if name in group)
        for name in found.scores
    }


def _letter(place: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _number(value: float) -> str:
    """Three decimals, with a true minus."""
    return f"{value:.3f}".replace("-", "\u2212")


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _shortened(text: str) -> str:
    left = len(text) - _LONGEST
    return text if left <= 0 else f"{text[:_LONGEST]} … ({left} more characters)"


def _thumbnail(path: str) -> str | None:
    """A small copy of the image as a data: address; None without Pillow, or where the file is no image that it reads."""
    if importlib.util.find_spec("PIL") is None:
        return None
    from PIL import Image

    try:
        with warnings.catch_warnings():  # whatever is odd about an image, the page shows it or its path
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                image.thumbnail((_THUMBNAIL, _THUMBNAIL))
                stream = io.BytesIO()
                image.convert("RGBA").save(stream, "PNG")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"


def _source(name: str) -> str:
    return (resources.files("mallow.report") / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a Content-Security-Policy lets through: this text and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
