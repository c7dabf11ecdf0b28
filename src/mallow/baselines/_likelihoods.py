"""How likely human and generated texts are under language models: perplexity, and all such measures in one result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.errors import Caveat, InputError, warns
from mallow.estimate import direct_frontier
from mallow.generate import (
    Chain,
    Greedy,
    NextToken,
    Rule,
    Sampling,
    Text,
    TopK,
    check_normalised,
    check_scores,
    iterate_positions,
    split_prefixes,
    token_log_probs,
)
from mallow.generate import decoder as find_decoder
from mallow.results import Result, TableData, draw
from mallow.theory import Frontier, area, integral, midpoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_LOG_2 = math.log(2.0)

_SCALE = 5.0  # the paper's c of quantised samples, with which it prints direct estimates


def perplexity(
    scorer: NextToken, texts: Sequence[Text], *, prefixes: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> float:
    """The perplexity exp(−Σ log R(token) / number of tokens) of all texts together under a scoring model R.

    For generated texts this is the *generation perplexity* (paper: baseline metrics, Gen. PPL., with GPT-2 large as R).
    Low is not good: greedy text has a value of about 1, and an adversarial decoder can reach any value with gibberish
    (paper: sec:expt:properties). It is meaningful only in comparison with the value of human text: `perplexity_gap`.

    The paper does not say how it averages over texts. Here every token has the same weight, which is the usual
    definition; to give every text the same weight, take the mean of `text_perplexities`, which is never smaller for
    texts of equal length.

    A text is scored from its first token on, after the token that begins every text: the one that `encode` puts first,
    if it decodes to nothing (a begin-of-text token), otherwise the model's only end-of-text token. The end of the text
    is not scored, because most samples are cut off at some length; to score it, pass token ids that include it.

    Parameters
    ----------
    scorer : NextToken
    texts : sequence of str or of token ids
    prefixes :
        The prompts, after which continuations are scored, as in `mallow.generate.token_log_probs`.
    batch :
        How many texts are scored at once.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity(scorer, ["to be"]) < perplexity(scorer, ["be to"])
    True
    """
    return _perplexity_of(np.concatenate(token_log_probs(scorer, texts, prefixes=prefixes, batch=batch)))


def text_perplexities(
    scorer: NextToken, texts: Sequence[Text], *, prefixes: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> NDArray[np.float64]:
    """The perplexity of each text, shape (n,); parameters as in `perplexity`."""
    return np.array(
        [_perplexity_of(scores) for scores in token_log_probs(scorer, texts, prefixes=prefixes, batch=batch)]
    )


def perplexity_gap(scorer: NextToken, reference: Sequence[Text], model: Sequence[Text], *, batch: int = 64) -> float:
    """|T(Q) − T(P)| of the perplexity under a scoring model, where 0 is best (paper: baseline metrics).

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity_gap(scorer, ["to be", "or not"], ["or not", "to be"])
    0.0
    """
    return abs(perplexity(scorer, model, batch=batch) - perplexity(scorer, reference, batch=batch))


def exp_or_infinity(value: float) -> float:
    """exp, with ∞ instead of an OverflowError."""
    return math.exp(value) if value < 709.0 else math.inf


def _perplexity_of(log_probs: Floats) -> float:
    return exp_or_infinity(-math.fsum(log_probs) / len(log_probs))


@dataclass(frozen=True)
class LanguageModelling:
    """How likely texts are under a model and its decoding rules; means over all tokens of all texts.

    Attributes
    ----------
    perplexity : float
        At least 1, lower is better; ∞ if a single token is impossible.
    epsilon_perplexity : float
        The same after adding ε to every probability and normalising; always finite.
    sparsemax : float
        SP, from 0 to 1, higher is better.
    js : float
        Jensen–Shannon divergence, from 0 to log 2, lower is better.
    impossible : float
        The share of tokens with probability 0.
    tokens : int
        The number of tokens.
    epsilon : float
        The ε of `epsilon_perplexity`.
    """

    perplexity: float
    epsilon_perplexity: float
    sparsemax: float
    js: float
    impossible: float
    tokens: int
    epsilon: float


def language_modelling(
    model: NextToken,
    texts: Sequence[Text],
    rules: Sequence[Rule] = (),
    *,
    epsilon: float = 1e-5,
    prefixes: Sequence[Sequence[int]] | None = None,
    batch: int = 64,
) -> LanguageModelling:
    """Perplexity, ε-perplexity, sparsemax score and Jensen–Shannon divergence of human texts under a model.

    With q the model's distribution after the rules, x the token in the text and e_x the distribution with all mass on
    x, each token has (Martins, Marinho and Martins 2020)

        SP  = 1 − ½‖e_x − q‖² = q_x + ½(1 − ‖q‖²),
        JS  = ½ KL(e_x‖(e_x + q)/2) + ½ KL(q‖(e_x + q)/2) = log 2 + ½ q_x log q_x − ½(1 + q_x) log(1 + q_x),
        ε-perplexity = exp of the mean of −log((q_x + ε) / (1 + ε|V|)).

    JS and both perplexities depend only on q_x. For greedy decoding, ``TopK(1)``, SP is the accuracy and JS is log
    2 · (1 − SP), as in the paper's table. None of these metrics uses generated text: they are at best single points of
    a frontier, JS prefers greedy decoding and ε-perplexity ancestral sampling (paper: tab:mauve:expt:webtext-app-LM).
    Beam search and adversarial decoding define no distribution of the next token, so none of these metrics applies
    to them.

    Parameters
    ----------
    model : NextToken
    texts : sequence of str or of token ids
        Human text.
    rules : sequence of Rule
        The decoder: ``()`` for ancestral sampling, ``(Nucleus(0.95),)``, ``(TopK(1),)`` for greedy.
    epsilon : float
        Above 0. The paper does not print its ε. Its four greedy rows agree only with 1e-5 and |V| = 50,257.
    prefixes :
        Preceding tokens, as in `mallow.generate.token_log_probs`.
    batch :
        How many texts are scored at once.

    Examples
    --------
    >>> from mallow.generate import NGram, TopK
    >>> model = NGram.fit(["to be or not to be"], min_count=1)
    >>> metrics = language_modelling(model, ["to be or be"], (TopK(1),))
    >>> metrics.perplexity, metrics.sparsemax, round(metrics.js, 3)
    (inf, 0.75, 0.173)
    """
    positive("epsilon", epsilon, why=" For ε = 0 it is the perplexity itself.")
    whole("batch", batch, least=1)
    split = split_prefixes(model, texts, prefixes)
    log_q, squares = ([np.empty(len(tokens)) for _, tokens in split] for _ in range(2))
    for indices, position, rows, tokens in iterate_positions(model, split, Chain(tuple(rules)), batch):
        for text, row, token in zip(indices, rows, tokens, strict=True):  # row by row: O(|V|) memory beyond the batch
            q = np.exp(row)
            check_normalised(float(q.sum(dtype=np.float64)), model)
            log_q[text][position] = row[token]
            q[token] = 0
            squares[text][position] = np.square(q, out=q).sum(dtype=np.float64)
    scores = np.concatenate([check_scores(text_scores, f"`texts[{i}]`") for i, text_scores in enumerate(log_q)])
    return _average(scores, np.concatenate(squares), model.vocabulary, float(epsilon))


def _average(log_q: Floats, squares: Floats, vocabulary: int, epsilon: float) -> LanguageModelling:
    """The means over tokens; `squares` is Σ q_y² over the tokens y that are not in the text at that position."""
    count, q = len(log_q), np.exp(log_q)
    loss = ((1.0 - q) ** 2 + squares) / 2.0
    q_log_q = q * np.maximum(log_q, -1e4)  # 0·log 0 = 0
    js = np.maximum(_LOG_2 + (q_log_q - (1.0 + q) * np.log1p(q)) / 2.0, 0.0)
    # math.fsum is exact, so that the order of the texts has no effect.
    return LanguageModelling(
        perplexity=_perplexity_of(log_q),
        epsilon_perplexity=exp_or_infinity(math.log1p(epsilon * vocabulary) - math.fsum(np.log(q + epsilon)) / count),
        sparsemax=1.0 - math.fsum(loss) / count,
        js=math.fsum(js) / count,
        impossible=float((log_q == -np.inf).mean()),
        tokens=count,
        epsilon=epsilon,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Likelihoods(Result):
    """Probabilities of human and of generated texts under a model, and under a surrogate of the human distribution.

    Attributes
    ----------
    human : LanguageModelling
        Human texts under the model with its decoder: SP, JS and ε-perplexity (paper: tab:mauve:expt:webtext-app-LM).
    generation_perplexity : dict
        Perplexity of the "human" and of the "generated" texts under the surrogate (paper: Gen. PPL.). The closer, the
        better.
    frontier : Frontier or None
        Direct estimate of the frontier from both models (paper: sec:direct-est). None without a surrogate.
    summaries : dict
        Its "mauve" (c = 5), "frontier_integral" and "midpoint"; empty without a surrogate.
    model : str
        The model's label.
    surrogate : str
        The label of the surrogate for human text.
    decoder : str
        The decoder of the model.
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
        rows = [[record["measure"], f"{record['value']:.4g}"] for record in self._records()]
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
    """All measures that the paper computes from probabilities: with the model itself, and with a surrogate.

    Models should not be ranked by any of them: see `language_modelling`, `perplexity` and
    `mallow.estimate.direct_frontier` for their known failures. The frontier is refused if the decoder cannot write
    one of the generated texts, since it is then not the decoder that wrote them.

    Parameters
    ----------
    model : NextToken
        The model that wrote `generated`.
    reference : sequence of str
        The human texts.
    generated : sequence of str
        The generated texts.
    surrogate : NextToken or None
        A model in place of the human distribution, without decoding rules (paper: GPT-2 large for Gen. PPL., xl for
        direct estimation). None: neither Gen. PPL. nor direct estimation.
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

    def model_label(scored: NextToken) -> str:
        return str(getattr(scored, "name", None) or type(scored).__name__)

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
        sides = {"human": reference, "generated": generated}
        scored = {side: token_log_probs(surrogate, texts) for side, texts in sides.items()}
        perplexities = {side: _perplexity_of(np.concatenate(scores)) for side, scores in scored.items()}
        p_at_p, p_at_q = (np.array([math.fsum(text) for text in texts_scored]) for texts_scored in scored.values())
        q_at_p, q_at_q = (
            np.array([math.fsum(log_probs) for log_probs in token_log_probs(model, texts, rules=rules)])
            for texts in sides.values()
        )
        curve = direct_frontier.quiet(p_at_p, q_at_p, p_at_q, q_at_q)
        caveats = curve.caveats
        summaries = {
            "mauve": float(area(curve, scale=_SCALE)),
            "frontier_integral": float(integral(curve)),
            "midpoint": float(midpoint(curve)),
        }
    if not math.isfinite(human.perplexity):
        message = (
            f"{human.impossible:.1%} of the tokens of human text are impossible under this decoder, so that its "
            "perplexity is infinite: compare ε-perplexities."
        )
        caveats += (Caveat("infinite perplexity", message, values={"impossible": human.impossible}),)
    return Likelihoods(
        human=human,
        generation_perplexity=perplexities,
        frontier=curve,
        summaries=summaries,
        model=model_label(model),
        surrogate="" if surrogate is None else model_label(surrogate),
        decoder=chosen.name,
        n=(len(reference), len(generated)),
        caveats=caveats,
    )
