"""Who may ask the server: only its own page may ask, bodies are short, every answer has
its security headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri"
        " 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Sent with everything. KaTeX writes style attributes, hence `unsafe-inline` for
styles; scripts have no exception.
"""

DROPPED = 256 * 2**20
"""Bytes of a refused request that are read and forgotten: a client that is cut off does
not hear why.
"""


class Guard:
    """Refuses other hosts' pages (Host, Origin, Sec-Fetch-Site), foreign content types
    and long bodies.

    A page of another site cannot read answers anyway (there is no CORS header); here it
    cannot even ask. The Host check stops a foreign name that was pointed at this
    machine (DNS rebinding). A request is JSON of at most `body` bytes; on the paths of
    `uploads` it is a file of so many.
    """

    def __init__(
        self, app: ASGIApp, port: int, body: int, uploads: Mapping[str, int]
    ) -> None:
        self.app = app
        self.body = body
        self.uploads = uploads
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        most = self.uploads.get(scope["path"], self.body)
        if scope["path"] in self.uploads:
            kind = "application/octet-stream"
        else:
            kind = "application/json"
        refused = self._refused(scope["method"], Headers(scope=scope), kind, most)
        if refused is None:
            await self.app(scope, receive, guarded)
            return
        seen = 0
        more = True
        while more and seen <= DROPPED:
            message = await receive()
            seen = seen + len(message.get("body", b""))
            more = message.get("more_body", False)
        status, sentence = refused
        response = JSONResponse(
            {"error": sentence}, status_code=status, headers={"Connection": "close"}
        )
        await response(scope, receive, guarded)

    def _refused(
        self, method: str, headers: Headers, kind: str, most: int
    ) -> tuple[int, str] | None:
        if headers.get("host", "") not in self.hosts:
            return (403, "This server answers only under its own address, 127.0.0.1.")
        own = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        if (
            not own
            or headers.get("origin", next(iter(self.origins))) not in self.origins
        ):
            return (403, "This server answers only its own page.")
        if (
            method == "POST"
            and headers.get("content-type", "").partition(";")[0].strip() != kind
        ):
            return (415, f"A request must be {kind}.")
        length = headers.get(
            "content-length", "" if "transfer-encoding" in headers else "0"
        )
        if (
            not length.isdigit() or int(length) > most
        ):  # a body in chunks does not say how long it is
            return (
                413,
                f"A request may have at most {most} bytes, and says how many it has.",
            )
        return None


# -- Connections that end when the other side takes too long to say what it wants ------


PATIENCE = 15.0
"""Seconds within which a request must have arrived as a whole, counted from the
connection or from its first byte.
"""


class PatientProtocol(H11Protocol):
    """HTTP that closes a connection whose request does not arrive in time; answers may
    take as long as they do.

    Without it a client that sends a byte now and then holds a connection for ever, and
    a few hundred hold all of them.
    """

    patience = PATIENCE
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait_or_not()

    def data_received(self, data: bytes) -> None:
        """Take what came; the clock goes on until the request is whole."""
        super().data_received(data)
        self._wait_or_not()

    def _wait_or_not(self) -> None:
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(self.patience, self.transport.close)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
