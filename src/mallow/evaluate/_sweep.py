"""A grid of decoders, each scored against the reference: the curve of a hyperparameter, with its noise."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mallow._checks import whole
from mallow._files import make_folder
from mallow.embed import AnyEmbedder
from mallow.errors import InputError
from mallow.evaluate._compare import compare
from mallow.evaluate._comparison import ComparedSystems, Comparison
from mallow.evidence import MAUVE_STAR, Measure, find_measure
from mallow.results import Axes, TableData, draw
from mallow.samples import Samples, read

if TYPE_CHECKING:
    from mallow.generate import GenerationPlan, NextToken  # a score does not need models that generate


_NUMBER = re.compile(r"(?<=[:=])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=[:+]|$)")


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(ComparedSystems):
    """The scores of a grid of decoders.

    Attributes
    ----------
    decoders : tuple of str
        The decoders, in the order of the request.
    comparison : Comparison
        The comparison of their texts with the reference.
    model : str
        The name of the language model.
    files : dict
        Decoder → the file with its texts.
    """

    KIND: ClassVar[str] = "sweep"
    ALSO = ("best", "winner", "verdict")

    decoders: tuple[str, ...]
    comparison: Comparison
    model: str
    files: dict[str, Path]

    @property
    def winner(self) -> str | None:
        """The decoder whose proven gap is significantly smaller than all others; None if there is none."""
        return self.comparison.winner

    @property
    def families(self) -> dict[str, tuple[tuple[float, str], ...]]:
        """Decoders that differ in one number: ``"nucleus:…"`` → (number, decoder), by number."""
        families: dict[str, list[tuple[float, str]]] = {}
        for name in self.decoders:
            for match in _NUMBER.finditer(name):
                family = f"{name[: match.start()]}…{name[match.end() :]}"
                families.setdefault(family, []).append((float(match[0]), name))
        return {family: tuple(sorted(members)) for family, members in families.items() if len(members) > 1}

    def __repr__(self) -> str:
        return f"Sweep({self.model}, {self.comparison!r})"

    @property
    def verdict(self) -> str:
        """The decoder with the smallest proven gap, if there is a clear winner, and the decoder with the largest."""
        return self.comparison.verdict

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without curves and samples: what ``--summary`` prints."""
        return {**self.comparison.brief(), "kind": "mallow sweep", "model": self.model}

    def _table(self) -> TableData:
        return self.comparison._table()  # best first

    def _records(self) -> list[dict[str, Any]]:
        return self.comparison._records()

    def plot(self, ax: Axes | None = None, family: str | None = None) -> Axes:
        """Draw the published and certified scores of a family, all other decoders as dashed lines; returns the axes.

        95% of repeat samples of this size would score in the band. A line leads from the certified value to its limit
        with 95% confidence. The dotted line is the self-score, about the score of real data.

        Parameters
        ----------
        ax : matplotlib axes or None
            None: new ones.
        family : str or None
            One of `families`. None: the only one; if there are several or none, the decoders are listed in rows.
        """
        if family is not None and family not in self.families:
            families = ", ".join(self.families) or "none"
            raise InputError(f"`family` must be one of the families of decoders ({families}); got {family!r}.")
        if family is None and len(self.families) != 1:
            return self.comparison.plot(ax)
        ax = draw.axes(ax)
        chosen = family or next(iter(self.families))
        values, names = zip(*self.families[chosen], strict=True)
        scores = self.comparison.scores
        others = {name: scores[name] for name in self.decoders if name not in names}
        draw.curve(ax, chosen, values, [scores[name] for name in names], others)
        best = [value for value, name in self.families[chosen] if name in self.best]
        draw.marks(ax, best if len(best) == 1 else [], "smallest proven gap")
        return ax


def grid(decoders: Iterable[str]) -> tuple[str, ...]:
    """The names of all decoders that the patterns stand for.

    Several numbers, separated by commas, give several decoders.

    Examples
    --------
    >>> grid(["nucleus:0.8,0.95", "temperature:0.7,1+top-k:50", "greedy"])
    ('nucleus:0.8', 'nucleus:0.95', 'temperature:0.7+top-k:50', 'temperature:1.0+top-k:50', 'greedy')
    """
    from mallow.generate import decoder

    if isinstance(decoders, str):
        decoders = [decoders]
    names: dict[str, None] = {}
    for pattern in decoders:
        parts = [part.split(",") for part in re.split(r"([:=+])", pattern)]
        names |= dict.fromkeys(decoder("".join(choice)).name for choice in itertools.product(*parts))
    if not names:
        raise InputError("`decoders` must name at least one decoder, such as 'nucleus:0.8,0.9,0.95'; got none.")
    return tuple(names)


def sweep(
    reference: object,
    model: NextToken,
    decoders: Sequence[str],
    folder: str | os.PathLike[str],
    plan: GenerationPlan | None = None,
    *,
    tokens: int = 35,
    skip_short: bool = False,
    measure: Measure | str = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    batch: int = 64,
) -> Sweep:
    """Continue the beginnings of the reference with each decoder, and score the results against the reference.

    Whole texts are scored, each with its prompt, as in the paper, and reference texts are cut to the same number of
    tokens. Texts are kept in the folder and not generated again: an interrupted sweep resumes where it stopped, and an
    additional decoder only costs its own texts.

    Parameters
    ----------
    reference : Samples, list, table or path
        Texts.
    model : NextToken
    decoders : sequence of str
        Patterns as in `grid`.
    folder : path
        The folder for the texts of each decoder; created if it does not exist.
    plan : GenerationPlan or None
        The number of texts per prompt (one for deterministic decoders), their length, and the random numbers. The score
        uses the same `rng`. Its `with_prompt` is ignored. None: ``GenerationPlan()``.
    tokens :
        The length of prompts, as in `mallow.generate.prompts_of`.
    skip_short :
        Whether texts that are too short are left out, as in `mallow.generate.prompts_of`.
    measure :
        Estimator, divergence and scale, as in `mallow.compare`.
    embedder :
        The embedder, by name or as an object. None takes the default for the kind of samples, as in `mallow.compare`.
    repeats :
        How many clusterings are averaged, as in `mallow.compare`.
    batch : int
        As in `mallow.generate.generate_file`.
    """
    measure = find_measure(measure)
    from mallow.generate import GenerationPlan, decoder, generate_file, is_deterministic, prompts_of

    names = grid(decoders)
    plan = replace(GenerationPlan() if plan is None else plan, with_prompt=True)
    whole("repeats", repeats, least=1)
    human = read(reference)
    prompts = prompts_of(human, model, tokens=tokens, skip_short=skip_short)
    home = make_folder(folder)
    files = {name: home / f"{name.replace(':', '-')}.jsonl" for name in names}
    for name, path in files.items():
        n = 1 if is_deterministic(decoder(name)) else plan.n
        generate_file(model, prompts, name, path, replace(plan, n=n), batch=batch)
    kept = {prompt.id for prompt in prompts}
    numbered = human.ids or tuple(str(number) for number in range(1, len(human) + 1))
    texts = {id_: text for id_, text in zip(numbered, human.require_texts(), strict=True) if id_ in kept}
    cut = [model.decode(model.encode(text)[: tokens + plan.max_new]) for text in texts.values()]
    systems = {name: read(path) for name, path in files.items()}
    shortened = Samples(texts=tuple(cut), ids=tuple(texts), source=human.source)
    comparison = compare(shortened, systems, measure=measure, embedder=embedder, repeats=repeats, rng=plan.rng)
    return Sweep(names, comparison, model.name, files)
