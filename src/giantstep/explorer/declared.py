"""What a family declares for the page in the file ``page.toml`` beside its scenario: fields by theme, equations."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from giantstep.families import family_class
from giantstep.toml import read_toml

FILE = "page.toml"


def page_of(family: str) -> dict[str, Any]:
    """Return the declaration of a family; an empty one where it has none, as a family from elsewhere may."""
    package = family_class(family).__module__.rpartition(".")[0]
    file = files(package).joinpath(FILE) if package else None
    return read_toml(file.read_text("utf-8"), f"{package}/{FILE}") if file is not None and file.is_file() else {}
