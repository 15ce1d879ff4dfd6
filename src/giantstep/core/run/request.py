"""What is asked of a scenario: the question, the grid, the settings; checked before
anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.types import Array
from giantstep.core.lab.devices import device_index
from giantstep.core.lab.threads import one_blas_thread
from giantstep.core.scenario.checks import (
    check_flags,
    check_number,
    check_setting,
    check_whole,
)
from giantstep.core.scenario.family import RESERVED, Engine, Question
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import check_field_name, dotted_names
from giantstep.core.scenario.own_classes import refuse_limit
from giantstep.core.scenario.several import Scenarios, by_name, grid_over

LIMIT_SETTINGS = ("theory", "dim", "tolerance", "finite_size", "strict", "seed")
"""Settings of the limit: the table ``[limit]`` of a file."""
EXPERIMENT_SETTINGS = ("dim", "trials", "seed", "device", "keep_trials", "paired")
"""Settings of the experiment: the table ``[experiment]`` of a file."""
_VERB_SETTINGS = (
    "what",
    *LIMIT_SETTINGS,
    *EXPERIMENT_SETTINGS[1:],
    "keep_networks",
    "progress",
    "cpu_limit",
)
_TAKEN_BY = {
    "cpu_limit": "predict",
    "finite_size": "compare",
    **dict.fromkeys(("keep_trials", "keep_networks"), "simulate"),
    **dict.fromkeys(("theory", "tolerance"), "predict and compare"),
    **dict.fromkeys(("trials", "device", "paired"), "simulate and compare"),
}
"""Settings that not every verb takes -> those that do."""


class Request:
    """A checked question: the scenario (or several by name) over its grid, `what`, and
    the settings of the question.
    """

    def __init__(
        self,
        scenario: Scenarios,
        grid: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        *,
        what: str | None,
        dim: Any,
        theory: str | None = None,
        tolerance: float = 1e-10,
        seed: int = 0,
        also: Sequence[str] = (),
    ) -> None:
        # `also` are further keywords of the verb, for the suggestions of a refusal
        first = next(iter(by_name(scenario).values()))
        if not (grid is None or isinstance(grid, Mapping)):
            raise InputError(
                "The grid must be a mapping of fields to values, not a"
                f" {type(grid).__name__}."
            )
        self.what = question_name(first, what)
        self.question = first.questions[self.what]
        fields, self.given = _split(
            first, self.question, {**(grid or {})}, keywords, also
        )
        self.settings = {
            name: setting.default for name, setting in self.question.settings.items()
        }
        for name, value in self.given.items():
            checked = check_setting(name, self.question.settings[name], value)
            self.given[name] = checked
            self.settings[name] = checked
        if dim is None and "dim" not in type(first).model_fields:
            dim = fields.pop("dim", None)
        self.grid = grid_over(scenario, fields, dim=dim)
        self._refuse_taken_dimensions()
        names = list(first.theories)
        if theory is not None and theory not in names:
            raise bad_field(
                "theory", theory, f"one of {', '.join(names)}{nearest(theory, names)}"
            )
        self.theory = theory  # None lets the family choose
        between = "a number above 0 and below 1"
        self.tolerance = check_number(
            "tolerance", tolerance, between, lambda value: 0 < value < 1
        )
        self.seed = check_whole(
            "seed", seed, "a whole number from 0 to 2**64 - 1", 0, 2**64 - 1
        )

    def _refuse_taken_dimensions(self) -> None:
        """Refuse a dimension of the grid that is called like something in the
        result.
        """
        taken = {*RESERVED}
        for variable in self.question.variables:
            taken |= {variable.name, *variable.dims}
        for name in self.grid.dims:
            if name in taken:
                raise InputError(
                    f"A dimension of the grid cannot be called `{name}`: the result has"
                    " that name already."
                )

    def prepare(self, device: str = "cpu", trials: int | None = None) -> dict[str, Any]:
        """Return the settings with what both engines share (the ``x`` of a spectrum, a
        start) chosen, once.
        """
        settings = {
            "theory": self.theory,
            "tolerance": self.tolerance,
            "device": device,
            "seed": self.seed,
            "trials": trials,
            **self.settings,
        }
        with one_blas_thread():
            prepared = [
                batch.scenario.prepare(batch.points, self.what, settings)
                for batch in self.grid.batches()
            ]
        shared = dict(prepared[0])
        if len(prepared) == 1:
            return shared
        for name in shared:
            arrays = [
                own[name] for own in prepared if isinstance(own[name], np.ndarray)
            ]
            arrays = [array for array in arrays if array.size]
            # one list for all points: the widest that a batch chose
            if arrays:
                shared[name] = max(arrays, key=_width)
        return shared

    def refuse_limit(self) -> None:
        """Refuse a limit of scenarios with classes of a user that have no theory of
        their own.
        """
        for batch in self.grid.batches():
            refuse_limit(batch.scenario)

    def for_engine(self, engine: Engine, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that concern one engine; the device of an experiment is
        each trial's own.
        """
        foreign = {"device"}
        if engine == "experiment":
            foreign |= {"theory", "tolerance", "trials"}
        for name, setting in self.question.settings.items():
            if engine not in setting.engines:
                foreign.add(name)
        return {name: value for name, value in settings.items() if name not in foreign}

    def shown(self) -> dict[str, Any]:
        """Return the settings as asked, for the provenance."""
        shown: dict[str, Any] = {}
        if not math.isinf(self.grid.dim):
            shown["dim"] = int(self.grid.dim)
        if self.theory is not None:
            shown["theory"] = self.theory
        return {**shown, **self.given}


def _width(values: Array) -> float:
    """Return how much of the axis a list of numbers covers; one that reaches to both
    infinities covers all of it.
    """
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(abs(np.ptp(values)), nan=np.inf))


@dataclass
class ExperimentSettings:
    """The checked settings of an experiment."""

    trials: int = 5
    seed: int = 0
    device: str = "cpu"
    keep_trials: bool = False
    paired: bool = False
    keep_networks: bool = False

    def __post_init__(self) -> None:
        # 5.0 is 5
        self.trials = check_whole("trials", self.trials, "a whole number at least 1", 1)
        self.seed = check_whole(
            "seed", self.seed, "a whole number from 0 to 2**64 - 1", 0, 2**64 - 1
        )
        device_index(self.device)
        check_flags(
            keep_trials=self.keep_trials,
            paired=self.paired,
            keep_networks=self.keep_networks,
        )

    def shown(self) -> dict[str, Any]:
        """Return the settings for the provenance."""
        return {
            "trials": self.trials,
            "seed": self.seed,
            "device": self.device,
            "paired": self.paired,
        }


def question_name(scenario: Scenario, what: str | None) -> str:
    """Return the name of the question asked, the first one where it is left out."""
    names = list(scenario.questions)
    if what is None or what in names:
        return names[0] if what is None else what
    hint = nearest(what, names)
    for name, question in scenario.questions.items():
        if what in [variable.name for variable in question.variables]:
            hint = f" ({what} is a variable of what={name!r})"
            break
    advice = scenario.elsewhere.get(f"what={what}")
    if advice:
        hint = f" ({advice})"
    raise bad_field("what", what, f"one of {', '.join(names)}{hint}")


def _split(
    scenario: Scenario,
    question: Question,
    grid: Mapping[str, Any],
    keywords: Mapping[str, Any],
    also: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keywords into fields of the scenario and settings of the question; anything
    else is refused.
    """
    names = dotted_names(
        {
            name: value
            for name, value in keywords.items()
            if name not in question.settings
        }
    )
    fields = dotted_names(grid)
    for name in [name for name in names if name in fields]:
        raise InputError(f"Field `{name}` is given twice.")
    fields.update(names)
    keywords_too = [*also, *question.settings, *_VERB_SETTINGS]
    for name in fields:
        keys = name.split(".")
        parents = [".".join(keys[:depth]) for depth in range(1, len(keys))]
        if name in _VERB_SETTINGS and name not in ("dim", *type(scenario).model_fields):
            taken = _TAKEN_BY.get(name, "other verbs")
            raise InputError(
                f"There is no field `{name}` in {type(scenario).__name__}; it is a"
                f" setting of {taken}."
            )
        if name != "dim":  # a part that is replaced itself may hold other fields
            given = next((parent for parent in parents if parent in fields), name)
            check_field_name(scenario, given, keywords_too)
    return fields, {
        name: keywords[name] for name in keywords if name in question.settings
    }
