"""What a family declares for the page: what it opens on, fields by theme, equations, stages of a network.

It stands in the file ``page.toml`` beside its scenario; where several families share a folder each has a file named
after its module, ``one_family.page.toml``. ``whole`` names fields whose sliders stop at whole numbers.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from giantstep.families import family_class
from giantstep.toml import read_toml

FILE = "page.toml"


def page_of(family: str) -> dict[str, Any]:
    """Return the declaration of a family; an empty one where it has none, as a family from elsewhere may."""
    package, _, module = family_class(family).__module__.rpartition(".")
    for name in (f"{module}.{FILE}", FILE) if package else ():
        file = files(package).joinpath(name)
        if file.is_file():
            return read_toml(file.read_text("utf-8"), f"{package}/{name}")
    return {}
