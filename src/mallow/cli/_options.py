"""What several commands share: options in bundles, each of which becomes one argument of the command."""

from __future__ import annotations

import ast
import functools
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mallow._optional import optional
from mallow.engine import quiet
from mallow.errors import EstimateWarning, InputError

if TYPE_CHECKING:
    from mallow.confounds import Finding
    from mallow.embed import AnyEmbedder
    from mallow.evaluate import Check, Measure, SamplePlan
    from mallow.explain import Diagnosis
    from mallow.samples import Samples

__all__ = [
    "Embedding",
    "Reading",
    "bundle",
    "command",
    "embedding",
    "format_option",
    "measuring",
    "nearest",
    "new_file",
    "new_picture",
    "reading",
    "repeats_option",
    "result_text",
    "save_figure",
    "say_findings",
    "seed_option",
    "systems_argument",
    "systems_of",
    "terminal_width",
    "write_text",
]

Function = Callable[..., Any]


def command(name: str, short: str, *, example: str) -> Callable[[Function], click.Command]:
    """A command with --quiet, what it does in short for the list of all, and an example at the end of its help."""

    def hush(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.with_resource(quiet())
            warnings.simplefilter("ignore", EstimateWarning)

    silent = click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        callback=hush,
        help="No progress and no warnings on standard error.",
    )
    epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())

    def decorate(function: Function) -> click.Command:
        return click.command(name, short_help=short, epilog=epilog)(silent(function))

    return decorate


def bundle(argument: str, options: Mapping[str, Function], make: Function) -> Callable[[Function], Function]:
    """Options, by the names of their values, that the command gets as one argument: what `make` makes of them in order."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def inner(*args: Any, **given: Any) -> Any:
            own = [given.pop(name) for name in options]
            return function(*args, **given, **{argument: make(*own)})

        for option in reversed(list(options.values())):
            inner = option(inner)
        return inner

    return decorate


# --- samples


@dataclass(frozen=True)
class Reading:
    """How files become samples."""

    field: str | None
    skip_bad: bool
    limit: int | None

    def __call__(self, path: str) -> Samples:
        from mallow import samples

        found = samples.read(path, field=self.field, skip_bad=self.skip_bad, limit=self.limit)
        if found.skipped:
            more = f" and {len(found.skipped) - 1} more" if len(found.skipped) > 1 else ""
            click.echo(f"mallow: {path}: {len(found.skipped)} left out: {found.skipped[0]}{more}", err=True)
        return found


_reading = bundle(
    "read",
    {
        "field": click.option("--field", metavar="NAME", help="Field or column with the text.  [default: text]"),
        "skip_bad": click.option("--skip-bad", is_flag=True, help="Leave bad entries out, and say how many."),
        "limit": click.option(
            "--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N samples of each file."
        ),
    },
    Reading,
)


def reading(function: Function) -> Function:
    """Options that the command gets as `read`."""
    return _reading(function)


def systems_argument(function: Function) -> Function:
    """Systems, to be read by `systems_of`."""
    return click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")(function)


def systems_of(pairs: Sequence[str], reference: str, read: Reading) -> tuple[Samples, dict[str, Samples]]:
    """The samples of the reference and of each NAME=PATH; a bare PATH is named after its file."""
    paths: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or os.path.exists(pair):
            path, name = pair, Path(pair).name.split(".")[0] or pair
        if not name or not path:
            raise click.UsageError(f"Systems are written NAME=PATH; got {pair!r}.")
        if name in paths:
            raise click.UsageError(
                f"Two systems are called {name!r}: {paths[name]} and {path}. Name them apart: {name}-2={path}."
            )
        paths[name] = path
    if [reference, *paths.values()].count("-") > 1:
        raise click.UsageError("Only one of all samples can be standard input.")
    for name, path in paths.items():
        if path != "-" and os.path.exists(path) and os.path.exists(reference) and os.path.samefile(path, reference):
            warnings.warn(
                f"{name} is the reference itself: it scores 1 whatever it holds.", EstimateWarning, stacklevel=2
            )
    return read(reference), {name: read(path) for name, path in paths.items()}


def say_findings(reference: Samples, systems: Mapping[str, Samples]) -> tuple[Finding, ...]:
    """What makes a comparison doubtful before it is made, as warnings."""
    from mallow.confounds import find_confounds

    found = find_confounds(reference, systems)
    for one in found:
        warnings.warn(f"{one.system or 'reference'}: {one.message}", EstimateWarning, stacklevel=2)
    return found


# --- embedder


@dataclass(frozen=True)
class Embedding:
    """The embedder of the command line."""

    spec: str | None
    options: tuple[str, ...]

    def __call__(self, kind: str) -> AnyEmbedder | None:
        """For samples of this kind; None for features."""
        from mallow.embed import named

        if kind == "features" and self.spec is None:
            return None
        if self.spec is not None and ":" in self.spec:
            sys.path.insert(0, os.getcwd())  # package.module:object may lie in the working folder
        changes = {}
        for option in self.options:
            key, equals, value = option.partition("=")
            if not equals:
                raise click.UsageError(f"--embedder-option takes KEY=VALUE; got {option!r}.")
            changes[key.strip()] = _value(value)
        return named(self.spec, kind=kind, options=changes)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


_embedding = bundle(
    "embedder",
    {
        "embedder_name": click.option(
            "--embedder",
            "-e",
            "embedder_name",
            metavar="NAME",
            help="minilm, glove, ngram, subsequence, inception, sentence:NAME, a transformers model (NAME or NAME@REVISION), "
            "a model's folder or file (.gguf, .onnx, .pt, GloVe text), or package.module:object."
            "  [default: minilm for texts, inception for images]",
        ),
        "embedder_options": click.option(
            "--embedder-option",
            "-E",
            "embedder_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the embedder, such as pooling=mean or max_length=512. May be repeated.",
        ),
    },
    Embedding,
)


def embedding(function: Function) -> Function:
    """Options that the command gets as `embedder`."""
    return _embedding(function)


# --- measure

_MEASURES = ("mauve-star", "mauve-2021")
_ESTIMATORS = ("quantize", "neighbors", "kernel-density", "classifier", "gaussian")
_DIVERGENCES = ("kl", "chi2", "tv", "hellinger2", "js", "le-cam")


def _measure(measure: str, estimator: str | None, divergence: str, bins: int | None, scale: float | None) -> Measure:
    from mallow import estimate
    from mallow import theory as divergences
    from mallow.embed import attribute
    from mallow.evaluate import MAUVE_2021, MAUVE_STAR, Measure

    chosen = {"mauve-star": MAUVE_STAR, "mauve-2021": MAUVE_2021}[measure].estimator
    if estimator is not None:
        made = {
            "quantize": lambda: chosen,
            "neighbors": estimate.Neighbors,
            "kernel-density": estimate.KernelDensity,
            "classifier": estimate.Classifier,
            "gaussian": estimate.Gaussian,
        }
        if estimator not in made and ":" not in estimator:
            raise click.UsageError(
                f"--estimator must be one of {', '.join(made)} or package.module:object; got {estimator!r}."
                f"{nearest(estimator, made)}"
            )
        if ":" in estimator:
            sys.path.insert(0, os.getcwd())
            found = attribute(estimator, "estimator")
            chosen = found() if isinstance(found, type) else found
        else:
            chosen = made[estimator]()
    if bins is not None:
        if not isinstance(chosen, estimate.Quantize):
            raise click.UsageError(f"--bins is for --estimator quantize; {estimator} has none.")
        chosen = estimate.Quantize(bins=bins, smoothing=chosen.smoothing)
    kinds = {
        "kl": divergences.KL,
        "chi2": divergences.CHI2,
        "tv": divergences.TV,
        "hellinger2": divergences.HELLINGER2,
        "js": divergences.JS,
        "le-cam": divergences.LE_CAM,
    }
    return Measure(chosen, kinds[divergence], scale)


_measuring = bundle(
    "measure",
    {
        "measure": click.option("--measure", type=click.Choice(_MEASURES), default="mauve-star", show_default=True),
        "estimator": click.option(
            "--estimator",
            metavar="NAME",
            help=f"{', '.join(_ESTIMATORS)}, or package.module:object.  [default: quantize]",
        ),
        "divergence": click.option("--divergence", type=click.Choice(_DIVERGENCES), default="kl", show_default=True),
        "bins": click.option(
            "--bins", type=click.IntRange(min=1), metavar="K", help="Bins of the quantiser.  [default: n/10]"
        ),
        "scale": click.option(
            "--scale", type=float, metavar="C", help="The constant c of the area.  [default: that of the estimator]"
        ),
    },
    _measure,
)


def measuring(function: Function) -> Function:
    """Options that the command gets as `measure`."""
    return _measuring(function)


def repeats_option(function: Function) -> Function:
    """How many runs are averaged."""
    return click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Runs to average.")(
        function
    )


def seed_option(function: Function) -> Function:
    """The seed of all randomness."""
    return click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness."
    )(function)


# --- what comes out


def format_option(*forms: str) -> Function:
    """--format with these forms, the first of them the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="How results are printed.",
    )


def result_text(found: SamplePlan | Check | Diagnosis, form: str) -> str:
    """A result in one of the forms of --format: sentences, JSON or a table."""
    if form == "json":
        return json.dumps(found.to_dict(), indent=1)
    return found.to_text() if form == "text" else found.table(form)


def new_file(path: str, *suffixes: str) -> Path:
    """A file to be written, refused before the work where it could not be in the end."""
    found = Path(path).expanduser()
    if suffixes and found.suffix.lower() not in suffixes:
        raise InputError(f"{path}: must end in one of {', '.join(suffixes)}; got {found.suffix!r}.")
    if found.is_dir():
        raise InputError(f"{path}: is a folder, not a file. Name a file in it.")
    if not found.parent.is_dir():
        raise InputError(f"{path}: the folder {found.parent} does not exist. Make it first.")
    if not os.access(found if found.exists() else found.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: permission denied.")
    return found


def write_text(path: Path, content: str) -> None:
    """The whole file or none of it."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        hidden.write_text(content, encoding="utf-8")
        os.replace(hidden, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        hidden.unlink(missing_ok=True)


def new_picture(path: str) -> Path:
    """A picture to be drawn, refused before the work where it could not be in the end."""
    canvas = optional("matplotlib.figure", extra="plot").Figure().canvas
    return new_file(path, *(f".{known}" for known in sorted(canvas.get_supported_filetypes())))


def save_figure(path: Path, draw: Callable[[Any], object]) -> None:
    """A picture: `draw` gets the axes."""
    figure = optional("matplotlib.figure", extra="plot").Figure(layout="constrained")
    draw(figure.subplots())
    figure.savefig(path)
    click.echo(f"{path}: drawn", err=True)


def terminal_width() -> int | None:
    """Of the terminal that results go to; None where they go to a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def nearest(word: str, known: Any) -> str:
    """A suggestion for a name that is not known."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
