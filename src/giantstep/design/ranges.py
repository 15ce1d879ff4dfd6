"""What is searched over: ranges of numeric fields, and lists of choices for any field."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.grid import Grid
from giantstep.partlists import given_as
from giantstep.scenario import Scenario, as_number, check_field_name, check_numbers, dotted_names, numbers_meant
from giantstep.types import Floats

MOST_FIELDS = 4
"""Numeric fields searched over together; the start grid grows as a power of their number."""

_SCALES = ("log", "linear")


@dataclass(frozen=True)
class Range:
    """The range of one numeric field, and the coordinate in which it is searched.

    The coordinate is log(field) (`log`, ranges above 0), or field/unit with unit = a quarter of the range.
    """

    name: str
    low: float
    high: float
    log: bool

    @property
    def unit(self) -> float:
        """The length of the linear coordinate's unit."""
        return (self.high - self.low) / 4

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends in the coordinate."""
        low, high = self.coordinate(np.array([self.low, self.high]))
        return float(low), float(high)

    def coordinate(self, values: Floats) -> Floats:
        """Return the coordinate of values of the field."""
        return np.log(values) if self.log else values / self.unit

    def value(self, coordinates: Floats) -> Floats:
        """Return the field at coordinates, never outside the range."""
        low, high = self.ends
        values = np.exp(coordinates) if self.log else coordinates * self.unit
        return np.where(coordinates <= low, self.low, np.where(coordinates >= high, self.high, values))

    def __str__(self) -> str:
        return f"{self.name} in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class Over:
    """Ranges and choices.

    Attributes
    ----------
    ranges : numeric fields by name.
    choices : any field -> the values tried.
    """

    ranges: Mapping[str, Range]
    choices: Mapping[str, tuple[Any, ...]]

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Yield every combination of choices."""
        for values in itertools.product(*self.choices.values()):
            yield dict(zip(self.choices, values))

    def __str__(self) -> str:
        lists = (f"{name} of {', '.join(map(label, values))}" for name, values in self.choices.items())
        return ", ".join([*map(str, self.ranges.values()), *lists])


def label(value: Any) -> str:
    """Return a choice as text."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return format(value, "g") if isinstance(value, float) else value if isinstance(value, str) else repr(value)


def read_over(over: Any, scenario: Scenario) -> Over:
    """Return the ranges (tuples of two numbers) and choices (lists) of a mapping, checked."""
    if not isinstance(over, Mapping) or not over:
        raise bad_field("over", over, 'a mapping such as {"ridge": (1e-6, 1e3)} with at least one field')
    ranges: dict[str, Range] = {}
    choices: dict[str, tuple[Any, ...]] = {}
    for name, value in dotted_names(over).items():
        check_field_name(scenario, name)
        if isinstance(value, tuple) and all(isinstance(end, int | float | np.number) for end in value[:2]):
            ranges[name] = read_range(name, value, scenario)
        elif isinstance(value, list | tuple) and len(value):
            choices[name] = tuple(value)
        else:
            raise bad_field(name, value, "a range (low, high) or a list of choices")
    for name in ranges:
        other = given_as(scenario, name, (), [other for other in (*ranges, *choices) if other != name])
        if other is not None:
            raise InputError(f"Field `{name}` is searched over twice: also as `{other}`.")
    if len(ranges) > MOST_FIELDS:
        raise InputError(f"At most {MOST_FIELDS} numeric fields are searched over together, not {len(ranges)}.")
    for combination in Over(ranges, choices).combinations():
        Grid(scenario.replace(combination) if combination else scenario)
    return Over(ranges, choices)


def read_range(name: str, value: Any, scenario: Scenario) -> Range:
    """Return the range ``(low, high)`` or ``(low, high, "linear")`` of a numeric field, checked."""
    meant = numbers_meant(scenario, name)
    if not meant:
        check_field_name(scenario, name)
        raise bad_field(name, value, "a list of choices: it does not hold one number")
    ends, scale = value[:2], value[2:]
    if len(ends) != 2 or len(scale) > 1 or (scale and scale[0] not in _SCALES):
        raise bad_field(name, value, 'a range (low, high), (low, high, "log") or (low, high, "linear")')
    try:
        low, high = map(as_number, ends)
    except ValueError:
        raise bad_field(name, value, "a range of two numbers") from None
    for _, info in meant.values():
        if info.annotation is int:
            raise bad_field(name, value, "a list of whole numbers: it has no values between them")
        check_numbers(name, info, np.array([low, high]))
    if not low < high < np.inf:
        raise bad_field(name, value, "a range (low, high) with low < high, both finite")
    log = scale[0] == "log" if scale else low > 0
    if log and low <= 0:
        raise bad_field(name, value, "a range above 0 where its scale is log")
    return Range(name, low, high, log)
