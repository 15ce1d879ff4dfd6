"""Figures of papers, and our own: a module for each BibTeX key of
`giantstep.core.scenario.references`, with a tuple ``RECIPES``.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from giantstep.core.base.errors import InputError, nearest
from giantstep.core.scenario.references import BIBTEX

if TYPE_CHECKING:
    from giantstep.papers.recipe import Recipe

FULL_TIMES = Path(__file__).parent / "data" / "full_times.json"
"""What the full sizes took; `benchmarks/figures.py` writes it from its records."""
OURS = frozenset(
    "vocabulary-size finite-batch-spectrum spectral-edge outliers large-batch finite-batch step-size crossover "
    "reuse-phases reuse-losses giant-staircase giant-specialisation subspace-trajectory subspace-many-clusters "
    "unequal-covariances digits".split()
)
"""Figures in the setting of a paper that the paper does not have; our own derivations
are known by their key.
"""
_NAME = re.compile(r'^    \w+\(\s*"([a-z0-9-]+)",', re.MULTILINE)


def recipes() -> dict[str, Recipe]:
    """Return every recipe by its name, paper by paper; the name of a module is the key
    of its paper.
    """
    from giantstep.papers.recipe import FullTime

    times = json.loads(FULL_TIMES.read_text(encoding="utf-8"))
    full = {name: FullTime(**time) for name, time in times.items()}
    return {
        recipe.name: replace(
            recipe,
            paper=paper,
            full_time=full.get(recipe.name),
            ours=paper.startswith("giantstep") or recipe.name in OURS,
        )
        for paper in papers()
        for recipe in importlib.import_module(f"{__name__}.{paper}").RECIPES
    }


def papers() -> list[str]:
    """Return the papers that have a module, in the order of the references."""
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return [paper for paper in BIBTEX if paper in modules]


def figure_names() -> list[str]:
    """Return the names of `recipes`, read from the text of the modules: a misspelt one
    is refused without loading them.

    The name of a recipe is the first argument of its call in ``RECIPES``, as plain
    text.
    """
    texts = [
        (Path(__file__).parent / f"{paper}.py").read_text(encoding="utf-8")
        for paper in papers()
    ]
    return [
        name
        for text in texts
        for name in _NAME.findall(text.partition("\nRECIPES = (")[2])
    ]


def check_figure(name: str) -> None:
    """Refuse a name that no figure has."""
    known = figure_names()
    if name not in known:
        raise InputError(
            f"There is no figure `{name}`{nearest(name, known)}; `giantstep figures` lists them."
        )


def list_figures() -> list[Recipe]:
    """Return the figures that can be rebuilt."""
    return list(recipes().values())
