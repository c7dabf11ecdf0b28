"""What all tests share: how hypothesis searches, and where data outside the repository is looked for."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

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
