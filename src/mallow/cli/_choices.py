"""The one table from names on the command line to objects: measures, estimators, divergences and embedders."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import click

from mallow._optional import did_you_mean
from mallow._plugins import find_plugin, plugin_names
from mallow.cli._working_folder import allow_working_folder

if TYPE_CHECKING:
    from mallow.embed import AnyEmbedder
    from mallow.estimate import Estimator
    from mallow.evidence import Measure


MEASURES = {"mauve-star": "MAUVE_STAR", "mauve-2021": "MAUVE_2021", "mauve-kernel": "MAUVE_KERNEL"}
"""Name → constant in `mallow.evidence`."""
ESTIMATORS = {
    "quantize": "Quantize",
    "neighbors": "Neighbors",
    "kernel-density": "KernelDensity",
    "classifier": "Classifier",
    "gaussian": "Gaussian",
}
"""Name → class in `mallow.estimate`; "quantize" stands for the estimator of the measure, with its settings."""
DIVERGENCES = {
    "kl": "KL",
    "chi2": "CHI2",
    "tv": "TV",
    "hellinger2": "HELLINGER2",
    "js": "JS",
    "le-cam": "LE_CAM",
}
"""Name → constant in `mallow.theory`. The names of embedders are those of `mallow.embed.find_embedder`."""


def find_measure(
    measure: str | None,
    estimator: str | None,
    divergence: str | None,
    bins: int | None,
    scale: float | None,
    no_normalise: bool = False,
) -> Measure:
    """The measure that the options describe; None stands for the setting of the measure, and at first for MAUVE*."""
    from mallow import evidence, theory
    from mallow.estimate import Quantize, Reduce

    base: Measure = getattr(evidence, MEASURES[measure or "mauve-star"])
    if not no_normalise and all(option is None for option in (estimator, divergence, bins, scale)):
        return base  # itself: only the default gives way to the measure of string kernels
    chosen = base.estimator if estimator in (None, "quantize") else _find_estimator(str(estimator))
    if bins is not None:
        if not isinstance(chosen, Quantize):
            raise click.UsageError(f"--bins is for estimators that quantise; {estimator} has no bins.")
        chosen = replace(chosen, bins=bins)
    if no_normalise:
        reduce = getattr(chosen, "reduce", None)
        if not isinstance(reduce, Reduce) or not reduce.normalise:
            raise click.UsageError(
                f"--no-normalise is for estimators that scale rows to length 1; {estimator or measure} does not."
            )
        chosen = replace(cast(Any, chosen), reduce=replace(reduce, normalise=False))
    kind = base.divergence if divergence is None else getattr(theory, DIVERGENCES[divergence])
    return evidence.Measure(chosen, kind, base.scale if scale is None else scale)


def find_measure_if_named(
    measure: str | None,
    estimator: str | None,
    divergence: str | None,
    bins: int | None,
    scale: float | None,
    no_normalise: bool = False,
) -> Measure | None:
    """The measure that the options describe; None if there is no such option."""
    options = (measure, estimator, divergence, bins, scale)
    named = no_normalise or any(option is not None for option in options)
    return find_measure(*options, no_normalise) if named else None


def set_sample(measure: Measure, sample: int | None) -> Measure:
    """The measure with another number of rows that are clustered."""
    from mallow.estimate import Quantize

    if sample is None:
        return measure
    if not isinstance(measure.estimator, Quantize):
        raise click.UsageError("--sample is for estimators that quantise; this one does not cluster.")
    return replace(measure, estimator=replace(measure.estimator, sample=sample))


def _find_estimator(name: str) -> Estimator:
    from mallow import estimate
    from mallow.embed import import_object

    if name in ESTIMATORS:
        made: Estimator = getattr(estimate, ESTIMATORS[name])()
        return made
    imported = None if ":" in name else find_plugin("estimators", name)
    if ":" not in name and imported is None:
        known = [*ESTIMATORS, *plugin_names("estimators")]
        raise click.UsageError(
            f"--estimator must be one of {', '.join(known)} or package.module:object; got {name!r}."
            f"{did_you_mean(name, known)}"
        )
    if imported is None:
        allow_working_folder(name)
        imported = import_object(name, "estimator")
    missing = [part for part in ("prepare", "masses", "scale") if not hasattr(imported, part)]
    if missing:
        raise click.UsageError(
            f"--estimator must name an estimator, with `prepare`, `masses` and `scale`; {name} is of type "
            f"{type(imported).__name__} and lacks {', '.join(missing)}."
        )
    estimator: Estimator = imported
    return estimator


@dataclass(frozen=True)
class EmbedderChoice:
    """The embedder that the options name; which one it is may depend on the kind of the samples."""

    name: str | None
    options: tuple[str, ...]
    match: str | None = None

    def __call__(self, kind: str) -> AnyEmbedder | None:
        """The embedder for samples of this kind; None for features."""
        from mallow.embed import find_embedder

        if kind == "features" and self.name is None:
            return None
        return find_embedder(self.allowed_name(), kind=kind, options=self._fields())

    def allowed_name(self) -> str | None:
        """The name, after the code that it names is allowed to run."""
        from mallow.embed import is_import

        if self.name is not None and is_import(self.name):
            allow_working_folder(self.name)
        return self.name

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.match is not None:
            if self.name != "inception":
                raise click.UsageError("--match is for the FID of published tools: add --embedder inception.")
            fields["match"] = self.match
        for option in self.options:
            key, equals, value = option.partition("=")
            if not equals:
                raise click.UsageError(f"--embedder-option takes KEY=VALUE; got {option!r}.")
            fields[key.strip()] = _parse_value(value)
        return fields


def _parse_value(text: str) -> Any:
    """A Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
