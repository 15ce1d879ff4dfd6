"""The command ``explore``: the interactive page."""

from __future__ import annotations

from typing import Annotated

import typer


def explore(
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port of 127.0.0.1; 8765 or a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open the interactive page: sliders move the exact curve, a button streams in the experiment."""
    from giantstep.explorer.server import serve

    serve(port, browser=not no_browser)
