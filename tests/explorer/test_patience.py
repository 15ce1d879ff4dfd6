"""Clients that take their time: closed where a request does not arrive, served where it
does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from giantstep.faces.page.guard import PatientProtocol


class Hurried(PatientProtocol):
    patience = 0.3


async def slow_answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole request, then take longer than the patience with clients."""
    import asyncio

    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(0.5)
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"2")],
        }
    )
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(16)
    server = uvicorn.Server(
        uvicorn.Config(slow_answer, http=Hurried, log_level="critical", lifespan="off")
    )
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True
    )
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield int(listening.getsockname()[1])
    server.should_exit = True
    thread.join(10)


PARTS = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "half a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_request_that_does_not_arrive_ends_the_connection(
    port: int, part: str
) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(PARTS[part])
        assert client.recv(100) == b""  # closed; without a deadline this times out


def test_bytes_now_and_then_do_not_help(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.settimeout(0.02)
        for _ in range(400):
            with contextlib.suppress(TimeoutError):
                assert client.recv(1) == b""
                return
            with contextlib.suppress(OSError):
                client.sendall(b"G")
    pytest.fail("the connection is still open")


def test_a_slow_answer_is_waited_for_and_the_connection_lives_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok"):
                received = client.recv(1000)
                assert received, answer
                answer += received
            assert answer.startswith(b"HTTP/1.1 200")
