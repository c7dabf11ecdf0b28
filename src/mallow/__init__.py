"""How far are a generative model's samples from the data they should match?

    samples ─embed▶ Samples with features ─estimate▶ MASSES ─frontier▶ Frontier ─area · integral · midpoint▶ Score ─▶
    Comparison

`score` and `compare` go all the way. `Masses` hold the probabilities that P (the reference) and Q (the model) give
to common atoms. Every f-divergence, the divergence frontier and its summaries are computed from them: `area` (MAUVE;
1 = indistinguishable), `integral` and `midpoint` (0 = indistinguishable). The packages follow this flow:
docs/architecture.md.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Every public name is loaded at its first use, so that the command line shows its help without numpy.
# `__init__.pyi` says the same to type checkers and editors.
_MODULES = [
    "annotate",
    "baselines",
    "compat",
    "embed",
    "generate",
    "human",
    "integrations",
    "report",
    "smoothing",
    "theory",
]
_PACKAGES = {
    name: package
    for package, names in {
        "caveats": "find_confounds",
        "engine": "Ray Threads",
        "errors": "Caveat EstimateWarning InputError",
        "estimate": "Classifier Gaussian KernelDensity Neighbors Quantize Reduce",
        "evaluate": "Comparison Difference Monitor Score audit_embedder check_regression compare compare_embedders"
        " compare_gaps make_passport plan_samples same_model score sweep track verify_passport",
        "explain": "diagnose memorisation",
        "evidence": "MAUVE_2021 MAUVE_STAR Measure permutation_test",
        "results": "Estimate",
        "samples": "Samples read write",
        "theory": "CHI2 HELLINGER2 JS KL LE_CAM TV Divergence Frontier Masses area conjugate frontier integral"
        " interpolated midpoint skew_js",
    }.items()
    for name in names.split()
}
# Packages with rarer names, such as the classes of results: `mallow.evaluate.Track`. They are loaded in the same way.
_RARER = ["estimate", "evaluate", "evidence", "explain", "samples"]
__all__ = sorted([*_MODULES, *_PACKAGES])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        value = getattr(import_module(f"mallow.{_PACKAGES[name]}"), name)
    elif name in _MODULES or name in _RARER:
        value = import_module(f"mallow.{name}")
    else:
        raise AttributeError(f"module 'mallow' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
