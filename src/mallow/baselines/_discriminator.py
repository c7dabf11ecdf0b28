"""How well a classifier tells two samples apart: a logistic regression of features, or a fine-tuned language model."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow._optional import optional
from mallow.baselines._points import (
    ROWS,
    Flags,
    Indices,
    as_generator,
    check_pair,
    rescale,
    row_blocks,
    thread_count,
)
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import InputError
from mallow.estimate import Features, canonical_order, choose_penalty, logistic_regression
from mallow.models import Source, context_length, move_network, tokenise

_FOLDS = 5  # chosen: scikit-learn's default
_TEST_EVERY = 4  # one sample in four is for the test; chosen: scikit-learn's default share
_LEAST_SAMPLES = 8  # per side: 2 for the test and 6 for the 5 folds
_TOLERANCE = 1e-4  # of the optimiser: scikit-learn's default

_VALIDATE_EVERY = 8  # one training sample in eight chooses the round; chosen

Tokens = list[NDArray[np.int32]]


def discriminator_accuracy(reference: Any, model: Any, *, rng: int | np.random.Generator | None = 0) -> float:
    """The held-out accuracy of a logistic regression that tells the two samples apart (paper: baseline metrics).

    1 = fully separable, 0.5 = indistinguishable: the smaller, the better. A quarter of the points is held out for the
    test. On the others, the weight of the L2 penalty is chosen by the logistic loss in 5-fold cross-validation, between
    10⁴ and 10⁻³ divided by the number of points, and the classifier is then fitted to all of them. Features are scaled
    to standard deviation 1.

    The accuracy is the mean of the accuracies on the two sides, each of which has half of the total weight in training:
    for n = m this is the usual accuracy, and for n ≠ m guessing still gives 0.5. If a sample of one side is a duplicate
    of a sample of the other side, both go to the same part: otherwise a model that repeats the reference would score
    *below*
    0.5, because the classifier would have seen the duplicates with the other label.

    The standard error over t test points is √(a(1 − a)/t) for the accuracy a, 0.01 with 5,000 samples per side.
    Constant features give 0.5.

    Parameters
    ----------
    reference : array (n, d)
        The features of at least 8 real samples.
    model : array (n, d)
        The features of at least 8 samples of the model.
    rng : int, numpy.random.Generator or None
        For the split; None gives a different split each time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(9.0, 1.0, size=(200, 2))
    >>> discriminator_accuracy(x, y), discriminator_accuracy(x, x)
    (1.0, 0.5)
    """
    x, y = rescale(*check_pair(reference, model))
    for name, side in (("reference", x), ("model", y)):
        if len(side) < _LEAST_SAMPLES:
            raise InputError(
                f"`{name}` must hold at least {_LEAST_SAMPLES} samples, to be split into a test and {_FOLDS} folds; "
                f"got {len(side)}."
            )
    parts = _split_parts(x, y, as_generator(rng))
    label = np.repeat([True, False], [len(x), len(y)])
    train, test = parts >= 0, parts < 0
    with single_threaded_blas():
        scaled = _standardise(x, y, train)
        points, truth = scaled[train], label[train]
        held_out, answer = scaled[test], label[test]
        del scaled
        penalty = _best_penalty(points, truth, parts[train])
        classifier = logistic_regression(tolerance=_TOLERANCE, balanced=True).set_params(C=1.0 / penalty)
        log_odds = classifier.fit(points, truth).decision_function(held_out)
    correct = (log_odds > 0) == answer
    return float((correct[answer].mean() + correct[~answer].mean()) / 2)


def _split_parts(x: Features, y: Features, rng: np.random.Generator) -> Indices:
    """For every pooled sample −1 for the test, or the fold from 0 to 4 in which it is held out."""
    group = canonical_order(x, y).group
    side = np.repeat([0, 1], [len(x), len(y)])
    order = np.lexsort((side, group))
    # The first copy of a row in x is paired with the first one in y, the second with the second …
    run = np.append(True, (np.diff(group[order]) != 0) | (np.diff(side[order]) != 0))
    copy = np.empty(len(group), np.int64)
    copy[order] = np.arange(len(group)) - np.flatnonzero(run)[np.cumsum(run) - 1]
    _, unit = np.unique(group * len(group) + copy, return_inverse=True)
    kind = np.bincount(unit, weights=side + 1).astype(np.int64)  # 1: in x, 2: in y, 3: in both
    units = rng.permutation(len(kind))
    units = units[np.argsort(kind[units], kind="stable")]  # assigned kind by kind, so that every part has its share
    part = np.full(len(kind), -1, np.int64)
    rest = np.delete(units, np.s_[::_TEST_EVERY])
    part[rest] = np.arange(len(rest)) % _FOLDS
    return part[unit]


def _standardise(x: Features, y: Features, train: Flags) -> Features:
    """The pooled samples, each feature with mean 0 and standard deviation 1 over the training samples."""
    points = np.concatenate([x, y])
    size = int(train.sum())
    mean = np.zeros(points.shape[1])
    for block in row_blocks(len(points), ROWS):
        mean += points[block][train[block]].sum(axis=0, dtype=np.float64) / size
    variance = np.zeros_like(mean)
    for block in row_blocks(len(points), ROWS):
        variance += ((points[block][train[block]] - mean) ** 2).sum(axis=0) / size
    spread = np.sqrt(variance)
    # A constant feature varies by rounding only, which must not be scaled up.
    varies = spread > 8 * np.finfo(points.dtype).eps * np.abs(mean)
    for block in row_blocks(len(points), ROWS):
        points[block] = np.where(varies, (points[block] - mean) / np.where(varies, spread, 1.0), 0.0)
    return points


def _best_penalty(points: Features, label: Flags, fold: Indices) -> float:
    """The penalty with the least held-out loss, summed over the folds."""
    models = [logistic_regression(tolerance=_TOLERANCE, balanced=True) for _ in range(_FOLDS)]  # each keeps its weights

    def fold_loss(task: tuple[int, float]) -> float:
        k, penalty = task
        model, held_out = models[k], fold == k
        model.set_params(C=1.0 / penalty).fit(points[~held_out], label[~held_out])
        signed = np.where(label[held_out], 1.0, -1.0) * model.decision_function(points[held_out])
        weight = np.where(label[held_out], 1.0 / label.sum(), 1.0 / (~label).sum())
        return float(weight @ np.logaddexp(0.0, -signed))

    def total_loss(penalty: float) -> tuple[float, None]:
        return math.fsum(ordered_map(fold_loss, [(k, penalty) for k in range(_FOLDS)], thread_count())), None

    return choose_penalty(total_loss)[0]


@dataclass(frozen=True)
class TunedDiscriminator:
    """How a discriminator is fine-tuned.

    Attributes
    ----------
    model : str
        A transformers model: a name on the hub or a folder. All of its weights are trained, with a new linear layer on
        the mean of its last hidden states.
    revision : str or None
        As in `mallow.embed.LanguageModel`.
    rounds : int
        Passes over the training texts. The round with the smallest loss on a part held out from training is kept.
    rate : float
        The learning rate of AdamW.
    batch : int
        Texts in a step.
    max_length : int
        Longer texts are cut to this many tokens.
    device : str or None
        As torch names it. None: cuda, mps or cpu.
    """

    model: str
    revision: str | None = None
    rounds: int = 3
    rate: float = 5e-5
    batch: int = 16
    max_length: int = 256
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "max_length"):
            whole(name, getattr(self, name), least=1)
        positive("rate", self.rate)


def tuned_discriminator_accuracy(
    reference: Sequence[str],
    model: Sequence[str],
    options: TunedDiscriminator,
    *,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The held-out accuracy of a language model that is fine-tuned to tell generated texts from human ones.

    1 = fully separable, 0.5 = indistinguishable: the smaller, the better. The frozen discriminator,
    `discriminator_accuracy`, uses given features. This one learns its own features and detects more (paper: baseline
    metrics, where a classifier is trained on the texts of each system). A quarter of the texts is held out for the
    test. Equal texts are on one side of the split. The accuracy is the mean of the accuracies on both sides. It is a
    lower bound: a larger model, or more texts, may reach a higher accuracy. Needs torch and transformers.

    Parameters
    ----------
    reference : sequence of str
        At least 8 human texts.
    model : sequence of str
        At least 8 generated texts.
    options : TunedDiscriminator
    rng : int, numpy.random.Generator or None
        For the split, the new layer and the order of the texts. Training uses ordinary floating-point arithmetic, so
        the accuracy may differ between processors.
    """
    texts = [*reference, *model]
    for name, side in (("reference", reference), ("model", model)):
        if isinstance(side, str) or not all(isinstance(text, str) for text in side):
            raise InputError(f"`{name}` must be a list of texts; got {type(side).__name__} with other things.")
        if len(side) < _LEAST_SAMPLES:
            raise InputError(f"`{name}` must hold at least {_LEAST_SAMPLES} texts, to be split; got {len(side)}.")
    rng = as_generator(rng)
    label = np.repeat([1.0, 0.0], [len(reference), len(model)])
    test, validation = _split(texts, label, rng)
    torch = optional("torch", extra="text")
    source = Source(options.model, options.revision, "float32", options.device)
    tokenizer = source.load("AutoTokenizer")
    network, missing = source.load_network("AutoModel")
    source.refuse_missing_weights([key for key in missing if "pooler" not in key])
    network = move_network(network, source.chosen_device, source.model)
    limit = min(options.max_length, context_length(network, tokenizer))
    tokens = list(tokenise(tokenizer, texts, limit, add_bos=source.wants_bos))
    judge = _Judge(torch, network, rng)
    judge.train(tokens, label, np.flatnonzero(~test & ~validation), np.flatnonzero(validation), options, rng)
    held_out = np.flatnonzero(test)
    right = (judge.log_odds(tokens, held_out, options.batch) > 0) == (label[held_out] > 0)
    return float(np.mean([right[label[held_out] == side].mean() for side in (0.0, 1.0)]))


def _split(
    texts: Sequence[str], label: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which texts are for the test and which choose the round. Copies of a text go to the part of the first copy."""
    _, group = np.unique(np.array(texts, dtype=object), return_inverse=True)
    test, validation = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
    taken: dict[int, int] = {}
    for side in (1.0, 0.0):
        for turn, row in enumerate(rng.permutation(np.flatnonzero(label == side))):
            part = 0 if turn % _TEST_EVERY == 0 else 1 if turn % _VALIDATE_EVERY == 1 else 2
            part = taken.setdefault(int(group[row]), part)
            test[row], validation[row] = part == 0, part == 1
    return test, validation


class _Judge:
    """A network with a linear layer on the mean of its last hidden states."""

    def __init__(self, torch: Any, network: Any, rng: np.random.Generator) -> None:
        self.torch, self.network = torch, network
        width = int(network.config.get_text_config().hidden_size)
        drawn = rng.normal(0.0, width**-0.5, size=width).astype(np.float32)
        self.weight = torch.tensor(drawn, device=network.device, requires_grad=True)
        self.bias = torch.zeros((), device=network.device, requires_grad=True)

    def train(
        self,
        tokens: Tokens,
        label: NDArray[np.float64],
        train: NDArray[np.intp],
        validation: NDArray[np.intp],
        options: TunedDiscriminator,
        rng: np.random.Generator,
    ) -> None:
        """Train for all rounds, and keep the weights of the best one."""
        torch = self.torch
        groups = [{"params": self.network.parameters()}, {"params": [self.weight, self.bias], "lr": 20 * options.rate}]
        optimiser = torch.optim.AdamW(groups, lr=options.rate)
        share = [float((label[train] == side).mean()) for side in (0.0, 1.0)]
        best: tuple[float, Any] | None = None
        for _ in range(options.rounds):
            order = rng.permutation(train)
            for first in range(0, len(order), options.batch):
                rows = order[first : first + options.batch]
                weight = torch.tensor(
                    [0.5 / max(share[int(side)], 1e-9) for side in label[rows]], device=self.bias.device
                )
                truth = torch.tensor(label[rows], dtype=torch.float32, device=self.bias.device)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(self._odds(tokens, rows), truth, weight)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            odds = self.log_odds(tokens, validation, options.batch) * np.where(label[validation] > 0, 1.0, -1.0)
            losses = np.logaddexp(0.0, -odds)
            held_out = float(losses.mean()) if len(losses) else 0.0
            if best is None or held_out < best[0]:
                best = held_out, copy.deepcopy((self.network.state_dict(), self.weight.detach(), self.bias.detach()))
        if best is not None:
            state, weight, bias = best[1]
            self.network.load_state_dict(state)
            with torch.no_grad():
                self.weight.copy_(weight)
                self.bias.copy_(bias)

    def log_odds(self, tokens: Tokens, rows: NDArray[np.intp], batch: int) -> NDArray[np.float64]:
        """The log-odds that each of these texts is human."""
        parts = []
        with self.torch.inference_mode():
            for first in range(0, len(rows), batch):
                parts.append(self._odds(tokens, rows[first : first + batch]).cpu().numpy().astype(np.float64))
        return np.concatenate(parts) if parts else np.empty(0)

    def _odds(self, tokens: Tokens, rows: NDArray[np.intp]) -> Any:
        torch = self.torch
        texts = [tokens[row] for row in rows]
        length = max(len(text) for text in texts)
        ids, mask = np.zeros((len(texts), length), np.int64), np.zeros((len(texts), length), np.int64)
        for row, mask_row, text in zip(ids, mask, texts, strict=True):
            row[: len(text)], mask_row[: len(text)] = text, 1
        device = self.network.device
        kept = torch.from_numpy(mask).to(device)
        states = self.network(input_ids=torch.from_numpy(ids).to(device), attention_mask=kept).last_hidden_state
        mean = (states * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
        return mean @ self.weight + self.bias
