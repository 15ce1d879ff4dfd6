"""Notes of a result: sentences that its reader should see, kept in ``attrs["notes"]``; nothing is printed.

A family adds its own in the `attrs` of its `Answer`. The one that every family shares is written here: an error above
that of a `Baseline`, an answer that has learnt nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.padding import last_known
from giantstep.scenario import Scenario
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    from giantstep.request import Request
    from giantstep.result import ResultTable

_ROUNDING = 1e-9
"""Relative amount above a baseline that is not worth a word."""


def notes_in(attrs: Mapping[Any, Any]) -> list[str]:
    """Return the notes of a result by its attributes; files may hold a single one as a text.

    >>> notes_in({"notes": "test_error 2 is above 1."}), notes_in({})
    (['test_error 2 is above 1.'], [])
    """
    return [str(note) for note in np.atleast_1d(attrs.get("notes", []))]


def worse_than_nothing(request: Request, table: ResultTable) -> list[str]:
    """Return a note for each error of an answer that is above its baseline."""
    if type(request.grid.scenario).baselines is Scenario.baselines:
        return []
    columns = {name: table.gather(name) for name in table.pieces if len(table.variable(name).dims) < 2}
    solved: Booleans = table.diagnostics["converged"]
    errors: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
    for batch in request.grid.batches():
        own = {name: values[batch.index] for name, values in columns.items()}
        good = solved[batch.index]
        with np.errstate(all="ignore"):
            baselines = batch.scenario.baselines(batch.points, request.what, own) if good.any() else {}
        for name, baseline in baselines.items():
            if name in own:
                ends = last_known(own[name].reshape(len(good), -1), 1)
                pair = ends[good], np.broadcast_to(baseline.error, good.shape)[good]
                errors.setdefault((name, baseline.words), []).append(pair)
    sides = {key: tuple(map(np.concatenate, zip(*pairs))) for key, pairs in errors.items()}
    notes = (_note(*key, found, blind) for key, (found, blind) in sides.items())
    return [note for note in notes if note]


def _note(name: str, words: str, found: Floats, blind: Floats) -> str:
    worse = found > blind * (1 + _ROUNDING)
    if not worse.any():
        return ""
    most = int(np.argmax(np.where(worse, found - blind, -np.inf)))
    if len(found) == 1:
        return f"{name} = {found[most]:.3g} is worse than {words}, which gives {blind[most]:.3g}."
    where = "at all points" if worse.all() else f"at {worse.sum()} of {len(found)} points"
    return f"{name} is worse than {words} {where}: at worst {found[most]:.3g} where that gives {blind[most]:.3g}."
