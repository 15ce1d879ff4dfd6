"""Names of results by content: the scenario at a point, and all settings that its numbers depend on.

Not in the name: the backend, the grid, the order, the number of trials or workers.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.family import Engine
from giantstep.jsondata import json_data, json_number
from giantstep.partlists import keys_of
from giantstep.scenario import Scenario
from giantstep.types import Points


@dataclass(frozen=True, eq=False)
class Ask:
    """What is asked of every point: all that its numbers depend on beside the point itself.

    The settings are those that matter, with seed, pairing and kind of device of an experiment.
    """

    family: str
    what: str
    source: Engine
    formula_version: int
    settings: Mapping[str, Any]

    @cached_property
    def content(self) -> str:
        """Everything as JSON text, every number in full."""
        return _text([self.family, self.what, self.source, self.formula_version, json_data(self.settings)])

    @classmethod
    def read(cls, content: str) -> Ask:
        """Return what was asked, from its content."""
        return cls(*json.loads(content))


@dataclass(frozen=True)
class Point:
    """One point of an `Ask`: its scenario as JSON text and its dimension (infinite for a bare limit)."""

    digest: str
    scenario: str
    dim: float


def name_points(ask: Ask, scenario: Scenario, points: Points) -> list[Point]:
    """Return every point with its name, from the content its scenario would have."""
    content = scenario.content()
    varying: list[tuple[list[Any], float, bool, list[float]]] = [
        (keys_of(name), value, info.annotation is int, points[name].tolist())
        for name, (value, info) in scenario.numeric_fields().items()
        if np.any(points[name] != value)
    ]
    named = []
    changed = copy.deepcopy(content)
    for index, dim in enumerate(points["dim"].tolist()):
        for (*parents, last), value, whole, numbers in varying:
            inner, original = changed, content
            for parent in parents:
                inner, original = inner[parent], original[parent]
            number = float(numbers[index])
            if number != value:
                inner[last] = int(number) if whole else json_number(number)
            elif last in original:
                inner[last] = original[last]
            else:
                inner.pop(last, None)  # content leaves out what is as it was before the field existed
        text = _text(changed)
        named.append(Point(digest_of(ask, text, float(dim)), text, float(dim)))
    return named


def digest_of(ask: Ask, scenario: str, dim: float) -> str:
    """Return the name of a point."""
    return hashlib.sha256(f"{ask.content} {scenario} {dim!r}".encode()).hexdigest()


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)
