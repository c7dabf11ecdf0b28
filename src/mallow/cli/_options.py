"""Options that several commands share, and the objects that they name: measures, embedders, language models."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from mallow._optional import did_you_mean, find_plugin, plugin_names
from mallow.cli._printing import show_note, show_warning
from mallow.cli._samples import SampleReader

if TYPE_CHECKING:
    from mallow.embed import AnyEmbedder
    from mallow.estimate import Estimator
    from mallow.evidence import Measure
    from mallow.generate import NextToken
    from mallow.samples import Samples


def allow_working_folder(spec: str) -> None:
    """Let package.module:object be in the working folder; if it is there, say so before it runs.

    The folder is the last place that is searched: a file in it cannot stand for an installed package.
    """
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return
    if folder not in sys.path:
        sys.path.append(folder)
    module = spec.partition(":")[0].partition(".")[0]
    try:
        module_spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):  # what is wrong with the name is said by whoever imports it
        return
    places = [] if module_spec is None else [module_spec.origin, *(module_spec.submodule_search_locations or ())]
    files = [Path(place) for place in places if place is not None and Path(place).parent == Path(folder)]
    if files:
        show_note(f"{spec} runs code of the working folder: {files[0].name}")


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


Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


def bundle(argument: str, options: Mapping[str, Decorator], make: Function) -> Decorator:
    """Options, by the names of their values, which reach the command as one argument: `make(*values)`, in this order."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call_with_bundle(*args: Any, **values: Any) -> Any:
            own = [values.pop(name) for name in options]
            return function(*args, **values, **{argument: make(*own)})

        decorated: Function = call_with_bundle
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


_reader_options = bundle(
    "read",
    {
        "field": click.option(
            "--field",
            metavar="NAME",
            help="The field or column that holds the text; a file may have its own: FILE:FIELD.  [default: text]",
        ),
        "skip_bad": click.option("--skip-bad", is_flag=True, help="Skip bad entries and print how many there were."),
        "limit": click.option(
            "--limit",
            type=click.IntRange(min=1),
            metavar="N",
            help="Read only the first N samples of each file; samples with the same id or prompt count as one.",
        ),
        "limits": click.option(
            "--max",
            "limits",
            multiple=True,
            metavar="NAME=VALUE",
            help="Read larger files than usual: line-mb=64, expansion=100 (of compressed files), depth=100 (of JSON), "
            "pixels=89478485, wait=10 (seconds for a pipe). May be repeated.",
        ),
    },
    SampleReader,
)

_embedder_options = bundle(
    "embedder",
    {
        "embedder_name": click.option(
            "--embedder",
            "-e",
            "embedder_name",
            metavar="NAME",
            help="minilm, glove, ngram, subsequence, efficientnet, inception, mel, sentence:NAME, a transformers model (NAME or NAME@REVISION), "
            "the folder or file of a model (.gguf, .onnx, .pt, GloVe text), or package.module:object."
            "  [default: minilm for texts, efficientnet for images, mel for recordings]",
        ),
        "embedder_fields": click.option(
            "--embedder-option",
            "-E",
            "embedder_fields",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the embedder, such as pooling=mean or max_length=512. May be repeated.",
        ),
        "match": click.option(
            "--match",
            type=click.Choice(["torch-fidelity", "pytorch-fid", "clean-fid"]),
            help="With --embedder inception: resize images as this tool does, so that the Fréchet distance is its FID.",
        ),
    },
    EmbedderChoice,
)


def _measure_bundle(make: Function, default: Callable[[str], str]) -> Decorator:
    """The options that describe a measure; `default` turns the usual default into what the help says."""
    return bundle(
        "measure",
        {
            "measure": click.option(
                "--measure",
                type=click.Choice(list(MEASURES)),
                help=f"The published measure to start from.  [default: {default('mauve-star')}]",
            ),
            "estimator": click.option(
                "--estimator",
                metavar="NAME",
                help=f"{', '.join(ESTIMATORS)}, or package.module:object.  [default: {default('quantize')}]",
            ),
            "divergence": click.option(
                "--divergence",
                type=click.Choice(list(DIVERGENCES)),
                help=f"The divergence of the frontier.  [default: {default('kl')}]",
            ),
            "bins": click.option(
                "--bins",
                type=click.IntRange(min=1),
                metavar="K",
                help=f"The number of bins of the quantiser.  [default: {default('n/10')}]",
            ),
            "scale": click.option(
                "--scale",
                type=float,
                metavar="C",
                help=f"The constant c of the area.  [default: {default('that of the estimator')}]",
            ),
            "no_normalise": click.option(
                "--no-normalise",
                is_flag=True,
                help="Do not scale the rows of features to length 1, as the published measures do.",
            ),
        },
        make,
    )


_measure_options = _measure_bundle(find_measure, lambda usual: usual)
_measure_options_of_baseline = _measure_bundle(find_measure_if_named, lambda usual: "see above")


def reader_options(function: Function) -> Function:
    """Options that reach the command as `read`, a `SampleReader`."""
    return _reader_options(function)


def embedder_options(function: Function) -> Function:
    """Options that reach the command as `embedder`, an `EmbedderChoice`."""
    return _embedder_options(function)


def measure_options(function: Function) -> Function:
    """Options that reach the command as `measure`, a `Measure`."""
    return _measure_options(function)


def measure_options_of_baseline(function: Function) -> Function:
    """The same options for a command whose help says what holds without them: `measure` is then None."""
    return _measure_options_of_baseline(function)


def repeats_option(function: Function) -> Function:
    """How many runs are averaged."""
    return click.option(
        "--repeats",
        type=click.IntRange(min=1),
        default=5,
        show_default=True,
        help="Runs with different seeds, whose mean is the score.",
    )(function)


def rng_option(function: Function) -> Function:
    """The seed; --seed is its former name."""
    return click.option(
        "--rng",
        "--seed",
        "rng",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="The seed: the same seed gives the same numbers.",
    )(function)


def _make_engine(engine: str | None, checkpoint: str | None) -> Any:
    """The engine that the options name; None stands for the threads of this machine."""
    if engine is None and checkpoint is None:
        return None
    from dataclasses import replace

    from mallow.engine import resolve_engine

    return replace(resolve_engine(engine), checkpoint=checkpoint)  # type: ignore[type-var]


_engine_options = bundle(
    "engine",
    {
        "engine": click.option(
            "--engine",
            metavar="ENGINE",
            help="Where the work is done: ray (Ray on this machine, or the cluster in RAY_ADDRESS) or the address of a cluster "
            "(ray://host:10001). The result is the same.  [default: the threads of this machine]",
        ),
        "checkpoint": click.option(
            "--checkpoint",
            metavar="FOLDER",
            help="Keep what is done of a long work in this folder: after an interruption, the same command continues.",
        ),
    },
    _make_engine,
)


def engine_options(function: Function) -> Function:
    """Options that reach the command as `engine`."""
    return _engine_options(function)


def sample_option(function: Function) -> Function:
    """How many rows are clustered."""
    return click.option(
        "--sample",
        type=click.IntRange(min=2),
        metavar="N",
        help="Cluster N rows at most, chosen by a hash; the bins then take all rows.  [default: 10000000]",
    )(function)


def systems_argument(function: Function) -> Function:
    """Systems, at least one, to be read by `read_systems`."""
    return click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")(function)


@dataclass(frozen=True)
class ModelChoice:
    """The language model that the options name."""

    name: str
    train: str | None
    device: str | None
    dtype: Literal["float32", "float16", "bfloat16"] | None
    option: str = "--train"  # for messages
    does: str = "continues"

    def __call__(self, texts: Samples) -> NextToken:
        """The model, loaded; an n-gram model is fitted to the training texts, by default to those that it continues."""
        from mallow.generate import CausalModel, NGram
        from mallow.samples import read

        word, _, order = self.name.partition(":")
        if word != "ngram":
            if self.train is not None:
                raise click.UsageError(f"{self.option} is for n-gram models; other models are already trained.")
            is_local = os.path.exists(os.path.expanduser(self.name))
            name, _, revision = (self.name, "", "") if is_local else self.name.partition("@")
            return CausalModel(name, revision or None, self.dtype, self.device).load()
        if order and not order.isdecimal():
            raise click.UsageError(f"--model ngram:ORDER takes a whole number; got {order!r}.")
        if self.train is None:
            show_warning(
                f"the n-gram model is fitted to the very texts that it {self.does}. Fit it to others with {self.option}."
            )
        training = texts if self.train is None else read(self.train)
        return NGram.fit(training.require_texts(), order=int(order) if order else 5)


_model_options = bundle(
    "model",
    {
        "model_name": click.option(
            "--model",
            "-m",
            "model_name",
            required=True,
            metavar="NAME",
            help="A transformers model (NAME or NAME@REVISION), its folder or .gguf file; or ngram or ngram:ORDER, which is "
            "fitted on the spot.",
        ),
        "train": click.option(
            "--train", metavar="FILE", help="Texts to fit the n-gram model to.  [default: those to be continued]"
        ),
        "device": click.option("--device", metavar="NAME", help="As torch names it.  [default: cuda, mps or cpu]"),
        "dtype": click.option(
            "--dtype",
            type=click.Choice(["float32", "float16", "bfloat16"]),
            help="The precision of the weights.  [default: by device]",
        ),
    },
    ModelChoice,
)


def _other_model(argument: str, what: str) -> Decorator:
    """The options --NAME and --NAME-train of a second model, which may be left out."""

    def choose(name: str | None, train: str | None) -> ModelChoice | None:
        if name is None and train is not None:
            raise click.UsageError(f"--{argument}-train needs the model: pass its name, such as --{argument} ngram.")
        return None if name is None else ModelChoice(name, train, None, None, f"--{argument}-train", "scores")

    return bundle(
        argument,
        {
            f"{argument}_name": click.option(
                f"--{argument}",
                f"{argument}_name",
                metavar="NAME",
                help=f"{what}: a language model, as for --model of `generate`.",
            ),
            f"{argument}_train": click.option(
                f"--{argument}-train",
                f"{argument}_train",
                metavar="FILE",
                help=f"Texts to fit the {argument} to, if it is an n-gram model.",
            ),
        },
        choose,
    )


_scorer_options = _other_model("scorer", "Scores texts by their perplexity (Gen. PPL)")
_surrogate_options = _other_model("surrogate", "Stands for the human distribution")


def model_options(function: Function) -> Function:
    """The options that name a language model and say how to load it."""
    return _model_options(function)


def scorer_options(function: Function) -> Function:
    """--scorer and --scorer-train: a language model that scores texts."""
    return _scorer_options(function)


def surrogate_options(function: Function) -> Function:
    """--surrogate and --surrogate-train: a language model that stands for the human distribution."""
    return _surrogate_options(function)
