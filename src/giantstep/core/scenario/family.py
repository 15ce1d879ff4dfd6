"""What a family of problems declares and returns: questions, variables, settings and
answers.

Its scenario class declares, once, the table of variables of each answer; both engines
fill that table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from giantstep.core.base.types import Array, Floats
from giantstep.core.scenario.dimensions import Dimension, dimension_named

Engine = Literal["limit", "experiment"]

DIAGNOSTICS = {
    "converged": "whether the point was computed",
    "status": "why not, where it was not",
    "residual": "relative residual of the equations at the solution",
    "iterations": "iterations of the solver",
    "trials_done": "trials that gave numbers",
}
"""Columns every result may have beside the variables of its question."""

RESERVED = ("source", "trial", *DIAGNOSTICS)
"""Names that a dimension of a grid cannot have."""


@dataclass(frozen=True)
class Variable:
    """One column of the table of results."""

    name: str
    dims: tuple[str, ...]  # its own, after the grid's
    symbol: str
    meaning: str
    engines: tuple[Engine, ...] = ("limit", "experiment")  # who fills it
    # False: shown by both engines, but without a z-score (a coordinate-like quantity)
    compared: bool = True
    # may be NaN in a trial without that being a failure (a cluster of which there was
    # no sample)
    partial: bool = False
    missing: str = ""  # otherwise what a NaN means
    # what NaN at a solved point of the limit means (no outlier exists); any other NaN
    # flags the point
    absent: str = ""
    # a fraction of counted events: that all trials saw the same (none, say) does not
    # contradict a limit that differs by less than three events in all trials
    counted: bool = False
    # variable of the limit that figures draw under this one: below it nothing can be
    # told apart
    level: str = ""
    # the variable of the limit that says which gap its finite-size correction leaves
    # open: gaps count beyond it
    resolution: str = ""
    # it needs nothing of what may fail: it stands where the point was not solved
    # (`Scenario.beforehand`)
    stands: bool = False


@dataclass(frozen=True)
class Setting:
    """A setting of one question: how it is asked, not what is studied (a scenario field
    says that).
    """

    # a whole number makes it a count, at least 1; None makes it a number or a list of
    # numbers
    default: Any
    meaning: str
    engines: tuple[Engine, ...] = ("limit", "experiment")
    choices: tuple[str, ...] = ()
    example: Any = None  # of a setting without which the question cannot be asked
    # a value for a first picture, where the default takes long enough to be waited for
    coarse: Any = None


LOOSE = 1e-6
"""Tolerance above which a family may take coarser rules, too: for a first picture."""


@dataclass(frozen=True)
class Question:
    """A question a family answers (`what=`): its variables and its settings."""

    meaning: str
    variables: tuple[Variable, ...]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    plot: tuple[
        str, ...
    ] = ()  # variables a figure shows by default, the first of them on the command line
    # names along own dimensions that have them (``branch``): a result has all, NaN
    # where an engine fills some
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # a drawing of `plot` for the whole answer ("phase-diagram"), made if no variable is
    # named
    figure: str = ""
    dimensions: tuple[
        Dimension, ...
        # those that `giantstep.core.scenario.dimensions` does not declare, or labels
        # otherwise
    ] = ()
    coarse_tolerance: float | None = (
        None  # for a first picture, where a larger one saves time
    )

    def dimension(self, name: str) -> Dimension:
        """Return the declaration of a dimension of its variables."""
        return next(
            (own for own in self.dimensions if own.name == name), dimension_named(name)
        )


@dataclass(frozen=True)
class PhaseDiagram:
    """What `giantstep.phase_diagram` draws: a question asked along one field, whose
    lines part regions.
    """

    # the question; where it has a `figure` of its own, that is the diagram and nothing
    # else is needed
    what: str
    across: str = ""  # field along the horizontal axis
    # its lowest and highest value where none are given
    span: tuple[float, float] = (
        0.0,
        1.0,
    )
    up: str = ""  # field along the vertical axis, in whose unit the lines are
    # variable -> what happens there; those drawn first hide later ones that coincide
    lines: Mapping[str, str] = field(default_factory=dict)
    # (lines at X values of `across`, Y values of `up`) -> name of the region, (Y, X)
    regions: Callable[[Mapping[str, Floats], Floats], Array] | None = None
    beside: tuple[str, ...] = ()  # fields that stay fixed and are said in the title
    points: int = 32  # how many values of `across` are asked where none are given


class Baseline(NamedTuple):
    """The error of an answer that has learnt nothing: what it does, in words, and its
    error at every point.
    """

    words: str
    error: Floats


# -- Arrays of one variable that differ in length --------------------------------------
