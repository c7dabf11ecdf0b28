"""How far are a generative model's samples from the data they should match?

    samples ─embed▶ Samples with features ─estimate▶ MASSES ─frontier▶ Frontier ─area · integral · midpoint▶ Score ─▶
    Comparison

`score` and `compare` go all the way. `Masses` are what P (the reference) and Q (the model) give to common atoms: from
them come every f-divergence, the divergence frontier and its summaries, `area` (MAUVE; 1 = indistinguishable),
`integral` and `midpoint` (0 = indistinguishable). The packages follow this flow: docs/architecture.md.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Every public name is loaded at its first use, so that the command line shows its help without numpy.
# `__init__.pyi` says the same to type checkers and editors.
_MODULES = [
    "annotate",
    "baselines",
    "bounds",
    "compat",
    "embed",
    "generate",
    "human",
    "integrations",
    "report",
    "smoothing",
    "transport",
]
_PACKAGES = {
    name: package
    for package, names in {
        "caveats": "find_confounds",
        "engine": "Ray Threads",
        "errors": "Caveat EstimateWarning InputError",
        "estimate": "Classifier Codebook Gaussian KernelDensity Neighbors Quantize Reduce",
        "evaluate": "Audit Check Comparison Difference GapDifference GroupScores MatchedScore"
        " Monitor Passport PassportCheck RobustComparison SamplePlan Score"
        " Sweep Track check_regression compare compare_embedders audit_embedder compare_gaps plan_samples score"
        " score_groups score_matched sweep track make_passport verify_passport",
        "explain": "Diagnosis Memorisation Reason diagnose memorisation",
        "evidence": "MAUVE_2021 MAUVE_KERNEL MAUVE_STAR Evidence Measure Signature Witness permutation_test",
        "results": "Estimate",
        "samples": "Limits Samples read write",
        "theory": "CHI2 CHI2_INTEGRAL HELLINGER2 JS KL KL_INTEGRAL LE_CAM TV Divergence Frontier Masses Partition"
        " area conjugate extrapolated frontier integral interpolated linear_cost midpoint skew_js",
    }.items()
    for name in names.split()
}
__all__ = sorted([*_MODULES, *_PACKAGES])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        value = getattr(import_module(f"mallow.{_PACKAGES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"mallow.{name}")
    else:
        raise AttributeError(f"module 'mallow' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
