"""Options have the names of the arguments in Python."""

import inspect

import pytest

import mallow
from mallow import baselines, cli, embed, generate
from mallow.demo import demo

OF_READER = {"field", "skip_bad", "limit", "max"}
OF_MEASURE = {"measure", "estimator", "divergence", "bins", "scale", "no_normalise"}
OF_EMBEDDER = {"embedder", "embedder_option", "fast", "match"}
OF_RESULTS = {"format", "digits", "plot", "summary"}
OF_MODEL = {"model", "train", "device", "dtype"}
CALLS = {  # command: the functions behind it, and options that exist on the command line only
    "score": (
        [mallow.score],
        {"out", "sample", "checkpoint", "train", "match_column", "by", "passport", "passport_key"},
    ),
    "gaps": ([mallow.compare_gaps], set()),
    "same": ([mallow.same_model], set()),
    "robust": ([mallow.compare_embedders], set()),
    "compare": ([mallow.compare], {"out", "sample", "checkpoint"}),
    "track": ([mallow.track], {"out", "as_given"}),
    "permutation-test": ([mallow.permutation_test], set()),
    "plan": ([mallow.plan_samples], set()),
    "check": ([mallow.check_regression], {"strict", "junit", "github_summary"}),
    "baselines": ([baselines.table], {"all", "tokenizer", "scorer_train", "save_statistics"}),
    "likelihoods": ([baselines.likelihoods], {"surrogate_train"} | OF_MODEL),
    "report": ([mallow.compare, mallow.report.html], {"out"}),
    "demo": ([demo], {"out"}),
    "diagnose": ([mallow.diagnose], {"grids"}),
    "audit": ([mallow.audit_embedder], set()),
    "generate": ([generate.GenerationPlan, generate.generate_file, generate.prompts_of], {"whole_prompts"} | OF_MODEL),
    "sweep": ([generate.GenerationPlan, mallow.sweep], {"out"} | OF_MODEL),
    "embed": ([embed.embed_samples], {"out", "engine", "workers", "gpus", "rows"}),
}
NOT_OFFERED = {
    "baseline",
    "scorer",
    "engine",
    "progress",
    "cache",
    "plan",
    "folder",
    "rows",
    "steps",
}  # or an argument, or of Python only


@pytest.mark.parametrize("name", CALLS)
def test_options_have_the_names_of_the_arguments(name):
    functions, own = CALLS[name]
    command = cli.cli.commands[name]
    options = {
        option.opts[0].lstrip("-").replace("-", "_") for option in command.params if option.param_type_name == "option"
    }
    arguments = {argument for function in functions for argument in inspect.signature(function).parameters}
    shared = OF_READER | OF_MEASURE | OF_EMBEDDER | OF_RESULTS | {"quiet", "debug"}
    assert options - shared - own <= arguments
    keywords = {
        parameter.name
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    offered = options | ({"diagnoses", "align"} if name == "report" else set())  # its diagnoses see samples as they are
    assert keywords - NOT_OFFERED <= offered


@pytest.mark.parametrize(
    ("command", "new", "old"),
    [
        ("score", "--rng", "--seed"),
        ("generate", "--decoder", "--decode"),
        ("generate", "--tokens", "--prompt-tokens"),
        ("sweep", "--decoders", "--decode"),
    ],
)
def test_former_names_are_accepted(command, new, old):
    assert [new, old] in [option.opts for option in cli.cli.commands[command].params]
