"""Which connections are closed while others wait to get in, at a clock that the test moves."""

import asyncio

import pytest

from fuzz_http import close_page, send_bytes
from mallow.annotate import Limits, _clock
from mallow.annotate._connections import limited_protocol

uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'mallow[human]'")
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


class Wire(asyncio.Transport):
    """The server's end of a connection."""

    closed = False

    def abort(self):
        self.closed = True

    close = abort

    def is_closing(self):
        return self.closed

    def write(self, data):
        pass

    def pause_reading(self):
        pass


class NeverDone:
    """A task that is never done."""

    def add_done_callback(self, function):
        pass


class Server:
    """Connections to the page, whose application never answers."""

    def __init__(self, **limits):
        from uvicorn.server import ServerState

        async def app(scope, receive, send):
            pass

        self.protocol = limited_protocol(Limits(**limits))
        self.config = uvicorn.Config(app, http=self.protocol, ws="none", lifespan="off", log_level="critical")
        self.state, self.now, self.timers = ServerState(), 100.0, []

    def time(self):
        return self.now

    def call_later(self, seconds, function):
        timer = asyncio.TimerHandle(self.now + seconds, function, (), self)
        self.timers.append(timer)
        return timer

    def create_task(self, work, **options):
        work.close()
        return NeverDone()

    def get_debug(self):
        return False

    def call_exception_handler(self, context):
        raise context["exception"]

    def _timer_handle_cancelled(self, timer):
        pass

    def connect(self):
        made = self.protocol(config=self.config, server_state=self.state, app_state={}, _loop=self)
        made.connection_made(Wire())
        return made

    def move_to(self, seconds):
        self.now = 100.0 + seconds
        for timer in [each for each in self.timers if each.when() <= self.now and not each.cancelled()]:
            self.timers.remove(timer)
            timer._run()


def closed(connections):
    return [one.transport.closed for one in connections]


def test_the_oldest_of_too_many_that_send_nothing_are_closed():
    server, made = Server(waiting=3, header_seconds=1000.0), []
    for second in range(3):
        server.move_to(second)
        made.append(server.connect())
    server.move_to(50)
    assert closed(made) == [False] * 3  # three may wait
    for expected in ([True, False, False, False], [True, True, False, False, False]):
        made.append(server.connect())
        assert closed(made) == expected


def test_nobody_is_closed_while_few_wait_or_before_a_second():
    server = Server(waiting=3, header_seconds=1000.0)
    made = []
    for second in (0, 100):
        server.move_to(second)
        made.append(server.connect())
    assert closed(made) == [False, False]
    server = Server(waiting=1, header_seconds=1000.0)
    made = [server.connect() for _ in range(3)]
    assert closed(made) == [False] * 3
    server.move_to(2)
    made.append(server.connect())
    assert closed(made) == [True, True, True, False]


def test_a_request_has_its_time_and_then_waits_for_nothing():
    server = Server(waiting=1, header_seconds=3.0)
    slow, quick = server.connect(), server.connect()
    slow.data_received(REQUEST[:10])
    quick.data_received(REQUEST)  # is answered now
    server.move_to(2.9)
    assert closed([slow, quick]) == [False, False]
    slow.data_received(REQUEST[10:12])  # a byte now and then wins no time
    server.move_to(3.1)
    assert closed([slow, quick]) == [True, False]


@pytest.mark.parametrize("rest", [b"\x00\r\n\r\n", b"name=Ann\r0\r\n\r\n"])
def test_what_follows_an_answered_request_and_is_no_http_closes_the_connection(tmp_path, rest):
    head = b"OST /join HTTP/1.1\r\nHost: testserver\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nname=Ann\r\n"
    try:
        send_bytes(
            head + rest, tmp_path
        )  # raised h11's LocalProtocolError, which a server would log with its traceback
    finally:
        close_page()


def test_time_is_counted_while_the_machine_sleeps_where_its_clock_does(monkeypatch):
    monkeypatch.setattr(_clock.time, "clock_gettime", lambda clock: {7: 1000.0}[clock])
    monkeypatch.setattr(_clock.time, "monotonic", lambda: 10.0)
    monkeypatch.setattr(_clock.time, "CLOCK_BOOTTIME", 7, raising=False)
    assert _clock.now() - _clock._START == pytest.approx(1000.0)
    monkeypatch.delattr(_clock.time, "CLOCK_BOOTTIME")
    assert _clock.now() - _clock._START == pytest.approx(10.0)
