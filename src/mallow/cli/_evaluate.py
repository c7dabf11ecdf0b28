"""The commands of `mallow.evaluate`: score, compare, track, permutation-test, plan, check, robust, gaps, items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mallow.cli._commands import check_output_file, do_at_end, out_option, result_command, save_text
from mallow.cli._options import EmbedderChoice, Run, bundle, option, run_options, systems_argument
from mallow.cli._samples import embed_once, expand_glob, name_systems, read_arguments, read_key, read_systems
from mallow.errors import InputError

if TYPE_CHECKING:
    from mallow.cli._results import ScoreParts
    from mallow.evaluate import Check
    from mallow.results import Result
    from mallow.samples import Samples


@dataclass(frozen=True)
class Questions:
    """Additional questions about a score: training data, a column to match, a column of groups, a passport and its
    key."""

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
        """Whether there is any."""
        return any((self.train, self.match_column, self.by, self.passport))

    def answer(self, run: Run, paths: tuple[str, str], sides: tuple[Samples, Samples]) -> ScoreParts:
        """The score and the other results. Samples are embedded once, unless the embedder must embed each pair
        separately."""
        from mallow.cli._results import ScoreParts
        from mallow.evaluate import make_passport, score
        from mallow.explain import memorisation

        target = None if self.passport is None else check_output_file(self.passport, ".json")
        secret = read_key(self.key)
        columns = {
            name: (run.read.column(paths[0], name), run.read.column(paths[1], name))
            for name in (self.match_column, self.by)
            if name is not None and name != "length"
        }
        more = [] if self.train is None else [run.read(self.train)]
        options = run.settings(sides[0].kind)
        options.pop("engine", None)
        if "align" in options:
            raise click.UsageError("--align is for a score without --train, --match-column, --by and --passport.")
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


_question_options = bundle(
    "questions",
    Questions,
    option("--train", metavar="FILE", help="Training data. Test whether MODEL copies from it, and list near copies."),
    option(
        "--match-column",
        metavar="COLUMN",
        help="Also score samples matched on this column (or on length), to show how much of the gap it explains.",
    ),
    option("--by", metavar="COLUMN", help="Also score each group of this column, with corrected p-values."),
    option(
        "--passport",
        metavar="FILE",
        help="Write a .json file from which anyone can recompute the score without the data.",
    ),
    option(
        "--passport-key",
        "key",
        metavar="FILE",
        help="Sign the passport with the key in this file: a secret, or a private Ed25519 key (PEM).",
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
@run_options("embedder", "read", "paired", "prompts", "align", "measure", "repeats", "rng", "sample", "engine")
@out_option("Save the whole score, with its curves, as .json.")
@_question_options
def score_command(reference: str, model: str, run: Run, questions: Questions) -> Result:
    """Score the samples in MODEL against the samples in REFERENCE.

    Each is a file (.jsonl, .json, .txt, .csv, .parquet, .npy or .npz, also compressed as .gz), a folder of images, a
    folder, glob or URL of shards, a log of lm-evaluation-harness or Inspect, or - for standard input. FILE:FIELD names
    the field that holds the text.
    """
    from mallow.evaluate import score

    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    if not questions.asked:
        whole: Result = score(x, y, **run.settings(x.kind))
        return whole
    parts = questions.answer(run, (reference, model), (x, y))
    return parts if len(parts.parts) > 1 else parts.score


@result_command(
    "compare",
    "Rank systems, and show which differences are real.",
    example="mallow compare human.jsonl small=small.jsonl large=large.jsonl",
    plot='the scores, or the curves or ranks if the name contains "frontier" or "rank"',
)
@click.argument("reference")
@systems_argument
@run_options("embedder", "read", "paired", "prompts", "align", "measure", "repeats", "rng", "sample", "engine")
@option("--baseline", metavar="NAME", help="Compare the other systems only with this one.")
@out_option("Save the whole comparison as .json. `mallow report` turns it into a page.")
def compare_command(reference: str, systems: tuple[str, ...], run: Run, baseline: str | None) -> Result:
    """Rank several systems against one REFERENCE, and show which differences are real.

    A system is NAME=PATH, or a PATH, which is then named after its file.
    """
    from mallow.evaluate import compare

    x, others = read_systems(run.read, reference, systems)
    if baseline is not None and baseline not in others:
        raise click.UsageError(f"--baseline must be one of {', '.join(others)}; got {baseline!r}.")
    return compare(x, others, baseline=baseline, **run.settings(x.kind))


@result_command(
    "track",
    "Follow a series of checkpoints, and show trend and changes.",
    example="mallow track human.jsonl ckpt-*.jsonl --plot track.png",
    plot="the scores against the step, with the changes",
)
@click.argument("reference")
@systems_argument
@run_options("embedder", "read", "paired", "measure", "repeats", "rng")
@option(
    "--as-given", is_flag=True, help="Keep the order of the files. By default the last number in a name is its step."
)
@out_option("Save the whole result as .json.")
def track_command(reference: str, systems: tuple[str, ...], run: Run, as_given: bool) -> Result:
    """Compare a series of checkpoints with one REFERENCE: does it come closer, and where did it change?

    A checkpoint is a PATH, named after its file (or its folder, if all files have the same name), or NAME=PATH. A
    change is a checkpoint that differs from an earlier one since the previous change, at the 5% level corrected for all
    pairs. If a series never changes, the chance of a false change is at most 5%.
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
    help="Whether several samples of one prompt are independent of each other. If so, they are also exchanged.",
)
@run_options("embedder", "read", "paired", "prompts", "rng")
def permutation_test_command(
    reference: str, model: str, permutations: int, independent_samples: bool, run: Run
) -> Result:
    """Test whether MODEL differs from REFERENCE at all, by exchanging samples between them.

    Samples with the same id or prompt stay together, so shared prompts and several samples per prompt are allowed. If
    both sides have several samples of at least five prompts, a second test exchanges samples within prompts. `mallow
    score` uses this test for its p-value. It does not depend on the measure.
    """
    from mallow.embed import embed_all
    from mallow.evidence import PermutationTest, run_permutations

    x, y = read_arguments(run.read, REFERENCE=reference, MODEL=model)
    settings = run.settings(x.kind)
    options = {"independent_samples": independent_samples, "permutations": permutations, "rng": settings.pop("rng")}
    sides = embed_all({"reference": x, "model": y}, **settings)
    return PermutationTest.from_test(run_permutations(*sides.values(), **options), (len(x), len(y)))


@result_command(
    "plan",
    "Estimate how many samples are needed to tell two systems apart.",
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
) -> Result:
    """Estimate from pilot samples how many samples are needed to tell MODEL_A from MODEL_B.

    A few hundred samples per model are enough for a pilot. The plan is for `mallow compare`, whose verdict rests on
    held-out evidence. It depends on the divergence and the scale of the measure, but not on its estimator.
    """
    from mallow.evaluate import plan_samples

    x, a, b = read_arguments(run.read, REFERENCE=reference, MODEL_A=model_a, MODEL_B=model_b)
    return plan_samples(x, a, b, detect=detect, power=power, level=level, **run.settings(x.kind))


def _exit_code(check: Check) -> int:
    strict = click.get_current_context().params["strict"]
    return {"passed": 0, "regression": 3, "cannot tell": 4 if strict else 0}[check.outcome]


@result_command(
    "check",
    "Fail (exit 3) if the model got worse; for CI.",
    example="mallow check human.jsonl new.jsonl --baseline result.json --max-drop 0.02",
    plot="the drop with its interval",
    exit_code=_exit_code,
)
@click.argument("reference")
@click.argument("model")
@option("--baseline", required=True, metavar="FILE", help="An earlier result of `mallow score --out`.")
@option("--max-drop", type=float, default=0.02, help="The drop in MAUVE that is allowed.")
@option("--strict", is_flag=True, help="Exit 4 instead of 0 if the samples are too few to tell.")
@option("--junit", metavar="FILE", help="Write the outcome as a JUnit .xml file.")
@option(
    "--github-summary",
    is_flag=True,
    help="Append the outcome to the summary of the GitHub Actions job (the file in GITHUB_STEP_SUMMARY).",
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
) -> Result:
    """Compare MODEL with an earlier score, the baseline: has certified MAUVE dropped by more than --max-drop?

    \b
    Passed (exit 0): the whole interval of the drop is at most --max-drop.
    Regression (exit 3): the whole interval is above --max-drop.
    Cannot tell (exit 0, or 4 with --strict): the samples are too few.
    An error exits 1, and wrong usage 2.

    Use the same reference as in the baseline, so that the noise of both runs cancels. The measure is taken from the
    baseline. If the baseline was made with options such as --bins, pass the same options again. All others then have
    the defaults of `mallow score`.
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
    "Rank systems under several embedders, with a winner only if they agree.",
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
    help="An embedder, as for `mallow compare`. Give at least two.",
)
@run_options("read", "paired", "measure", "repeats", "rng")
def robust_command(reference: str, systems: tuple[str, ...], names: tuple[str, ...], run: Run) -> Result:
    """Compare systems with one REFERENCE under several embedders, and name a winner only if all agree.

    A difference counts if every embedder shows it in the same direction. Its p-value is the largest p-value of all
    embedders, corrected for the number of pairs.
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
    "Show which of two gaps is larger, each with its own reference.",
    example="mallow gaps human-de.jsonl model-de.jsonl human-en.jsonl model-en.jsonl",
    plot="both scores",
)
@click.argument("reference_1")
@click.argument("model_1")
@click.argument("reference_2")
@click.argument("model_2")
@run_options("embedder", "read", "measure", "repeats", "rng")
def gaps_command(reference_1: str, model_1: str, reference_2: str, model_2: str, run: Run) -> Result:
    """Compare two gaps: between REFERENCE_1 and MODEL_1, and between REFERENCE_2 and MODEL_2.

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
    "Test whether two sets of completions come from one model.",
    example="mallow same before.jsonl after.jsonl",
    plot="the p-values of prompts",
)
@click.argument("a")
@click.argument("b")
@option("--permutations", least=1, default=999, help="How often samples are exchanged at random, at least.")
@run_options("embedder", "read", "rng")
def same_command(a: str, b: str, permutations: int, run: Run) -> Result:
    """Test whether the completions of A and B come from one model, by exchanging samples of the same prompt.

    Both need prompts, if possible with several completions per prompt. Without --embedder, texts are compared by their
    style, which needs no model.
    """
    from mallow.evaluate import same_model

    x, y = read_arguments(run.read, A=a, B=b)
    if x.kind == "text" and run.embedder is not None and run.embedder.name is None:
        run = replace(run, embedder=replace(run.embedder, name="style", fast=False))
    return same_model(x, y, permutations=permutations, **({"embedder": None} | run.settings(x.kind)))


@result_command(
    "items",
    "Compare systems by their scores on the same items.",
    example="mallow items small.jsonl large.jsonl --metric correct",
    plot="the ranks that each system may have, with tie groups",
)
@systems_argument
@option("--metric", metavar="NAME", help="The score to compare, where the files have several, such as acc_norm.")
@option(
    "--clusters",
    metavar="FIELD",
    help="The field that holds the cluster of an item, such as doc.passage.  [default: cluster, where there is one]",
)
@option(
    "--detect",
    type=float,
    metavar="DIFFERENCE",
    help="Also print how many items are needed to detect this difference with 80% power.",
)
@out_option("Save the result as .json.")
def items_command(systems: tuple[str, ...], metric: str | None, clusters: str | None, detect: float | None) -> Result:
    """Compare the mean scores of two systems or more on the same items, such as the questions of a benchmark: paired
    differences with intervals, corrected p-values, ranks and tie groups.

    Each PATH holds the scores of one system: samples_*.jsonl of lm-evaluation-harness, .eval or .json of Inspect,
    per_instance_stats.json of HELM, or .jsonl, .json or .csv with the columns item (or id), score and, if wanted,
    cluster. Items of one cluster, such as questions about one passage, depend on each other. Repeated samples of an
    item are averaged first.
    """
    from mallow.evaluate import compare_items

    return compare_items(name_systems(systems), metric=metric, clusters=clusters, detect=detect)
