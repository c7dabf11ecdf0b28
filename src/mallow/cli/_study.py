"""The command `study`, which designs a study with people, and `study plan`, which estimates the votes it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from mallow.cli._commands import check_output_file, read_ranking, result_command
from mallow.cli._options import bundle, option, reader_options, rng_option, systems_argument
from mallow.cli._printing import print_message
from mallow.cli._samples import SampleReader, read_lines, read_systems

if TYPE_CHECKING:
    from mallow.human import PairScheme, PromptFilter, QualityChecks, TextWindow
    from mallow.results import Result


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
    count = 45 if per_pair is None else per_pair
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


def _make_window(length: str | None, tokenizer: str) -> TextWindow | None:
    from mallow.human import TextWindow

    if length is None:
        if tokenizer != "words":
            raise click.UsageError("--tokenizer needs --length, in its tokens: --length 200-256.")
        return None
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
    return PromptFilter(keep=frozenset(read_lines(prompts)))


def _make_checks(gold: int, gold_every: int, repeat_every: int) -> QualityChecks:
    from mallow.human import QualityChecks

    return QualityChecks(gold, gold_every, repeat_every)


_pair_options = bundle(
    "pairs",
    _make_pairs,
    option(
        "--pairs",
        "scheme",
        type=click.Choice(["all", "star", "optimal"]),
        default="all",
        help="Which pairs of systems to compare: all, each system with the reference (star), or the best pairs for a "
        "ranking with --budget comparisons (optimal).",
        python={"pairs=Star(…)": "--pairs star"},
    ),
    option(
        "--per-pair",
        least=1,
        metavar="N",
        help="Comparisons of each pair of systems, each with --votes.  [default: 45]",
        python={"pairs=AllPairs(…)": "--per-pair N"},
    ),
    option("--budget", least=1, metavar="N", help="Comparisons in all, for --pairs optimal."),
    option(
        "--score",
        "scores",
        multiple=True,
        metavar="NAME=SCORE",
        help="The expected score of a system, on the scale of `mallow rank`, for --pairs optimal. May be repeated.",
    ),
)
_window_options = bundle(
    "window",
    _make_window,
    option(
        "--length",
        metavar="LEAST-MOST",
        help="Length in tokens. Shorter texts are left out, and longer texts are cut.  [default: as long as the texts "
        "allow, up to 200-256]",
        python={"window=TextWindow(…)": "--length LEAST-MOST"},
    ),
    option(
        "--tokenizer",
        default="words",
        metavar="NAME",
        help="words, a tokenizer.json, or a folder with GPT-2's vocab.json and merges.txt.",
    ),
)
_prompt_options = bundle(
    "prompts",
    _make_filter,
    option("--prompts", "prompts_file", metavar="FILE", help="Ids of the prompts to use, one per line."),
    option(
        "--all-prompts",
        is_flag=True,
        help="Use all prompts, even headings and menus.",
        python={"prompts=None": "--all-prompts"},
    ),
)
_check_options = bundle(
    "checks",
    _make_checks,
    option("--gold", least=0, default=6, help="Gold pairs to make, for texts."),
    option("--gold-every", least=0, default=15, metavar="N", help="Show a gold pair once in N pairs (0 for never)."),
    option(
        "--repeat-every",
        least=0,
        default=20,
        metavar="N",
        help="Repeat a pair, with sides exchanged, once in N pairs (0 for never).",
    ),
)


@click.group(
    "study",
    cls=_StudyGroup,
    short_help="Design a study with people, or plan how many votes it needs.",
    subcommand_metavar="REFERENCE NAME=PATH... | plan NAME=SCORE...",
    epilog="\b\nExample:\n  mallow study human.jsonl small=small.jsonl large=large.jsonl --out study.json",
)
def study_group() -> None:
    """Design a study in which people compare systems with the reference and with each other.

    \b
    mallow study plan human=50 small=-30         how many votes, hours and money it takes
    mallow study human.jsonl small=small.jsonl   write study.json (`study design`)
    mallow annotate study.json                   show it to annotators in the browser
    mallow rank votes.jsonl                      rank the systems, with intervals
    mallow correlate result.json ranking.json    compare metrics with people

    A study can compare texts or pictures, all pairs of systems or only the most useful ones (--pairs), with two votes
    per pair (--votes), your own questions (--form), gold pairs and repeated pairs that check annotators. Texts are cut
    to a common length that fits them (--length), and prompts that are headings, menus or too short are left out, with
    their number and the reason. `mallow study design --help` lists all options.
    """


@result_command(
    "design",
    "Write a study with balanced pairs of texts or pictures.",
    example="mallow study human.jsonl small=small.jsonl large=large.jsonl --out study.json",
    plot="how often each system is on the left of each other one",
)
@click.argument("reference")
@systems_argument
@option("--out", "-o", default="study.json", metavar="FILE", help="The .json file to write.")
@_pair_options
@_window_options
@_prompt_options
@_check_options
@option(
    "--gold-file",
    metavar="FILE",
    help="Your own gold pairs (.jsonl: prompt, left, right, expected -2 or 2).",
)
@option("--votes", least=1, default=2, help="How many annotators judge each pair. Two or more show how far they agree.")
@option("--per-annotator", least=1, metavar="N", help="The maximum number of pairs per annotator.  [default: no limit]")
@option("--form", "form_file", metavar="FILE", help="Your own title, instructions, examples and questions (.json).")
@option("--reference-name", default="human", help="The name of the reference among the systems.")
@reader_options
@rng_option
def design_command(
    reference: str,
    systems: tuple[str, ...],
    out: str,
    pairs: PairScheme,
    window: TextWindow | None,
    prompts: PromptFilter | None,
    checks: QualityChecks,
    gold_file: str | None,
    votes: int,
    per_annotator: int | None,
    form_file: str | None,
    reference_name: str,
    read: SampleReader,
    rng: int,
) -> Result:
    """Write a study in which people compare systems with REFERENCE and with each other.

    Samples belong to one prompt if they have the same `id` (without ids, the same `prompt`). The defaults follow the
    study in the MAUVE paper, with 90 votes for each pair of systems, but on 45 prompts with two votes each, so that
    agreement can be seen. Gold pairs and repeated pairs are added; --gold-every 0 --repeat-every 0 leaves them out.
    """
    from mallow.human import StudyDesign, design_study, read_form, read_gold, write_study

    target = check_output_file(out, ".json")
    form = None if form_file is None else read_form(form_file)
    gold = () if gold_file is None else read_gold(gold_file)
    x, others = read_systems(read, reference, systems)
    design = StudyDesign(pairs, window, prompts, checks, votes, per_annotator, form, reference_name)
    study = write_study(design_study(x, others, design, gold=gold, rng=rng), target)
    print_message(f"{target}: written. Show it with: mallow annotate {target}")
    return study


@result_command(
    "plan",
    "Estimate how many votes a study needs, and what they cost.",
    example="mallow study plan human=50 small=-30 large=10 --goal ranking",
    plot="the probability of reaching the goal against the votes",
)
@click.argument("scores", nargs=-1, required=True, metavar="NAME=SCORE... | RANKING.json")
@option(
    "--goal",
    type=click.Choice(["apart", "ranking"]),
    default="apart",
    help="Tell two systems apart, or rank all of them in the right order.",
)
@option("--between", nargs=2, metavar="A B", help="Which two systems to tell apart.  [default: the closest two]")
@option("--power", type=float, default=0.8, help="The probability of reaching the goal.")
@option("--level", type=float, default=0.05, help="The level of significance, two-sided.")
@option("--pairs", type=click.Choice(["all", "star"]), default="all", help="Pairs to compare.")
@option("--ties", type=float, default=0.0, help="The share of ties, if the scores leave out ties.")
@option("--seconds", type=float, default=47.0, help="Time for one pair with all questions.")
@option("--wage", type=float, default=16.0, help="Pay per hour.")
@rng_option
def plan_command(
    scores: tuple[str, ...],
    goal: Literal["apart", "ranking"],
    between: tuple[str, str] | None,
    power: float,
    level: float,
    pairs: Literal["all", "star"],
    ties: float,
    seconds: float,
    wage: float,
    rng: int,
) -> Result:
    """Estimate how many votes it takes to tell systems apart, or to rank them in the right order, and what they cost.

    It simulates studies from Bradley–Terry scores that you expect, or that `mallow rank --question NAME --out
    ranking.json` found in a pilot. A difference of 40 means that the better system wins 60% of the votes. 85 means 70%,
    and 139 means 80%.
    """
    from mallow.human import VoteCosts, VoteGoal, plan_votes

    if between and goal == "ranking":
        raise click.UsageError("--between is for --goal apart.")
    saved = len(scores) == 1 and scores[0].endswith(".json")
    expected = dict(read_ranking(scores[0], one=True).scores) if saved else _read_scores(scores)
    costs = VoteCosts(seconds, wage)
    return plan_votes(
        expected, goal=VoteGoal(goal, between or None, power, level), pairs=pairs, ties=ties, costs=costs, rng=rng
    )


study_group.add_command(design_command)
study_group.add_command(plan_command)
