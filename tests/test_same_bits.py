"""One answer on every machine: public calls in processes with other kernels of BLAS and other numbers of threads, byte by byte.

OpenBLAS takes the kernel from an environment variable; each rounds products in its own way, as the processors do for which
they were made. On machines with another BLAS the variable changes nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CALLS = """
import sys, warnings
import numpy as np
import mallow

warnings.simplefilter("ignore")
rng = np.random.default_rng(7)
spread = np.arange(1, 65) ** -0.6
text = [((rng.normal(size=(n, 64)) + shift) * spread).astype(np.float32) for n, shift in ((200, 0.0), (200, 0.15), (150, 0.3))]
few = [rng.normal(shift, 1.0, size=(n, 5)) for n, shift in ((120, 0.0), (90, 0.4))]
wide = [rng.normal(shift, 1.0, size=(60, 150)).astype(np.float32) for shift in (0.0, 0.3)]
for pair in (text[:2], few, wide):
    print(mallow.score(*pair, repeats=1).to_json())  # with the test of identity
print(mallow.permutation_test(*few, permutations=199))
print(mallow.compare(text[0], {"a": text[1], "b": text[2]}, repeats=1).to_json())
monitor = mallow.Monitor(text[0])
monitor.update(text[2])
print(monitor.compute().to_json(), monitor.p_value)
"""

PRODUCT = """
import numpy as np
rng = np.random.default_rng(7)
x = rng.normal(size=(300, 300))
print((x @ x).tobytes().hex())
"""


def kernels() -> list[str]:
    """Kernels that this processor can run, with sums of different widths."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return ["Prescott", *(["Haswell"] if " avx2" in flags else []), *(["SkylakeX"] if " avx512f" in flags else [])]


def output(code: str, kernel: str, threads: int) -> bytes:
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, cwd=HERE.parent)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def test_results_have_the_same_bytes_on_every_kernel_and_any_number_of_threads():
    first, *others = [(kernel, threads) for kernel in kernels() for threads in (1, 2)]
    expected = output(CALLS, *first)
    assert len(expected) > 10_000
    # One run for each kernel, and one with the other number of threads: two threads differ from one in their blocks alone.
    for kernel, threads in [others[0], *(pair for pair in others[1:] if pair[1] == 2)]:
        assert output(CALLS, kernel, threads) == expected, (kernel, threads)


def test_that_the_check_can_fail():
    """A plain product does differ: otherwise the test above would show nothing."""
    from threadpoolctl import threadpool_info

    blas = {library["internal_api"] for library in threadpool_info() if library["user_api"] == "blas"}
    if blas != {"openblas"} or len(kernels()) < 2:
        pytest.skip(f"only one kernel of BLAS can be tried here: {sorted(blas)}, {kernels()}")
    assert len({output(PRODUCT, kernel, 1) for kernel in kernels()}) > 1
