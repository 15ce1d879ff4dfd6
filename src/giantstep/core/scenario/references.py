"""The papers behind what is computed, as BibTeX, and `cite`, which picks those of one
result.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from giantstep import __version__
from giantstep.core.base.errors import InputError

if TYPE_CHECKING:
    import xarray

    from giantstep.core.scenario.model import Scenario

_ENTRIES = (
    Path(__file__).with_suffix(".bib").read_text(encoding="utf-8").strip().split("\n\n")
)
BIBTEX = {entry.partition("{")[2].partition(",")[0]: entry for entry in _ENTRIES}
"""BibTeX key -> entry; the keys are those of `Scenario.papers`."""


def cite(source: xarray.Dataset | Scenario) -> str:
    """Return the BibTeX entries of the papers behind a result or a scenario, and of
    giantstep itself.

    Examples
    --------
    >>> import giantstep as gs
    >>> text = gs.cite(gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1))
    >>> text.splitlines()[0], "@software{giantstep," in text
    ('@inproceedings{dandi2025random,', True)
    """
    attrs = getattr(source, "attrs", None)
    version = __version__
    if isinstance(attrs, dict) and "papers" in attrs:
        keys = [key for key in attrs["papers"].split(", ") if key]
        version = str(attrs["giantstep_version"])
    elif isinstance(getattr(source, "papers", None), tuple):
        keys = list(source.papers)
    else:
        raise InputError(
            f"cite takes a result or a scenario, not a {type(source).__name__}."
        )
    unknown = [key for key in keys if key not in BIBTEX]
    if unknown:
        raise InputError(f"There is no BibTeX entry for {', '.join(unknown)}.")
    return "\n\n".join([*(BIBTEX[key] for key in keys), software(version)]) + "\n"


def software(version: str) -> str:
    """Return the BibTeX entry of giantstep at a version."""
    return (
        "@software{giantstep,\n  title   = {giantstep: exact high-dimensional theory"
        " of feature learning, with the experiment\n             beside it},\n "
        f" author  = {{{{The giantstep developers}}}},\n  version = {{{version}}},\n}}"
    )
