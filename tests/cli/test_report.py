"""The command that writes a page: what is on it, and what is refused."""

import os

import pytest

EMBED = "-e letters:letters --repeats 2"


def test_a_report_from_samples_and_from_a_saved_comparison(mallow, home):
    words = f"report human.jsonl near.jsonl far.jsonl {EMBED} -o page.html --title".split()
    code, out, err = mallow(*words, "A <b>")
    assert code == 0
    assert "Smallest proven gap: near. Every other system has a larger one" in out
    assert "page.html: written" in err
    assert "A &lt;b&gt;" in (home / "page.html").read_text()
    mallow(f"compare human.jsonl near.jsonl far.jsonl {EMBED} -o saved.json")
    code, again, _ = mallow("report saved.json -o saved.html")
    assert (code, again) == (0, out)
    assert (home / "saved.html").stat().st_size < (home / "page.html").stat().st_size  # without examples


def test_caveats_of_the_page_are_printed_once(mallow, home):
    _, _, err = mallow(f"report human.jsonl near.jsonl far.jsonl {EMBED} --bins 60 --limit 200")
    lines = [line for line in err.splitlines() if line != "report.html: written" and ": note: " not in line]
    assert all(line.startswith("mallow: caveat: ") for line in lines)
    assert len(set(lines)) == len(lines)
    of_diagnoses = [line for line in lines if "too few samples to be significant" in line]
    assert of_diagnoses
    assert all(line.startswith(("mallow: caveat: near: ", "mallow: caveat: far: ")) for line in of_diagnoses)


def test_a_report_by_an_estimator_without_bins_has_no_diagnoses(mallow, home):
    code, _, _ = mallow(f"report human.jsonl far.jsonl {EMBED} --estimator gaussian -q")
    assert code == 0
    assert "Where the gap is" not in (home / "report.html").read_text()


def test_what_is_not_a_comparison_is_refused(mallow, home):
    (home / "no.json").write_text('{"kind": "mallow score"}')
    code, _, err = mallow("report no.json")
    assert code == 1
    way_out = "Save one with: mallow compare ... --out no.json\n"
    assert err.endswith(f"mallow: no.json: is not a comparison but 'mallow score'. {way_out}")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("report human.jsonl", 2, "Name the systems: mallow report REFERENCE NAME=PATH ..."),
        ("report gone.json", 1, "gone.json: no such file."),
        ("report human.jsonl near.jsonl -o .", 1, ".: must end in one of .html"),
        ("report human.jsonl near.jsonl -o no/report.html", 1, "the folder no does not exist"),
    ],
)
def test_mistakes_are_told_in_one_line(refused, command, code, message):
    refused(command, code, message)


def test_a_folder_in_place_of_the_page_is_told_before_the_work(mallow, home):
    (home / "there.html").mkdir()
    code, out, err = mallow("report human.jsonl near.jsonl -o there.html")
    assert (code, out) == (1, "")
    assert err == "mallow: there.html: is a folder, not a file. Name a file in it.\n"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_told_before_the_work(mallow, home):
    (home / "shut").mkdir(mode=0o500)
    code, _, err = mallow("report human.jsonl near.jsonl -o shut/report.html")
    assert code == 1
    assert "shut/report.html: cannot be written: permission denied." in err
