"""The annotation page under load: simulated annotators on loopback, and the owner's page of a large study.

    python benchmarks/annotation.py        writes annotation.json

The server is that of `mallow annotate`, with SQLite as it is by default: every answer is on disk before it is
acknowledged. Only the limit of requests per annotator is lifted, since nobody waits in the second part.
First 500 annotators wait 4.7 s on average between pairs, ten times as fast as people are; then 200 do not wait at all.
Each annotator has an address of its own and follows redirections as a browser does. Latencies are those of an answer
until it is acknowledged, and until the next pair is shown. Processor time is that of the server, from the moment when
everybody has joined and has the first pair. At the end every
acknowledged answer must be in the export, once. The owner's page is timed with 15,000 pairs judged.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import numpy as np

from mallow import annotate
from mallow.human import AllPairs, StudyDesign, TextWindow, design_study, write_study
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
SECONDS = 20.0
PARTS = (("500 annotators, 4.7 s between pairs", 500, 4.7), ("200 annotators, no waiting", 200, 0.0))
IDLE = 3.0  # seconds after which a connection is not used again
JUDGED = 15_000  # pairs, for the owner's page
WORDS = [
    "the",
    "a",
    "river",
    "house",
    "runs",
    "slowly",
    "green",
    "old",
    "stone",
    "light",
    "and",
    "of",
    "in",
    "to",
    "was",
    "it",
    "that",
    "for",
    "on",
    "with",
]


SERVER = """
import sys
from mallow import annotate
store = annotate.open_study(sys.argv[1])
def ready(base, port, stop):
    links = annotate.make_links(store, base)
    print(links.study, links.owner, sep="\\n", flush=True)
limits = annotate.Limits(rate=1e6, burst=1e6)
annotate.serve(store, sys.argv[1], annotate.Address(port=0), annotate.Settings(limits=limits), ready=ready)
"""


class Annotator:
    """One simulated annotator with a connection and an address of its own."""

    def __init__(self, host: str, port: int, number: int) -> None:
        self.host, self.port, self.cookie = host, port, ""
        self.address = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self.random = random.Random(number)
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.used = 0.0
        self.acknowledged = 0
        self.page = ""

    async def ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, address of a redirection and text."""
        body = urllib.parse.urlencode(fields or {}).encode() if method == "POST" else b""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\ncookie: {self.cookie}\r\n"
        if method == "POST":
            head += f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\n"
        if self.writer is not None and time.perf_counter() - self.used > IDLE:  # the server closes it soon
            self.writer.close()
            self.writer = None
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, local_addr=(self.address, 0))
        self.writer.write(head.encode() + b"\r\n" + body)
        await self.writer.drain()
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status = int(raw.split(" ", 2)[1])
        headers = dict(line.split(": ", 1) for line in raw.split("\r\n")[1:] if ": " in line)
        text = (await self.reader.readexactly(int(headers.get("content-length", 0)))).decode()
        self.used = time.perf_counter()
        if "set-cookie" in headers:
            self.cookie = headers["set-cookie"].partition(";")[0]
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {text[-200:]}")
        return status, headers.get("location", ""), text

    async def follow(self, path: str) -> str:
        status, location, text = await self.ask("GET", path)
        while status == 303:
            status, location, text = await self.ask("GET", location)
        return text

    async def join(self, name: str) -> None:
        """Come in, read the instructions and get the first pair."""
        await self.ask("POST", "/join", {"name": name})
        text = await self.follow("/")
        await self.ask("POST", "/start", {"csrf": hidden(text, "csrf")})
        self.page = await self.follow("/")

    async def judge(self, until: float, thinking: float, saved: list[float], shown: list[float]) -> None:
        text = self.page
        await asyncio.sleep(self.random.uniform(0, thinking or 0.5))
        while time.perf_counter() < until:
            action = re.search(r'action="(/pair/\d+)"', text)
            pause = self.random.expovariate(1 / thinking) if thinking else 0.0
            if action is None or time.perf_counter() + pause > until:
                return  # the pair stays with this annotator
            await asyncio.sleep(pause)
            fields = {name: hidden(text, name) for name in ("csrf", "page")} | {"seconds": "30"}
            fields |= {f"q{number}": str(self.random.randint(-2, 2)) for number in range(3)}
            begin = time.perf_counter()
            status, location, _ = await self.ask("POST", action[1], fields)
            saved.append(time.perf_counter() - begin)
            if status != 303:
                raise RuntimeError(f"an answer was refused: {status}")
            self.acknowledged += 1
            text = await self.follow(location)
            shown.append(time.perf_counter() - begin)


def hidden(text: str, name: str) -> str:
    return html.unescape(re.search(rf'name="{name}" (?:id="\w+" )?value="([^"]*)"', text)[1])


def make_study(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = [str(number) for number in range(3000)]
    prompts = [f"Story number {number} begins as follows, and nobody knows how it" for number in ids]
    systems = {
        name: Samples(texts=[" ".join(rng.choice(WORDS, 220)) for _ in ids], ids=ids, prompts=prompts)
        for name in ("human", "small", "medium", "large")
    }
    human = systems.pop("human")
    study = design_study(human, systems, StudyDesign(AllPairs(3000), TextWindow(200, 256)))
    write_study(study, folder / "study.json")
    return folder / "study.json"


@contextmanager
def serving(path: Path) -> Iterator[tuple[int, str, str]]:
    """The process, the study's link and the owner's."""
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        base, owner = (server.stdout.readline().strip() for _ in range(2))
        yield server.pid, base, owner
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(float(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


async def put_under_load(base: str, process: int, people: int, thinking: float) -> dict[str, float]:
    address = urllib.parse.urlsplit(base)
    annotators = [Annotator(address.hostname, address.port, number) for number in range(people)]
    for begin in range(0, people, 50):
        await asyncio.gather(*(person.join("Somebody") for person in annotators[begin : begin + 50]))
    saved: list[float] = []
    shown: list[float] = []
    begin, used = time.perf_counter(), processor_time(process)
    await asyncio.gather(*(person.judge(begin + SECONDS, thinking, saved, shown) for person in annotators))
    elapsed, used = time.perf_counter() - begin, processor_time(process) - used
    for person in annotators:
        if person.writer is not None:
            person.writer.close()
    return {
        "answers": len(saved),
        "answers per second": len(saved) / elapsed,
        "processor time per answer (ms)": 1000 * used / len(saved),
        "answer acknowledged, median (ms)": 1000 * float(np.median(saved)),
        "answer acknowledged, p95 (ms)": 1000 * float(np.quantile(saved, 0.95)),
        "next pair shown, median (ms)": 1000 * float(np.median(shown)),
        "next pair shown, p95 (ms)": 1000 * float(np.quantile(shown, 0.95)),
        "acknowledged": sum(person.acknowledged for person in annotators),
    }


def measure_load(folder: Path, people: int, thinking: float) -> dict[str, float]:
    path = make_study(folder)
    with serving(path) as (process, base, _):
        part = asyncio.run(asyncio.wait_for(put_under_load(base, process, people, thinking), 120))
    store = annotate.open_study(path)
    votes = annotate.export_votes(store)
    store.close()
    kept = len({(vote.annotator, vote.task, vote.kind) for vote in votes})
    if kept != part.pop("acknowledged") or len(votes) != 3 * kept:
        sys.exit("an acknowledged answer is missing or doubled")
    return part


def fill(path: Path) -> None:
    """Answers of 150 annotators to 15,000 pairs."""
    store = annotate.open_study(path)
    draw = random.Random(0)
    names = [question.name for question in store.study.form.questions]
    with store.database.transaction() as execute:
        for number, task in enumerate(store.study.tasks[:JUDGED]):
            annotator, place = f"a{number % 150:012}", 1 + number // 150
            if place == 1:
                execute(
                    "INSERT INTO annotators (id, name, source, external, session, joined, ready) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (annotator, f"Person {number}", "open", annotator, "", 1e9, 1e9),
                )
            execute(
                "INSERT INTO assignments (annotator, place, task, kind, swapped, state, expires) "
                "VALUES (?, ?, ?, 'task', 0, 'done', 1e9)",
                (annotator, place, task.id),
            )
            answers = json.dumps({name: draw.randint(-2, 2) for name in names})
            execute(
                "INSERT INTO submissions (annotator, place, number, page, answers, seconds, received) "
                "VALUES (?, ?, 1, ?, ?, ?, ?)",
                (annotator, place, f"page {number}", answers, draw.uniform(20, 90), 1e9 + number),
            )
    store.close()


def measure_owner(folder: Path) -> dict[str, float]:
    path = make_study(folder)
    fill(path)
    with serving(path) as (process, base, owner):
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        times = []
        used = processor_time(process)
        for address in (owner, *[f"{base}owner"] * 4):  # the first includes the redirection
            begin = time.perf_counter()
            text = browser.open(address).read().decode()
            times.append(time.perf_counter() - begin)
            assert f"<strong>{JUDGED}</strong>" in text
        used = processor_time(process) - used
    return {
        "first (s)": times[0],
        "later, median (s)": float(np.median(times[1:])),
        "processor time (s)": used / len(times),
    }


def main() -> None:
    results: dict[str, object] = {
        "pairs in the study": 18_000,
        "cores": os.cpu_count(),
        "load average of the machine": list(os.getloadavg()),
    }
    for name, people, thinking in PARTS:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure_load(Path(folder), people, thinking)
    with tempfile.TemporaryDirectory() as folder:
        results["owner's page, 15,000 pairs judged"] = measure_owner(Path(folder))
    (HERE / "annotation.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
