"""Scenarios from a paper's symbols: what each of our fields is in them, said once for
every paper of a family.

`Scenario.from_paper` reads the formulas, the page and `giantstep describe` show them,
docs/notation.md lists them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from giantstep.core.base.display import aligned, shown_value
from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.scenario.lists import keys_of

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Scenario

    AnyScenario = TypeVar("AnyScenario", bound=Scenario)

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "round": lambda value: int(np.round(value)),
}
_NAME = re.compile(r"(?<![\w.])[A-Za-z]\w*")


@dataclass(frozen=True)
class Paper:
    """The parameters of one paper: what its symbols mean, and our fields as formulas in
    them.

    The field of a part with a kind is written ``step(maximal).rate``, in a list of
    parts ``steps.0(maximal).rate``: giving its symbols chooses that kind.
    """

    symbols: Mapping[str, str]  # symbol -> what the paper means by it
    # our field -> a formula, or several ways to say it
    fields: Mapping[str, str | tuple[str, ...]]
    # symbol -> its value where it is not given
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # our field -> what the paper always has; parts as tables
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # ours -> what the paper writes, where not the formula
    shown: Mapping[str, str] = field(default_factory=dict)

    def formulas(self, name: str) -> tuple[str, ...]:
        """Return the ways to say one of our fields."""
        said = self.fields[name]
        return (said,) if isinstance(said, str) else said

    def notation(self) -> dict[str, str]:
        """Return our field or variable -> what the paper writes for it, as pages show
        it.
        """
        written = {
            _field(name): self.formulas(name)[0].replace("**", "^").replace("*", " ")
            for name in self.fields
        }
        return {**written, **self.shown}


def notation_of(papers: Mapping[str, Paper]) -> dict[str, dict[str, str]]:
    """Return BibTeX key -> our field or variable -> what that paper writes:
    `Scenario.notation`.
    """
    return {key: paper.notation() for key, paper in papers.items()}


def symbols_in(formula: str) -> list[str]:
    """Return the symbols of a formula, in their order."""
    return [
        name for name in dict.fromkeys(_NAME.findall(formula)) if name not in _FUNCTIONS
    ]


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a formula, which a family wrote; a symbol alone stays what it
    is, a function or a list.
    """
    if formula.isidentifier():
        return values[formula]
    # Python keeps the word lambda for itself
    numbers = {
        f"{symbol}_": _number(symbol, values[symbol]) for symbol in symbols_in(formula)
    }
    source = _NAME.sub(
        lambda name: f"{name[0]}_" if f"{name[0]}_" in numbers else name[0], formula
    )
    value = eval(source, {"__builtins__": {}, **_FUNCTIONS}, numbers)
    return value.tolist() if isinstance(value, np.ndarray) else value


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
    # ``lambda_`` is lambda, which Python keeps for itself
    plain = {
        name.rstrip("_").replace("__", "."): value for name, value in given.items()
    }
    symbols = {name: value for name, value in plain.items() if name in paper.symbols}
    ours = {name: value for name, value in plain.items() if name not in paper.symbols}
    _check_names(cls, key, paper, ours)
    formulas = _chosen(paper, symbols)
    _check_used(key, paper, symbols, formulas)
    values = {**paper.defaults, **symbols}
    try:
        found = {name: evaluate(formula, values) for name, formula in formulas.items()}
    except (ZeroDivisionError, OverflowError):
        raise InputError(
            f"The symbols of {key} cannot be turned into ours: {_said(symbols)}."
        ) from None
    scenario = _build(cls, key, paper, {**found, **ours})
    text = aligned(
        (name, "=", shown_value(value), paper.symbols[name])
        for name, value in symbols.items()
    )
    said = {
        name: f"= {formula}" if formula != name else ""
        for name, formula in formulas.items()
    }
    text_of_ours = aligned(
        (_field(name), "=", shown_value(found[name]), said[name]) for name in found
    )
    return scenario, "\n".join([f"{key}:", *text, "giantstep:", *text_of_ours])


def _check_names(
    cls: type[Scenario], key: str, paper: Paper, ours: Mapping[str, Any]
) -> None:
    """Refuse a name that is neither a symbol of the paper nor a field of ours for which
    it has no symbol.
    """
    said = {_field(name).partition(".")[0]: name for name in paper.fields}
    for name in ours:
        root = name.partition(".")[0]
        if root in cls.model_fields and (root not in said or "." in name):
            continue
        if root in said:
            formula = paper.formulas(said[root])[0]
            raise InputError(
                f"In {key} the field `{name}` is {formula}; give"
                f" {', '.join(symbols_in(formula))}."
            )
        guess = nearest(
            name,
            [
                *paper.symbols,
                *(field for field in cls.model_fields if field not in said),
            ],
        )
        raise InputError(
            f"There is no symbol `{name}` in {key}{guess}; it has"
            f" {', '.join(paper.symbols)}."
        )


def _chosen(paper: Paper, symbols: Mapping[str, Any]) -> dict[str, str]:
    """Return the formula of every field that the symbols give; of several kinds of a
    part the one that uses most.
    """
    there = {*symbols, *paper.defaults}
    given = set(symbols)
    found: dict[str, str] = {}
    for name in paper.fields:
        possible = [
            formula
            for formula in paper.formulas(name)
            if set(symbols_in(formula)) <= there
        ]
        if possible:
            found[name] = max(
                possible,
                key=lambda formula: len(given.intersection(symbols_in(formula))),
            )
    plain = {
        symbol
        for name, formula in found.items()
        if not _kind(name)
        for symbol in symbols_in(formula)
    }
    kinds: dict[str, set[str]] = {_kind(name): set() for name in found if _kind(name)}
    for name in [name for name in found if _kind(name)]:
        kinds[_kind(name)] |= given.intersection(symbols_in(found[name])) - plain
    complete = [
        kind
        for kind in kinds
        if all(name in found for name in paper.fields if _kind(name) == kind)
    ]
    best = max(
        [kind for kind in complete or kinds if kinds[kind]],
        key=lambda kind: len(kinds[kind]),
        default="",
    )
    return {
        name: formula for name, formula in found.items() if _kind(name) in ("", best)
    }


def _check_used(
    key: str, paper: Paper, symbols: Mapping[str, Any], formulas: Mapping[str, str]
) -> None:
    """Refuse a symbol that no formula took: one that lacks a companion, or belongs to
    another kind of a part.
    """
    used = {symbol for formula in formulas.values() for symbol in symbols_in(formula)}
    for name in [name for name in symbols if name not in used]:
        possible = [
            (_field(ours), f)
            for ours in paper.fields
            for f in paper.formulas(ours)
            if name in symbols_in(f)
        ]
        for ours, formula in possible:
            for lacking in [
                symbol
                for symbol in symbols_in(formula)
                if symbol not in {*symbols, *paper.defaults}
            ]:
                about = f"({paper.symbols[lacking]}): {ours} = {formula}"
                raise InputError(f"Symbol `{lacking}` of {key} is missing {about}.")
        ours, formula = possible[0]
        raise InputError(
            f"Symbol `{name}` of {key} ({ours} = {formula}) does not go with"
            f" {_said(symbols)}."
        )


def _build(
    cls: type[AnyScenario], key: str, paper: Paper, found: Mapping[str, Any]
) -> AnyScenario:
    content: dict[str, Any] = copy.deepcopy(dict(paper.fixed))
    for name, value in found.items():
        *parents, last = keys_of(_field(name))
        table: Any = content
        for parent, inner in zip(parents, [*parents[1:], last]):
            if isinstance(table, list):
                table.extend({} for _ in range(len(table), int(parent) + 1))
            elif parent not in table:
                table[parent] = [] if isinstance(inner, int) else {}
            table = table[parent]
        table[last] = value
        if _kind(name):
            table["kind"] = _kind(name)
    try:
        return cls(**content)
    except InputError as error:
        unsaid = [name for name in paper.fields if name not in found]
        missing = next(
            (
                name
                for name in unsaid
                if f"{_field(name)}.".startswith(f"{error.field}.")
            ),
            None,
        )
        if missing is None:
            raise
        formula = paper.formulas(missing)[0]
        needed = ", ".join(
            f"`{symbol}` ({paper.symbols[symbol]})" for symbol in symbols_in(formula)
        )
        raise InputError(
            f"{key} needs {needed}: {_field(missing)} = {formula}."
        ) from None


def _said(symbols: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in symbols.items())


def _field(name: str) -> str:
    """Return our field of a declaration: ``step(maximal).rate`` is ``step.rate``."""
    before, bracket, rest = name.partition("(")
    return before + rest.partition(")")[2] if bracket else name


def _kind(name: str) -> str:
    return name.partition("(")[2].partition(")")[0]
