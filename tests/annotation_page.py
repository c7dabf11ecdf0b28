"""Small studies for the annotation page, and annotators who talk to it by plain HTTP."""

import contextlib
import html
import http.client
import re
import urllib.parse

from mallow import annotate
from mallow.human import AllPairs, QualityChecks, Study, StudyDesign, TextWindow, design_study
from mallow.samples import Samples

ATTACK = "<script>document.title = 'owned'</script> <img src=x onerror=\"document.title='owned'\"> & done"
ARABIC = "كانت المدينة هادئة في ذلك الصباح، ولم يكن في الشوارع أحد سوى بائع الخبز."
PROMPTS = 24


def samples(name: str) -> Samples:
    prompts = [f"This is the beginning of story number {i}, in which somebody went out and" for i in range(PROMPTS)]
    texts = [f"{name} tells how day {i} went by. {ATTACK if i % 3 == 0 else ARABIC}" for i in range(PROMPTS)]
    ids = [f"p{i:02}" for i in range(PROMPTS)]
    return Samples(texts=texts, prompts=prompts, ids=ids, source=f"{name}.jsonl")


def make_study(per_pair: int = 4, systems: int = 2, **options: object) -> Study:
    """A study whose texts attack the page, or run from right to left."""
    options.setdefault("checks", QualityChecks(0, 0, 0))
    options.setdefault("votes", 1)
    design = StudyDesign(pairs=AllPairs(per_pair), window=TextWindow(3, 40), **options)
    names = [f"model-{chr(ord('a') + i)}" for i in range(systems)]
    return design_study(samples("Somebody"), {name: samples("A person") for name in names}, design)


class Person:
    """An annotator, or somebody who pretends to be one: plain HTTP, with cookies."""

    def __init__(self, base: str, cookies: dict[str, str] | None = None) -> None:
        self.base, self.cookies = base, dict(cookies or {})
        self.host = urllib.parse.urlsplit(base).netloc

    def ask(self, method: str, path: str, fields=None, body: bytes | None = None, follow: bool = True, **headers: str):
        """The status, the headers and the text of the answer, after all redirections."""
        if fields is not None:
            body = urllib.parse.urlencode(fields).encode()
            headers.setdefault("content_type", "application/x-www-form-urlencoded")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        connection = http.client.HTTPConnection(self.host, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        for cookie in answer.headers.get_all("set-cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        if follow and answer.status in (302, 303, 307):
            return self.ask("GET", answer.headers["location"])
        self.path = path
        return answer.status, answer.headers, text

    def get(self, path: str, **headers: str):
        return self.ask("GET", path, **headers)

    def post(self, path: str, fields: dict[str, str], **headers: str):
        return self.ask("POST", path, fields, **headers)

    def join(self, name: str = "Ann") -> str:
        """Come in by the open link and read the instructions; the page of the first pair."""
        _, _, text = self.post("/join", {"name": name})
        return self.post("/start", {"csrf": hidden(text, "csrf")})[2]

    def fields(self, text: str, answers="1") -> dict[str, str]:
        """The form of a pair, filled in; `answers` is one value for all questions, or one each."""
        count = len(re.findall(r"<fieldset class=\"question", text))
        values = [answers] * count if isinstance(answers, str) else answers
        chosen = {f"q{number}": value for number, value in enumerate(values)}
        return {"csrf": hidden(text, "csrf"), "page": hidden(text, "page"), "seconds": ""} | chosen

    def answer(self, text: str, answers="1", **fields: str):
        """Answer the pair that is shown; the status, headers and text of what comes next."""
        return self.post(place_of(text), self.fields(text, answers) | fields)


def hidden(text: str, name: str) -> str:
    return html.unescape(re.search(rf'name="{name}"[^>]* value="([^"]*)"', text)[1])


def place_of(text: str) -> str:
    """The address of the pair that a page shows."""
    return re.search(r'action="(/pair/\d+)"', text)[1]


class Served:
    """A study that is being served."""

    def __init__(self, base: str, store: annotate.Store, stop) -> None:
        self.base, self.store, self.stop = base, store, stop

    def let_time_pass(self) -> None:
        """All pairs that are out have been out for too long."""
        with self.store.database.transaction() as execute:
            execute("UPDATE assignments SET expires = 0 WHERE state = 'open'")

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.base).port

    def person(self) -> Person:
        return Person(self.base)

    @property
    def owner_path(self) -> str:
        return f"/owner/{self.store.owner_token}"
