"""Do two sets of completions come from one model?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from mallow._checks import seed_from, whole
from mallow.caveats import percent, share_with_prompt
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import Caveat, InputError, warn_about
from mallow.evidence import LEVEL, Draws, holm, judge_prompts
from mallow.explain import in_one_line
from mallow.results import Axes, Result, TableData, draw, p_text
from mallow.samples import Samples

_SHOWN = 5  # chosen: prompts in the text
_LONGEST = 60  # characters of a prompt in the text
_MANY = 0.1  # chosen: difference in the share of texts that begin with their prompt
_POWER = 0.8
_CONFIDENCE = 0.9  # chosen: of the lower limit of a difference, one-sided (experiments/same_model/plan.md)
_MOST = 10.0  # chosen: times the samples; a plan for more would rest on too little
_FEWEST_PROMPTS = 5  # with several samples, for the test within prompts


@dataclass(frozen=True)
class PromptDifference:
    """How much the completions of one prompt differ.

    Attributes
    ----------
    prompt : str
    p_value : float
        The p-value for "no difference for this prompt", by exchanging its samples. With few samples it cannot be small.
    adjusted : float
        The same after Holm's correction for all prompts.
    n : tuple of int
        The numbers of samples in both sets.
    """

    prompt: str
    p_value: float
    adjusted: float
    n: tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class SameModel(Result):
    """Whether two sets of completions come from one model.

    Attributes
    ----------
    p_value : float
        The p-value for "one model": the probability of a difference this large or larger if this were true.
    prompts : tuple of PromptDifference
        Prompts with several samples in both sets, the most different first.
    shared : int
        The number of prompts that both sets have.
    n : tuple of int
        The numbers of compared samples of both sets.
    embedder : str or None
        The embedder of both sets, or None for features.
    prompts_needed : int or None
        The number of prompts, with as many samples each, that shows a difference of this size with 80% power. None if
        no difference is proven, or if it is too uncertain how large it is. It is computed from a lower limit of the
        difference (90% confidence). Where few pilots of this size prove the difference, those that do overstate it,
        and the number can be too small.
    samples_needed : int or None
        The same for the number of samples of each of these prompts.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "same model"
    ALSO = ("verdict", "differs")

    p_value: float
    prompts: tuple[PromptDifference, ...]
    shared: int
    n: tuple[int, int]
    embedder: str | None = None
    prompts_needed: int | None = None
    samples_needed: int | None = None
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"SameModel({p_text(self.p_value)}, prompts={self.shared}, n={self.n})"

    @property
    def differs(self) -> bool:
        """Whether a difference is proven at the 5% level."""
        return self.p_value < LEVEL

    @property
    def verdict(self) -> str:
        """The conclusion from the samples, in words."""
        if self.differs:
            return f"The completions come from different models ({p_text(self.p_value)})."
        return f"No difference between the models is proven ({p_text(self.p_value)})."

    def __str__(self) -> str:
        by = "" if self.embedder is None else f", compared by {self.embedder}"
        prompts = f"{self.shared:,} shared prompt{'s' * (self.shared > 1)}"
        lines = [self.verdict, f"{prompts}, {self.n[0]:,} and {self.n[1]:,} completions{by}."]
        if self.prompts_needed is not None:
            lines.append(
                f"To detect a difference of this size with 80% power: {self.prompts_needed:,} prompts with as many "
                f"samples each, or {self.samples_needed:,} samples of each of these prompts, on both sides."
            )
        if self.differs and self.prompts:
            lines.append("Prompts that differ most (p-value of each prompt; after correction for all prompts):")
            lines += [
                f"  {in_one_line(prompt.prompt, _LONGEST)}  {prompt.p_value:.2g}; {prompt.adjusted:.2g}"
                for prompt in self.prompts[:_SHOWN]
            ]
        return self._with_caveats(lines)

    def _table(self) -> TableData:
        rows = [
            [in_one_line(prompt.prompt, _LONGEST), f"{prompt.p_value:.2g}", f"{prompt.adjusted:.2g}"]
            for prompt in self.prompts[:_SHOWN]
        ]
        return TableData(["prompt", "p-value", "corrected"], [["all together", f"{self.p_value:.2g}", ""], *rows])

    def _records(self) -> list[dict[str, Any]]:
        whole_set = {"prompt": "all together", "p_value": self.p_value, "adjusted": self.p_value}
        records = [
            {"prompt": prompt.prompt, "p_value": prompt.p_value, "adjusted": prompt.adjusted} for prompt in self.prompts
        ]
        return [whole_set, *records]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the sorted p-values of prompts; without a difference they lie near the diagonal. Returns the axes."""
        ax = draw.axes(ax)
        count = len(self.prompts)
        ax.plot(np.arange(1, count + 1) / max(count, 1), [prompt.p_value for prompt in self.prompts], "o")
        ax.plot([0, 1], [0, 1], linestyle=":", color="grey")
        ax.set_xlabel("share of prompts")
        ax.set_ylabel("p-value of the prompt")
        return ax


def same_model(
    a: Any,
    b: Any,
    *,
    embedder: AnyEmbedder | str | None = "style",
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> SameModel:
    """Whether two sets of completions of the same prompts come from one model.

    Samples of a prompt count as independent given the prompt. If at least five prompts have several samples, there are
    two tests: one exchanges samples within prompts, and one swaps the sides of whole prompts. The p-value is twice the
    smaller of the two; see `permutation_test`.

    Parameters
    ----------
    a : table, path, or `Samples`, with prompts
        Completions of one model.
    b : table, path, or `Samples`, with prompts
        Completions of the other. Prompts that only one side has are left out.
    embedder :
        As in `mallow.score`. The default, "style", needs no model.
    permutations : int
        The minimum number; more are drawn if few reach the observed difference.
    rng : int, numpy Generator or None
        As in `mallow.score`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> prompts = [f"Question {number}" for number in range(10) for _ in range(6)]
    >>> a, b = (Samples(features=rng.normal(size=(60, 3)) + s, prompts=prompts) for s in (0.0, 1.0))
    >>> same_model(a, b, embedder=None).differs
    True
    """
    whole("permutations", permutations, least=1)
    seed = seed_from(rng)
    sides, caveats = _keep_shared(embed_all({"a": a, "b": b}, embedder, prompts="joint"))
    test = judge_prompts(sides["a"], sides["b"], Draws(permutations, seed))
    adjusted = holm(list(test.by_prompt.values()))
    sizes = [_count(sides[name]) for name in "ab"]
    prompts = [
        PromptDifference(prompt, p_value, corrected, (sizes[0][prompt], sizes[1][prompt]))
        for (prompt, p_value), corrected in zip(test.by_prompt.items(), adjusted, strict=True)
    ]
    prompts.sort(key=lambda prompt: prompt.p_value)
    shared = len(sizes[0])
    factor = _find_factor(test.strength, test.spread) if test.p_value < LEVEL else None
    each = sum(sizes[0].values()) + sum(sizes[1].values())
    if not prompts:
        text = (
            "fewer than five prompts have two samples or more in both sets, so that samples cannot be exchanged within "
            "prompts. Changes that are different for each prompt go undetected. Take several samples of each prompt."
        )
        caveats.append(Caveat("one sample per prompt", text))
    warn_about(caveats)
    return SameModel(
        p_value=test.p_value,
        prompts=tuple(prompts),
        shared=shared,
        n=(len(sides["a"]), len(sides["b"])),
        embedder=sides["a"].embedder,
        prompts_needed=None if factor is None else max(_FEWEST_PROMPTS, math.ceil(factor * shared)),
        samples_needed=None if factor is None else max(2, math.ceil(factor * each / (2 * shared))),
        caveats=tuple(caveats),
    )


def _find_factor(strength: float, spread: float) -> float | None:
    """The factor by which samples must grow for 80% power, from a lower limit of the difference in standard errors.

    The difference in standard errors grows at least like the root of the number of prompts, or of samples of each. For
    fewer samples it falls at most in proportion. None if even `_MOST` times as many might be too few.
    """
    normal = NormalDist()
    least = strength - normal.inv_cdf(_CONFIDENCE) * spread
    required = normal.inv_cdf(1.0 - LEVEL) + normal.inv_cdf(_POWER) * spread
    if required > least * math.sqrt(_MOST):
        return None
    ratio = required / least
    return max(ratio, ratio**2)


def _keep_shared(sides: Mapping[str, Samples]) -> tuple[dict[str, Samples], list[Caveat]]:
    """The samples of prompts that both sets have."""
    prompts = {}
    for name, samples in sides.items():
        if samples.prompts is None:
            raise InputError(f"`{name}` must have prompts: which completions answer the same prompt is not known.")
        prompts[name] = samples.prompts
    shared = set(prompts["a"]) & set(prompts["b"])
    if not shared:
        raise InputError("`a` and `b` must answer the same prompts, but they share none.")
    kept = {
        name: samples.take([row for row, prompt in enumerate(prompts[name]) if prompt in shared])
        for name, samples in sides.items()
    }
    rows = np.concatenate([samples.require_features() for samples in kept.values()])
    if (rows == rows[0]).all():
        raise InputError("`a` and `b` must have samples that differ, but all completions look equal to the embedder.")
    caveats = []
    kept_prompts = [0.0 if side.texts is None else share_with_prompt(side) for side in kept.values()]
    if abs(kept_prompts[0] - kept_prompts[1]) > _MANY:
        text = (
            f"{percent(kept_prompts[0])} of the texts of `a` begin with their prompt, and {percent(kept_prompts[1])} "
            "of `b`, so that they differ even if the models do not. Remove the prompts on both sides."
        )
        caveats.append(Caveat("prompt", text))
    lost = len(set(prompts["a"]) ^ set(prompts["b"]))
    if lost:
        text = "1 prompt was" if lost == 1 else f"{lost} prompts were"
        text += " left out, because only one of the sets has completions for it."
        caveats.append(Caveat("unmatched prompts", text, values={"prompts": lost}))
    return kept, caveats


def _count(samples: Samples) -> dict[str, int]:
    return dict(Counter(samples.prompts or ()))
