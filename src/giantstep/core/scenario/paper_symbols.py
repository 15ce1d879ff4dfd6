"""Scenarios from a paper's symbols: what each of our fields is in them, said once for
every paper of a family.

A paper is a plain function: its arguments are the paper's symbols, typed and with
their meaning, and it returns our fields. Called with numbers it gives the values of a
scenario (`Scenario.from_paper`). Called with symbols that write themselves down
(`Formula`) it gives the text which the page, `giantstep describe` and docs/notation.md
show.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import numpy as np

from giantstep.core.base.display import aligned, shown_value
from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.scenario.lists import keys_of

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Scenario

    AnyScenario = TypeVar("AnyScenario", bound=Scenario)

# How tightly an operation holds its operands together: a looser operand of a tighter
# operation is written in brackets.
_PRODUCT = 1
_POWER = 2
_SINGLE = 3


# -- Formulas --------------------------------------------------------------------------


@dataclass(frozen=True)
class Formula:
    """A symbol of a paper, or what is computed from symbols: it writes itself down.

    >>> alpha, beta = Formula.of_symbol("alpha"), Formula.of_symbol("beta")
    >>> print(1 / (alpha * beta))
    1/(alpha*beta)
    """

    text: str
    symbols: tuple[str, ...]
    """What it is computed from, in the order of the text."""
    binding: int = _SINGLE
    """How tightly its outermost operation binds."""

    # numpy leaves an array times a formula to the formula
    __array_ufunc__ = None

    @classmethod
    def of_symbol(cls, name: str) -> Formula:
        """Return a symbol alone."""
        return cls(name, (name,))

    @property
    def is_symbol(self) -> bool:
        """Whether it is a symbol alone."""
        return self.symbols == (self.text,)

    def __str__(self) -> str:
        return self.text

    def __mul__(self, other: Any) -> Formula:
        return _operation(self, "*", other)

    def __rmul__(self, other: Any) -> Formula:
        return _operation(other, "*", self)

    def __truediv__(self, other: Any) -> Formula:
        return _operation(self, "/", other)

    def __rtruediv__(self, other: Any) -> Formula:
        return _operation(other, "/", self)

    def __pow__(self, other: Any) -> Formula:
        return _operation(self, "**", other)

    def __rpow__(self, other: Any) -> Formula:
        return _operation(other, "**", self)

    def __neg__(self) -> Formula:
        # in its brackets it can stand anywhere, as the exponent of a power too
        return Formula(f"(-{self._inside(_PRODUCT)})", self.symbols)

    def inside_call(self, function: str) -> Formula:
        """Return a function of it."""
        return Formula(f"{function}({self.text})", self.symbols)

    def _inside(self, binding: int) -> str:
        """Return its text as an operand of something that binds so tightly."""
        if self.binding < binding:
            return f"({self.text})"
        return self.text


def _operation(left: Any, sign: str, right: Any) -> Formula:
    """Return an operation of two operands, of which one at least is a formula."""
    first = _as_formula(left)
    second = _as_formula(right)
    if sign == "**":
        # a**b**c is a**(b**c) to Python: on the left another power needs its brackets
        binding = _POWER
        before = first._inside(_POWER + 1)
        after = second._inside(_POWER)
    else:
        # a/b/c is (a/b)/c: on the right another product needs its brackets
        binding = _PRODUCT
        before = first._inside(_PRODUCT)
        after = second._inside(_PRODUCT + 1)
    symbols = tuple(dict.fromkeys([*first.symbols, *second.symbols]))
    return Formula(f"{before}{sign}{after}", symbols, binding)


def _as_formula(value: Any) -> Formula:
    if isinstance(value, Formula):
        return value
    return Formula(str(value), ())


def sqrt(value: Any) -> Any:
    """Return the square root of a number, or of a formula."""
    if isinstance(value, Formula):
        return value.inside_call("sqrt")
    return np.sqrt(value)


def nearest_integer(value: Any) -> Any:
    """Return the integer next to a number, or that of a formula."""
    if isinstance(value, Formula):
        return value.inside_call("round")
    return int(np.round(value))


class Either(tuple[Any, ...]):
    """Several ways in which a paper says one of our fields."""

    __slots__ = ()


def either(*ways: Any) -> Any:
    """Return several ways to say one of our fields; the symbols that are given choose
    among them.
    """
    return Either(ways)


def _ways(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Either):
        return tuple(value)
    return (value,)


# -- Papers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Paper:
    """The parameters of one paper: what its symbols mean, and our fields in them.

    `fields_of` is the paper. Its arguments are the symbols, annotated with their
    meaning (``lambda_`` is lambda, which Python keeps for itself); a symbol that need
    not be given has a default. It returns our fields, of which a paper that says one
    in several ways gives `either`.

    The field of a part with a kind is called ``step(maximal).rate``, in a list of
    parts ``steps.0(maximal).rate``: giving its symbols chooses that kind.
    """

    fields_of: Callable[..., Mapping[str, Any]]
    # our field -> what the paper always has; parts as tables
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # ours -> what the paper writes, where not the formula
    shown: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def symbols(self) -> dict[str, str]:
        """Symbol -> what the paper means by it."""
        hints = get_type_hints(self.fields_of, include_extras=True)
        return {
            _plain(name): hints[name].__metadata__[0]
            for name in inspect.signature(self.fields_of).parameters
        }

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Symbol -> its value where it is not given."""
        parameters = inspect.signature(self.fields_of).parameters
        return {
            _plain(name): parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not parameter.empty
        }

    @cached_property
    def fields(self) -> dict[str, tuple[Formula, ...]]:
        """Our field -> the formulas that say it."""
        written = self._call({})
        return {name: _ways(value) for name, value in written.items()}

    def formulas(self, name: str) -> tuple[Formula, ...]:
        """Return the ways to say one of our fields."""
        return self.fields[name]

    def value(self, name: str, formula: Formula, given: Mapping[str, Any]) -> Any:
        """Return one of our fields by one of its formulas; a symbol alone stays what it
        is, a function or a list.
        """
        if formula.is_symbol:
            return given[formula.text]
        numbers = {symbol: _number(symbol, given[symbol]) for symbol in formula.symbols}
        # The other symbols stay symbols: nothing else is computed, and so nothing else
        # can fail.
        computed = self._call(numbers)
        way = self.fields[name].index(formula)
        value = _ways(computed[name])[way]
        if isinstance(value, np.ndarray):
            return value.tolist()
        return value

    def notation(self) -> dict[str, str]:
        """Return our field or variable -> what the paper writes for it, as pages show
        it.
        """
        written = {}
        for name, ways in self.fields.items():
            text = ways[0].text.replace("**", "^")
            written[_field(name)] = text.replace("*", " ")
        return {**written, **self.shown}

    def _call(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return our fields of some values; a symbol without one stays a symbol, and so
        does what is computed from it.
        """
        arguments = {}
        for name in inspect.signature(self.fields_of).parameters:
            symbol = _plain(name)
            if symbol in values:
                arguments[name] = values[symbol]
            else:
                arguments[name] = Formula.of_symbol(symbol)
        return self.fields_of(**arguments)


def notation_of(papers: Mapping[str, Paper]) -> dict[str, dict[str, str]]:
    """Return BibTeX key -> our field or variable -> what that paper writes:
    `Scenario.notation`.
    """
    return {key: paper.notation() for key, paper in papers.items()}


def _plain(name: str) -> str:
    """Return the symbol of an argument: ``lambda_`` is lambda."""
    return name.rstrip("_")


def _number(symbol: str, value: Any) -> Any:
    if (
        isinstance(value, str | bool)
        or np.asarray(value).dtype.kind not in "iuf"
        or not np.isfinite(value).all()
    ):
        raise bad_field(symbol, value, "a finite number")
    if np.ndim(value):
        return np.asarray(value, dtype=float)
    return float(value)


# -- A scenario from symbols -----------------------------------------------------------


def scenario_from_paper(
    cls: type[AnyScenario], key: str, given: Mapping[str, Any]
) -> tuple[AnyScenario, str]:
    """Return the scenario of a paper's symbols, and both sets of parameters as text."""
    papers = cls.paper_symbols
    if key not in papers:
        known = ", ".join(papers) or "none"
        raise bad_field(
            "paper",
            key,
            f"one of the papers {cls.__name__} knows:"
            f" {known}{nearest(key, list(papers))}",
        )
    paper = papers[key]
    # a place inside one of our fields: ``steps__0__rate`` is steps.0.rate
    by_name = {_plain(name).replace("__", "."): value for name, value in given.items()}
    symbols = {name: value for name, value in by_name.items() if name in paper.symbols}
    ours = {name: value for name, value in by_name.items() if name not in paper.symbols}
    _check_names(cls, key, paper, ours)
    formulas = _chosen(paper, symbols)
    _check_used(key, paper, symbols, formulas)
    known_symbols = {**paper.defaults, **symbols}
    try:
        values = {
            name: paper.value(name, formula, known_symbols)
            for name, formula in formulas.items()
        }
    except (ZeroDivisionError, OverflowError):
        raise InputError(
            f"The symbols of {key} cannot be turned into ours: {_listed(symbols)}."
        ) from None
    scenario = _build(cls, key, paper, {**values, **ours})
    return scenario, _both_as_text(key, paper, symbols, formulas, values)


def _both_as_text(
    key: str,
    paper: Paper,
    symbols: Mapping[str, Any],
    formulas: Mapping[str, Formula],
    values: Mapping[str, Any],
) -> str:
    """Return the symbols of a paper and our fields of them, one below the other."""
    theirs = aligned(
        (name, "=", shown_value(value), paper.symbols[name])
        for name, value in symbols.items()
    )
    lines = []
    for name, formula in formulas.items():
        origin = ""
        if formula.text != name:
            origin = f"= {formula}"
        lines.append((_field(name), "=", shown_value(values[name]), origin))
    return "\n".join([f"{key}:", *theirs, "giantstep:", *aligned(lines)])


def _check_names(
    cls: type[Scenario], key: str, paper: Paper, ours: Mapping[str, Any]
) -> None:
    """Refuse a name that is neither a symbol of the paper nor a field of ours for which
    it has no symbol.
    """
    # the outermost of our fields -> the declaration that gives it by symbols
    declared = {_field(name).partition(".")[0]: name for name in paper.fields}
    for name in ours:
        root = name.partition(".")[0]
        # a name with a place in it is about one entry of a list, which has others
        if root in cls.model_fields and (root not in declared or "." in name):
            continue
        if root in declared:
            formula = paper.formulas(declared[root])[0]
            raise InputError(
                f"In {key} the field `{name}` is {formula}; give"
                f" {', '.join(formula.symbols)}."
            )
        free = [field for field in cls.model_fields if field not in declared]
        guess = nearest(name, [*paper.symbols, *free])
        raise InputError(
            f"There is no symbol `{name}` in {key}{guess}; it has"
            f" {', '.join(paper.symbols)}."
        )


def _chosen(paper: Paper, symbols: Mapping[str, Any]) -> dict[str, Formula]:
    """Return the formula of every field that the symbols give; of several kinds of a
    part the one that uses most.
    """
    given = set(symbols)
    possible = _possible(paper, given)
    kind = _kind_given(paper, possible, given)
    return {
        name: formula for name, formula in possible.items() if _kind(name) in ("", kind)
    }


def _possible(paper: Paper, given: set[str]) -> dict[str, Formula]:
    """Return the formula of every field whose symbols are all known; of several the one
    that uses most of those given.
    """
    known = {*given, *paper.defaults}
    best = {}
    for name, ways in paper.fields.items():
        possible = [formula for formula in ways if known.issuperset(formula.symbols)]
        if possible:
            best[name] = max(
                possible, key=lambda formula: len(given.intersection(formula.symbols))
            )
    return best


def _kind_given(paper: Paper, possible: Mapping[str, Formula], given: set[str]) -> str:
    """Return the kind of a part that most symbols speak of; an empty text where none
    does.
    """
    # a symbol that gives a field outside the part says nothing about its kind
    elsewhere = {
        symbol
        for name, formula in possible.items()
        if not _kind(name)
        for symbol in formula.symbols
    }
    # kind -> the symbols given that speak of it
    speaking: dict[str, set[str]] = {}
    for name, formula in possible.items():
        kind = _kind(name)
        if kind:
            symbols = given.intersection(formula.symbols) - elsewhere
            speaking.setdefault(kind, set()).update(symbols)
    complete = [
        kind
        for kind in speaking
        if all(name in possible for name in paper.fields if _kind(name) == kind)
    ]
    candidates = [kind for kind in complete or speaking if speaking[kind]]
    return max(candidates, key=lambda kind: len(speaking[kind]), default="")


def _check_used(
    key: str,
    paper: Paper,
    symbols: Mapping[str, Any],
    formulas: Mapping[str, Formula],
) -> None:
    """Refuse a symbol that no formula took: one that lacks a companion, or belongs to
    another kind of a part.
    """
    used = {symbol for formula in formulas.values() for symbol in formula.symbols}
    known = {*symbols, *paper.defaults}
    for name in symbols:
        if name in used:
            continue
        possible = [
            (_field(ours), formula)
            for ours, ways in paper.fields.items()
            for formula in ways
            if name in formula.symbols
        ]
        for ours, formula in possible:
            for symbol in formula.symbols:
                if symbol not in known:
                    about = f"({paper.symbols[symbol]}): {ours} = {formula}"
                    raise InputError(f"Symbol `{symbol}` of {key} is missing {about}.")
        ours, formula = possible[0]
        raise InputError(
            f"Symbol `{name}` of {key} ({ours} = {formula}) does not go with"
            f" {_listed(symbols)}."
        )


def _build(
    cls: type[AnyScenario], key: str, paper: Paper, values: Mapping[str, Any]
) -> AnyScenario:
    """Return the scenario of our fields; where one is missing, say which symbol would
    give it.
    """
    content: dict[str, Any] = copy.deepcopy(dict(paper.fixed))
    for name, value in values.items():
        table, last = _place_in(content, _field(name))
        table[last] = value
        if _kind(name):
            table["kind"] = _kind(name)
    try:
        return cls(**content)
    except InputError as error:
        missing = _missing_field(paper, values, error.field)
        if missing is None:
            raise
        formula = paper.formulas(missing)[0]
        needed = ", ".join(
            f"`{symbol}` ({paper.symbols[symbol]})" for symbol in formula.symbols
        )
        raise InputError(
            f"{key} needs {needed}: {_field(missing)} = {formula}."
        ) from None


def _place_in(content: dict[str, Any], name: str) -> tuple[Any, Any]:
    """Return the innermost table or list of a dotted field, made where it is not there,
    and the field's key in it.
    """
    *parents, last = keys_of(name)
    table: Any = content
    for parent, inner in zip(parents, [*parents[1:], last]):
        if isinstance(table, list):
            table.extend({} for _ in range(len(table), int(parent) + 1))
        elif parent not in table:
            if isinstance(inner, int):
                table[parent] = []
            else:
                table[parent] = {}
        table = table[parent]
    return table, last


def _missing_field(
    paper: Paper, values: Mapping[str, Any], refused: str | None
) -> str | None:
    """Return a field of the paper without a value that is the refused one, or within
    it.
    """
    for name in paper.fields:
        if name not in values and f"{_field(name)}.".startswith(f"{refused}."):
            return name
    return None


def _listed(symbols: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in symbols.items())


def _field(name: str) -> str:
    """Return our field of a declaration: ``step(maximal).rate`` is ``step.rate``."""
    before, bracket, rest = name.partition("(")
    if not bracket:
        return name
    return before + rest.partition(")")[2]


def _kind(name: str) -> str:
    return name.partition("(")[2].partition(")")[0]
