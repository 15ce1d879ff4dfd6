"""The command ``explore``: the interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explore(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An HTML file that the page wrote, or a study file.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port of 127.0.0.1; 8765 or a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the stories as a page that needs no server, and end.")
    ] = None,
) -> None:
    """Open the interactive page: sliders move the exact curve, a button streams in the experiment."""
    if export is not None:
        from giantstep.explorer.static import export_page

        export_page(export, say=typer.echo)
        typer.echo(f"The page is {export / 'index.html'}.")
        return
    from giantstep.explorer.server import serve

    serve(port, file=file, browser=not no_browser)
