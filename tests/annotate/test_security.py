"""What attackers try: guessed tokens, others' answers, forms from elsewhere, texts that are code, floods, large forms, logs."""

import contextlib
import csv
import io
import re
import socket
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation_page import ATTACK, hidden
from mallow import annotate
from mallow.annotate._tokens import Signer, new_secret
from mallow.annotate._visitors import Bucket, crowd_identity
from mallow.errors import InputError

SIGNER = Signer("ab" * 32)


@given(st.text(), st.sampled_from(["session", "link", "page"]))
def test_a_signed_text_comes_back(text, purpose):
    token = SIGNER.sign(purpose, text)
    assert SIGNER.verify(purpose, token) == text
    assert re.fullmatch(r"[A-Za-z0-9_.-]*", token)  # fit for cookies and addresses
    assert SIGNER.verify("another purpose", token) is None
    assert Signer(new_secret()).verify(purpose, token) is None


@given(st.text(min_size=1), st.data())
def test_a_changed_token_is_refused(text, data):
    token = SIGNER.sign("session", text)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda letter: letter != token[place]))
    assert SIGNER.verify("session", token[:place] + other + token[place + 1 :]) is None


@given(st.text())
def test_a_token_of_nobody_is_refused(token):
    assert SIGNER.verify("session", token) is None
    assert SIGNER.read_personal_token(token) is None


def test_keys_codes_and_names():
    assert len({new_secret() for _ in range(100)}) == 100
    assert "ab" not in repr(SIGNER)
    codes = {SIGNER.completion_code(f"a{i}") for i in range(1000)}
    assert len(codes) == 1000
    assert SIGNER.read_personal_token(SIGNER.personal_token("Ümit .x", 17.9)) == ("Ümit .x", 17.0)


def test_every_answer_has_the_security_headers(serve, study_file):
    served = serve(study_file())
    ann = served.person()
    ann.join()
    for method, path in (
        ("GET", "/pair/1"),
        ("GET", "/nowhere"),
        ("POST", "/join"),
        ("GET", "/static/style.css"),
        ("PUT", "/"),
    ):
        status, headers, text = ann.ask(method, path, fields={} if method == "POST" else None)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["permissions-policy"] == "camera=(), geolocation=(), microphone=()"
        assert headers["x-robots-tag"] == "noindex, nofollow"
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in headers
        assert "Traceback" not in text
        if status == 200 and "html" in headers["content-type"]:
            assert not re.search(r"<script(?! src=\"/static/)|<style|\son\w+=\"|style=\"|(src|href)=\"(?!/)", text)


def test_texts_are_data(serve, study_file):
    served = serve(study_file(per_pair=20))
    ann = served.person()
    text = ann.join(ATTACK[:70])
    for _ in range(12):
        assert "<script>" not in text
        assert "<img" not in text
        assert 'dir="auto" class="text"' in text
        _, _, text = ann.answer(text)
    owner = served.person()
    _, _, page = owner.get(served.owner_path)
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_cookies_are_for_the_server_alone(serve, study_file):
    served = serve(study_file())
    for path in (f"/join/{served.store.signer.personal_token('Ann', time.time() + 99)}", served.owner_path):
        _, headers, _ = served.person().ask("GET", path, follow=False)
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=lax" in headers["set-cookie"]
        assert "Secure" not in headers["set-cookie"]
        assert headers["location"] in ("/", "/owner")  # the token leaves the address


def test_behind_a_proxy_with_https(serve, study_file):
    served = serve(study_file(per_pair=3, systems=1), url="https://study.example.org")
    _, headers, _ = served.person().ask("GET", served.owner_path, follow=False)
    assert "Secure" in headers["set-cookie"]
    ann = served.person()
    text = ann.join()
    good = ann.fields(text)
    assert ann.post("/pair/1", good, origin="https://study.example.org.evil.example")[0] == 403
    assert ann.post("/pair/1", good, origin="https://study.example.org", host="127.0.0.1:8000")[0] == 200
    assert ann.path == "/pair/2"


def test_nobody_reads_or_changes_the_answers_of_others(serve, study_file):
    served = serve(study_file(per_pair=6, systems=1))
    ann, eve = served.person(), served.person()
    text = ann.join("Ann")
    ann.answer(text, "-2")
    hers = eve.join("Eve")
    assert eve.get("/pair/7")[0] == 200  # there is none: back to her own
    assert eve.path == "/pair/1"
    stolen = ann.fields(text, "2")  # Ann's page and token, Eve's cookie
    assert eve.post("/pair/1", stolen)[0] == 403
    mixed = stolen | {"csrf": hidden(hers, "csrf")}
    assert eve.post("/pair/1", mixed)[0] == 422  # the page is not hers
    assert eve.post("/pair/2", eve.fields(hers))[0] in (200, 422)
    assert [vote.answer for vote in annotate.export_votes(served.store)] == [-2, -2, -2]
    for path in ("/owner", "/owner/votes.jsonl", "/owner/annotators.csv"):
        status, _, text = eve.get(path)
        assert (status, "for the owner of the study" in text) == (403, True)
    assert eve.get("/owner/" + "A" * 32)[0] == 404
    assert eve.get("/owner/%C3%A9%00")[0] == 404
    assert eve.post("/owner", {"wanted": "close"})[0] == 403
    assert served.store.is_open()


def test_forged_cookies_are_nobody(serve, study_file):
    served = serve(study_file())
    ann = served.person()
    ann.join()
    ((name, own),) = ann.cookies.items()
    assert name == f"mallow_{served.store.study.digest}"
    id_ = served.store.dump()["annotators"][0]["id"]
    for forged in (
        "",
        id_,
        f"{own}x",
        own.replace(".", ".A"),
        f"{own.split('.')[0]}.",
        Signer("0" * 64).sign("session", id_),
    ):
        eve = served.person()
        eve.cookies[name] = forged
        assert eve.get("/pair/1")[0] == 403


def test_forms_from_other_sites_are_refused(serve, study_file):
    served = serve(study_file(per_pair=4, systems=1))
    ann = served.person()
    text = ann.join()
    good = ann.fields(text)
    for headers, fields in (
        ({"origin": "http://evil.example"}, good),
        ({"origin": "null"}, good),
        ({"sec_fetch_site": "cross-site"}, good),
        ({"sec_fetch_site": "same-site"}, good),
        ({}, good | {"csrf": ""}),
        ({}, good | {"csrf": "x" * 32}),
        ({}, {name: value for name, value in good.items() if name != "csrf"}),
    ):
        status, _, text = ann.post("/pair/1", fields, **headers)
        assert (status, "did not come from this page" in text) == (403, True)
        assert ann.post("/start", {"csrf": fields.get("csrf", "")}, **headers)[0] == 403
        assert ann.post("/pair/1/skip", fields | {"reason": "Something else"}, **headers)[0] == 403
    assert served.person().post("/join", {"name": "x"}, origin="http://evil.example")[0] == 403
    assert served.store.dump()["submissions"] == []
    assert ann.post("/pair/1", good, origin=served.base, sec_fetch_site="same-origin")[0] == 200
    owner = served.person()
    page = owner.get(served.owner_path)[2]
    assert owner.post("/owner", {"csrf": hidden(text, "csrf") if "csrf" in text else "", "wanted": "close"})[0] == 403
    assert (
        owner.post("/owner", {"csrf": hidden(page, "csrf"), "wanted": "close"}, origin="http://evil.example")[0] == 403
    )
    assert served.store.is_open()


def test_large_and_strange_forms_are_refused(serve, study_file):
    served = serve(study_file())
    ann = served.person()
    text = ann.join()
    good = ann.fields(text)
    assert ann.post("/pair/1", good | {"note": "x" * 40_000})[0] == 413
    assert ann.ask("POST", "/pair/1", body=b"{}", content_type="application/json")[0] == 415
    assert ann.ask("POST", "/pair/1", body=b"a=%ff\xff", content_type="application/x-www-form-urlencoded")[0] == 400
    assert (
        ann.ask("POST", "/pair/1", body=b"&".join([b"a=1"] * 200), content_type="application/x-www-form-urlencoded")[0]
        == 400
    )
    assert ann.ask("GET", "/" + "x" * 3000)[0] == 404
    assert ann.ask("GET", "/static/../_tokens.py")[0] == 404
    assert ann.ask("GET", "/static/%2e%2e%2f_tokens.py")[0] == 404
    assert ann.ask("GET", "/pair/99999999999999999999999")[0] == 200  # back to her own
    assert served.store.dump()["submissions"] == []


def test_headers_and_addresses_that_cannot_be_parsed_are_refused(serve, study_file):
    """What the fuzzer found: each of these was an answer of 500."""
    served = serve(study_file())
    ann = served.person()
    good = ann.fields(ann.join())
    status, headers, text = ann.get("/pair/" + "9" * 5000)  # Python reads no number of so many digits
    assert (status, "The address is too long" in text) == (414, True)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert ann.post("/pair/1", good, origin="http://[")[0] == 403
    assert ann.post("/join", {"name": "x"}, origin="http://[::1")[0] == 403
    for host in ("[", "a]b", ""):
        assert ann.get("/instructions", host=host)[0] == 421
    assert served.store.dump()["submissions"] == []


def test_names_and_notes_are_kept_without_control_characters(serve, study_file):
    served = serve(study_file())
    ann = served.person()
    text = ann.join("Ann\x00\x1b[2J\u202e\r\nB")
    skipped = {"csrf": hidden(text, "csrf"), "reason": "Something else", "note": "a\x00b"}
    assert ann.post("/pair/1/skip", skipped)[0] == 200
    assert served.person().get("/?PROLIFIC_PID=w%001&SESSION_ID=s%1b1")[0] == 200
    tables = served.store.dump()
    assert sorted(row["name"] for row in tables["annotators"]) == [r"Ann\x00\x1b[2J\u202e B", r"w\x001"]
    assert [row["reason"] for row in tables["assignments"] if row["reason"]] == [r"Something else: a\x00b"]
    assert annotate.annotator_table(served.store).replace("\n", "").replace("\r", "").isprintable()


def test_no_answer_sends_a_visitor_to_the_host_of_the_request(serve, study_file):
    served = serve(study_file())
    status, headers, _ = served.person().ask("GET", "/instructions/", host="evil.example", follow=False)
    assert (status, headers["location"]) == (421, None)
    status, headers, _ = served.person().ask("GET", "/instructions/", follow=False)
    assert (status, headers["location"]) == (404, None)


def test_a_foreign_name_that_leads_here_shows_nothing(serve, study_file):
    """DNS rebinding: a site gives its own name the address of this machine, and reads the page as if it were its own."""
    served = serve(study_file(), url="https://study.example.org", hosts=frozenset({"Lab-Server"}))
    ann = served.person()
    ann.join()
    port = served.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "x@127.1"):
        for path in ("/", "/health", "/static/style.css", f"/owner/{served.store.owner_token}"):
            status, headers, text = ann.ask("GET", path, host=host, follow=False)
            assert (status, headers["set-cookie"]) == (421, None)
            assert "This page is not known by the name in the address." in text
        assert ann.post("/join", {"name": "x"}, host=host, origin=f"http://{host}")[0] == 421
    for host in (
        "127.0.0.1",
        f"[::1]:{port}",
        "192.168.7.9",
        "localhost",
        "LOCALHOST:1",
        "study.example.org.",
        "lab-server",
    ):
        assert ann.ask("GET", "/instructions", host=host)[0] == 200
    assert len(served.store.dump()["annotators"]) == 1


def test_invited_only_closes_the_entrances_of_platforms_too(serve, study_file):
    served = serve(study_file(), open_link=False)
    for query in (
        "PROLIFIC_PID=5f1&SESSION_ID=x",
        "workerId=W1&assignmentId=A1",
        "assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE",
    ):
        status, _, text = served.person().get(f"/?{query}")
        assert (status, "This study is by invitation." in text) == (403, True)
    assert served.store.dump()["annotators"] == []


def test_only_the_platforms_that_are_named_are_open(serve, study_file):
    served = serve(study_file(), open_link=False, platforms=frozenset({"prolific"}))
    assert served.person().get("/?workerId=W1&assignmentId=A1")[0] == 403
    assert served.person().get("/?PROLIFIC_PID=5f1&SESSION_ID=x")[0] == 200
    assert [row["source"] for row in served.store.dump()["annotators"]] == ["prolific"]


def test_one_address_brings_few_new_annotators(serve, study_file):
    limits = annotate.Limits(rate=1000, burst=1000, join_rate=1e-6, join_burst=3)
    served = serve(study_file(), limits=limits)
    ann = served.person()
    ann.join()
    assert served.person().get("/?PROLIFIC_PID=5f1&SESSION_ID=x")[0] == 200
    assert served.person().post("/join", {"name": "Third"})[0] == 200
    for attempt in (
        lambda: served.person().post("/join", {"name": "Fourth"}),
        lambda: served.person().get("/?workerId=W1&assignmentId=A1"),
    ):
        status, headers, text = attempt()
        assert (status, headers["retry-after"]) == (429, "60")
        assert "Too many people have joined from your address" in text
    assert ann.get("/")[0] == 200
    links = annotate.make_links(served.store, served.base, ["Eve"])
    assert served.person().get(links.personal["Eve"].removeprefix(served.base))[0] == 200
    assert len(served.store.dump()["annotators"]) == 4


def test_a_session_ends_with_its_link(serve, study_file, monkeypatch):
    served = serve(study_file())
    links = annotate.make_links(served.store, served.base, ["Eve", "Ann"], days=1.0)
    eve = served.person()
    text = eve.get(links.personal["Eve"].removeprefix(served.base))[2]
    text = eve.post("/start", {"csrf": hidden(text, "csrf")})[2]
    bob = served.person()
    bob.join()
    now = time.time
    monkeypatch.setattr("mallow.annotate._visitors.time.time", lambda: now() + 2 * 24 * 3600)
    assert eve.get("/pair/1")[0] == 403
    assert eve.post("/pair/1", eve.fields(text))[0] == 403
    assert bob.get("/pair/1")[0] == 200
    monkeypatch.setattr("mallow.annotate._visitors.time.time", lambda: now() + 61 * 24 * 3600)
    assert bob.get("/pair/1")[0] == 403  # whatever the browser makes of the age of a cookie
    assert served.store.dump()["submissions"] == []


def test_time_is_counted_for_one_pair_at_a_time(serve, study_file):
    """Not for a pair that was skipped and came back, nor for several that are open side by side."""
    served = serve(study_file(per_pair=4, systems=1))
    ann = served.person()
    text = ann.join()
    fields = ann.fields(text) | {"seconds": "100"}
    time.sleep(1.0)
    ann.post("/pair/1/skip", {"csrf": fields["csrf"], "reason": "Something else"})
    ann.post("/pair/1", fields)  # the page that was loaded before
    second = ann.fields(ann.get("/pair/2")[2]) | {"seconds": "100"}
    again = ann.fields(ann.get("/pair/1")[2]) | {"seconds": "100"}  # in another tab
    time.sleep(1.0)
    ann.post("/pair/2", second)
    ann.post("/pair/1", again | {"q0": "2"})
    by_place = {}
    for row in served.store.dump()["submissions"]:
        by_place.setdefault(row["place"], []).append(row["seconds"])
    assert [len(by_place[place]) for place in (1, 2)] == [2, 1]
    assert max(by_place[1]) < 0.9
    assert by_place[2][0] >= 1.0


def test_formulas_in_names_are_no_formulas_in_tables(study_file):
    store = annotate.open_study(study_file())
    name = '=HYPERLINK("http://evil.example","x")'
    links = annotate.make_links(store, "http://127.0.0.1", [name, "+1", "-1", "@x", "Ann"])
    names = [row[0] for row in csv.reader(io.StringIO(links.to_csv()))][1:]
    assert names == [f"'{name}", "'+1", "'-1", "'@x", "Ann"]
    store.close()


def test_idle_connections_do_not_keep_others_out(serve, study_file):
    limits = annotate.Limits(rate=1000, burst=1000, address_burst=5000, header_seconds=3.0, waiting=50)
    served = serve(study_file(), limits=limits)
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(1100):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            line.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
            lines.append(line)
        begin = time.monotonic()
        assert served.person().get("/")[0] == 200
        assert time.monotonic() - begin < 2.5
        assert lines[-1].recv(100) == b""  # closed, without a word, when its time was over
        assert time.monotonic() - begin < 30


def test_a_request_that_trickles_in_is_cut_off(serve, study_file):
    """Also a second one on a connection whose first one was good."""
    served = serve(study_file(), limits=annotate.Limits(rate=1000, burst=1000, header_seconds=0.5))
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in line.recv(5000)
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begin < 20:
                line.sendall(b"x")
                time.sleep(0.1)
                line.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    if line.recv(100) in (b"",):
                        break
        assert time.monotonic() - begin < 10


def test_a_form_that_never_ends_is_cut_off(serve, study_file):
    served = serve(study_file(), limits=annotate.Limits(seconds=0.3, rate=1000, burst=1000))
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as line:
        line.sendall(
            b"POST /join HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
            b"content-type: application/x-www-form-urlencoded\r\n\r\nname="
        )
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_a_flood_is_slowed_down(serve, study_file):
    limits = annotate.Limits(rate=0.001, burst=10.0, address_rate=0.001, address_burst=10.0)
    served = serve(study_file(), limits=limits)
    ann = served.person()
    ann.get(f"/join/{served.store.signer.personal_token('Ann', time.time() + 99)}")
    states = [ann.get("/static/style.css")[0] for _ in range(20)]
    assert states[0] == 200
    status, headers, text = ann.get("/")
    assert (status, headers["retry-after"], "too many requests" in text) == (429, "5", True)
    assert "default-src 'none'" in headers["content-security-policy"]
    bob = served.person()
    assert bob.get(f"/join/{served.store.signer.personal_token('Bob', time.time() + 99)}")[0] == 200  # others are not
    flood = [served.person().get("/static/style.css")[0] for _ in range(20)]
    assert flood.count(200) == 10


@given(st.lists(st.floats(0, 0.5), max_size=60))
def test_a_bucket_never_gives_more_than_its_burst_and_rate(gaps):
    bucket, now, given_ = Bucket(rate=2.0, burst=5.0), 0.0, 0
    for gap in gaps:
        now += gap
        given_ += bucket.allows("x", now)
        assert given_ <= 5.0 + 2.0 * now + 1e-9
    assert bucket.allows("another", now)


def test_a_bucket_forgets_visitors_only_once_their_budget_is_full():
    """Twenty thousand others make it look for them: those who have used theirs up are still refused."""
    bucket = Bucket(rate=0.5, burst=2.0)
    assert [bucket.allows("greedy", 0.0) for _ in range(3)] == [True, True, False]
    for number in range(20_001):
        bucket.allows(f"visitor {number}", 1.0)
    assert not bucket.allows("greedy", 1.5)
    assert bucket.allows("greedy", 2.5)
    bucket.allows("the last", 1000.0)  # by now all have a full budget
    assert len(bucket._levels) == 1


@pytest.mark.parametrize(("who", "which"), [("w" * 101, "s"), ("w", "s" * 101), ("", "s"), ("w", "")])
def test_ids_of_platforms_that_are_too_long_or_missing_are_none(who, which):
    assert crowd_identity({"PROLIFIC_PID": who, "SESSION_ID": which}) is None
    assert crowd_identity({"workerId": who[:100], "assignmentId": which[:100]}) == (
        ("mturk", who[:100], which[:100]) if who and which else None
    )


@pytest.mark.parametrize(("soft", "hard"), [(100, 300), (300, 300), (100, 9000), (7000, 9000)])
def test_the_limit_of_open_files_is_raised_as_far_as_allowed_and_useful(soft, hard):
    """In a process of its own, whose limits these are."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and hard > most:
        pytest.skip(f"this machine allows {most} open files")
    script = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from mallow.annotate import _serve\n"
        "print(_serve._raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], _serve._MOST_FILES)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    returned, after, useful = map(int, done.stdout.split())
    assert returned == min(hard, useful)
    assert after == max(soft, min(hard, useful))


def test_no_secrets_in_logs(run_server, study_file):
    from annotation_page import Person

    path = study_file()
    people = path.parent / "people.txt"
    people.write_text("Ann\n")
    run, base = run_server(path, "--people", str(people))
    assert run.stdout.readline().strip() == "name,link"
    link = run.stdout.readline().strip().partition(",")[2]
    ann = Person(base)
    text = ann.get(link.removeprefix(base))[2]
    text = ann.post("/start", {"csrf": hidden(text, "csrf")})[2]
    ann.answer(text, seconds="x")
    ann.get("/nowhere/" + link.rpartition("/")[2])
    ann.ask("GET", "/owner/" + "x" * 32)
    run.terminate()
    run.wait(60)
    assert (path.parent / "server.log").read_text().strip() in ("", "mallow: stopped")
    assert (path.parent / "study-answers.db").stat().st_mode & 0o777 == 0o600


def test_it_listens_on_this_machine_unless_told():
    assert annotate.Address().is_local
    assert annotate.Address("::1").is_local
    assert annotate.Address("localhost").is_local
    assert not annotate.Address("0.0.0.0").is_local
    assert not annotate.Address("study.example.org").is_local
    assert annotate.Address("::1").base(80) == "http://[::1]:80"
    assert annotate.Address(url="https://study.example.org/").base(80) == "https://study.example.org"
    with pytest.raises(
        InputError, match=r"`url` must begin with http:// or https:// and end after the host, .*; got 'study\.org'"
    ):
        annotate.Address(url="study.org")
    with pytest.raises(InputError, match="`url` must begin with"):
        annotate.Address(url="https://example.org/study")
