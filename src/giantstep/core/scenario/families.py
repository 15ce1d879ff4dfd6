"""The register of families: those of this package, of others, and of the folder one
works in.

`family_names` lists them. A folder of ``problems`` with a `scenario.py` is registered
by being there; the line of its class in ``giantstep/__init__.pyi`` makes it public. A
family in the folder one works in is run only when it is asked for by name and no
installed family has that name.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from giantstep.core.base.errors import InputError, bad_field, nearest

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Scenario

_PROBLEMS = Path(__file__).parents[2] / "problems"
_PACKAGE = __name__.partition(".")[0] + ".problems"


def _shipped() -> dict[str, str]:
    """Return the families of this package, name -> the module of their scenario.

    A folder with a ``scenario.py`` is a family. A module beside it with a page of its
    own, ``NAME.page.toml``, is a preset of that family.
    """
    modules = {}
    for path in sorted(_PROBLEMS.glob("[!_]*/scenario.py")):
        folder = path.parent.name
        modules[folder.replace("_", "-")] = f"{_PACKAGE}.{folder}.scenario"
    for path in sorted(_PROBLEMS.glob("[!_]*/*.page.toml")):
        preset = path.name.partition(".")[0]
        modules[preset.replace("_", "-")] = f"{_PACKAGE}.{path.parent.name}.{preset}"
    return modules


SHIPPED = _shipped()
"""Family of this package -> the module of its scenario."""
_LOADED: dict[str, type[Scenario]] = {}


def register(scenario: type[Scenario]) -> None:
    """Make a family known by its name."""
    _LOADED[scenario.family] = scenario


def family_names() -> list[str]:
    """Return the names of all families, those of installed packages and of the current
    folder included.

    >>> import giantstep as gs
    >>> "one-step" in gs.family_names()
    True
    """
    return sorted({*SHIPPED, *_installed(), *folder_families(), *_LOADED})


def _installed() -> dict[str, str]:
    """Return the families of other packages, name -> module: their entry points
    ``giantstep.families``.
    """
    from importlib.metadata import entry_points

    return {
        entry.name: entry.module for entry in entry_points(group="giantstep.families")
    }


def family_class(name: str) -> type[Scenario]:
    """Return the scenario class of a family by its name."""
    if isinstance(name, str) and name not in _LOADED:
        home = SHIPPED.get(name) or _installed().get(name)
        if home:
            importlib.import_module(home)
        elif name in (here := folder_families()):
            load_folder_family(here[name])
    if not isinstance(name, str) or name not in _LOADED:
        raise bad_field(
            "family",
            name,
            "one of " + ", ".join(family_names()) + nearest(name, family_names()),
        )
    return _LOADED[name]


# -- Families of the folder one works in: a line NAME = "FILE.py" under [families] of it


SETTINGS = "giantstep.toml"


def folder_families() -> dict[str, Path]:
    """Return the families that the current folder declares: name -> file; nothing is
    run.
    """
    settings = Path(SETTINGS)
    if not settings.is_file():
        return {}
    from giantstep.core.scenario.toml import read_toml

    table = read_toml(settings.read_text(encoding="utf-8"), SETTINGS).get(
        "families", {}
    )
    if not isinstance(table, dict):
        raise InputError(
            f'`families` in {SETTINGS} must be a table of lines NAME = "FILE.py".'
        )
    for name, file in table.items():
        if (
            not isinstance(file, str)
            or not file.endswith(".py")
            or Path(file).name != file
        ):
            allowed = "it must be the name of a Python file in the same folder"
            raise InputError(f"{SETTINGS} says {name} = {file!r}; {allowed}.")
    return {name: Path(file).absolute() for name, file in table.items()}


def load_folder_family(file: Path) -> None:
    """Import the module that holds a family; it registers itself."""
    if not file.is_file():
        raise InputError(
            f"{SETTINGS} names the file {file.name!r}, which is not in this folder."
        )
    if str(file.parent) not in sys.path:
        # at the end: it hides nothing, and workers find the module by its name
        sys.path.append(str(file.parent))
    module = importlib.import_module(file.stem)
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise InputError(
            f"The file {file.name!r} is called like an installed module; rename it, in"
            f" {SETTINGS} too."
        )
