"""The published figures: a module for each BibTeX key of `giantstep.references`, with a tuple ``RECIPES``."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from giantstep.papers.recipe import Recipe


def recipes() -> dict[str, Recipe]:
    """Return every recipe by its name, paper by paper; the name of a module is the key of its paper."""
    from giantstep.references import BIBTEX

    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return {
        recipe.name: replace(recipe, paper=paper)
        for paper in BIBTEX
        if paper in modules
        for recipe in importlib.import_module(f"{__name__}.{paper}").RECIPES
    }


def list_figures() -> list[Recipe]:
    """Return the figures that can be rebuilt."""
    return list(recipes().values())
