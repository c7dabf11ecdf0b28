from mallow import baselines, bounds, compat, embed, generate, report, smoothing, transport
from mallow.audit import Audit, audit
from mallow.check import Check, check
from mallow.compare import Comparison, compare
from mallow.confounds import Finding, confounds
from mallow.debias import debiased
from mallow.diagnose import Diagnosis, diagnose
from mallow.divergence import (
    CHI2,
    CHI2_INTEGRAL,
    HELLINGER2,
    JS,
    KL,
    KL_INTEGRAL,
    LE_CAM,
    TV,
    Divergence,
    conjugate,
    interpolated,
    skew_js,
)
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Classifier, Codebook, Gaussian, KernelDensity, Neighbors, Quantize, Reduce
from mallow.frontier import Frontier, area, frontier, integral, linear_cost, midpoint
from mallow.masses import Masses, Partition
from mallow.monitor import Monitor
from mallow.plan import SamplePlan, plan
from mallow.samples import Samples, read, write
from mallow.score import MAUVE_2021, MAUVE_STAR, Measure, Score, permutation_test, score
from mallow.sweep import Sweep, sweep

__version__: str

__all__ = [
    "CHI2",
    "CHI2_INTEGRAL",
    "HELLINGER2",
    "JS",
    "KL",
    "KL_INTEGRAL",
    "LE_CAM",
    "MAUVE_2021",
    "MAUVE_STAR",
    "TV",
    "Audit",
    "Check",
    "Classifier",
    "Codebook",
    "Comparison",
    "Diagnosis",
    "Divergence",
    "EstimateWarning",
    "Finding",
    "Frontier",
    "Gaussian",
    "InputError",
    "KernelDensity",
    "Masses",
    "Measure",
    "Monitor",
    "Neighbors",
    "Partition",
    "Quantize",
    "Reduce",
    "SamplePlan",
    "Samples",
    "Score",
    "Sweep",
    "area",
    "audit",
    "baselines",
    "bounds",
    "check",
    "compare",
    "compat",
    "confounds",
    "conjugate",
    "debiased",
    "diagnose",
    "embed",
    "frontier",
    "generate",
    "integral",
    "interpolated",
    "linear_cost",
    "midpoint",
    "permutation_test",
    "plan",
    "read",
    "report",
    "score",
    "skew_js",
    "smoothing",
    "sweep",
    "transport",
    "write",
]
