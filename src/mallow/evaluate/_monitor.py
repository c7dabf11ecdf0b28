"""A score that follows a model while it trains, and an alarm that may be checked after every batch.

Bins and views of the features are fixed once; each batch only adds to counts and sums.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import seed_from
from mallow.caveats import refuse_without_answer
from mallow.embed import AnyEmbedder, check_prompts, embed_samples, spaces_of_texts
from mallow.engine import single_threaded_blas
from mallow.errors import InputError, warn_about
from mallow.estimate import Codebook, Quantize, as_features
from mallow.evaluate._monitor_parts import (
    SPENT,
    check_watch,
    fit_codebook,
    join_spaces,
    pack_part,
    resolve_reference,
    split_reference,
    unit_caveats,
    unpack_part,
)
from mallow.evaluate._run import Run, Settings
from mallow.evaluate._score import Score, build_score
from mallow.evidence import (
    LEVEL,
    MAUVE_STAR,
    SUMMARIES,
    Bets,
    Looks,
    Measure,
    Units,
    find_measure,
    fit_betting,
    fit_sequential_test,
    generator_for,
)
from mallow.samples import Samples, read
from mallow.theory import KL, Partition
from mallow.theory.smoothing import krichevsky_trofimov

_FEWEST = 20  # reference samples; chosen: fewer do not allow fitting and counting even one bin
_DRAWS = 20  # of the self-score; chosen


class Monitor:
    """The score of all samples of a model seen so far, for a training loop, with an alarm that is valid at every look.

    `update` costs only as much as its batch. `alarm` shows whether the distribution of the model's samples differs from
    the reference. You can check it after every batch and stop at any time: however often you check, the chance of a
    false alarm is at most 5%. `p_value` is its p-value.

    A quarter of the reference, drawn at random, fits the bins. The other three quarters are counted in them, once. From
    then on the bins do not change: a batch is embedded, each sample falls into a bin, and the samples themselves are
    dropped.

    The value differs from `mallow.score`, which clusters both samples anew each time. Follow the values of one monitor,
    compare them with their own self-score, and report the value of `score`. Bins that were fitted only on real data are
    coarse for texts that no person writes, so strange samples cost less. For 990 continuations of 1,000 WebText prompts
    (GloVe, 75 bins), frozen and joint bins gave 0.86 and 0.82 for beam search, 0.91 and 0.82 for greedy decoding, 0.97
    and 0.98 for contrastive search, 0.98 and 0.99 for nucleus sampling; for Gaussians in 64 dimensions one standard
    deviation apart along the first (n = 5,000), 0.69 and 0.66. To detect such texts, fit a codebook on real data
    together with samples of an early model, ``Quantize(bins=500).fit(real, early)``, and pass
    ``Measure(Quantize(codebook=…))`` with other real data.

    The reference samples that fit the bins are not counted, since k-means evens out their counts: with them, a perfect
    model scored 0.962 with a self-score of 0.944, which can hide a small gap; without them, 0.937 with 0.937 (means of
    8 runs, 2,000 and 1,000 samples, 200 bins).

    The alarm does not use the score. It compares means over the samples: of all features, weighted in two ways so that
    directions of small variance count, of distances from the centre, and of the bins. Only sums and counts are kept.
    For texts it also uses the style and the similarity to their prompts, as long as all samples of the model have
    prompts. Only the features have bins. With 1,000 texts as the reference the alarm was raised after 20 samples of
    greedy decoding, 85 of contrastive search, 125 of typical sampling and 180 of top-k sampling by the features
    (medians, GPT-2 large on WebText, default embedder), whereas the bins alone detected only greedy decoding. The noise
    of the reference, which all checks share, is part of the test, so more model samples than ten times the reference
    hardly help. The method is `mallow.evidence.SequentialTest`.

    Samples with the same id (without ids, the same prompt) are one unit, in one batch or in many. They count as if they
    were equal: t samples in units of sizes g are worth t²/Σg² independent samples, so more generations for the same
    prompt change the mean but add no certainty. Without ids every sample counts as independent. Several generations for
    each prompt then raise false alarms (in 89% of runs with four generations and half of the variance between prompts).
    Prompts that reference and model share make the alarm conservative. Model samples for prompts that fitted the bins
    are left out of the alarm.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data, at least 20 samples and preferably thousands; embedded once. Features that leave nothing to
        compare (all the same, or width 1 or one direction where rows are scaled to length 1) are refused, as in
        `mallow.score`.
    embedder : Embedder, callable, name or None
        As in `mallow.score`. It must embed each sample independently of the others, so string kernels are not accepted.
        Batches are not cached, since a model in training never writes the same text again.
    measure : Measure
        Its estimator must be `Quantize`. ``bins="auto"`` depends on the number of counted reference samples. A measure
        with a `Codebook` keeps it and counts the whole reference: fit the codebook on other data.
    tolerance : float or None
        The alarm sounds when MAUVE has been below it, rather than at any gap: as long as it never was, with a
        probability of at most 5% over all looks (`mallow.evidence`, `_betting.py`). Each sample of the reference takes
        part in one bet only; when all are used up, a warning says so.
    window : int or None
        With a tolerance: half of the model's samples, drawn at random, join the reference of the bets, whose most
        recent `window` samples stay. What is tested is that MAUVE between the window and the present is at least the
        tolerance at every look: a drift that is slow in comparison with the window raises no alarm.
    prompts : str
        "joint": if the texts of the reference have prompts, the alarm also uses the similarity of each text to its
        prompt. "ignore": it only uses the texts.
    rng : int, numpy Generator or None
        Seed of the split, of the clustering, and of the self-score.

    Attributes
    ----------
    measure : Measure
        The measure, with the fitted codebook.
    reference_counts : int array (bins,)
        How many samples of the reference fell into each bin.
    counts : int array (bins,)
        How many samples of the model fell into each bin.
    p_value : float
        The p-value for no gap, however often it is read; see below.
    p_values : dict
        The p-values of its parts; see below.
    alarm : bool
        Whether a gap was shown; see below.
    tolerance : float or None
    tolerance_p_value : float
        The p-value for MAUVE never having been below `tolerance`; see below.

    Notes
    -----
    A monitor pickles if its embedder does. For several workers, make one monitor, give each worker a copy
    (`copy.deepcopy`, or pickle), and `merge` them: counts, sums and score are bit-equal to one pass over the same
    features, for any parts, in any order and any tree, across processes and machines (examples/distributed_monitor.py).
    `p_value` is the smallest over the checks of one monitor. Merging is not a check, and takes over no earlier checks.
    The next check is the next use of `p_value`, `alarm` or `compute`, with all samples. So merge into a copy that has
    counted nothing, and the p-value is for all samples, in any order. The 5% hold for one monitor until its next
    `reset`; eight workers that are watched separately have 5% each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=(2000, 4)), measure=Measure(Quantize(bins=50)))
    >>> for step in range(10):
    ...     monitor.update(rng.normal(0.5, 1.0, size=(100, 4)))
    >>> result = monitor.compute()
    >>> result.n, result.mauve < result.self_score["mauve"]
    ((1500, 1000), True)
    >>> monitor.alarm, result.p_value == monitor.p_value < 0.001
    (True, True)
    """

    def __init__(
        self,
        reference: object,
        *,
        embedder: AnyEmbedder | str | None = None,
        measure: Measure | str = MAUVE_STAR,
        tolerance: float | None = None,
        window: int | None = None,
        prompts: str = "joint",
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        measure = find_measure(measure)
        if not isinstance(measure.estimator, Quantize) or measure.estimator.codebook == "shared":
            raise InputError(
                f"`measure` must have Quantize as its estimator, with no shared codebook; got {measure.estimator!r}."
            )
        check_prompts(prompts)
        check_watch(measure, tolerance, window)
        self.tolerance = tolerance
        self._seed, self._joint = seed_from(rng), prompts == "joint"
        reference, self._embedder = resolve_reference(reference, embedder)
        samples = self._embed("reference", reference)
        if len(samples) < _FEWEST:
            raise InputError(f"`reference` must hold at least {_FEWEST} samples, better thousands; got {len(samples)}.")
        rows = as_features("reference", samples.require_features())
        self._made_by, self._width = samples.embedder, rows.shape[1]
        kept = isinstance(measure.estimator.codebook, Codebook)
        if not kept or self._width == 1:  # bins of other data can separate rows that are all the same here
            refuse_without_answer(measure, [rows])
        order, units, fitting = split_reference(samples, rows, self._seed)
        fitted, counted = order[:fitting], order[fitting:]
        self._codebook = fit_codebook(rows[fitted], len(rows), measure.estimator, self._seed)
        self._estimator = replace(measure.estimator, codebook=self._codebook)
        self.measure = replace(measure, estimator=self._estimator)
        self.reference_counts = self._codebook.count(rows if kept else rows[counted], device=measure.estimator.device)
        names = samples.unit_names
        of_fitted = frozenset(() if names is None else (names[place] for place in fitted))
        self._joint = self._joint and len(set(samples.prompts or ())) > 1
        spaces = self._spaces(samples)
        self._widths = {"": self._width} | {name: own.shape[1] for name, own in spaces.items()}
        rows, _ = join_spaces(rows, spaces, self._widths)
        self._one_prompt = set(samples.prompts or ()) if names is None else set()  # of all reference samples
        self._test = fit_sequential_test(
            self._codebook, rows[fitted], rows[counted], units[counted], of_fitted, widths=self._widths
        )
        self._betting = fit_betting(
            self._test.views, rows[:1], tolerance, scale=measure.area_scale, window=window, seed=self._seed
        )
        of_counted = None if names is None else [names[place] for place in counted]
        self._no_bets = self._betting.start(rows[counted], of_counted, of_fitted)
        self.reset()

    def __repr__(self) -> str:
        n, m = self.n
        return f"Monitor(bins={len(self.counts)}, reference={n}, model={m})"

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many samples of the model fell into each bin."""
        return self._counted[0]

    @property
    def _looks(self) -> Looks:
        return self._counted[1]

    @property
    def _bets(self) -> Bets | None:
        return self._counted[2]

    @property
    def _is_spent(self) -> bool:
        """Whether a watch can prove nothing more, and has proven nothing."""
        return self.tolerance is not None and self._bets is not None and not len(self._bets.pool) and not self.alarm

    @property
    def n(self) -> tuple[int, int]:
        """Samples counted so far, of the reference and of the model."""
        return int(self.reference_counts.sum()), int(self.counts.sum())

    @property
    def p_value(self) -> float:
        """The p-value for "the model's samples come from the reference's distribution", over all checks so far.

        It is valid however often, and whenever, it is checked: without a gap, the chance that it ever falls below 0.05
        is at most 5%. It never rises between resets, is 1 before ten samples, and at least 1e-4.
        """
        return min(self.p_values.values())

    @property
    def p_values(self) -> dict[str, float]:
        """The p-values of "mean", "fine mean", "spread" and "bins", corrected for their number.

        Further spaces add the first three, such as "style: mean". `p_value` is the smallest.
        """
        return self._test.p_values(self._looks)

    @property
    def alarm(self) -> bool:
        """Whether the gap is real: `p_value` is below 0.05. With a tolerance: whether `tolerance_p_value` is."""
        return (self.p_value if self.tolerance is None else self.tolerance_p_value) < LEVEL

    @property
    def tolerance_p_value(self) -> float:
        """Of the hypothesis that MAUVE has always been at least `tolerance`, over all looks so far.

        Valid however often, and whenever, it is looked at, for any number of samples.
        """
        if self.tolerance is None or self._bets is None:
            raise InputError("`tolerance_p_value` needs a tolerance: Monitor(reference, tolerance=0.9).")
        return self._betting.p_value(self._bets)

    def update(self, batch: object) -> None:
        """Count more samples of the model, one or many, of the reference's kind, and test all of them so far."""
        samples = self._embed("batch", batch)
        other = samples.embedder
        if other is not None and self._made_by is not None and other != self._made_by:
            raise InputError(
                f"`batch` must be embedded as the reference was, by {self._made_by}; got features by {other}."
            )
        rows, looks = as_features("batch", samples.require_features(), least=1), self._looks.copy()
        spaces = self._spaces(samples)
        with single_threaded_blas():
            counts = self._codebook.count(rows, device=self._estimator.device)
            wide, missing = join_spaces(rows, spaces, self._widths)
            names = self._names(samples)
            self._test.update(looks, wide, counts, names, missing=missing)
            bets = self._bets
            if bets is not None and not missing:
                bets = self._betting.update(bets, wide, names)
        before = self._is_spent
        self._counted = self.counts + counts, looks, bets  # at once: an interruption leaves all as they were
        if self._is_spent and not before:
            warn_about((SPENT,))

    def _names(self, samples: Samples) -> tuple[str, ...] | None:
        """Ids or prompts of a batch, unless it has the one prompt of all reference samples.

        Having a single prompt is normal for one batch.
        """
        alike = not samples.ids and set(samples.prompts or ()) == self._one_prompt
        return None if alike else samples.ids or samples.prompts

    def compute(self) -> Score:
        """The score of all samples since the last reset, with its interval and the self-score.

        `Score.p_value` is over all checks so far. `Score.n` is the number of counted samples. `Score.std` is 0, since
        there is one partition; `Score.masses` has no partition, since samples are not kept. `Score.certified`
        holds however often it is read (for KL); merged monitors have none.
        """
        n, m = self.n
        if m == 0:
            raise InputError(
                "`compute` needs samples of the model, but there are none since the start or the last reset. "
                "Call update(batch) first."
            )
        bins, centres = np.arange(len(self.counts)), self._codebook.centres
        partition = Partition(np.repeat(bins, self.reference_counts), np.repeat(bins, self.counts), centres)
        masses = self._estimator.count(partition)
        # The samples are gone, but a score only needs their numbers and their embedder.
        made_by = None if self._made_by is None else {"embedder": self._made_by}
        reference, model = (
            Samples.trusted(features=np.broadcast_to(0.0, (size, self._width)), provenance=made_by) for size in (n, m)
        )
        units = Units((np.arange(n), n + np.arange(m)), np.zeros(n + m, np.uint64))  # every sample is one
        run = Run(reference, model, [masses], None, units)
        settings = Settings(self.measure, 1, self._seed)
        caveats = [*unit_caveats(self._looks, m), *([SPENT] if self._is_spent else [])]
        result = build_score(settings, run, self._self_score(), caveats=caveats)
        warn_about(result.caveats)
        signature = replace(result.signature, codebook=self.key[:12])
        bets, certified = self._bets, {}
        if bets is not None and self.measure.divergence is KL:
            certified = self._betting.certify(bets if self.p_value < LEVEL else self._no_bets)  # as Evidence.certify
        without_samples = replace(masses, partition=None)
        return replace(result, masses=without_samples, signature=signature, p_value=self.p_value, certified=certified)

    def reset(self) -> None:
        """Drop the model's samples and their checks, and start the next 5%. Bins and reference stay."""
        no_bets: Bets | None = self._no_bets
        self._counted = np.zeros_like(self.reference_counts), self._test.start(), no_bets

    def merge(self, other: Monitor) -> Monitor:
        """Add the counts of a copy of this monitor, which does not change. Returns this monitor.

        Any parts, in any order and any tree, give the same counts, sums and scores.
        """
        if not isinstance(other, Monitor) or other is self:
            raise InputError(
                f"`other` must be another Monitor; got {'the same one' if other is self else repr(other)[:60]}."
            )
        if other.key != self.key:
            raise InputError(
                "`other` must have the same reference, bins, measure and embedder: make one Monitor, and give each "
                "worker a copy of it (copy.deepcopy, or pickle)."
            )
        self._refuse_tolerance()
        looks = self._looks.copy()
        self._test.merge(looks, other._looks)
        self._counted = self.counts + other.counts, looks, None
        return self

    def _refuse_tolerance(self) -> None:
        if self.tolerance is not None:
            raise InputError(
                f"`tolerance` must be None in monitors that are merged; got {self.tolerance}. The bets on it belong to "
                "one stream: watch it with one monitor."
            )

    def counted(self) -> bytes:
        """The counts of this monitor since its last reset, for `combine` in a different process.

        They are a few kilobytes of JSON.
        """
        return pack_part(self.key, self.counts, self._looks)

    def combine(self, parts: Iterable[bytes]) -> Monitor:
        """A new monitor with the bins and the reference of this one and the counts of these parts.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> monitor = Monitor(rng.normal(size=(200, 4)), measure=Measure(Quantize(bins=20)))
        >>> monitor.update(rng.normal(size=(50, 4)))
        >>> monitor.combine([monitor.counted(), monitor.counted()]).n
        (150, 100)
        """
        self._refuse_tolerance()
        total = copy.copy(self)
        total._counted = np.zeros_like(self.counts), self._test.start(), None
        for part in parts:
            counts, looks = unpack_part(self.key, part, total._looks)
            total._test.merge(total._looks, looks)
            total._counted = total.counts + counts, total._looks, None
        return total

    @property
    def key(self) -> str:
        """A hash of codebook, reference counts, measure and embedder, equal for monitors that can be merged."""
        book = self._codebook
        about = f"{self._made_by or 'features'}, width={self._width}"
        projection, grid = book.projection, book.grid
        parts: list[NDArray[Any]] = [book.centres, self.reference_counts, *(test.mean for test in self._test.tests)]
        numbers: list[object] = [self.measure, about]
        if projection is not None:
            parts += [projection.axes, projection.mean]
            numbers += [projection.normalise, projection.exponent, projection.grid]
        if grid is not None:
            parts.append(grid.origin)
            numbers.append(grid.exponent)
        total = hashlib.sha256(repr(numbers).encode())
        for part in parts:
            total.update(repr((part.shape, part.dtype.str)).encode() + np.ascontiguousarray(part).tobytes())
        return total.hexdigest()

    def _embed(self, name: str, source: object) -> Samples:
        """Samples with their features."""
        if self._embedder is None:
            samples = read(source)
            if samples.features is None:
                raise InputError(f"`{name}` must hold features, as the reference does; got {samples.kind} samples.")
            return samples
        if name == "reference":
            return embed_samples(source, self._embedder)
        return embed_samples(source, self._embedder, cache=None, progress=False)

    def _spaces(self, samples: Samples) -> dict[str, NDArray[Any]]:
        """The spaces that the alarm uses in addition to the features."""
        spaces = {**spaces_of_texts(samples, self._embedder, prompts=self._joint), **(samples.spaces or {})}
        return {name: rows for name, rows in spaces.items() if name != "prompt" and (self._joint or name != "prompts")}

    def _self_score(self) -> dict[str, float]:
        """The score of the reference against itself with as many samples, with both sides drawn from its histogram."""
        n, m = self.n
        rng, share = generator_for(self._seed, "self-score"), krichevsky_trofimov(self.reference_counts)
        p, q = (rng.multinomial(size, share, size=_DRAWS).astype(np.float64) for size in (n, m))
        summaries = self.measure.summarise_counts(p, q)
        return {name: float(np.mean(summaries[name])) for name in SUMMARIES}
