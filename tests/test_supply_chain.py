"""Where the packages come from: every file is known by its SHA-256, every licence and every package is named."""

import base64
import functools
import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import audit
import notice
import pytest
import sbom
from dependencies import find_closure
from hypothesis import given
from hypothesis import strategies as st
from licences import licence_of
from lock import Lock, Pin, find_hashes, format_lock, parse_lock

ROOT = Path(__file__).resolve().parent.parent
FILES = ("constraints.txt", "tests/models.txt", "tests/beside.txt", "tests/integrations.txt")


def lock(file: str = "constraints.txt") -> Lock:
    return parse_lock((ROOT / file).read_text(encoding="utf-8"))


# --- constraints.txt


@pytest.mark.parametrize("file", FILES)
def test_every_line_has_hashes(file):
    pins = lock(file).pins
    assert len(pins) >= 1
    assert [pin.name for pin in pins if not pin.hashes] == [], "run `make hashes`"
    assert all(re.fullmatch("[0-9a-f]{64}", each) for pin in pins for each in pin.hashes)
    assert format_lock(lock(file)) == (ROOT / file).read_text(encoding="utf-8"), "run `make hashes`"


def test_everything_that_is_installed_is_locked():
    versions = {pin.key: pin.version for pin in lock().pins}
    closure = find_closure("mallow[dev]", "hatchling", "editables")
    assert closure.missing == set()
    installed = {
        name: package.version.partition("+")[0] for name, package in closure.packages.items() if name != "mallow"
    }
    assert {name: versions.get(name) for name in installed} == installed, (
        "run `make lock`, or add it and run `make hashes`"
    )


def test_the_light_set_suffices_for_the_demonstration():
    needed = set(find_closure("mallow[plot,minilm]", "hatchling", "editables").packages) - {"mallow"}
    assert needed == set(lock().light), "the line `# light:` of constraints.txt names other packages"


names = st.from_regex(r"[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+){0,2}", fullmatch=True)
pins = st.builds(
    Pin,
    names,
    st.from_regex(r"[0-9]+(\.[0-9a-z]+){0,3}", fullmatch=True),
    st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=3, unique=True).map(tuple),
)


@given(st.lists(pins, unique_by=lambda pin: pin.key), st.frozensets(names.map(str.lower)))
def test_a_lock_can_be_written_and_read(listed, light):
    whole = Lock(tuple(sorted(listed, key=lambda pin: pin.key)), light, ("# a comment",))
    assert parse_lock(format_lock(whole)) == whole


# --- an index on this machine, with packages made here


def wheel(folder: Path, name: str, version: str, *, needs: tuple[str, ...] = ()) -> str:
    """Write an empty package; its SHA-256."""
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in needs)
    contents = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for inner, text in contents.items():
            file.writestr(inner, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{inner},sha256={digest},{len(text)}")
        file.writestr(f"{about}/RECORD", "\n".join([*record, f"{about}/RECORD,,"]) + "\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A folder that is served as an index, and its address."""
    folder = tmp_path_factory.mktemp("index")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def publish(folder: Path, name: str, files: dict[str, str]) -> None:
    """The page of a package: file → its SHA-256."""
    (folder / name).mkdir(exist_ok=True)
    links = [
        f'<a href="../{file}#sha256={sha256}" data-requires-python="&gt;=3.8">{file}</a>'
        for file, sha256 in files.items()
    ]
    (folder / name / "index.html").write_text("<!DOCTYPE html><html><body>" + "<br/>\n".join(links) + "</body></html>")


def test_hashes_are_those_of_all_wheels_of_the_version(index, monkeypatch):
    folder, address = index
    monkeypatch.setenv("PIP_INDEX_URL", address)
    numbers = [f"{i:064x}" for i in range(9)]
    files = (
        "Some_Thing-1.2-cp311-cp311-manylinux_2_17_x86_64.whl",
        "Some_Thing-1.2-cp38-abi3-macosx_11_0_arm64.whl",
        "Some_Thing-1.2-py3-none-any.whl",
        "Some_Thing-1.2-cp310-cp310-win_amd64.whl",  # older than the oldest Python that is supported
        "Some_Thing-1.2-pp310-pypy310_pp73-win_amd64.whl",
        "Some_Thing-1.2.1-py3-none-any.whl",
        "Some_Thing-11.2-py3-none-any.whl",
        "some_thing-1.2.tar.gz",
        "some_thing-1.1.tar.gz",
    )
    publish(folder, "some-thing", dict(zip(files, numbers, strict=True)))
    assert find_hashes(Pin("Some.Thing", "1.2")).hashes == tuple(numbers[:3])
    assert find_hashes(Pin("some-thing", "1.1")).hashes == (numbers[8],)  # no wheel: the source
    assert find_hashes(Pin("some-thing", "1.1", ("known",))).hashes == ("known",)
    with pytest.raises(SystemExit, match=r"some-thing==1\.3: the index has no such file with a SHA-256\."):
        find_hashes(Pin("some-thing", "1.3"))


INSTALL = """
import sys
sys.path.insert(0, {tools!r})
from install import install_pins
from lock import parse_lock
install_pins(parse_lock(open({file!r}).read()).pins)
"""


def test_what_is_installed_has_a_known_digest(index, tmp_path):
    folder, address = index
    local = tmp_path / "wheels"
    local.mkdir()
    digests = {name: wheel(folder, name, "1.0") for name in ("good", "bad", "bare", "torch")}
    for name, sha256 in digests.items():
        publish(folder, name, {f"{name}-1.0-py3-none-any.whl": sha256})
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    own = tmp_path / "venv" / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment = kept | {"PIP_INDEX_URL": address, "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(local)}

    def install(*lines: str) -> tuple[int, str]:
        file = tmp_path / "pins.txt"
        file.write_text("\n".join(lines) + "\n")
        code = INSTALL.format(tools=str(ROOT / "tools"), file=str(file))
        run = subprocess.run([str(own), "-c", code], env=environment, capture_output=True, text=True, check=False)
        return run.returncode, run.stderr

    def installed() -> set[str]:
        return {name for name in digests if list((tmp_path / "venv").rglob(f"{name}-1.0*.dist-info"))}

    assert install(str(Pin("good", "1.0", ("0" * 64, digests["good"])))) == (0, "")
    code, err = install(str(Pin("bad", "1.0", ("0" * 64,))))
    assert code == 1
    assert "DO NOT MATCH THE HASHES" in err
    assert "The set-up failed: see the message of pip above." in err
    assert installed() == {"good"}
    assert install("bare==1.0") == (0, "note: installed by version, without hashes: bare. `make hashes` adds them.\n")
    code, err = install(str(Pin("torch", "1.0", ("0" * 64,))))  # on the index, but with another digest
    assert (code, installed()) == (1, {"good", "bare"})
    wheel(local, "torch", "1.0+cpu")  # a build that only this machine has
    code, err = install(str(Pin("torch", "1.0", ("0" * 64,))))
    assert (code, installed()) == (0, {"good", "bare", "torch"})
    assert (
        err
        == "note: torch 1.0 comes from a folder of this machine (PIP_FIND_LINKS), and its SHA-256 was not checked.\n"
    )
    assert install(str(Pin("torch", "1.0", ("0" * 64,)))) == (0, "")  # it is there already


def test_the_page_of_integrations_names_the_versions_that_are_tried():
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    versions = {pin.key: pin.version for file in FILES for pin in lock(file).pins}
    rows = {
        "Hugging Face datasets": "datasets",
        "Hugging Face evaluate": "evaluate",
        "transformers": "transformers",
        "Lightning": "lightning",
        "torchmetrics": "torchmetrics",
    }
    for title, name in rows.items():
        assert re.search(rf"^\| {title} \|.*\| {re.escape(versions[name])} \|$", page, re.MULTILINE), name
    for name in ("pandas", "polars", "wandb", "mlflow-skinny", "tensorboard", "trackio", "lm-eval", "inspect-ai"):
        assert re.search(rf"\| .*\b{name} {re.escape(versions[name])}[ ,|]", page), name


# --- licences, bill of materials, audit, matrix


def test_the_notice_is_true():
    stored = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert stored == notice.notice(), "run `make notice`"
    assert "unknown" not in stored.lower()
    for data in (ROOT / "src" / "mallow").rglob("data/*.gz"):
        assert data.relative_to(ROOT).as_posix() in notice.HEAD


def test_no_dependency_of_the_library_is_copyleft():
    licences = {name: licence_of(package) for name, package in find_closure("mallow[all]").packages.items()}
    assert len(licences) > 50
    # The driver of PostgreSQL is LGPL, which does not reach the programs that import it; it comes with an extra of its own.
    driver = {"psycopg", "psycopg-binary"}
    copyleft = {name: licence for name, licence in licences.items() if re.search(r"\b[AL]?GPL", licence)}
    assert copyleft == dict.fromkeys(driver & licences.keys(), "LGPL-3.0-only")


def test_the_bill_of_materials_is_complete():
    bill = sbom.sbom("all")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill == json.loads(json.dumps(sbom.sbom("all")))
    listed = {entry["bom-ref"] for entry in bill["components"]}
    packages = find_closure("mallow[all]").packages
    assert listed == {sbom.reference(package) for name, package in packages.items() if name != "mallow"}
    assert {entry["ref"] for entry in bill["dependencies"]} == listed | {bill["metadata"]["component"]["bom-ref"]}
    assert all(set(entry["dependsOn"]) <= listed for entry in bill["dependencies"])
    numpy = next(entry for entry in bill["components"] if entry["name"] == "numpy")
    assert len(numpy["externalReferences"][0]["hashes"]) > 10


@pytest.mark.parametrize(
    ("packages", "code", "text"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 of 1 packages looked up, 0 known vulnerabilities\n"),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}],
            1,
            "a 1: CVE-1, fixed in 2\n1 of 1 packages looked up, 1 known vulnerabilities\n",
        ),
        (
            [
                {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": []}]},
                {"name": "b", "skip_reason": "no"},
            ],
            1,
            "a 1: CVE-1, fixed in no version yet\n1 of 2 packages looked up, 1 known vulnerabilities\n"
            "not looked up, the database does not answer for them: b\n",
        ),
        (
            [{"name": "b", "skip_reason": "no"}],
            1,
            "0 of 1 packages looked up, 0 known vulnerabilities\nnot looked up, the database does not answer for them: b\n",
        ),
    ],
)
def test_an_audit_that_looked_at_nothing_does_not_pass(capsys, packages, code, text):
    with pytest.raises(SystemExit) as left:
        audit.report(packages)
    assert (left.value.code, capsys.readouterr().out) == (code, text)


def test_the_matrix_names_what_is_missing(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "matrix.py")]
    run = subprocess.run(
        command, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0
    assert run.stdout.startswith("Not on this machine, not tried: Python 3.11, 3.12, 3.13, 3.14.")
