"""One folder per problem: `scenario.py`, `limit.py`, `experiment.py`. Families never import each other.

`family_names` lists them. A folder with a scenario is registered by being here; the line of its class in
``giantstep/__init__.pyi`` makes it public.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from giantstep.errors import bad_field, nearest
from giantstep.own_families import folder_families, load_folder_family

if TYPE_CHECKING:
    from giantstep.scenario import Scenario

SHIPPED = {
    path.parent.name.replace("_", "-"): f"{__name__}.{path.parent.name}.scenario"
    for path in sorted(Path(__file__).parent.glob("[!_]*/scenario.py"))
}
SHIPPED |= {name: f"{__name__}.network.{name.replace('-', '_')}" for name in ("one-step", "few-steps")}
"""Family of this package -> the module of its scenario; two are presets of the network."""
_LOADED: dict[str, type[Scenario]] = {}


def register(scenario: type[Scenario]) -> None:
    """Make a family known by its name."""
    _LOADED[scenario.family] = scenario


def family_names() -> list[str]:
    """Return the names of all families, those of installed packages and of the current folder included.

    >>> import giantstep as gs
    >>> "one-step" in gs.family_names()
    True
    """
    return sorted({*SHIPPED, *_installed(), *folder_families(), *_LOADED})


def _installed() -> dict[str, str]:
    """Return the families of other packages, name -> module: their entry points ``giantstep.families``."""
    from importlib.metadata import entry_points

    return {entry.name: entry.module for entry in entry_points(group="giantstep.families")}


def family_class(name: str) -> type[Scenario]:
    """Return the scenario class of a family by its name."""
    if isinstance(name, str) and name not in _LOADED:
        home = SHIPPED.get(name) or _installed().get(name)
        if home:
            importlib.import_module(home)
        elif name in (here := folder_families()):
            load_folder_family(here[name])
    if not isinstance(name, str) or name not in _LOADED:
        raise bad_field("family", name, "one of " + ", ".join(family_names()) + nearest(name, family_names()))
    return _LOADED[name]
