"""Constraints between fields: ``step.batch_per_dim + samples_per_dim = 4``, read by the
grammar of targets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.types import Booleans, Floats, Indices
from giantstep.core.maths.gaussian.expression import Expression, parse_expression
from giantstep.core.maths.gaussian.primitives import CALLABLE_NAMES
from giantstep.core.maths.solve import crossing
from giantstep.core.scenario.fields import as_number, bounds_of, check_numbers
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import given_as
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import (
    check_field_name,
    dotted_names,
    numbers_meant,
    one_number,
)

MOST_FIELDS = 4
"""Numeric fields searched over together; the start grid grows as a power of their
number.
"""


@dataclass(frozen=True)
class Range:
    """The range of one numeric field, and the coordinate in which it is searched.

    The coordinate is log(field) (`log`, ranges above 0), or field/unit with unit = a
    quarter of the range.
    """

    name: str
    low: float
    high: float
    log: bool

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends in the coordinate."""
        low, high = self.coordinate(np.array([self.low, self.high])).tolist()
        return low, high

    def coordinate(self, values: Floats) -> Floats:
        """Return the coordinate of values of the field."""
        if self.log:
            return np.log(values)
        return 4 * values / (self.high - self.low)

    def value(self, coordinates: Floats) -> Floats:
        """Return the field at coordinates, never outside the range."""
        low, high = self.ends
        if self.log:
            values = np.exp(coordinates)
        else:
            values = coordinates * (self.high - self.low) / 4
        return np.where(
            coordinates <= low,
            self.low,
            np.where(coordinates >= high, self.high, values),
        )

    def __str__(self) -> str:
        return f"{self.name} in [{self.low:g}, {self.high:g}]"


Choices = Mapping[str, tuple[Any, ...]]
"""The values tried of a field, by name."""


def label(value: Any) -> str:
    """Return a choice as text."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    if isinstance(value, float):
        return format(value, "g")
    if isinstance(value, str):
        return value
    return repr(value)


def read_over(over: Any, scenario: Scenario) -> tuple[Mapping[str, Range], Choices]:
    """Return the ranges (tuples of two numbers) and choices (lists) of a mapping,
    checked.
    """
    if not isinstance(over, Mapping) or not over:
        raise bad_field(
            "over",
            over,
            'a mapping such as {"ridge": (1e-6, 1e3)} with at least one field',
        )
    ranges: dict[str, Range] = {}
    choices: dict[str, tuple[Any, ...]] = {}
    for name, value in dotted_names(over).items():
        check_field_name(scenario, name)
        if isinstance(value, tuple) and all(
            isinstance(end, int | float | np.number) for end in value[:2]
        ):
            ranges[name] = read_range(name, value, scenario)
        elif isinstance(value, list | tuple) and len(value):
            choices[name] = tuple(value)
        else:
            raise bad_field(name, value, "a range (low, high) or a list of choices")
    for name in ranges:
        other = given_as(
            scenario,
            name,
            (),
            [other for other in (*ranges, *choices) if other != name],
        )
        if other is not None:
            raise InputError(
                f"Field `{name}` is searched over twice: also as `{other}`."
            )
    if len(ranges) > MOST_FIELDS:
        raise InputError(
            f"At most {MOST_FIELDS} numeric fields are searched over together, not"
            f" {len(ranges)}."
        )
    for combination in combinations(choices):
        Grid(scenario.replace(combination) if combination else scenario)
    return ranges, choices


def combinations(choices: Choices) -> list[dict[str, Any]]:
    """Return every combination of choices."""
    return [
        dict(zip(choices, values)) for values in itertools.product(*choices.values())
    ]


def read_range(name: str, value: Any, scenario: Scenario) -> Range:
    """Return the range ``(low, high)`` or ``(low, high, "linear")`` of a numeric field,
    checked.
    """
    meant = numbers_meant(scenario, name)
    if not meant:
        check_field_name(scenario, name)
        raise bad_field(name, value, "a list of choices: it does not hold one number")
    ends = value[:2]
    scale = value[2:]
    if (
        len(ends) != 2
        or len(scale) > 1
        or (scale and scale[0] not in ("log", "linear"))
    ):
        raise bad_field(
            name,
            value,
            'a range (low, high), (low, high, "log") or (low, high, "linear")',
        )
    try:
        low, high = map(as_number, ends)
    except ValueError:
        raise bad_field(name, value, "a range of two numbers") from None
    for _, info in meant.values():
        if info.annotation is int:
            raise bad_field(
                name, value, "a list of whole numbers: it has no values between them"
            )
        check_numbers(name, info, np.array([low, high]))
    if not low < high < np.inf:
        raise bad_field(name, value, "a range (low, high) with low < high, both finite")
    log = scale[0] == "log" if scale else low > 0
    if log and low <= 0:
        raise bad_field(name, value, "a range above 0 where its scale is log")
    return Range(name, low, high, log)


_RELATION = re.compile(r"(<=|>=|==|=|<|>)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
_SLACK = 1e-9
"""Relative amount by which an inequality may be missed: the rounding of an equality
solved for a field.
"""
_SCAN = 33
"""Points at which a change of sign of an equality is looked for."""
_DEFAULT_SPAN = 1000.0
"""A field that only the constraint names is searched between so much below and above
its present value.
"""

Columns = Mapping[str, Floats]


@dataclass(frozen=True)
class Relation:
    """``left = right`` or ``left <= right`` between fields; `names` are the variables
    z1, z2, ... of both sides.
    """

    text: str
    names: tuple[str, ...]
    left: Expression
    right: Expression
    is_equality: bool

    def holds(self, fields: Columns) -> Booleans:
        """Tell where it is fulfilled, to rounding; where a side is no number it is
        not.
        """
        left, right = self.sides(fields)
        slack = _SLACK * (np.abs(left) + np.abs(right))
        with np.errstate(invalid="ignore"):
            if self.is_equality:
                return np.abs(left - right) <= slack
            return left <= right + slack

    def sides(self, fields: Columns) -> tuple[Floats, Floats]:
        """Return both sides."""
        values = {
            f"z{number}": fields[name]
            for number, name in enumerate(self.names, start=1)
        }
        with np.errstate(all="ignore"):
            return self.left.evaluate(values), self.right.evaluate(values)


def read_constraints(texts: Sequence[str], scenario: Scenario) -> list[Relation]:
    """Return the relations of some texts; ``1 <= x <= 3`` is two of them."""
    relations = []
    for text in texts:
        if not isinstance(text, str):
            raise InputError(
                "A constraint must be a text such as 'samples_per_dim <= 4', but is"
                f" {text!r}."
            )
        parts = _RELATION.split(text)
        if len(parts) < 3:
            allowed = "write one of =, <=, >= between two expressions"
            raise InputError(f"The constraint {text!r} has no relation; {allowed}.")
        names = _field_names(text, scenario)
        sides = [_side(text, side, names) for side in parts[::2]]
        for left, sign, right in zip(sides, parts[1::2], sides[1:]):
            pair = (right, left) if sign in (">", ">=") else (left, right)
            relations.append(Relation(text, names, *pair, sign in ("=", "==")))
    return relations


def _field_names(text: str, scenario: Scenario) -> tuple[str, ...]:
    names = dict.fromkeys(
        name for name in _NAME.findall(text) if name not in (*CALLABLE_NAMES, "pi")
    )
    if not names:
        raise InputError(f"The constraint {text!r} names no field of the scenario.")
    for name in names:
        if not numbers_meant(scenario, name):
            why = "does not hold a number here"
            try:
                check_field_name(scenario, name)
            except InputError:
                why = f"is no field{nearest(name, list(scenario.numeric_fields()))}"
            raise InputError(f"The constraint {text!r} names `{name}`, which {why}.")
    return tuple(names)


def _side(text: str, side: str, names: Sequence[str]) -> Expression:
    numbered = {name: f"z{number}" for number, name in enumerate(names, start=1)}
    try:
        return parse_expression(
            _NAME.sub(lambda match: numbered.get(match[0], match[0]), side)
        )
    except InputError as error:
        reason = str(error).partition("cannot be used: ")[2] or str(error)
        for name, variable in numbered.items():
            reason = re.sub(rf"\b{variable}\b", name, reason)
        raise InputError(f"The constraint {text!r} cannot be used: {reason}") from None


def free_ranges(
    ranges: Mapping[str, Range],
    relations: Sequence[Relation],
    scenario: Scenario,
    varying: Sequence[str],
) -> dict[str, Range]:
    """Return the ranges with those of fields that an equality leaves open.

    An equality in which at most one field is searched over frees the others that it
    names, unless the grid varies them: between a thousandth and a thousand times what
    the scenario has.
    """
    wider = dict(ranges)
    for relation in relations:
        if (
            not relation.is_equality
            or sum(name in wider for name in relation.names) >= 2
        ):
            continue
        for name in relation.names:
            if name not in wider and name not in varying:
                wider[name] = default_range(
                    name, scenario, f"the constraint {relation.text!r} names it, and"
                )
    return wider


def default_range(name: str, scenario: Scenario, why: str) -> Range:
    """Return the range from a thousandth to a thousand times what a field is, within
    its bounds.
    """
    value, info = one_number(scenario, name)
    if not 0 < value < np.inf or info.annotation is int:
        raise InputError(f"Give a range for `{name}`: {why} it is {value:g} here.")
    highest = min(
        [bound for kind, bound in bounds_of(info).items() if kind in ("lt", "le")],
        default=np.inf,
    )
    return read_range(
        name,
        (value / _DEFAULT_SPAN, min(value * _DEFAULT_SPAN, highest * (1 - 1e-9))),
        scenario,
    )


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched over once equalities are used up: free fields, and fields that
    equalities then fix.

    `ranges` has all of them, `fixed` the equality that fixes each of the latter, in the
    order in which they follow from the free ones, `relations` all constraints, which a
    point must fulfil.
    """

    ranges: Mapping[str, Range]
    fixed: Mapping[str, Relation]
    relations: Sequence[Relation]

    @property
    def free(self) -> list[Range]:
        """The ranges of the free fields."""
        return [span for name, span in self.ranges.items() if name not in self.fixed]

    def complete(
        self, fields: Columns, length: int
    ) -> tuple[dict[str, Floats], Booleans]:
        """Return all fields, given the free ones and the constants, and where the
        constraints are fulfilled.
        """
        columns = dict(fields)
        feasible = np.ones(length, dtype=bool)
        for name, relation in self.fixed.items():
            columns[name], solved = _solve(relation, self.ranges[name], columns, length)
            feasible &= solved
        for relation in self.relations:
            feasible &= relation.holds(columns)
        return columns, feasible

    def moved(self, name: str) -> Search | None:
        """Return the search in which `name` is free, where another field can follow
        from the equality instead.
        """
        if name not in self.fixed:
            return self
        fixed = _choose_fixed(self.ranges, list(self.fixed.values()), keep=name)
        if fixed is None:
            return None
        return Search(self.ranges, fixed, self.relations)


def searches(
    ranges: Mapping[str, Range], relations: Sequence[Relation]
) -> list[Search]:
    """Return the searches whose best point is the best of all: one for each set of
    inequalities held as equalities.
    """
    equalities = [relation for relation in relations if relation.is_equality]
    others = [relation for relation in relations if not relation.is_equality]
    found = []
    for count in range(len(others) + 1):
        for held in itertools.combinations(others, count):
            fixed = _choose_fixed(ranges, [*equalities, *held])
            if fixed is None and not count:
                texts = " and ".join(repr(one.text) for one in equalities)
                raise InputError(
                    f"The equalities {texts} must each fix a field searched over that"
                    " no earlier one uses."
                )
            if fixed is not None:
                found.append(Search(ranges, fixed, relations))
    return found


def _choose_fixed(
    ranges: Mapping[str, Range], equalities: Sequence[Relation], keep: str = ""
) -> dict[str, Relation] | None:
    """Return a field for each equality that it fixes and no earlier one names; None
    where there is none.
    """
    fixed: dict[str, Relation] = {}
    for number, relation in enumerate(equalities):
        earlier = {name for other in equalities[:number] for name in other.names}
        able = [
            name
            for name in ranges
            if name in relation.names and name not in earlier and name != keep
        ]
        if not able:
            return None
        fixed[able[-1]] = relation
    return fixed


def _solve(
    relation: Relation, span: Range, columns: Columns, length: int
) -> tuple[Floats, Booleans]:
    """Return where an equality holds along the range of a field, given the others, and
    whether it does at all.
    """
    low, high = span.ends
    scan = np.linspace(low, high, _SCAN)

    def residual(coordinate: Floats, index: Indices) -> Floats:
        others = {name: column[index] for name, column in columns.items()}
        return np.subtract(
            *relation.sides({**others, span.name: span.value(coordinate)})
        )

    everywhere = np.arange(length)
    seen = np.stack([residual(np.full(length, t), everywhere) for t in scan], axis=1)
    change = (seen[:, 1:] > 0) != (seen[:, :-1] > 0)
    change &= np.isfinite(seen[:, 1:]) & np.isfinite(seen[:, :-1])
    solved = change.any(axis=1)
    values = np.full(length, span.low)
    index = np.flatnonzero(solved)
    if len(index):
        left = np.argmax(change[index], axis=1)
        turn = np.where(seen[index, left] > 0, 1.0, -1.0)
        found = crossing(
            lambda t, part: turn[part] * residual(t, index[part]),
            scan[left],
            scan[left + 1],
        )
        values[index] = span.value(found)
    return values, solved
