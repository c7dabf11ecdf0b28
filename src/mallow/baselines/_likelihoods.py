"""What language models say about human and generated texts: all measures of probabilities in one result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow.baselines._language_modelling import LanguageModelling, language_modelling
from mallow.baselines._perplexity import exp_or_infinity
from mallow.errors import Caveat, InputError, warns
from mallow.estimate import compute_direct_frontier
from mallow.generate import Greedy, NextToken, Sampling, TopK, token_log_probs
from mallow.generate import decoder as find_decoder
from mallow.results import Result, TableData, draw
from mallow.theory import Frontier, area, integral, midpoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SCALE = 5.0  # the paper's c of quantised samples, with which it prints direct estimates


@dataclass(frozen=True, eq=False, repr=False)
class Likelihoods(Result):
    """Probabilities of human and of generated texts under a model, and under a surrogate of the human distribution.

    Attributes
    ----------
    human : LanguageModelling
        Human texts under the model with its decoder: SP, JS and ε-perplexity (paper: tab:mauve:expt:webtext-app-LM).
    generation_perplexity : dict
        Perplexity of the "human" and of the "generated" texts under the surrogate (paper: Gen. PPL.); the closer, the better.
    frontier : Frontier or None
        Direct estimate of the frontier from both models (paper: sec:direct-est). None without a surrogate.
    summaries : dict
        Its "mauve" (c = 5), "frontier_integral" and "midpoint"; empty without a surrogate.
    model, surrogate, decoder : str
    n : tuple of int
        Human and generated texts.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "likelihoods"

    human: LanguageModelling
    generation_perplexity: dict[str, float]
    frontier: Frontier | None
    summaries: dict[str, float]
    model: str
    surrogate: str
    decoder: str
    n: tuple[int, int]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        direct = f", direct MAUVE={self.summaries['mauve']:.4f}" if self.summaries else ""
        return f"Likelihoods(ε-perplexity={self.human.epsilon_perplexity:.4g}{direct}, n={self.n})"

    def __str__(self) -> str:
        title = f"{self.n[0]} human and {self.n[1]} generated texts under {self.model} with {self.decoder} decoding"
        other = f"surrogate of the human distribution: {self.surrogate}" if self.surrogate else "no surrogate"
        return "\n".join([title, other, self.table(), *self.caveat_lines()])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the directly estimated frontier; returns the axes."""
        if self.frontier is None:
            raise InputError("There is no frontier without a surrogate. Pass `surrogate`.")
        ax = draw.axes(ax)
        x, y = (np.exp(-_SCALE * cost) for cost in (self.frontier.q_to_mix, self.frontier.p_to_mix))
        ax.plot(x, y, label=f"direct estimate: {self.summaries['mauve']:.3f}")
        ax.set(xlabel="exp(−c KL(Q‖R))", ylabel="exp(−c KL(P‖R))", xlim=(0, 1), ylim=(0, 1))
        draw.legend(ax)
        return ax

    def _records(self) -> list[dict[str, Any]]:
        human = self.human
        rows = {
            "perplexity of human text under the model": human.perplexity,
            f"ε-perplexity, ε = {human.epsilon:g}": human.epsilon_perplexity,
            "sparsemax score SP": human.sparsemax,
            "JS of human text": human.js,
            "impossible tokens of human text": human.impossible,
        }
        rows |= {f"Gen. PPL of {side} texts": value for side, value in self.generation_perplexity.items()}
        titles = {"mauve": "direct MAUVE", "frontier_integral": "direct integral", "midpoint": "direct mid-point"}
        rows |= {titles[name]: value for name, value in self.summaries.items()}
        return [{"measure": name, "value": value} for name, value in rows.items()]

    def _table(self) -> TableData:
        rows = [[one["measure"], f"{one['value']:.4g}"] for one in self._records()]
        return TableData(["", "value"], rows)


@warns
def likelihoods(
    model: NextToken,
    reference: Sequence[str],
    generated: Sequence[str],
    *,
    surrogate: NextToken | None = None,
    decoder: str = "ancestral",
    epsilon: float = 1e-5,
) -> Likelihoods:
    """All measures that the paper takes from probabilities, in one call: of the model itself, and beside a surrogate.

    Models should not be ranked by any of them: see `language_modelling`, `perplexity` and `mallow.estimate.direct_frontier` for
    their known failures. For the frontier a generated text that the decoder cannot write has no probability: this is refused,
    since the decoder is then not the one that wrote the texts.

    Parameters
    ----------
    model : NextToken
        The model that wrote `generated`.
    reference, generated : sequence of str
        Human and generated texts.
    surrogate : NextToken or None
        Stands for the human distribution, without decoding rules (paper: GPT-2 large for Gen. PPL., xl for direct
        estimation). None: neither Gen. PPL. nor direct estimation.
    decoder : str
        How `generated` was decoded, as `mallow.generate.decoder` names it: rules or greedy.
    epsilon : float
        As in `language_modelling`.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> human, machine = ["to be or not to be", "to be is to do"], ["to be or to be", "do be do"]
    >>> model, other = NGram.fit(machine, min_count=1), NGram.fit(human, min_count=1)
    >>> result = likelihoods(model, human, machine, surrogate=other)
    >>> result.generation_perplexity["human"] < result.generation_perplexity["generated"]
    True
    """
    chosen = find_decoder(decoder)
    if isinstance(chosen, Greedy):
        chosen = Sampling((TopK(1),))
    if not isinstance(chosen, Sampling):
        raise InputError(
            f"`decoder` must be greedy or made of rules, which give the next token a probability; got {decoder!r}."
        )
    rules = tuple(chosen.rules)
    for name, texts in (("reference", reference), ("generated", generated)):
        if not texts:
            raise InputError(f"`{name}` must hold at least one text; got none.")
    human = language_modelling(model, reference, rules, epsilon=epsilon)
    caveats: tuple[Caveat, ...] = ()
    perplexities: dict[str, float] = {}
    curve, summaries = None, {}
    if surrogate is not None:
        scored = {
            "human": token_log_probs(surrogate, reference),
            "generated": token_log_probs(surrogate, generated),
        }
        for side, each in scored.items():
            tokens = np.concatenate(each)
            perplexities[side] = exp_or_infinity(-math.fsum(tokens) / len(tokens))
        p_at_p, p_at_q = (np.array([math.fsum(one) for one in each]) for each in scored.values())
        q_at_p, q_at_q = (
            np.array([math.fsum(one) for one in token_log_probs(model, texts, rules=rules)])
            for texts in (reference, generated)
        )
        curve = compute_direct_frontier(p_at_p, q_at_p, p_at_q, q_at_q)
        caveats = curve.caveats
        summaries = {
            "mauve": float(area(curve, scale=_SCALE)),
            "frontier_integral": float(integral(curve)),
            "midpoint": float(midpoint(curve)),
        }
    if not math.isfinite(human.perplexity):
        caveats += (_impossible_caveat(human),)
    return Likelihoods(
        human=human,
        generation_perplexity=perplexities,
        frontier=curve,
        summaries=summaries,
        model=_label(model),
        surrogate="" if surrogate is None else _label(surrogate),
        decoder=chosen.name,
        n=(len(reference), len(generated)),
        caveats=caveats,
    )


def _impossible_caveat(human: LanguageModelling) -> Caveat:
    message = (
        f"{human.impossible:.1%} of the tokens of human text are impossible under this decoder, so that its perplexity is "
        "infinite: compare ε-perplexities."
    )
    return Caveat("infinite perplexity", message, values={"impossible": human.impossible})


def _label(model: NextToken) -> str:
    return str(getattr(model, "name", None) or type(model).__name__)
