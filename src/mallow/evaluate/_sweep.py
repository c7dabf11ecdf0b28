"""A grid of decoders, each scored against the reference: the curve of a hyper-parameter, with its noise."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mallow._checks import whole
from mallow._files import make_folder
from mallow.embed import AnyEmbedder
from mallow.errors import InputError
from mallow.evaluate._compare import Comparison, compare
from mallow.evaluate._score import MAUVE_STAR, Measure
from mallow.generate import NextToken, Plan, decoder, generate_file, is_fixed, prompts_of
from mallow.results import draw
from mallow.samples import Samples, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Sweep", "grid", "sweep"]

_NUMBER = re.compile(r"(?<=[:=])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=[:+]|$)")


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """What a grid of decoders scored.

    Attributes
    ----------
    decoders : tuple of str
        In the order in which they were asked for.
    comparison : Comparison
        Of their texts with the reference.
    model : str
    files : dict
        Decoder → the file with its texts.
    """

    decoders: tuple[str, ...]
    comparison: Comparison
    model: str
    files: dict[str, Path]

    @property
    def best(self) -> tuple[str, ...]:
        """The decoder of the highest score, and those that cannot be told apart from it, in the order of their scores.

        Without a test of differences, for estimators without bins, these are all of them.
        """
        return self.comparison.best

    @property
    def winner(self) -> str | None:
        """The decoder that beats all others significantly; None inside the noise."""
        return self.comparison.winner

    @property
    def families(self) -> dict[str, tuple[tuple[float, str], ...]]:
        """Decoders that differ in one number: ``"nucleus:…"`` → (number, decoder), by number."""
        found: dict[str, list[tuple[float, str]]] = {}
        for name in self.decoders:
            for match in _NUMBER.finditer(name):
                family = f"{name[: match.start()]}…{name[match.end() :]}"
                found.setdefault(family, []).append((float(match[0]), name))
        return {family: tuple(sorted(each)) for family, each in found.items() if len(each) > 1}

    def __repr__(self) -> str:
        return f"{self.comparison!r}\n{self.verdict}"

    @property
    def verdict(self) -> str:
        """One sentence: the winner, or that there is none inside the noise."""
        return self.comparison.verdict

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts."""
        return {
            "kind": "mallow sweep",
            "model": self.model,
            "decoders": list(self.decoders),
            "best": list(self.best),
            "winner": self.winner,
            "files": {name: os.fspath(path) for name, path in self.files.items()},
            "comparison": self.comparison.to_dict(),
        }

    def plot(self, ax: Axes | None = None, family: str | None = None) -> Axes:
        """Draw the curve of a family with its 95 % band, all other decoders as dashed lines; returns the axes.

        The band is where the value behind the score lies, freed of most of the plug-in bias; it has a gap where there is no
        honest interval. Dotted: the noise floor, which real data would score.

        Parameters
        ----------
        ax : matplotlib axes or None
            None: new ones.
        family : str or None
            One of `families`. None: the only one; where there are several or none, decoders are drawn one below the other.
        """
        if family is not None and family not in self.families:
            known = ", ".join(self.families) or "none"
            raise InputError(f"`family` must be one of the families of decoders ({known}); got {family!r}.")
        if family is None and len(self.families) != 1:
            return self.comparison.plot(ax)
        ax = draw.axes(ax)
        chosen = family or next(iter(self.families))
        values, names = zip(*self.families[chosen], strict=True)
        scores = self.comparison.scores
        others = {name: scores[name] for name in self.decoders if name not in names}
        draw.curve(ax, chosen, values, [scores[name] for name in names], others)
        return ax


def grid(decoders: Iterable[str]) -> tuple[str, ...]:
    """The names of all decoders that some patterns stand for; numbers with commas between them stand for each of them.

    Examples
    --------
    >>> grid(["nucleus:0.8,0.95", "temperature:0.7,1+top-k:50", "greedy"])
    ('nucleus:0.8', 'nucleus:0.95', 'temperature:0.7+top-k:50', 'temperature:1.0+top-k:50', 'greedy')
    """
    if isinstance(decoders, str):
        decoders = [decoders]
    found: dict[str, None] = {}
    for pattern in decoders:
        parts = [part.split(",") for part in re.split(r"([:=+])", pattern)]
        found |= dict.fromkeys(decoder("".join(each)).name for each in itertools.product(*parts))
    if not found:
        raise InputError("`decoders` must name at least one decoder, such as 'nucleus:0.8,0.9,0.95'; got none.")
    return tuple(found)


def sweep(
    reference: object,
    model: NextToken,
    decoders: Sequence[str],
    folder: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    tokens: int = 35,
    skip_short: bool = False,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    batch: int = 64,
    progress: bool | None = None,
) -> Sweep:
    """Continue the beginnings of the reference with each decoder, and score what comes out against the reference.

    Scored are whole texts, each with its prompt, as for the paper; those of the reference are cut to the same number of
    tokens. Texts are kept in the folder and are not generated again: a sweep goes on where it was stopped, and another
    decoder costs only its own texts.

    Parameters
    ----------
    reference : Samples, list, table or path
        Texts.
    model : NextToken
    decoders : sequence of str
        Patterns as in `grid`.
    folder : path
        Where the texts of each decoder go; made if it does not exist.
    plan : Plan or None
        How many texts for each prompt (one for decoders that draw nothing), how long, which random numbers; `rng` is that of
        the score too. Its `with_prompt` is not looked at. None: ``Plan()``.
    tokens, skip_short :
        The length of prompts, and what happens to shorter texts, as in `mallow.generate.prompts_of`.
    measure, embedder, repeats :
        As in `mallow.compare`.
    batch, progress :
        As in `mallow.generate.generate_file`.
    """
    names = grid(decoders)
    plan = replace(Plan() if plan is None else plan, with_prompt=True)
    whole("repeats", repeats, least=1)
    given = read(reference)
    prompts = prompts_of(given, model, tokens=tokens, skip_short=skip_short)
    home = make_folder(folder)
    files = {name: home / f"{name.replace(':', '-')}.jsonl" for name in names}
    for name, path in files.items():
        n = 1 if is_fixed(decoder(name)) else plan.n
        generate_file(model, prompts, name, path, replace(plan, n=n), batch=batch, progress=progress)
    kept = {prompt.id for prompt in prompts}
    numbered = given.ids or tuple(str(place) for place in range(1, len(given) + 1))
    texts = {id_: text for id_, text in zip(numbered, given.texts, strict=True) if id_ in kept}
    human = [model.decode(model.encode(text)[: tokens + plan.max_new]) for text in texts.values()]
    x = Samples("text", tuple(human), tuple(texts), source=given.source)
    systems = {name: read(path) for name, path in files.items()}
    found = compare(x, systems, measure=measure, embedder=embedder, repeats=repeats, rng=plan.rng)
    return Sweep(names, found, model.name, files)
