"""Run the explorer on this machine's own address."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from giantstep.core.base.errors import InputError
from giantstep.faces.page.reopen import link_of, state_of_file

DEFAULT_PORT = 8765
"""Where the page is served if nobody says another port: free on most machines."""
ADDRESS = "127.0.0.1"


def bind_socket(port: int | None) -> socket.socket:
    """Return a socket on loopback: the port asked for, or the usual one, or any free
    one where that is taken.
    """
    numbers = [DEFAULT_PORT, 0]  # 0 is any free one
    if port is not None:
        numbers = [port]
    for number in numbers:
        # asyncio sends small pieces at once only where the protocol is named; else each
        # waits 40 ms for the one before
        listening = socket.socket(
            socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((ADDRESS, number))
            listening.listen(128)
            return listening
        except OSError as error:
            listening.close()
            reason = (error.strerror or str(error)).lower()
    raise InputError(f"The port {number} of {ADDRESS} cannot be used: {reason}.")


def serve(
    port: int | None = None,
    *,
    file: Path | None = None,
    browser: bool = True,
    say: Callable[[str], object] = lambda text: print(text),
) -> None:
    """Serve the page until the process is interrupted, on a port of 127.0.0.1 (8765, or
    a free one, if left out).

    It opens on a `file`: one that the page wrote, or a study file. `say` is told the
    address.
    """
    try:
        import uvicorn

        from giantstep.faces.page.app import Explorer
        from giantstep.faces.page.guard import PatientProtocol
    except ModuleNotFoundError as error:
        raise InputError(
            f"The explorer needs the package {error.name}; install it with: pip install"
            " 'giantstep[explorer]'."
        ) from None
    link = ""
    if file is not None:
        link = link_of(state_of_file(file))
    listening = bind_socket(port)
    number = listening.getsockname()[1]
    address = f"http://{ADDRESS}:{number}/"
    if link:
        address = f"{address}opened"
    explorer = Explorer(number, link=link)
    config = uvicorn.Config(
        explorer.app,
        http=PatientProtocol,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
    )

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            explorer.experiments.close()  # whoever listens to one would be waited for
            await super().shutdown(sockets)

    server = Server(config)
    # last in its line, where terminals find its end
    say(f"The explorer runs until you press Ctrl-C: {address}")
    sys.stdout.flush()
    if browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    server.run(sockets=[listening])
