"""What all tests share: how hypothesis searches, where data outside the repository is, which tests may be skipped."""

import os
import re
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# In a background job SIGINT is ignored, and children would inherit that: tests send it, so it works again.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests need no model hub, and a look-up that fails takes half a minute of retries.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# The same examples in every run: a failure can be had again, and an unchanged commit cannot turn red.
# `pytest --hypothesis-profile=explore` searches further, and differently each time.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=2000)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data beside the repository that is not part of it; the test is skipped where there is none."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("needs reference data in ../shared, beside the repository; it is not part of it")
    return path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither read nor fill the cache of whoever runs them; each worker has its own."""
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


# Tests of what is made of a p-value do not need it to 1e-5: the 99,999 permutations that a clear gap gets take half of the
# time of a score. Here they are 4,999; the tests of the test itself, and recorded numbers, have all of them.
FEWER_PERMUTATIONS = ("cli", "evaluate", "evidence", "explain", "report")


@pytest.fixture(autouse=True, scope="module")
def _fewer_permutations(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in FEWER_PERMUTATIONS and not request.node.get_closest_marker("all_permutations"):
            from mallow.evidence import Draws

            patch.setattr(Draws.__init__, "__defaults__", (0, (4_999,)))
        yield


# In the development environment (`make test` sets MALLOW_DEVELOPMENT) every extra is installed, so that a test which is
# skipped for want of a package means a broken set-up. These reasons remain.
MAY_SKIP = (
    r"\.\./shared",  # data beside the repository
    r"apt-get install (chromium|nodejs|postgresql)",
    r"root may",  # permissions do not bind the superuser
    r"there is one",  # of a device that must be missing
)


def unexpected_skips(reasons: Iterable[str]) -> list[str]:
    """The reasons for skipping that do not hold in the development environment."""
    return sorted({reason for reason in reasons if not any(re.search(known, reason) for known in MAY_SKIP)})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where tests were skipped that the development environment must be able to run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("MALLOW_DEVELOPMENT"):
        return
    skipped = reporter.stats.get("skipped", [])
    reasons = unexpected_skips(report.longrepr[2] if isinstance(report.longrepr, tuple) else "" for report in skipped)
    if reasons:
        reporter.write_line("")
        reporter.write_line("Skipped, although the development environment has all packages:", red=True)
        for reason in reasons:
            reporter.write_line(f"  {reason}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (path := shutil.which(name))
    ),
    None,
)


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium, driven by playwright; tests that ask for it are skipped where either is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
