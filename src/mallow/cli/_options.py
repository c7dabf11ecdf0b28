"""Options that several commands share, and the objects that they name: measures, embedders, language models."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mallow._optional import did_you_mean, find_plugin, plugin_names
from mallow.cli._printing import Option, show
from mallow.cli._samples import SampleReader

if TYPE_CHECKING:
    from mallow.embed import AnyEmbedder
    from mallow.engine import Engine
    from mallow.estimate import Estimator
    from mallow.evidence import Measure


def allow_working_folder(spec: str) -> None:
    """Allow package.module:object to be in the working folder; if it is there, report this before it runs.

    The folder is searched last, so that no file in it can shadow an installed package.
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
    except (ImportError, ValueError):  # the import itself reports the error in the name
        return
    paths = [] if module_spec is None else [module_spec.origin, *(module_spec.submodule_search_locations or ())]
    files = [Path(path) for path in paths if path is not None and Path(path).parent == Path(folder)]
    if files:
        show("note", f"{spec} runs code of the working folder: {files[0].name}")


# The words of evidence.MEASURES, theory.DIVERGENCES and estimate.ESTIMATORS, which take time to load.
MEASURES = ("mauve-star", "mauve-2021", "mauve-kernel")
DIVERGENCES = ("kl", "chi2", "tv", "hellinger2", "js", "le-cam")
ESTIMATORS = ("quantize", "neighbors", "kernel-density", "classifier", "gaussian")


def find_measure(
    measure: str | None,
    estimator: str | None,
    divergence: str | None,
    bins: int | None,
    scale: float | None,
    no_normalise: bool = False,
) -> Measure:
    """The measure that the options describe; None keeps the setting of `base`, by default MAUVE*."""
    from mallow.estimate import Quantize, Reduce
    from mallow.evidence import Measure
    from mallow.evidence import find_measure as find_named_measure

    base = find_named_measure(measure or "mauve-star")
    if not no_normalise and all(option is None for option in (estimator, divergence, bins, scale)):
        return base  # unchanged: only the default is replaced by the measure of string kernels
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
    return Measure(chosen, divergence or base.divergence, base.scale if scale is None else scale)


def find_measure_if_named(*options: Any) -> Measure | None:
    """The measure that the options of `find_measure` describe; None if none of them is given."""
    return None if all(option is None or option is False for option in options) else find_measure(*options)


def set_sample(measure: Measure, sample: int) -> Measure:
    """The measure that clusters this many rows."""
    from mallow.estimate import Quantize

    if not isinstance(measure.estimator, Quantize):
        raise click.UsageError("--sample is for estimators that quantise, but this one does not cluster.")
    return replace(measure, estimator=replace(measure.estimator, sample=sample))


def _find_estimator(name: str) -> Estimator:
    from mallow import estimate
    from mallow.embed import import_object

    if name in ESTIMATORS:
        made: Estimator = estimate.ESTIMATORS[name]()
        return made
    imported = None if ":" in name else find_plugin("estimators", name)
    if ":" not in name and imported is None:
        names = [*ESTIMATORS, *plugin_names("estimators")]
        raise click.UsageError(
            f"--estimator must be one of {', '.join(names)} or package.module:object; got {name!r}."
            f"{did_you_mean(name, names)}"
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
    """The embedder that the options name; it may depend on the kind of the samples."""

    name: str | None
    options: tuple[str, ...]
    match: str | None = None
    fast: bool = False

    def __post_init__(self) -> None:
        if self.fast and self.name is not None:
            raise click.UsageError("--fast chooses an embedder without a model; leave out --embedder.")

    def __call__(self, kind: str) -> AnyEmbedder | None:
        """The embedder for samples of this kind; None for features."""
        from mallow.embed import FAST, find_embedder

        if kind == "features" and self.name is None:
            if self.fast:
                raise click.UsageError("--fast is for texts, images and recordings; features need no embedder.")
            return None
        return find_embedder(FAST[kind] if self.fast else self.allowed_name(), kind=kind, options=self._fields())

    def allowed_name(self) -> str | None:
        """The name, after its code was allowed to run."""
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


def option(*names: str, least: int | None = None, **settings: Any) -> Decorator:
    """An option of a command. A default is shown in the help.

    With `least`, the value is a whole number of at least this size. `python` is as in `Option`.
    """
    if least is not None:
        settings["type"] = click.IntRange(min=least)
    return click.option(*names, cls=Option, show_default="default" in settings, **settings)


def bundle(argument: str, make: Function, *options: Decorator) -> Decorator:
    """Options that the command receives as one argument: the result of `make` for their values in this order."""

    def decorate(function: Function) -> Function:
        """Add the options to a command."""

        @functools.wraps(function)
        def call_with_bundle(*args: Any, **values: Any) -> Any:
            return function(*args, **{argument: make(*(values.pop(name) for name in names))}, **values)

        names: list[str] = []
        for add_option in reversed(options):
            add_option(call_with_bundle)
            names.insert(0, call_with_bundle.__click_params__[-1].name)  # type: ignore[attr-defined]
        return call_with_bundle

    return decorate


def _measure_options(make: Function, default: Callable[[str], str]) -> Decorator:
    """The options that describe a measure. `default` turns the usual default into the words of the help."""
    return bundle(
        "measure",
        make,
        option(
            "--measure",
            type=click.Choice(MEASURES),
            help=f"The published measure to start from.  [default: {default('mauve-star')}]",
        ),
        option(
            "--estimator",
            metavar="NAME",
            help=f"{', '.join(ESTIMATORS)}, or package.module:object.  [default: {default('quantize')}]",
        ),
        option(
            "--divergence",
            type=click.Choice(DIVERGENCES),
            help=f"The divergence of the frontier.  [default: {default('kl')}]",
        ),
        option(
            "--bins",
            least=1,
            metavar="K",
            help=f"The number of bins of the quantiser.  [default: {default('n/10, fewer beyond 5,000 samples')}]",
        ),
        option(
            "--scale",
            type=float,
            metavar="C",
            help=f"The constant c of the area.  [default: {default('by estimator')}]",
        ),
        option(
            "--no-normalise",
            is_flag=True,
            help="Do not scale the rows of features to length 1, as the published measures do.",
            python={"measure=Measure(Quantize(reduce=Reduce(normalise=False)))": "--no-normalise"},
        ),
    )


def _make_engine(engine: str | None, checkpoint: str | None) -> Engine | None:
    """The engine that the options name; None stands for the threads of this machine."""
    if engine is None and checkpoint is None:
        return None
    from mallow.engine import resolve_engine

    made: Engine = replace(resolve_engine(engine), checkpoint=checkpoint)  # type: ignore[type-var]
    return made


rng_option = option(
    "--rng", "--seed", "rng", least=0, default=0, help="The seed. The same seed gives the same numbers."
)
repeats_option = option("--repeats", least=1, default=5, help="Runs with different seeds. The score is their mean.")
systems_argument = click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")
reader_options = bundle(
    "read",
    SampleReader,
    option(
        "--field",
        metavar="NAME",
        help="The field or column that holds the text. Write FILE:FIELD for a single file.  [default: text]",
    ),
    option("--skip-bad", is_flag=True, help="Skip bad entries and print how many there were."),
    option(
        "--limit",
        least=1,
        metavar="N",
        help="Read only the first N samples of each file. Samples with the same id or prompt count as one.",
    ),
    option(
        "--max",
        "limits",
        multiple=True,
        metavar="NAME=VALUE",
        help="Read larger files than usual: line-mb=64, expansion=100 (of compressed files), depth=100 (of JSON), "
        "pixels=89478485, wait=10 (seconds for a pipe). May be repeated.",
        python={
            **{f"limits=Limits({name}=…)": f"--max {name}=…" for name in ("expansion", "depth", "wait")},
            "limits=Limits(line_mb=…)": "--max line-mb=…",
            "PIL.Image.MAX_IMAGE_PIXELS": "--max pixels=…",
        },
    ),
)
embedder_options = bundle(
    "embedder",
    EmbedderChoice,
    option(
        "--embedder",
        "-e",
        "embedder_name",
        metavar="NAME",
        help="minilm, glove, style, ngram, subsequence, efficientnet, inception, texture, mel, sentence:NAME, a "
        "transformers model (NAME or NAME@REVISION), the folder or file of a model (.gguf, .onnx, .pt, GloVe text), or "
        "package.module:object.  [default: minilm for texts, efficientnet for images, mel for recordings]",
    ),
    option(
        "--embedder-option",
        "-E",
        "embedder_fields",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the embedder, such as pooling=mean or max_length=512. May be repeated.",
        python={"run_code=True": "-E run_code=True"},
    ),
    option(
        "--match",
        type=click.Choice(["torch-fidelity", "pytorch-fid", "clean-fid"]),
        help="With --embedder inception: resize images as this tool does, to get the FID that it reports.",
    ),
    option(
        "--fast",
        is_flag=True,
        help="Use the style of texts (or the texture of images) instead of a model. There is no published MAUVE then.",
    ),
)
paired_option = option(
    "--paired",
    is_flag=True,
    help="Row i of each file belongs to row i of the others, such as answers to one prompt. Not needed if the files "
    "have ids or prompts.",
)
_RUN_OPTIONS: dict[str, Decorator] = {
    "embedder": embedder_options,
    "read": reader_options,
    "paired": paired_option,
    "prompts": option(
        "--prompts",
        type=click.Choice(["joint", "ignore"]),
        default="joint",
        help="If both sides have the same prompts: judge texts with their prompts (joint) or without (ignore).",
    ),
    "align": option(
        "--align",
        metavar="NAMES",
        help="Remove differences unrelated to the model from both sides first: quotes, space, case, length (of texts) "
        "or format (of images), separated by commas.",
    ),
    "measure": _measure_options(find_measure, lambda usual: usual),
    "measure of baseline": _measure_options(find_measure_if_named, lambda usual: "see above"),
    "repeats": repeats_option,
    "rng": rng_option,
    "sample": option(
        "--sample",
        least=2,
        metavar="N",
        help="Find the bins from at most N rows, chosen by a hash. All rows are then counted.  [default: 10000000]",
    ),
    "engine": bundle(
        "engine",
        _make_engine,
        option(
            "--engine",
            metavar="ENGINE",
            help="Where the work runs: ray (Ray on this machine, or the cluster in RAY_ADDRESS) or the address of a "
            "cluster (ray://host:10001). The result is the same.  [default: the threads of this machine]",
        ),
        option(
            "--checkpoint",
            metavar="FOLDER",
            help="Save progress in this folder. Rerun the same command to resume after an interruption.",
        ),
    ),
}


@dataclass(frozen=True)
class Run:
    """How samples are read, embedded and measured; None where a command has no such option.

    `measure` is also None if no measure is named and the command has its own.
    """

    read: SampleReader
    embedder: EmbedderChoice | None = None
    measure: Measure | None = None
    repeats: int | None = None
    rng: int | None = None
    sample: int | None = None
    engine: Engine | None = None
    paired: bool | None = None
    prompts: str | None = None
    align: str | None = None

    def settings(self, kind: str) -> dict[str, Any]:
        """The arguments of functions such as `mallow.score`, for samples of this kind."""
        values = {
            "measure": set_sample(self.measure, self.sample) if self.measure and self.sample else self.measure,
            "embedder": None if self.embedder is None else self.embedder(kind),
            **{name: getattr(self, name) for name in ("repeats", "rng", "engine", "prompts", "align")},
            "paired": self.paired or None,
        }
        return {name: value for name, value in values.items() if value is not None}


def run_options(*names: str) -> Decorator:
    """The options of these names, in this order, which the command receives as one argument `run`, a `Run`."""
    fields = [name.partition(" ")[0] for name in names]

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call_with_run(*args: Any, **values: Any) -> Any:
            run = Run(**{field: values.pop(field) for field in fields})
            return function(*args, run=run, **values)

        decorated: Function = call_with_run
        for name in reversed(names):
            decorated = _RUN_OPTIONS[name](decorated)
        return decorated

    return decorate
