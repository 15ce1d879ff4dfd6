"""What was sent, opened again: the state inside an HTML file that the page wrote, or a
study file.

A file may come from anybody: it is bounded, only its state is read, and every study in
it is checked.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from giantstep.core.base.errors import InputError, unreadable
from giantstep.core.run.study import Study
from giantstep.faces.page.bounds import TABLES, Bounds, check_study, parse_body
from giantstep.faces.page.studies import read_study, study_tables

VERSION = 1
"""Of the states that the page writes into links and files."""
LARGEST = 32 * 2**20
"""Bytes of a file: pictures and numbers of a few curves have less than one of these 32
MiB.
"""
MOST_KEPT = 7
"""Curves beside the one that is moved."""
_BLOCK = re.compile(
    rb'<script type="application/json" id="giantstep-(?:state|study)">(.*?)</script>',
    re.DOTALL | re.IGNORECASE,
)


def state_of_file(path: Path, bounds: Bounds | None = None) -> dict[str, Any]:
    """Return the state of the page that a file holds, without its numbers; a broken
    file raises one sentence.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > LARGEST:
        raise InputError(
            f"{path} has more than {LARGEST} bytes, which no page of giantstep has."
        )
    if path.suffix == ".toml":
        state = _study_state(path)
    else:
        state = _block(content, path)
    try:
        return _checked(state, bounds or Bounds())
    except InputError as problem:
        raise InputError(f"{path} cannot be opened: {problem}") from None


def link_of(state: Mapping[str, Any]) -> str:
    """Return the part of an address behind its # from which the page restores a state
    (address.js).
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = (
        packer.compress(json.dumps(state, separators=(",", ":")).encode())
        + packer.flush()
    )
    return "~" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _study_state(path: Path) -> dict[str, Any]:
    return {"version": VERSION, "study": study_tables(Study.read(path))}


def _block(content: bytes, path: Path) -> dict[str, Any]:
    """Return what the page wrote into its file for itself."""
    blocks = _BLOCK.findall(content)
    if len(blocks) != 1:
        raise InputError(
            f"{path} is no page of giantstep: it has {len(blocks)} blocks"
            " `giantstep-state`, not one."
        )
    try:
        state = json.loads(blocks[0].decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError(
            f"{path} is no page of giantstep: its block `giantstep-state` is not valid"
            " JSON."
        ) from None
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if name != "results"}
    return {}


def _checked(state: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Return a state within the bounds of a request; its studies must be studies."""
    state = parse_body(json.dumps(state).encode(), bounds, "its state")
    if state.get("version") != VERSION:
        raise InputError(
            f"its state must have version {VERSION}, but has"
            f" version={str(state.get('version'))[:20]}."
        )
    kept = state.get("kept", [])
    if not isinstance(kept, list) or len(kept) > MOST_KEPT:
        raise InputError(f"`kept` must be a list of at most {MOST_KEPT} studies.")
    for study in (state.get("study"), *kept):
        tables = check_study({"study": study}, bounds)
        read_study(
            {name: value for name, value in tables.items() if name in ("what", *TABLES)}
        )
    return state
