"""The networks behind an experiment: what ``simulate(..., keep_networks=True)`` adds to
its result.

A family declares them (`Scenario.kept`) and draws them once more (`Scenario.networks`):
the random numbers of a trial belong to its content, so that these are the networks that
were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array
from giantstep.core.lab.devices import available_memory
from giantstep.core.scenario.answer import pad_stack
from giantstep.core.scenario.family import Question

if TYPE_CHECKING:
    import xarray

    from giantstep.core.run.trials import DrawGroup
    from giantstep.core.scenario.grid import Grid
    from giantstep.core.scenario.model import Scenario

COPIES = 3
"""How often the numbers that are kept are in memory at once: of every trial, stacked,
and in the table.
"""


def question_of_kept(scenario: Scenario, what: str) -> Question:
    """Return the declaration of what is kept; a family that keeps no networks is
    refused.
    """
    variables = scenario.kept(what)
    if not variables:
        raise InputError(
            f"Setting `keep_networks` is not for {type(scenario).__name__}: its"
            " experiment keeps no networks. `keep_trials=True` keeps what every trial"
            " measured."
        )
    return Question("the networks of every trial", variables)


def check_room(
    groups: Sequence[DrawGroup], what: str, trials: int, settings: Mapping[str, Any]
) -> None:
    """Refuse to keep more than fits into memory."""
    needed = 0.0
    for group in groups:
        question_of_kept(group.scenario, what)
        needed += (
            COPIES
            * trials
            * group.scenario.kept_memory(group.points, what, group.dim, settings)
        )
    available = available_memory("cpu")
    if needed > available:
        raise InputError(
            f"Setting `keep_networks` needs {needed / 2**30:.3g} GiB of memory for the"
            f" networks of {trials} trials, and {available / 2**30:.3g} GiB are free;"
            " take fewer trials or points, or a smaller dim."
        )


def with_networks(
    result: xarray.Dataset,
    grid: Grid,
    what: str,
    groups: Sequence[DrawGroup],
    kept: Sequence[Sequence[Mapping[str, Array]]],
    settings: Mapping[str, Any],
) -> xarray.Dataset:
    """Return a result with the networks of all trials: `kept[g][trial]` belongs to
    ``groups[g]``.
    """
    from giantstep.core.result.table import ResultTable

    table = ResultTable(grid, question_of_kept(grid.scenario, what), "experiment")
    for group, networks in zip(groups, kept):
        for name in dict.fromkeys(name for one in networks for name in one):
            of_all_trials = pad_stack([one.get(name) for one in networks])
            table.put(name, group.index, np.moveaxis(of_all_trials, 0, 1))
    if not table.pieces:
        return result
    networks_of_grid = table.dataset(
        grid.scenario, trials_kept=True, settings=settings, attrs={}
    )
    return result.assign(dict(networks_of_grid.data_vars))
