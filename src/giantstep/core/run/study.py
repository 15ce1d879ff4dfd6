"""`Study`: a scenario and all that is asked of it, as a file holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from giantstep.core.base import display
from giantstep.core.base.errors import InputError, unreadable
from giantstep.core.base.files import write_text
from giantstep.core.base.jsondata import with_infinity
from giantstep.core.run.plugins import installed_verb
from giantstep.core.run.request import (
    EXPERIMENT_SETTINGS,
    LIMIT_SETTINGS,
    ExperimentSettings,
    Request,
    question_name,
)
from giantstep.core.run.study_file import (
    ENGINES,
    SECTIONS,
    check_keys,
    study_fields,
    value_for_file,
)
from giantstep.core.run.verbs import compare, predict, simulate
from giantstep.core.scenario.arrays import with_arrays, write_arrays
from giantstep.core.scenario.checks import check_flags
from giantstep.core.scenario.family import Question
from giantstep.core.scenario.fields_table import model_blocks
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import part_list
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import dotted_names, walk_fields
from giantstep.core.scenario.own_classes import refuse_file
from giantstep.core.scenario.toml import read_toml, write_toml

if TYPE_CHECKING:
    import xarray

_PREDICT_SETTINGS = tuple(name for name in LIMIT_SETTINGS if name != "finite_size")


@dataclass(frozen=True, eq=False, repr=False)
class Study(display.Readable):
    """A scenario, the question asked, the grid of fields that vary, and the settings of
    both engines.

    Parameters
    ----------
    scenario : what is studied.
    what : the question; the scenario's first one if left out.
    grid : dotted field -> value or list.
    settings : settings of the question (``x``, ``normalisation``, ...).
    limit : ``theory``, ``dim``, ``tolerance``, ``finite_size``, ``strict``, ``seed``
        (where it is sampled).
    experiment : ``dim``, ``trials``, ``seed``, ``device``, ``keep_trials``, ``paired``.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> study = gs.Study(
    ...     s, grid={"ridge": [0.1, 1.0]}, experiment={"dim": 40, "trials": 2}
    ... )
    >>> study.predict().sizes["ridge"]
    2
    """

    scenario: Scenario
    what: str | None = None
    grid: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: Mapping[str, Any] = field(default_factory=dict)
    experiment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise InputError(
                f"A study needs a scenario, not a {type(self.scenario).__name__}."
            )
        declared = self.question.settings
        for engine, known in zip(ENGINES, (LIMIT_SETTINGS, EXPERIMENT_SETTINGS)):
            own = [
                name
                for name, setting in declared.items()
                if setting.engines == (engine,)
            ]
            check_keys(engine, getattr(self, engine), [*known, *own])
        check_keys("settings", self.settings, list(declared))
        # what is made here is thrown away: it is made to be checked
        request = Request(
            self.scenario,
            self.grid,
            self._question_settings(),
            what=self.what,
            dim=None,
            **_only(self.limit, ("theory", "tolerance", "seed")),
        )
        for table in (self.limit, self.experiment):
            if table.get("dim") is not None:
                Grid(request.grid.scenario, dim=table["dim"])
        check_flags(**_only(self.limit, ("finite_size", "strict")))
        names = [name for name in EXPERIMENT_SETTINGS if name != "dim"]
        ExperimentSettings(**_only(self.experiment, names))

    @property
    def question(self) -> Question:
        """The question asked."""
        return self.scenario.questions[question_name(self.scenario, self.what)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Study):
            return NotImplemented
        if (self.scenario, self.what) != (other.scenario, other.what):
            return False
        for name in SECTIONS:
            if not _same_table(getattr(self, name), getattr(other, name)):
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def blocks(self) -> list[display.Block]:
        """Return the question, the scenario, what varies, and the settings."""
        what = self.what or next(iter(self.scenario.questions))
        blocks = [f'Study of "{what}"', *model_blocks(self.scenario)]
        for name in SECTIONS:
            table = getattr(self, name)
            if table:
                rows = [
                    (key, display.shown_value(value))
                    for key, value in dotted_names(table).items()
                ]
                heading = "varies:" if name == "grid" else f"{name}:"
                shown = display.Table(("name", "value"), rows, is_list=True)
                blocks += [heading, shown]
        return blocks

    def __str__(self) -> str:
        return display.blocks_text(self.blocks())

    def predict(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the limit; keywords override the study: fields, settings,
        ``progress``, ``scenarios`` by name.
        """
        return self._answer(predict, _PREDICT_SETTINGS, self.limit, overrides)

    def simulate(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the experiment; keywords override the study."""
        return self._answer(simulate, EXPERIMENT_SETTINGS, self.experiment, overrides)

    def compare(self, **overrides: Any) -> xarray.Dataset:
        """Answer with both; keywords override the study."""
        dims = [
            table["dim"]
            for table in (self.limit, self.experiment)
            if table.get("dim") is not None
        ]
        if "dim" not in overrides and len(dims) == 2 and not np.array_equal(*dims):
            raise InputError(
                "The tables `limit` and `experiment` must have the same `dim` for a"
                " comparison."
            )
        tables = {**self.limit, **self.experiment}
        # a comparison has means
        tables.pop("keep_trials", None)
        names = (*LIMIT_SETTINGS, *EXPERIMENT_SETTINGS)
        return self._answer(compare, names, tables, overrides)

    def sweep(self, *, source: str = "experiment", **overrides: Any) -> xarray.Dataset:
        """Answer with one engine and keep the results in a store; keywords as in
        `giantstep.sweep`.
        """
        sweep = installed_verb("sweep")
        overrides = {"source": source, **overrides}
        if source == "limit":
            return self._answer(sweep, _PREDICT_SETTINGS, self.limit, overrides)
        return self._answer(sweep, EXPERIMENT_SETTINGS, self.experiment, overrides)

    def _question_settings(self) -> dict[str, Any]:
        """Return the settings of the question; those of one engine may stand in its
        table.
        """
        tables = {**self.settings, **self.limit, **self.experiment}
        declared = self.question.settings
        return {name: value for name, value in tables.items() if name in declared}

    def _answer(
        self,
        verb: Callable[..., xarray.Dataset],
        names: Sequence[str],
        table: Any,
        overrides: dict[str, Any],
    ) -> xarray.Dataset:
        """Call a verb with the settings `names` of a table of the study, and what
        overrides them.
        """
        scenarios = overrides.pop("scenarios", self.scenario)
        what = overrides.get("what", self.what)
        settings: dict[str, Any] = {}
        # those of the study's question are of no other one
        if question_name(self.scenario, what) == question_name(
            self.scenario, self.what
        ):
            settings = self._question_settings()
        settings |= _only(table, names)
        settings |= overrides
        settings["what"] = what
        grid = dotted_names(self.grid)
        for name in dotted_names(overrides):
            grid.pop(name, None)
        return verb(scenarios, grid, **settings)

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not a text file in UTF-8.") from None
        except OSError as error:
            raise unreadable(path, error) from None
        return cls.from_toml(text, str(path), Path(path).parent)

    @classmethod
    def from_toml(
        cls, text: str, source: str = "The text", folder: str | Path = "."
    ) -> Study:
        """Read a study from TOML text; `source` is named where it is broken, large
        arrays lie in `folder`.
        """
        content = with_arrays(read_toml(text, source), Path(folder))
        return cls(**study_fields(content, source))

    def write(self, path: str | Path) -> None:
        """Write the study to a TOML file; arrays too large for it go into .npz files
        beside it.
        """
        write_arrays(self.scenario, Path(path).parent)
        write_text(path, self.to_toml())

    def to_toml(self, *, comments: bool = False) -> str:
        """Return the study as TOML text, with the meaning of each field behind it where
        `comments` is set.
        """
        # a part in the grid is one value: a file holds it in the scenario
        fields = type(self.scenario).model_fields
        parts = {
            name: value
            for name, value in self.grid.items()
            if isinstance(value, BaseModel | Mapping) or part_list(fields.get(name))
        }
        scenario = self.scenario.replace(parts) if parts else self.scenario
        refuse_file(scenario)
        for name, value in scenario.leaves:
            if getattr(value, "expression", "") is None:
                raise InputError(
                    f"Field `{name}` is a Python callable ({value.name!r}) and cannot"
                    " be written to a file."
                )
        tables: dict[str, Any] = {}
        if self.what is not None:
            tables["what"] = self.what
        tables["scenario"] = with_infinity(scenario.content())
        for name in SECTIONS:
            table = {
                key: value_for_file(key, value)
                for key, value in dotted_names(getattr(self, name)).items()
                if key not in dotted_names(parts)
            }
            if table:
                tables[name] = table
        if not comments:
            return write_toml(tables, None)
        meanings = {
            f"scenario.{leaf}": info.description or ""
            for leaf, _, info in walk_fields(scenario)
        }
        return write_toml(tables, meanings)


def _only(table: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return what a table has under some names."""
    return {name: table[name] for name in names if name in table}


def _same_table(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell whether two tables are the same; a list and an array of the same values
    are.
    """
    if list(ours) != list(theirs):
        return False
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


# -- Studies in TOML files: tables, dotted names, ranges; what lives in Python only is r
