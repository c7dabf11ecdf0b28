"""The commands of studies with people: study (with `study plan`) and annotate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._commands import command, result_command
from mallow.cli._options import bundle, reader_options, rng_option
from mallow.cli._output_files import check_output_file, save_text
from mallow.cli._samples import SampleReader, read_systems
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.human import PairScheme, PromptFilter, QualityChecks, Study, TextWindow

__all__ = ["COMMANDS"]


class _StudyGroup(click.Group):
    """`mallow study plan …` plans; `mallow study REFERENCE …` designs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["design", *args]
        return super().parse_args(ctx, args)


def _make_pairs(scheme: str, per_pair: int | None, budget: int | None, scores: tuple[str, ...]) -> PairScheme:
    from mallow.human import AllPairs, DOptimal, Star

    if scheme == "optimal":
        if budget is None or per_pair is not None:
            raise click.UsageError(
                "--pairs optimal needs --budget, the number of comparisons in all, and no --per-pair."
            )
        return DOptimal(budget, _read_scores(scores))
    if budget is not None or scores:
        raise click.UsageError("--budget and --score are for --pairs optimal.")
    count = 90 if per_pair is None else per_pair
    return AllPairs(count) if scheme == "all" else Star(count)


def _read_scores(scores: tuple[str, ...]) -> dict[str, float]:
    """NAME=SCORE arguments."""
    values = {}
    for score in scores:
        name, equals, number = score.rpartition("=")
        try:
            values[name] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise click.UsageError(f"A score is written NAME=SCORE, such as small=-20; got {score!r}.")
    return values


def _make_window(length: str, tokenizer: str) -> TextWindow:
    from mallow.human import TextWindow

    least, dash, most = length.partition("-")
    if not (dash and least.isdigit() and most.isdigit()):
        raise click.UsageError(f"--length is written LEAST-MOST, such as 200-256; got {length!r}.")
    return TextWindow(int(least), int(most), tokenizer)


def _make_filter(prompts: str | None, all_prompts: bool) -> PromptFilter | None:
    from mallow.human import PromptFilter

    if prompts is None:
        return None if all_prompts else PromptFilter()
    if all_prompts:
        raise click.UsageError("--prompts and --all-prompts exclude each other.")
    return PromptFilter(keep=frozenset(_read_lines(prompts)))


def _read_lines(path: str) -> list[str]:
    from pathlib import Path

    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"{path}: cannot be read: {reason}.") from error
    return [line.strip() for line in lines if line.strip()]


def _make_checks(gold: int, gold_every: int, repeat_every: int) -> QualityChecks:
    from mallow.human import QualityChecks

    return QualityChecks(gold, gold_every, repeat_every)


_NUMBER = click.IntRange(min=1)
_COUNT = click.IntRange(min=0)

_pair_options = bundle(
    "pairs",
    {
        "scheme": click.option(
            "--pairs", "scheme", type=click.Choice(["all", "star", "optimal"]), default="all", show_default=True,
            help="Which pairs of systems: all; each with the reference; or those that make a ranking most certain for --budget.",
        ),
        "per_pair": click.option("--per-pair", type=_NUMBER, metavar="N", help="Comparisons of each pair.  [default: 90]"),
        "budget": click.option("--budget", type=_NUMBER, metavar="N", help="Comparisons in all, for --pairs optimal."),
        "scores": click.option(
            "--score", "scores", multiple=True, metavar="NAME=SCORE",
            help="What is known of a system, on the scale of `mallow rank`, for --pairs optimal. May be repeated.",
        ),
    },
    _make_pairs,
)  # fmt: skip
_window_options = bundle(
    "window",
    {
        "length": click.option(
            "--length", default="200-256", show_default=True, metavar="LEAST-MOST",
            help="Tokens: shorter texts are left out, longer ones are cut.",
        ),
        "tokenizer": click.option(
            "--tokenizer", default="words", show_default=True, metavar="NAME",
            help="words, a tokenizer.json, or a folder with GPT-2's vocab.json and merges.txt.",
        ),
    },
    _make_window,
)  # fmt: skip
_prompt_options = bundle(
    "prompts",
    {
        "prompts_file": click.option(
            "--prompts", "prompts_file", metavar="FILE", help="Ids of the prompts to use, one per line."
        ),
        "all_prompts": click.option("--all-prompts", is_flag=True, help="Use all prompts, also headings and menus."),
    },
    _make_filter,
)
_check_options = bundle(
    "checks",
    {
        "gold": click.option("--gold", type=_COUNT, default=6, show_default=True, help="Gold pairs to make, for texts."),
        "gold_every": click.option(
            "--gold-every", type=_COUNT, default=15, show_default=True, metavar="N", help="A gold pair once in N pairs; 0: never."
        ),
        "repeat_every": click.option(
            "--repeat-every", type=_COUNT, default=20, show_default=True, metavar="N",
            help="A pair again, sides exchanged, once in N pairs; 0: never.",
        ),
    },
    _make_checks,
)  # fmt: skip


@click.group(
    "study",
    cls=_StudyGroup,
    short_help="Design a study with people; `study plan`: how many votes it needs.",
    subcommand_metavar="REFERENCE NAME=PATH... | plan ...",
)
def study_group() -> None:
    """Design a study in which people compare systems with the reference and with each other.

    \b
    mallow study REFERENCE NAME=PATH...   writes a study for `mallow annotate` (mallow study design --help)
    mallow study plan NAME=SCORE...       says how many votes it needs (mallow study plan --help)
    """


@result_command(
    "design",
    "Write a study: pairs of texts or pictures, balanced.",
    example="mallow study human.jsonl small=small.jsonl large=large.jsonl --out study.json",
    plot="how often each system is on the left of each other one",
)
@click.argument("reference")
@click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")
@click.option(
    "--out", "-o", default="study.json", show_default=True, metavar="FILE", help="Where to write the study: .json."
)
@_pair_options
@_window_options
@_prompt_options
@_check_options
@click.option(
    "--gold-file", metavar="FILE", help="Gold pairs of your own (.jsonl: prompt, left, right, expected -2 or 2)."
)
@click.option("--votes", type=_NUMBER, default=1, show_default=True, help="How many annotators judge each pair.")
@click.option(
    "--per-annotator", type=_NUMBER, metavar="N", help="The most pairs for one annotator.  [default: no limit]"
)
@click.option(
    "--form", "form_file", metavar="FILE", help="Your own title, instructions, examples and questions (.json)."
)
@click.option(
    "--reference-name", default="human", show_default=True, help="The name of the reference among the systems."
)
@reader_options
@rng_option
def design_command(
    reference: str,
    systems: tuple[str, ...],
    out: str,
    pairs: PairScheme,
    window: TextWindow,
    prompts: PromptFilter | None,
    checks: QualityChecks,
    gold_file: str | None,
    votes: int,
    per_annotator: int | None,
    form_file: str | None,
    reference_name: str,
    read: SampleReader,
    rng: int,
) -> Study:
    """Write a study in which people compare the samples of systems with those of REFERENCE and with each other.

    Samples belong to one prompt if they have the same `id` (without ids, the same `prompt`). The defaults are those of the
    MAUVE paper, with gold pairs and repeated pairs added: --gold-every 0 --repeat-every 0 leaves them out.
    """
    from mallow.human import StudyDesign, design_study, read_form, read_gold, write_study

    target = check_output_file(out, ".json")
    form = None if form_file is None else read_form(form_file)
    gold = () if gold_file is None else read_gold(gold_file)
    x, others = read_systems(read, reference, systems)
    design = StudyDesign(pairs, window, prompts, checks, votes, per_annotator, form, reference_name)
    study = write_study(design_study(x, others, design, gold=gold, rng=rng), target)
    click.echo(f"{target}: written. Show it with: mallow annotate {target}", err=True)
    return study


@command(
    "annotate", "Show a study to annotators in the browser.", example="mallow annotate study.json --people names.txt"
)
@click.argument("study")
@click.option(
    "--database",
    metavar="FILE|URL",
    help="Where answers are kept: an SQLite file or postgresql://….  [default: beside STUDY]",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="What to listen on; 0.0.0.0 opens it to the network."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option(
    "--url", metavar="URL", help="How people reach the page, if by another address: https://study.example.org."
)
@click.option("--people", metavar="FILE", help="Names, one per line: each gets a personal link, printed as CSV.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="How long personal links are valid.",
)
@click.option("--invited-only", is_flag=True, help="No open link: only personal links, Prolific and MTurk.")
@click.option(
    "--lease",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="MINUTES",
    help="After so long, a pair without an answer goes to somebody else.",
)
@click.option(
    "--completion-code", metavar="CODE", help="One code for all, as Prolific wants it.  [default: one per annotator]"
)
@click.option("--export", metavar="FILE", help="Write the votes so far (.jsonl) and end, without a server.")
@click.option("--accept-edits", is_flag=True, help="Take a study file as it is, although it was edited by hand.")
def annotate_command(
    study: str,
    database: str | None,
    host: str,
    port: int,
    url: str | None,
    people: str | None,
    days: float,
    invited_only: bool,
    lease: float,
    completion_code: str | None,
    export: str | None,
    accept_edits: bool,
) -> None:
    """Show the study in the file STUDY to annotators, until Ctrl-C.

    The links are printed on standard output. Every answer is on disk before it is acknowledged; the page may be stopped
    and started again at any time. It listens on this machine only, unless --host says otherwise.
    """
    from mallow import annotate

    target = None if export is None else check_output_file(export, ".jsonl")
    names = [] if people is None else _read_lines(people)
    address = annotate.Address(host, port, url)
    store = annotate.open_study(study, database, lease=60.0 * lease, accept_edits=accept_edits)
    try:
        if target is not None:
            save_text(target, annotate.votes_text(annotate.export_votes(store)))
            return
        if not address.is_local and not address.is_secure:
            click.echo(
                "mallow: warning: anyone in the network can read along: put a proxy with https before it.", err=True
            )

        def show_links(base: str, stop: Any) -> None:
            links = annotate.make_links(store, base, names, days=days)
            click.echo(f"study: {links.study}{'  (by invitation)' if invited_only else ''}")
            click.echo(f"owner: {links.owner}")
            if names:
                click.echo(links.to_csv(), nl=False)
            sys.stdout.flush()

        settings = annotate.Settings(open_link=not invited_only, completion_code=completion_code)
        annotate.serve(store, study, address, settings, ready=show_links)
    finally:
        store.close()


study_group.add_command(design_command)
COMMANDS = (study_group, annotate_command)
