"""The published figures: a module for each BibTeX key of `giantstep.references`, with a tuple ``RECIPES``."""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from giantstep.papers.recipe import Recipe

FULL_TIMES = Path(__file__).parent / "data" / "full_times.json"
"""What the full sizes took; `benchmarks/figures.py` writes it from its records."""


def recipes() -> dict[str, Recipe]:
    """Return every recipe by its name, paper by paper; the name of a module is the key of its paper."""
    from giantstep.papers.recipe import FullTime
    from giantstep.references import BIBTEX

    times = json.loads(FULL_TIMES.read_text(encoding="utf-8"))
    full = {name: FullTime(**time) for name, time in times.items()}
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return {
        recipe.name: replace(recipe, paper=paper, full_time=full.get(recipe.name))
        for paper in BIBTEX
        if paper in modules
        for recipe in importlib.import_module(f"{__name__}.{paper}").RECIPES
    }


def list_figures() -> list[Recipe]:
    """Return the figures that can be rebuilt."""
    return list(recipes().values())
