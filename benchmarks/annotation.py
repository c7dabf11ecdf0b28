"""The annotation page under load: 200 simulated annotators on loopback, for about a minute.

    python benchmarks/annotation.py        writes annotation.json

The server is `mallow annotate`, with SQLite as it is by default: every answer is on disk before it is acknowledged. First
each annotator waits 4 s on average between pairs, ten times as fast as people are; then nobody waits at all. Latencies are
those of single requests, as a browser would see them: a pair that is shown, and an answer until it is acknowledged. At the
end every acknowledged answer must be in the export, once.
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
from pathlib import Path

import numpy as np

from mallow import annotate
from mallow.human import AllPairs, StudyDesign, TextWindow, design_study, write_study
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
PEOPLE = 200
SECONDS = 20.0
THINKING = 4.0  # seconds on average in the first part
IDLE = 3.0  # seconds after which a connection is not used again
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


class Annotator:
    """One simulated annotator with a connection of its own."""

    def __init__(self, host: str, port: int, number: int) -> None:
        self.host, self.port, self.cookie = host, port, ""
        self.random = random.Random(number)
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.used = 0.0
        self.acknowledged = 0

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
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(head.encode() + b"\r\n" + body)
        await self.writer.drain()
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status = int(raw.split(" ", 2)[1])
        headers = dict(line.split(": ", 1) for line in raw.split("\r\n")[1:] if ": " in line)
        text = (await self.reader.readexactly(int(headers.get("content-length", 0)))).decode()
        self.used = time.perf_counter()
        if "set-cookie" in headers:
            self.cookie = headers["set-cookie"].partition(";")[0]
        return status, headers.get("location", ""), text

    async def follow(self, path: str) -> str:
        status, location, text = await self.ask("GET", path)
        while status == 303:
            status, location, text = await self.ask("GET", location)
        return text

    async def join(self, name: str) -> None:
        await self.ask("POST", "/join", {"name": name})
        text = await self.follow("/")
        await self.ask("POST", "/start", {"csrf": hidden(text, "csrf")})

    async def judge(self, until: float, thinking: float, shown: list[float], saved: list[float]) -> None:
        await asyncio.sleep(self.random.uniform(0, thinking or 0.5))
        while time.perf_counter() < until:
            begin = time.perf_counter()
            text = await self.follow("/")
            shown.append(time.perf_counter() - begin)
            place = re.search(r'action="(/pair/\d+)"', text)
            if place is None:
                return
            pause = self.random.expovariate(1 / thinking) if thinking else 0.0
            if time.perf_counter() + pause > until:
                return  # the pair stays with this annotator
            await asyncio.sleep(pause)
            fields = {name: hidden(text, name) for name in ("csrf", "page")} | {"seconds": "30"}
            fields |= {f"q{number}": str(self.random.randint(-2, 2)) for number in range(3)}
            begin = time.perf_counter()
            status, _, _ = await self.ask("POST", place[1], fields)
            saved.append(time.perf_counter() - begin)
            if status != 303:
                raise RuntimeError(f"an answer was refused: {status}")
            self.acknowledged += 1


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


async def load(base: str) -> dict[str, object]:
    address = urllib.parse.urlsplit(base)
    people = [Annotator(address.hostname, address.port, number) for number in range(PEOPLE)]
    await asyncio.gather(*(person.join(f"Person {number}") for number, person in enumerate(people)))
    parts: dict[str, object] = {}
    for name, thinking in ((f"{THINKING:g} s between pairs", THINKING), ("no waiting", 0.0)):
        shown: list[float] = []
        saved: list[float] = []
        begin = time.perf_counter()
        await asyncio.gather(*(person.judge(begin + SECONDS, thinking, shown, saved) for person in people))
        elapsed = time.perf_counter() - begin
        parts[name] = {
            "answers": len(saved),
            "answers per second": len(saved) / elapsed,
            "answer acknowledged, median (ms)": 1000 * float(np.median(saved)),
            "answer acknowledged, p95 (ms)": 1000 * float(np.quantile(saved, 0.95)),
            "pair shown, median (ms)": 1000 * float(np.median(shown)),
            "pair shown, p95 (ms)": 1000 * float(np.quantile(shown, 0.95)),
        }
    parts["acknowledged"] = sum(person.acknowledged for person in people)
    for person in people:
        if person.writer is not None:
            person.writer.close()
    return parts


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = make_study(Path(name))
        command = [sys.executable, "-m", "mallow", "annotate", str(path), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            base = server.stdout.readline().split()[1]
            parts = asyncio.run(asyncio.wait_for(load(base), 120))
            usage = [float(part) for part in Path(f"/proc/{server.pid}/stat").read_text().split()[13:15]]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
        store = annotate.open_study(path)
        votes = annotate.export_votes(store)
        store.close()
    kept = len({(vote.annotator, vote.task, vote.kind) for vote in votes})
    results = {
        "annotators": PEOPLE,
        "pairs in the study": 18_000,
        "cores": os.cpu_count(),
        "load average of the machine": list(os.getloadavg()),
        **parts,
        "answers in the export": kept,
        "processor time of the server (s)": sum(usage) / os.sysconf("SC_CLK_TCK"),
    }
    (HERE / "annotation.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
    if kept != parts["acknowledged"] or len(votes) != 3 * kept:
        sys.exit("an acknowledged answer is missing or doubled")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
