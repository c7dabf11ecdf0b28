"""One self-contained HTML page: no network, no other files, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mallow._files import write_text
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate import Comparison
from mallow.report import _sentences as sentences
from mallow.report import _svg as svg
from mallow.report import _tables as tables
from mallow.report._comparison import Scored, as_comparison, collect_caveats, compare_and_diagnose
from mallow.report._tables import AnyRanking, compare_with_people
from mallow.results import merge_caveats, p_number

if TYPE_CHECKING:
    import jinja2

    from mallow.explain import Diagnosis


# Characters that HTML or UTF-8 cannot represent. A sample may contain any.
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def html(
    comparison: Scored,
    *,
    diagnoses: Mapping[str, Diagnosis] | None = None,
    ranking: AnyRanking | None = None,
    title: str | None = None,
) -> str:
    """The report as an HTML page that needs nothing else: ranking, frontiers, differences, caveats, settings.

    The same results give the same page, to the last byte.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    diagnoses : mapping system → Diagnosis, or None
        The regions of the gap of each system, with examples: results of `mallow.diagnose`.
    ranking : Ranking, Rankings, JudgedRanking or None
        The ranking of the same systems by people: a result of `mallow.human.rank`. The page then shows metrics and
        people side by side.
    title : str or None
        None: the names of the compared systems.

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

    shown = as_comparison(comparison)
    unknown = [name for name in diagnoses or {} if name not in shown.scores]
    if unknown:
        raise InputError(
            f"`diagnoses` must be of the systems compared ({', '.join(shown.scores)}); got one of {unknown[0]!r}."
        )
    style, script = _read_template("style.css"), _read_template("script.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:"
    policy += "; media-src data:"
    page = (
        _environment()
        .get_template("report.html")
        .render(
            title=title or sentences.default_title(shown),
            policy=policy,
            style=Markup(style),  # our own file
            script=Markup(script),  # our own file
            people=None if ranking is None else compare_with_people(shown, ranking),
            caveats=_tagged_caveats(
                (*collect_caveats(shown, diagnoses), *(() if ranking is None else ranking.caveats)), list(shown.scores)
            ),
            **_context(shown, diagnoses or {}),
        )
    )
    return _UNSHOWABLE.sub("\ufffd", page)


def write(
    path: str | os.PathLike[str],
    comparison: Any,
    systems: Mapping[str, Any] | None = None,
    *,
    diagnoses: Mapping[str, Diagnosis] | None = None,
    ranking: AnyRanking | None = None,
    title: str | None = None,
) -> None:
    """Write the page of `html` to a file, all of it or nothing. An existing file is replaced.

    ``write("report.html", human, {"small": …, "large": …})`` compares the samples and diagnoses each system, so that
    the page has all sections, with examples. For other settings than the defaults, pass what `compare_and_diagnose`
    returns.

    Parameters
    ----------
    path : path
        Its folder must exist.
    comparison :
        The comparison that the page shows, as in `html`; with `systems`, the samples of the reference.
    systems :
        System → its samples, as in `mallow.compare`. None: `comparison` was made before.
    diagnoses :
        System → its diagnosis, as in `html`.
    ranking :
        A ranking by people, as in `html`.
    title :
        The title of the page.
    """
    target = Path(os.path.expanduser(path))
    if os.path.isdir(target):  # unlike Path.is_dir, False where access is denied
        raise InputError(f"{os.fspath(path)}: is a folder, not a file. Name a file in it.")
    if not os.path.isdir(target.parent):
        raise InputError(f"{os.fspath(path)}: the folder {target.parent} does not exist. Create it first.")
    if systems is not None:
        comparison, made = compare_and_diagnose(comparison, systems)
        warn_about(collect_caveats(comparison, made))
        diagnoses = {**made, **(diagnoses or {})}
    write_text(path, html(comparison, diagnoses=diagnoses, ranking=ranking, title=title))


@lru_cache(maxsize=1)  # compiling the templates takes longer than filling them
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "marked": sentences.mark_terms,
        "number": sentences.format_number,
        "player": sentences.player,
        "p_value": lambda value: sentences.typeset(p_number(value)),
        "shortened": sentences.shorten_text,
        "thumbnail": sentences.thumbnail,
        "typeset": sentences.typeset,
    }
    return environment


def _context(comparison: Comparison, diagnoses: Mapping[str, Diagnosis]) -> dict[str, Any]:
    """The values that the template shows for a comparison and its diagnoses."""
    scores = comparison.scores
    axis, strips = svg.score_strips(scores)
    return {
        "comparison": comparison,
        "diagnoses": diagnoses,
        "verdict": sentences.verdict(comparison),
        "reason": sentences.reason_sentence(comparison),
        "gap_sentence": sentences.gap_sentence(comparison),
        "material": sentences.material(comparison),
        "embedder": sentences.short_embedder(comparison.signature.embedder),
        "pipeline": sentences.pipeline_in_words(comparison.signature.measure),
        "signatures": sentences.systems_by_signature(scores),
        "bibtex": sentences.bibtex(comparison.signature.version),
        "ranking_table": tables.ranking_table(comparison),
        "difference_table": tables.difference_table(comparison),
        "summary_table": tables.summary_table(scores),
        "axis": axis,
        "strips": strips,
        "pictures": svg.pictures(scores),
        "squares": {name: (svg.exponentiated_square(score), svg.cost_square(score)) for name, score in scores.items()},
        "regions": {name: sentences.regions_in_words(diagnosis) for name, diagnosis in diagnoses.items()},
        "named": any(
            region.terms for diagnosis in diagnoses.values() for region in (*diagnosis.missed, *diagnosis.invented)
        ),
        "telling": {name: sentences.telling_words(diagnosis) for name, diagnosis in diagnoses.items()},
        "off_topic": {name: tables.off_topic_table(diagnosis) for name, diagnosis in diagnoses.items()},
        "bins": sorted({score.signature.bins for score in scores.values() if score.signature.bins is not None}),
        "repeats": sorted({len(score.values["mauve"]) for score in scores.values()}),
        "permutations": sorted(
            {score.evidence.test.permutations for score in scores.values() if score.evidence is not None}
        ),
        "sizes": sorted({score.n for score in scores.values()}),
        "scales": sorted({score.scale for score in scores.values()}),
    }


def _tagged_caveats(caveats: tuple[Caveat, ...], systems: list[str]) -> list[tuple[str, str]]:
    """Kind and line of each caveat, kind by kind, with equal caveats of several systems in one line."""
    by_kind: dict[str, list[Caveat]] = {}
    for caveat in caveats:
        by_kind.setdefault(caveat.kind, []).append(caveat)
    return [(kind, line) for kind, group in by_kind.items() for line in merge_caveats(group, systems)]


def _read_template(name: str) -> str:
    return (resources.files("mallow.report") / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a Content-Security-Policy allows only this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
