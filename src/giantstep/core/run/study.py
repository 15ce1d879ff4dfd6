"""The verbs `predict` (the limit), `simulate` (the experiment), `compare` (both), and
`Study`, one in a file.

They know no family: all they use is what `giantstep.core.scenario.model.Scenario` says
every family provides. `request` checks what is asked, `batches` runs the limit,
`trials` the experiment.
"""

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
    _ENGINES,
    _SECTIONS,
    _for_file,
    check_keys,
    study_fields,
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
        for engine, known in zip(_ENGINES, (LIMIT_SETTINGS, EXPERIMENT_SETTINGS)):
            own = [
                name
                for name, setting in declared.items()
                if setting.engines == (engine,)
            ]
            check_keys(engine, getattr(self, engine), [*known, *own])
        check_keys("settings", self.settings, list(declared))
        general = {
            name: self.limit[name]
            for name in ("theory", "tolerance", "seed")
            if name in self.limit
        }
        request = Request(
            self.scenario,
            self.grid,
            self._question_settings(),
            what=self.what,
            dim=None,
            **general,
        )
        for table in (self.limit, self.experiment):
            if table.get("dim") is not None:
                Grid(request.grid.scenario, dim=table["dim"])
        check_flags(
            **{
                name: self.limit[name]
                for name in ("finite_size", "strict")
                if name in self.limit
            }
        )
        ExperimentSettings(
            **{
                n: value
                for n, value in self.experiment.items()
                if n in EXPERIMENT_SETTINGS[1:]
            }
        )

    @property
    def question(self) -> Question:
        """The question asked."""
        return self.scenario.questions[question_name(self.scenario, self.what)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Study):
            return NotImplemented
        if (self.scenario, self.what) != (other.scenario, other.what):
            return False
        for name in _SECTIONS:
            # a list and an array of the same values are equal
            ours, theirs = (
                getattr(self, name),
                getattr(other, name),
            )
            if list(ours) != list(theirs) or not all(
                np.array_equal(ours[key], theirs[key]) for key in ours
            ):
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def blocks(self) -> list[display.Block]:
        """Return the question, the scenario, what varies, and the settings."""
        what = self.what or next(iter(self.scenario.questions))
        blocks = [f'Study of "{what}"', *model_blocks(self.scenario)]
        for name in _SECTIONS:
            table = getattr(self, name)
            if table:
                rows = [
                    (key.replace("__", "."), display.shown_value(value))
                    for key, value in table.items()
                ]
                heading = "varies:" if name == "grid" else f"{name}:"
                blocks += [
                    heading,
                    display.Table(("name", "value"), rows, is_list=True),
                ]
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
        tables = {
            **self.limit,
            **{name: v for name, v in self.experiment.items() if name != "keep_trials"},
        }
        return self._answer(
            compare, (*LIMIT_SETTINGS, *EXPERIMENT_SETTINGS), tables, overrides
        )

    def sweep(self, *, source: str = "experiment", **overrides: Any) -> xarray.Dataset:
        """Answer with one engine and keep the results in a store; keywords as in
        `giantstep.sweep`.
        """
        sweep = installed_verb("sweep")
        is_limit = source == "limit"
        overrides = {"source": source, **overrides}
        if is_limit:
            names = _PREDICT_SETTINGS
            table = self.limit
        else:
            names = EXPERIMENT_SETTINGS
            table = self.experiment
        return self._answer(sweep, names, table, overrides)

    def _question_settings(self) -> dict[str, Any]:
        """Return the settings of the question; those of one engine may stand in its
        table.
        """
        tables = {**self.settings, **self.limit, **self.experiment}
        return {
            name: value
            for name, value in tables.items()
            if name in self.question.settings
        }

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
        same = question_name(self.scenario, what) == question_name(
            self.scenario, self.what
        )
        chosen = {name: table[name] for name in names if name in table}
        settings = {
            **(self._question_settings() if same else {}),
            **chosen,
            **overrides,
            "what": what,
        }
        grid = {
            n: value
            for n, value in dotted_names(self.grid).items()
            if n not in dotted_names(overrides)
        }
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
        return cls(
            **study_fields(with_arrays(read_toml(text, source), Path(folder)), source)
        )

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
        lists = [
            name
            for name, info in type(self.scenario).model_fields.items()
            if part_list(info)
        ]
        parts = {
            n: value
            for n, value in self.grid.items()
            if isinstance(value, BaseModel | Mapping) or n in lists
        }
        scenario = self.scenario.replace(parts) if parts else self.scenario
        refuse_file(scenario)
        for name, value in scenario.leaves:
            if getattr(value, "expression", "") is None:
                which = f"is a Python callable ({value.name!r})"
                raise InputError(
                    f"Field `{name}` {which} and cannot be written to a file."
                )
        tables: dict[str, Any]
        if self.what is None:
            tables = {}
        else:
            tables = {"what": self.what}
        tables["scenario"] = with_infinity(scenario.content())
        for name in _SECTIONS:
            table = dotted_names(
                {
                    key: value
                    for key, value in getattr(self, name).items()
                    if key not in parts
                }
            )
            if table:
                tables[name] = {
                    key: _for_file(key, value) for key, value in table.items()
                }
        said = {
            f"scenario.{leaf}": info.description or ""
            for leaf, _, info in walk_fields(scenario)
        }
        return write_toml(tables, said if comments else None)


# -- Studies in TOML files: tables, dotted names, ranges; what lives in Python only is r
