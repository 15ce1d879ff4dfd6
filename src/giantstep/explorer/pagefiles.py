"""The files of the page: those of its folder, the bounds of the server as a script, and all its modules as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from importlib.resources.abc import Traversable

from giantstep.explorer.bounds import Bounds
from giantstep.explorer.bundle import bundle

MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
"""Files of the page by the end of their names; nothing else is ever read from disk."""


def page_files(bounds: Bounds) -> dict[str, bytes]:
    """Return name -> content of everything the page loads."""
    folder = files("giantstep.explorer").joinpath("page")
    page = dict(_files(folder))
    script = f"// What the server answers at most.\n\nexport const BOUNDS = {json.dumps(asdict(bounds))};\n"
    page["bounds.js"] = script.encode()
    modules = {name: content.decode() for name, content in page.items() if name.endswith(".js") and "/" not in name}
    return {**page, "explorer.js": bundle(modules, "main.js").encode()}


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")
        elif suffix(file.name) in MEDIA_TYPES:
            yield prefix + file.name, file.read_bytes()


def suffix(name: str) -> str:
    """Return the end of a name of a file, from its last dot on."""
    return name[name.rfind(".") :]
