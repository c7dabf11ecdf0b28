"""How far are a generative model's samples from the data they should match?

    samples ─embed▶ points ─estimate▶ MASSES ─frontier▶ Frontier ─area · integral · midpoint▶ numbers

`Masses` are what P (the reference) and Q (the model) give to common atoms. From them come every
f-divergence, the divergence frontier and its summaries: `area` (MAUVE; 1 = indistinguishable),
`integral` and `midpoint` (0 = indistinguishable).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

# Every public name is loaded at its first use, so that the command line shows its help without numpy.
# `__init__.pyi` says the same to type checkers and editors.
_MODULES = ["baselines", "bounds", "compat", "embed", "generate", "report", "smoothing", "transport"]
_WHERE = {
    name: module
    for module, names in {
        "audit": "Audit audit",
        "check": "Check check",
        "compare": "Comparison compare",
        "confounds": "Finding confounds",
        "debias": "debiased",
        "diagnose": "Diagnosis diagnose",
        "divergence": "CHI2 CHI2_INTEGRAL HELLINGER2 JS KL KL_INTEGRAL LE_CAM TV"
        " Divergence conjugate interpolated skew_js",
        "errors": "EstimateWarning InputError",
        "estimate": "Classifier Codebook Gaussian KernelDensity Neighbors Quantize Reduce",
        "frontier": "Frontier area frontier integral linear_cost midpoint",
        "masses": "Masses Partition",
        "monitor": "Monitor",
        "plan": "SamplePlan plan",
        "samples": "Samples read write",
        "score": "MAUVE_2021 MAUVE_STAR Measure Score permutation_test score",
        "sweep": "Sweep sweep",
    }.items()
    for name in names.split()
}
__all__ = sorted([*_MODULES, *_WHERE])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(f"mallow.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"mallow.{name}")
    else:
        raise AttributeError(f"module 'mallow' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`mallow.score` is the function, also after the import system has loaded the module of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _WHERE):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
