"""The commands of `mallow.evaluate`: score, compare, track, permutation-test, plan, check, robust, gaps, passport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._commands import check_output_file, do_at_end, out_option, result_command, save_text
from mallow.cli._options import EmbedderChoice, Run, bundle, option, run_options, systems_argument
from mallow.cli._samples import embed_once, expand_glob, name_systems, read_arguments, read_systems
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.cli._results import PermutationTest, ScoreParts
    from mallow.evaluate import (
        Check,
        Comparison,
        GapDifference,
        PassportCheck,
        RobustComparison,
        SameModel,
        SamplePlan,
        Score,
        Track,
    )
    from mallow.samples import Samples


@dataclass(frozen=True)
class Questions:
    """What else is asked of a score: training data, a column to match, a column of groups, a passport and its key."""

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

    def answer(self, run: Run, paths: tuple[str, str], sides: tuple[Samples, Samples]) -> ScoreParts:
        """The score and the answers. Samples are embedded once, unless the embedder must embed each pair separately."""
        from mallow.cli._results import ScoreParts
        from mallow.evaluate import make_passport, score
        from mallow.explain import memorisation

        target = None if self.passport is None else check_output_file(self.passport, ".json")
        secret = _read_key(self.key)
        columns = {
            name: (run.read.column(paths[0], name), run.read.column(paths[1], name))
            for name in (self.match_column, self.by)
            if name is not None and name != "length"
        }
        more = [] if self.train is None else [run.read(self.train)]
        options = run.settings(sides[0].kind)
        options.pop("engine", None)
        x, y, *more, options["embedder"] = embed_once(options.pop("embedder", None), *sides, *more)
        parts: dict[str, Any] = {}
        if self.match_column is not None:
            name = self.match_column
            try:
                parts["matched"] = score(x, y, match=name if name == "length" else {name: columns[name]}, **options)
            except InputError as error:  # --match is an option of an embedder
                raise InputError(str(error).replace("`match`", "--match-column")) from error
        if self.by is not None:
            parts["groups"] = score(x, y, by=columns[self.by], **options)
        if more:
            parts["memorisation"] = memorisation(x, y, more[0], embedder=options["embedder"], rng=options["rng"])
        whole = parts["matched"].before if "matched" in parts else score(x, y, **options)
        if target is not None:
            made = make_passport(whole, x, y, measure=options["measure"], embedder=options["embedder"], key=secret)
            do_at_end(save_text, target, made.to_json())
        return ScoreParts(whole, **parts)


def _read_key(path: str | None) -> str | None:
    """The secret in a file, without white space around it."""
    from mallow._files import read_text

    return None if path is None else read_text(path).strip()


_question_options = bundle(
    "questions",
    Questions,
    option("--train", metavar="FILE", help="Training data: tell whether MODEL copies them, and list near copies."),
    option(
        "--match-column",
        metavar="COLUMN",
        help="Score again where this column, or length, agrees between the sides: how much of the gap was that?",
    ),
    option("--by", metavar="COLUMN", help="Score each group of this column too, with corrected p-values."),
    option(
        "--passport",
        metavar="FILE",
        help="Write a file from which anyone recomputes the score without the data: .json.",
    ),
    option(
        "--passport-key",
        "key",
        metavar="FILE",
        help="A file with a secret, or a private key of Ed25519 (PEM), to sign it with.",
    ),
)


@result_command(
    "score",
    "Score one system against the reference.",
    example="mallow score human.jsonl model.jsonl",
    plot="the frontier",
)
@click.argument("reference")
@click.argument("model")
@run_options("embedder", "read", "paired", "prompts", "measure", "repeats", "rng", "sample", "engine")
@out_option("Save the whole score, with its curves: .json.")
@_question_options
def score_command(reference: str, model: str, run: Run, questions: Questions) -> Score | ScoreParts:
    """Score the samples of MODEL against those of REFERENCE.

    Both are files (.jsonl, .json, .txt, .csv, .parquet, .npy or .npz, each also as .gz), folders of images, folders,
    globs or URLs of shards, logs of lm-evaluation-harness or Inspect, or - for standard input. FILE:FIELD names the
    field that holds the text.
    """
    from mallow.evaluate import score

    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    if not questions.asked:
        whole: Score = score(x, y, **run.settings(x.kind))
        return whole
    parts = questions.answer(run, (reference, model), (x, y))
    return parts if len(parts.parts) > 1 else parts.score


@result_command(
    "compare",
    "Rank systems, and tell which differences are real.",
    example="mallow compare human.jsonl small=small.jsonl large=large.jsonl",
    plot="the scores",
)
@click.argument("reference")
@systems_argument
@run_options("embedder", "read", "paired", "prompts", "measure", "repeats", "rng", "sample", "engine")
@option("--baseline", metavar="NAME", help="Compare all other systems with this one only.")
@out_option("Save the whole comparison: .json, which `mallow report` turns into a page.")
def compare_command(reference: str, systems: tuple[str, ...], run: Run, baseline: str | None) -> Comparison:
    """Rank several systems against one REFERENCE, and tell which differences are real.

    A system is NAME=PATH, or a PATH, which is named after its file.
    """
    from mallow.evaluate import compare

    x, others = read_systems(run.read, reference, systems)
    if baseline is not None and baseline not in others:
        raise click.UsageError(f"--baseline must be one of {', '.join(others)}; got {baseline!r}.")
    return compare(x, others, baseline=baseline, **run.settings(x.kind))


@result_command(
    "track",
    "Follow a series of checkpoints: trend and changes.",
    example="mallow track human.jsonl ckpt-*.jsonl --plot track.png",
    plot="the scores against the step, with the changes",
)
@click.argument("reference")
@systems_argument
@run_options("embedder", "read", "paired", "measure", "repeats", "rng")
@option(
    "--as-given", is_flag=True, help="Keep the order of the files; otherwise the last number in a name is its step."
)
@out_option("Save the whole result: .json.")
def track_command(reference: str, systems: tuple[str, ...], run: Run, as_given: bool) -> Track:
    """Compare a series of checkpoints with one REFERENCE: does it come closer, and where did it change?

    A checkpoint is a PATH, named after its file (or its folder, if all files have the same name), or NAME=PATH. A
    change is a checkpoint that differs from one since the change before, at the 5 % level corrected for all pairs; a
    series that never changes shows one with a probability of at most 5 %.
    """
    from mallow.evaluate import track

    files = [name for system in systems for name in expand_glob(system)]
    x, checkpoints = read_systems(run.read, reference, files)
    steps = list(range(1, len(checkpoints) + 1)) if as_given else None
    return track(x, checkpoints, steps=steps, **run.settings(x.kind))


@result_command(
    "permutation-test",
    "Test whether there is any gap at all.",
    example="mallow permutation-test human.jsonl model.jsonl",
)
@click.argument("reference")
@click.argument("model")
@option("--permutations", least=1, default=999, help="How often samples are exchanged at random.")
@option(
    "--independent-samples/--dependent-samples",
    default=True,
    help="Whether several samples of one prompt are independent given the prompt: then they are exchanged, too.",
)
@run_options("embedder", "read", "paired", "prompts", "rng")
def permutation_test_command(
    reference: str, model: str, permutations: int, independent_samples: bool, run: Run
) -> PermutationTest:
    """Test whether MODEL differs from REFERENCE at all, by exchanging samples between them.

    Samples with the same id or prompt stay together, so that shared prompts and several samples per prompt are allowed.
    Where both sides have several samples of five prompts or more, a second test exchanges samples within prompts.
    It is the test behind the p-value of `mallow score`, and the same for every measure.
    """
    from mallow.cli._results import PermutationTest
    from mallow.embed import embed_all
    from mallow.evidence import run_permutations

    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    settings = run.settings(x.kind)
    options = {"independent_samples": independent_samples, "permutations": permutations, "rng": settings.pop("rng")}
    sides = embed_all({"reference": x, "model": y}, **settings)
    return PermutationTest.from_test(run_permutations(*sides.values(), **options), (len(x), len(y)))


@result_command(
    "plan",
    "How many samples are needed to tell two systems apart.",
    example="mallow plan human.jsonl small.jsonl large.jsonl --detect 0.01",
    plot="the power for each number of samples",
)
@click.argument("reference")
@click.argument("model_a")
@click.argument("model_b")
@option("--detect", type=float, default=0.01, help="The true difference in MAUVE to be detected.")
@option("--power", type=float, default=0.8, help="The probability of detecting it.")
@option("--level", type=float, default=0.05, help="The level of significance, two-sided.")
@run_options("embedder", "read", "paired", "measure", "rng")
def plan_command(
    reference: str, model_a: str, model_b: str, detect: float, power: float, level: float, run: Run
) -> SamplePlan:
    """Estimate, from a pilot of each, how many samples are needed to tell MODEL_A from MODEL_B.

    A few hundred samples of each are enough for a pilot. The plan is for `mallow compare`, whose verdict rests on
    held-out evidence: of the measure, only its divergence and its scale matter.
    """
    from mallow.evaluate import plan_samples

    x, a, b = read_arguments(run.read, REFERENCE=reference, MODEL_A=model_a, MODEL_B=model_b)
    return plan_samples(x, a, b, detect=detect, power=power, level=level, **run.settings(x.kind))


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
@option("--baseline", required=True, metavar="FILE", help="What `mallow score --out` saved earlier.")
@option("--max-drop", type=float, default=0.02, help="The drop in MAUVE that is allowed.")
@option("--strict", is_flag=True, help="Exit 4 if the samples are too few to tell, instead of 0.")
@option("--junit", metavar="FILE", help="Write the outcome as a JUnit file: .xml.")
@option(
    "--github-summary",
    is_flag=True,
    help="Append the outcome to the summary of the GitHub Actions job (the file that GITHUB_STEP_SUMMARY names).",
)
@run_options("embedder", "read", "paired", "measure of baseline", "rng")
def check_command(
    reference: str,
    model: str,
    baseline: str,
    max_drop: float,
    strict: bool,
    junit: str | None,
    github_summary: bool,
    run: Run,
) -> Check:
    """Compare MODEL with an earlier score, the baseline: has certified MAUVE dropped by more than --max-drop?

    There are three outcomes. Passed: the whole interval of the drop is at most --max-drop; exit 0. Regression: all of
    it is above; exit 3. Cannot tell: the samples are too few; exit 0, or 4 with --strict. An error exits 1, and wrong
    usage 2.

    The noise that both runs share cancels, so use the same reference as in the baseline. The measure is that of the
    baseline. If the baseline was made with options such as --bins, pass the same ones; the others then have the
    defaults of `mallow score`.
    """
    from mallow.cli._results import append_summary, find_summary_file, github_markdown, junit_xml
    from mallow.evaluate import check_regression, read_baseline

    junit_file = None if junit is None else check_output_file(junit, ".xml")
    summary_file = find_summary_file() if github_summary else None
    before = read_baseline(baseline)
    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    check = check_regression(x, y, before, max_drop=max_drop, **run.settings(x.kind))
    name = f"{model} against {reference}, baseline {baseline}"
    if junit_file is not None:
        do_at_end(save_text, junit_file, junit_xml(check, name, strict=strict))
    if summary_file is not None:
        do_at_end(append_summary, summary_file, github_markdown(check, name))
    return check


@result_command(
    "robust",
    "Rank systems under several embedders: a winner only where they agree.",
    example="mallow robust human.jsonl small=small.jsonl large=large.jsonl -e minilm -e glove",
    plot="the certified scores by embedder",
)
@click.argument("reference")
@systems_argument
@option(
    "--embedder",
    "-e",
    "names",
    multiple=True,
    metavar="NAME",
    help="An embedder, as for `mallow compare`; two or more.",
)
@run_options("read", "paired", "measure", "repeats", "rng")
def robust_command(reference: str, systems: tuple[str, ...], names: tuple[str, ...], run: Run) -> RobustComparison:
    """Compare systems with one REFERENCE under several embedders, and name a winner only where all agree.

    A difference counts if every embedder sees it in the same direction; its p-value is the largest of theirs, corrected
    for the number of pairs.
    """
    from mallow.evaluate import compare_embedders

    if len(names) < 2:
        raise click.UsageError("--embedder must be given at least twice: -e minilm -e glove.")
    for name in names:
        EmbedderChoice(name, ()).allowed_name()
    x, others = read_systems(run.read, reference, systems)
    return compare_embedders(x, others, names, **run.settings(x.kind))


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
@run_options("embedder", "read", "measure", "repeats", "rng")
def gaps_command(reference_1: str, model_1: str, reference_2: str, model_2: str, run: Run) -> GapDifference:
    """Compare the gap between REFERENCE_1 and MODEL_1 with that between REFERENCE_2 and MODEL_2.

    The larger pair is cut to the size of the smaller one. Samples with the same id in both pairs count as one unit.
    """
    from mallow.evaluate import compare_gaps

    first, second = name_systems([model_1, model_2])
    paths = {"REFERENCE_1": reference_1, "MODEL_1": model_1, "REFERENCE_2": reference_2, "MODEL_2": model_2}
    x1, y1, x2, y2 = read_arguments(run.read, **paths)
    pairs = {first: (x1, y1), second: (x2, y2)}
    return compare_gaps(pairs, **run.settings(x1.kind))


@result_command(
    "same",
    "Do two sets of completions come from one model?",
    example="mallow same before.jsonl after.jsonl",
    plot="the p-values of prompts",
)
@click.argument("a")
@click.argument("b")
@option("--permutations", least=1, default=999, help="How often samples are exchanged at random, at least.")
@run_options("embedder", "read", "rng")
def same_command(a: str, b: str, permutations: int, run: Run) -> SameModel:
    """Test whether the completions of A and B come from one model, by exchanging samples of the same prompt.

    Both have prompts, best with several completions each. Without --embedder, texts are compared by their style, which
    needs no model.
    """
    from mallow.evaluate import same_model

    x, y = read_arguments(run.read, A=a, B=b)
    settings = run.settings(x.kind)
    if settings.get("embedder") is None and x.texts is not None and x.features is None:
        settings["embedder"] = "style"
    return same_model(x, y, permutations=permutations, **({"embedder": None} | settings))


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
    exit_code=lambda check: 0 if check.consistent else 1,
)
@click.argument("file")
@option("--key", metavar="FILE", help="A file with the secret, or the public key of Ed25519 (PEM).")
def verify_command(file: str, key: str | None) -> PassportCheck:
    """Check the seals of a passport, and recompute what it allows; exit with 1 if something does not agree.

    Without a key a passport is at best consistent: anyone may have made it.
    """
    from mallow.evaluate import verify_passport

    return verify_passport(file, key=_read_key(key))


passport_group.add_command(verify_command)
