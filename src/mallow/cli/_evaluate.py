"""The commands of `mallow.evaluate`: score with its further questions, compare, track, permutation-test, plan, check, robust, gaps, passport."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._commands import check_output_file, do_at_end, result_command, save_text_at_end
from mallow.cli._options import (
    EmbedderChoice,
    bundle,
    embedder_options,
    engine_options,
    measure_options,
    measure_options_of_baseline,
    reader_options,
    repeats_option,
    rng_option,
    sample_option,
    set_sample,
    systems_argument,
)
from mallow.cli._samples import SampleReader, embed_once, expand_glob, name_systems, read_arguments, read_systems

if TYPE_CHECKING:
    from mallow.cli._results import PermutationTest, ScoreParts
    from mallow.engine import Engine
    from mallow.evaluate import (
        Check,
        Comparison,
        GapDifference,
        PassportCheck,
        RobustComparison,
        SamplePlan,
        Score,
        Track,
    )
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
        from mallow.cli._results import ScoreParts
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
    "score",
    "Score one system against the reference.",
    example="mallow score human.jsonl model.jsonl",
    plot="the frontier",
)
@click.argument("reference")
@click.argument("model")
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
@sample_option
@engine_options
@click.option("--out", "-o", metavar="FILE", help="Save the whole score, with its curves: .json.")
@question_options
def score_command(
    reference: str,
    model: str,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
    sample: int | None,
    engine: Engine | None,
    out: str | None,
    questions: Questions,
) -> Score | ScoreParts:
    """Score the samples of MODEL against those of REFERENCE.

    Both are files (.jsonl, .json, .txt, .csv, .parquet, .npy or .npz, each also as .gz), folders of images, folders, globs
    or URLs of shards, logs of lm-evaluation-harness or Inspect, or - for standard input. FILE:FIELD names the field that
    holds the text.
    """
    from mallow.evaluate import score

    target = None if out is None else check_output_file(out, ".json")
    measure = set_sample(measure, sample)
    x, y = read_arguments(read, REFERENCE=reference, MODEL=model)
    chosen = embedder(x.kind)
    if questions.asked:
        parts = questions.answer(read, (reference, model), (x, y), chosen, measure=measure, repeats=repeats, rng=rng)
        if target is not None:
            save_text_at_end(target, parts.score.to_json())
        return parts if len(parts.parts) > 1 else parts.score
    result = score(x, y, measure=measure, embedder=chosen, repeats=repeats, rng=rng, engine=engine)
    if target is not None:
        save_text_at_end(target, result.to_json())
    return result


@result_command(
    "compare",
    "Rank systems, and tell which differences are real.",
    example="mallow compare human.jsonl small=small.jsonl large=large.jsonl",
    plot="the scores",
)
@click.argument("reference")
@systems_argument
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
@sample_option
@engine_options
@click.option("--baseline", metavar="NAME", help="Compare all other systems with this one only.")
@click.option(
    "--out", "-o", metavar="FILE", help="Save the whole comparison: .json, which `mallow report` turns into a page."
)
def compare_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
    baseline: str | None,
    out: str | None,
    sample: int | None,
    engine: Engine | None,
) -> Comparison:
    """Rank several systems against one REFERENCE, and tell which differences are real.

    A system is NAME=PATH, or a PATH, which is named after its file.
    """
    from mallow.evaluate import compare

    target = None if out is None else check_output_file(out, ".json")
    x, others = read_systems(read, reference, systems)
    if baseline is not None and baseline not in others:
        raise click.UsageError(f"--baseline must be one of {', '.join(others)}; got {baseline!r}.")
    chosen, measure = embedder(x.kind), set_sample(measure, sample)
    comparison = compare(
        x, others, measure=measure, embedder=chosen, repeats=repeats, rng=rng, baseline=baseline, engine=engine
    )
    if target is not None:
        save_text_at_end(target, comparison.to_json())
    return comparison


@result_command(
    "track",
    "Follow a series of checkpoints: trend and changes.",
    example="mallow track human.jsonl ckpt-*.jsonl --plot track.png",
    plot="the scores against the step, with the changes",
)
@click.argument("reference")
@systems_argument
@embedder_options
@reader_options
@measure_options
@repeats_option
@rng_option
@click.option(
    "--as-given", is_flag=True, help="Keep the order of the files; otherwise the last number in a name is its step."
)
@click.option("--out", "-o", metavar="FILE", help="Save the whole result: .json.")
def track_command(
    reference: str,
    systems: tuple[str, ...],
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    repeats: int,
    rng: int,
    as_given: bool,
    out: str | None,
) -> Track:
    """Compare a series of checkpoints with one REFERENCE: does it come closer, and where did it change?

    A checkpoint is a PATH, named after its file (or its folder, if all files have the same name), or NAME=PATH. A change is a
    checkpoint that differs from one since the change before, at the 5 % level corrected for all pairs; a series that never
    changes shows one with a probability of at most 5 %.
    """
    from mallow.evaluate import track

    target = None if out is None else check_output_file(out, ".json")
    files = [name for system in systems for name in expand_glob(system)]
    x, checkpoints = read_systems(read, reference, files)
    steps = list(range(1, len(checkpoints) + 1)) if as_given else None
    chosen = embedder(x.kind)
    result = track(x, checkpoints, steps=steps, measure=measure, embedder=chosen, repeats=repeats, rng=rng)
    if target is not None:
        save_text_at_end(target, result.to_json())
    return result


@result_command(
    "permutation-test",
    "Test whether there is any gap at all.",
    example="mallow permutation-test human.jsonl model.jsonl",
)
@click.argument("reference")
@click.argument("model")
@click.option(
    "--permutations",
    type=click.IntRange(min=1),
    default=999,
    show_default=True,
    help="How often samples are exchanged at random.",
)
@embedder_options
@reader_options
@rng_option
def permutation_test_command(
    reference: str,
    model: str,
    permutations: int,
    embedder: EmbedderChoice,
    read: SampleReader,
    rng: int,
) -> PermutationTest:
    """Test whether MODEL differs from REFERENCE at all, by exchanging samples between them.

    Samples with the same id or prompt stay together, so that shared prompts and several samples per prompt are allowed. It
    is the test behind the p-value of `mallow score`, and the same for every measure.
    """
    from mallow.cli._results import PermutationTest
    from mallow.evidence import run_permutations

    x, y = read_arguments(read, REFERENCE=reference, MODEL=model)
    test = run_permutations(x, y, embedder=embedder(x.kind), permutations=permutations, rng=rng)
    return PermutationTest.from_test(test, (len(x), len(y)))


@result_command(
    "plan",
    "How many samples are needed to tell two systems apart.",
    example="mallow plan human.jsonl small.jsonl large.jsonl --detect 0.01",
    plot="the power for each number of samples",
)
@click.argument("reference")
@click.argument("model_a")
@click.argument("model_b")
@click.option(
    "--detect", type=float, default=0.01, show_default=True, help="The difference in certified MAUVE to be detected."
)
@click.option("--power", type=float, default=0.8, show_default=True, help="The probability of detecting it.")
@click.option("--level", type=float, default=0.05, show_default=True, help="The level of significance, two-sided.")
@embedder_options
@reader_options
@measure_options
@rng_option
def plan_command(
    reference: str,
    model_a: str,
    model_b: str,
    detect: float,
    power: float,
    level: float,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure,
    rng: int,
) -> SamplePlan:
    """Estimate, from a pilot of each, how many samples are needed to tell MODEL_A from MODEL_B.

    A few hundred samples of each are enough for a pilot. The plan is for `mallow compare`, whose verdict rests on held-out
    evidence: of the measure, only its divergence and its scale matter.
    """
    from mallow.evaluate import plan_samples

    x, a, b = read_arguments(read, REFERENCE=reference, MODEL_A=model_a, MODEL_B=model_b)
    return plan_samples(
        x,
        a,
        b,
        detect=detect,
        power=power,
        level=level,
        measure=measure,
        embedder=embedder(x.kind),
        rng=rng,
    )


def _exit_code(check: Check) -> int:
    strict = click.get_current_context().params["strict"]
    return {"passed": 0, "regression": 3, "cannot tell": 4 if strict else 0}[check.outcome]


@result_command(
    "check",
    "Exit 3 if a model has got worse: for continuous integration.",
    example="mallow check human.jsonl new.jsonl --baseline result.json --max-drop 0.02",
    plot="the drop with its interval",
    exit_code=_exit_code,
)
@click.argument("reference")
@click.argument("model")
@click.option("--baseline", required=True, metavar="FILE", help="What `mallow score --out` saved earlier.")
@click.option("--max-drop", type=float, default=0.02, show_default=True, help="The drop in MAUVE that is allowed.")
@click.option("--strict", is_flag=True, help="Exit 4 if the samples are too few to tell, instead of 0.")
@click.option("--junit", metavar="FILE", help="Write the outcome as a JUnit file: .xml.")
@click.option(
    "--github-summary",
    is_flag=True,
    help="Append the outcome to the summary of the GitHub Actions job (the file that GITHUB_STEP_SUMMARY names).",
)
@embedder_options
@reader_options
@measure_options_of_baseline
@rng_option
def check_command(
    reference: str,
    model: str,
    baseline: str,
    max_drop: float,
    strict: bool,
    junit: str | None,
    github_summary: bool,
    embedder: EmbedderChoice,
    read: SampleReader,
    measure: Measure | None,
    rng: int,
) -> Check:
    """Compare MODEL with an earlier score, the baseline: has certified MAUVE dropped by more than --max-drop?

    There are three outcomes. Passed: the whole interval of the drop is at most --max-drop; exit 0. Regression: all of it is
    above; exit 3. Cannot tell: the samples are too few; exit 0, or 4 with --strict. An error exits 1, and wrong usage 2.

    The noise that both runs share cancels, so use the same reference as in the baseline. The measure is that of the
    baseline. If the baseline was made with options such as --bins, pass the same ones; the others then have the defaults of
    `mallow score`.
    """
    from mallow.cli._results import append_summary, find_summary_file, github_markdown, junit_xml
    from mallow.evaluate import check_regression, read_baseline

    junit_file = None if junit is None else check_output_file(junit, ".xml")
    summary_file = find_summary_file() if github_summary else None
    before = read_baseline(baseline)
    x, y = read_arguments(read, REFERENCE=reference, MODEL=model)
    check = check_regression(x, y, before, max_drop=max_drop, measure=measure, embedder=embedder(x.kind), rng=rng)
    name = f"{model} against {reference}, baseline {baseline}"
    if junit_file is not None:
        save_text_at_end(junit_file, junit_xml(check, name, strict=strict))
    if summary_file is not None:
        do_at_end(partial(append_summary, summary_file, github_markdown(check, name)))
    return check


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
