"""Families of the folder one works in: its ``giantstep.toml`` has a line NAME = "FILE.py" for each under [families].

A file is run only when its family is asked for by name and no installed family has that name.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from giantstep.errors import InputError

SETTINGS = "giantstep.toml"


def folder_families() -> dict[str, Path]:
    """Return the families that the current folder declares: name -> file; nothing is run."""
    settings = Path(SETTINGS)
    if not settings.is_file():
        return {}
    from giantstep.toml import read_toml

    table = read_toml(settings.read_text(encoding="utf-8"), SETTINGS).get("families", {})
    if not isinstance(table, dict):
        raise InputError(f'`families` in {SETTINGS} must be a table of lines NAME = "FILE.py".')
    for name, file in table.items():
        if not isinstance(file, str) or not file.endswith(".py") or Path(file).name != file:
            allowed = "it must be the name of a Python file in the same folder"
            raise InputError(f"{SETTINGS} says {name} = {file!r}; {allowed}.")
    return {name: Path(file).absolute() for name, file in table.items()}


def load_folder_family(file: Path) -> None:
    """Import the module that holds a family; it registers itself."""
    if not file.is_file():
        raise InputError(f"{SETTINGS} names the file {file.name!r}, which is not in this folder.")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # at the end: it hides nothing, and workers find the module by its name
    module = importlib.import_module(file.stem)
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise InputError(f"The file {file.name!r} is called like an installed module; rename it, in {SETTINGS} too.")
