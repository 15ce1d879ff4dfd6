"""A figure as a declaration: its studies, what is judged and checked, and how it is
drawn from the results.

A recipe computes nothing itself. `giantstep.papers.runner` answers its studies, judges,
draws and writes; the page, the examples and the texts of `giantstep figures` read the
same studies without answering them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from giantstep.core.run.request import (
    EXPERIMENT_SETTINGS,
    LIMIT_SETTINGS,
    question_name,
)
from giantstep.core.run.study import Study
from giantstep.papers.report import Check

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from giantstep.core.scenario.model import Scenario


@dataclass(frozen=True)
class Size:
    """How large the studies of a figure are, and on which device they run."""

    quick: bool = False
    device: str = "cpu"

    def __call__(self, quick: Any, full: Any) -> Any:
        """Return the first with ``--quick``, the second in full."""
        return quick if self.quick else full


@dataclass(frozen=True)
class FigureStudy:
    """One study of a figure.

    Attributes
    ----------
    study : what is asked.
    verb : who answers: the limit, the experiment, or both.
    meaning : what is compared, for the report.
    judged : variables whose agreement is reported; none where the figure has checks of
        its own.
    scale : what gaps of a variable are relative to where it is smaller
        (`giantstep.agreement`).
    until : the last time that is judged, where runs leave the limit by their noise
        later.
    stored : an experiment made before, which is laid over the limit instead of a new
        one.
    """

    study: Study
    verb: Literal["predict", "simulate", "compare"]
    meaning: str = ""
    judged: tuple[str, ...] = ()
    stored: xarray.Dataset | None = None
    until: float = math.inf
    scale: Mapping[str, float] = field(default_factory=dict)

    @property
    def paired(self) -> bool:
        """Whether fields vary together (DataArrays), which a file of the study cannot
        say.
        """
        return any(hasattr(values, "dims") for values in self.study.grid.values())


Studies = Mapping[str, FigureStudy]
"""The studies of a figure by the names of their files."""
Grid = Mapping[str, Any]


def limit(
    scenario: Scenario,
    grid: Grid | None = None,
    what: str | None = None,
    **settings: Any,
) -> FigureStudy:
    """Return a study answered by the limit; `settings` are those of the limit (theory,
    dim) and of the question.
    """
    return FigureStudy(
        _study(scenario, grid, what, settings, LIMIT_SETTINGS, ()), "predict"
    )


def experiment(
    scenario: Scenario,
    grid: Grid | None = None,
    what: str | None = None,
    **settings: Any,
) -> FigureStudy:
    """Return a study answered by the experiment; `settings` are its own (dim, trials,
    seed) and the question's.
    """
    return FigureStudy(
        _study(scenario, grid, what, settings, (), EXPERIMENT_SETTINGS), "simulate"
    )


def comparison(
    scenario: Scenario,
    grid: Grid | None = None,
    what: str | None = None,
    *,
    meaning: str = "",
    judged: Sequence[str] = (),
    stored: xarray.Dataset | None = None,
    until: float = math.inf,
    scale: Mapping[str, float] | None = None,
    **settings: Any,
) -> FigureStudy:
    """Return a study answered by both.

    Parameters
    ----------
    scenario, grid, what : the study.
    meaning, judged, stored, until, scale : as in `FigureStudy`.
    **settings : of the limit (theory, finite_size), of the experiment (dim, trials,
        seed), and of the question.
    """
    study = _study(
        scenario, grid, what, settings, ("theory", "finite_size"), EXPERIMENT_SETTINGS
    )
    return FigureStudy(
        study, "compare", meaning, tuple(judged), stored, until, scale or {}
    )


def _study(
    scenario: Scenario,
    grid: Grid | None,
    what: str | None,
    settings: Mapping[str, Any],
    limit: Sequence[str],
    experiment: Sequence[str],
) -> Study:
    """Return the study with its settings in their tables; what no table takes is left
    for `Study` to refuse.
    """
    tables = [
        {name: settings[name] for name in names if name in settings}
        for names in (limit, experiment)
    ]
    own = scenario.questions[question_name(scenario, what)].settings
    rest = {
        name: value
        for name, value in settings.items()
        if name in own or not any(name in t for t in tables)
    }
    return Study(
        scenario, what, grid or {}, rest, limit=tables[0], experiment=tables[1]
    )


class Results(dict[str, "xarray.Dataset"]):
    """The results of a figure by the names of their studies, with the studies
    themselves and their size.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.studies: dict[str, FigureStudy] = {}

    def dim(self, name: str) -> int:
        """Return the dimension of an experiment."""
        return int(self.studies[name].study.experiment["dim"])


def theory_at(results: Results, name: str) -> str:
    """Return what a legend calls the limit with its correction at the dimension of an
    experiment.
    """
    return f"theory at $d = {results.dim(name)}$"


def no_checks(results: Results) -> Iterable[Check]:
    """Return the checks of a figure that is judged by its comparisons alone: none."""
    return ()


@dataclass(frozen=True)
class FullTime:
    """What the full size of a figure takes: seconds of one CPU core, ``"measured"`` or
    ``"scaled from short runs"``.
    """

    seconds: float
    how: str


@dataclass(frozen=True)
class Recipe:
    """How one figure is made.

    Attributes
    ----------
    name : what `reproduce` is asked for.
    title : what the figure shows, in a line.
    description : what each panel shows.
    studies : the studies of a size.
    draw : the figure, from the results.
    checks : numbers with lines they must not cross, from the results.
    then : studies that need results of the first ones.
    notes : sentences under the report, where need be from the results.
    remark : what the parameters mean that their values do not say (whose they are,
        units of the paper).
    seconds : what it took with ``--quick`` on two CPU cores.
    quiet : points that fail are part of the figure, not a warning.
    paper : BibTeX key in `giantstep.core.scenario.references`;
        `giantstep.papers.recipes` fills it in, and what follows.
    full_time : what the full size took, None where nobody has run it.
    ours : whether no paper has this figure.
    """

    name: str
    title: str
    description: str
    studies: Callable[[Size], Studies]
    draw: Callable[[Results], Figure]
    checks: Callable[[Results], Iterable[Check]] = no_checks
    then: Callable[[Results], Studies] | None = None
    notes: Sequence[str] | Callable[[Results], Sequence[str]] = ()
    remark: str = ""
    seconds: float | None = None
    quiet: bool = False
    paper: str = ""
    full_time: FullTime | None = None
    ours: bool = False

    @property
    def line(self) -> str:
        """The figure in one line: its name, what it shows, and whose it is."""
        return f"{self.name}: {self.title} ({self.origin})"

    @property
    def origin(self) -> str:
        """Whose figure it is: a paper's, ours in the setting of a paper, or ours
        altogether.
        """
        if not self.ours:
            return self.paper
        if self.paper.startswith("giantstep"):
            return "ours"
        return f"ours, in the setting of {self.paper}"

    @property
    def seconds_quick(self) -> float | None:
        """Seconds with ``--quick`` on two CPU cores, where they were measured."""
        return self.seconds

    @property
    def seconds_full(self) -> float | None:
        """Seconds of one CPU core in full, where they were measured or scaled from
        short runs.
        """
        return None if self.full_time is None else self.full_time.seconds

    @cached_property
    def parameters(self) -> str:
        """The parameters in full size, in symbols, and the remark on them."""
        from giantstep.papers.parameters import parameters_text

        return parameters_text(self)

    def __str__(self) -> str:
        quick = _duration(self.seconds)
        full = _duration(self.seconds_full)
        if self.full_time is not None:
            full += f" of a core ({self.full_time.how.partition(':')[0]})"
        return "\n    ".join(
            [
                self.line,
                self.description,
                self.parameters,
                f"{quick} with --quick, {full} in full",
            ]
        )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not measured"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 10800:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.0f} h"
