"""Questions beyond one score: options of `mallow score`, and the commands robust, gaps and passport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._choices import EmbedderChoice
from mallow.cli._commands import result_command
from mallow.cli._options import (
    bundle,
    embedder_options,
    measure_options,
    reader_options,
    repeats_option,
    rng_option,
    systems_argument,
)
from mallow.cli._output_files import check_output_file, save_text_at_end
from mallow.cli._samples import SampleReader, embed_once, name_systems, read_arguments, read_systems

if TYPE_CHECKING:
    from mallow.cli._score_parts import ScoreParts
    from mallow.evaluate import GapDifference, PassportCheck, RobustComparison
    from mallow.evidence import Measure
    from mallow.samples import Samples


@dataclass(frozen=True)
class Questions:
    """What else is asked of a score: training data, a covariate to match, a column of groups, a passport and its key."""

    train: str | None
    match_column: str | None
    by: str | None
    passport: str | None
    key: str | None

    def __post_init__(self) -> None:
        if self.key is not None and self.passport is None:
            raise click.UsageError("--passport-key is for --passport FILE, which is not given.")

    @property
    def asked(self) -> bool:
        """Whether anything is."""
        return any((self.train, self.match_column, self.by, self.passport))

    def answer(
        self,
        read: SampleReader,
        paths: tuple[str, str],
        sides: tuple[Samples, Samples],
        embedder: Any,
        **options: Any,
    ) -> ScoreParts:
        """The score and the answers; samples are embedded once, unless the embedder has to see each pair alone."""
        from mallow.cli._score_parts import ScoreParts
        from mallow.evaluate import make_passport, score, score_groups, score_matched
        from mallow.explain import memorisation

        target = None if self.passport is None else check_output_file(self.passport, ".json")
        secret = _read_key(self.key)
        columns = {
            name: (read.column(paths[0], name), read.column(paths[1], name))
            for name in (self.match_column, self.by)
            if name is not None and name != "length"
        }
        more = [] if self.train is None else [read(self.train)]
        x, y, *more, left = embed_once(embedder, *sides, *more)
        known: dict[str, Any] = {}
        if self.match_column is not None:
            wanted = "length" if self.match_column == "length" else columns[self.match_column]
            known["matched"] = score_matched(x, y, match=wanted, covariate=self.match_column, embedder=left, **options)
        if self.by is not None:
            known["groups"] = score_groups(x, y, columns[self.by], embedder=left, **options)
        if more:
            known["memorisation"] = memorisation(x, y, more[0], embedder=left, rng=options["rng"])
        own = known["matched"].before if "matched" in known else score(x, y, embedder=left, **options)
        if target is not None:
            made = make_passport(own, x, y, measure=options["measure"], embedder=left, key=secret)
            save_text_at_end(target, made.to_json())
        return ScoreParts(own, **known)


def _read_key(path: str | None) -> str | None:
    """The secret in a file, without white space around it."""
    from mallow._files import read_text

    return None if path is None else read_text(path).strip()


_question_options = bundle(
    "questions",
    {
        "train": click.option(
            "--train", metavar="FILE", help="Training data: tell whether MODEL copies them, and list near copies."
        ),
        "match_column": click.option(
            "--match-column",
            metavar="COLUMN",
            help="Score again where this column, or length, agrees between the sides: how much of the gap was that?",
        ),
        "by": click.option(
            "--by", metavar="COLUMN", help="Score each group of this column too, with corrected p-values."
        ),
        "passport": click.option(
            "--passport",
            metavar="FILE",
            help="Write a file from which anyone recomputes the score without the data: .json.",
        ),
        "key": click.option(
            "--passport-key", "key", metavar="FILE", help="A file with a secret that the passport is signed with."
        ),
    },
    Questions,
)


def question_options(function: Any) -> Any:
    """Options that reach the command as `questions`."""
    return _question_options(function)


@result_command(
    "robust",
    "Rank systems under several embedders: a winner only where they agree.",
    example="mallow robust human.jsonl small=small.jsonl large=large.jsonl -e minilm -e glove",
    plot="the certified scores by embedder",
)
@click.argument("reference")
@systems_argument
@click.option(
    "--embedder",
    "-e",
    "names",
    multiple=True,
    metavar="NAME",
    help="An embedder, as for `mallow compare`; two or more.",
)
@reader_options
@measure_options
@repeats_option
@rng_option
def robust_command(
    reference: str,
    systems: tuple[str, ...],
    names: tuple[str, ...],
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
) -> RobustComparison:
    """Compare systems with one REFERENCE under several embedders, and name a winner only where all agree.

    A difference counts if every embedder sees it in the same direction; its p-value is the largest of theirs, corrected for
    the number of pairs.
    """
    from mallow.evaluate import compare_embedders

    if len(names) < 2:
        raise click.UsageError("--embedder must be given at least twice: -e minilm -e glove.")
    for name in names:
        EmbedderChoice(name, ()).allowed_name()
    x, others = read_systems(read, reference, systems)
    return compare_embedders(x, others, names, measure=measure, repeats=repeats, rng=rng)


@result_command(
    "gaps",
    "Which of two gaps is larger, each with a reference of its own.",
    example="mallow gaps human-de.jsonl model-de.jsonl human-en.jsonl model-en.jsonl",
    plot="both scores",
)
@click.argument("reference_1")
@click.argument("model_1")
@click.argument("reference_2")
@click.argument("model_2")
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
def gaps_command(
    reference_1: str,
    model_1: str,
    reference_2: str,
    model_2: str,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
) -> GapDifference:
    """Compare the gap between REFERENCE_1 and MODEL_1 with that between REFERENCE_2 and MODEL_2.

    The larger pair is cut to the size of the smaller one. Samples with the same id in both pairs count as one unit.
    """
    from mallow.evaluate import compare_gaps

    first, second = name_systems([model_1, model_2])
    paths = {"REFERENCE_1": reference_1, "MODEL_1": model_1, "REFERENCE_2": reference_2, "MODEL_2": model_2}
    x1, y1, x2, y2 = read_arguments(read, **paths)
    pairs = {first: (x1, y1), second: (x2, y2)}
    return compare_gaps(pairs, measure=measure, embedder=embedder(x1.kind), repeats=repeats, rng=rng)


@click.group(
    "passport",
    short_help="Check a file that `mallow score --passport` wrote.",
    epilog="\b\nExample:\n  mallow passport verify passport.json",
)
def passport_group() -> None:
    """Check a file that `mallow score --passport` wrote: without the data, the embedder or the model."""


@result_command(
    "verify",
    "Recompute the score from its passport.",
    example="mallow passport verify passport.json",
    exit_code=lambda check: 0 if check.valid else 1,
)
@click.argument("file")
@click.option("--key", metavar="FILE", help="A file with the secret that the passport was signed with.")
def verify_command(file: str, key: str | None) -> PassportCheck:
    """Check the seals of a passport, and recompute every number that it allows; exit with 1 if one does not agree."""
    from mallow.evaluate import verify_passport

    return verify_passport(file, key=_read_key(key))


passport_group.add_command(verify_command)

COMMANDS = (robust_command, gaps_command, passport_group)
