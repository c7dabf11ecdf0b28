"""What the tests of samples share: a check that a source is refused, and suffixes whose packages are installed."""

import re

import pytest

from mallow import InputError, read


def check_refused(source, message, **options):
    with pytest.raises(InputError, match=re.escape(message)):
        read(source, **options)


@pytest.fixture(scope="session")
def refused():
    """A function that reads a source and checks the message of the error."""
    return check_refused


@pytest.fixture
def suffix(request):
    """The suffix of a file; the test is skipped if the package that it needs is not installed."""
    if request.param.startswith(".parquet"):
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    return request.param
