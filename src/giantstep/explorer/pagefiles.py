"""The files of the page: those of its folder, whole stories, and all its modules as one script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from giantstep.explorer.bundle import bundle

MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
"""Files of the page by the end of their names; nothing else is ever read from disk."""


def page_files() -> dict[str, bytes]:
    """Return name -> content of everything the page loads."""
    page = dict(_files(files("giantstep.explorer").joinpath("page")))
    modules = {name: content.decode() for name, content in page.items() if name.endswith(".js") and "/" not in name}
    stories = json.dumps([_with_studies(story) for story in json.loads(page["stories.json"])])
    return {**page, "stories.json": stories.encode(), "explorer.js": bundle(modules, "main.js").encode()}


def _with_studies(story: Mapping[str, Any]) -> dict[str, Any]:
    """Return a story with whole studies: of the curves beside the first only what differs is written in the file."""
    study = {"settings": {}, "limit": {}, **story["study"], "name": story.get("label")}
    names = story.get("kept_labels", [])
    kept = [{**_merged(study, changes), "name": name} for changes, name in zip(story["kept"], names, strict=True)]
    return {**story, "study": study, "kept": kept}


def _merged(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with others laid over them; a part with a kind is taken whole."""
    copy = dict(tables)
    for name, value in changes.items():
        part = isinstance(value, dict) and isinstance(copy.get(name), dict) and "kind" not in value
        copy[name] = _merged(copy[name], value) if part else value
    return copy


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")
        elif suffix(file.name) in MEDIA_TYPES:
            yield prefix + file.name, file.read_bytes()


def suffix(name: str) -> str:
    """Return the end of a name of a file, from its last dot on."""
    return name[name.rfind(".") :]
