"""The parameters of a figure in a line of symbols, read off its studies in full
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from giantstep.core.base.errors import InputError
from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.scenario.arrays import FrozenArray
from giantstep.papers.recipe import Recipe, Size

if TYPE_CHECKING:
    from giantstep.core.run.study import Study

MOST = 5
"""Values of a parameter that are written out; of more the first and the last are."""


def parameters_text(recipe: Recipe) -> str:
    """Return what the studies of a figure vary and fix, without what they leave at its
    default, and the remark.
    """
    try:
        studies = [asked.study for asked in recipe.studies(Size()).values()]
    except InputError as problem:  # a dataset that is not installed
        return str(problem)
    entries = [f"{symbol} = {text}" for symbol, text in _fields(studies)]
    for name, phrase in (
        ("dim", "d = {}"),
        ("trials", "{} trials"),
        ("seed", "seed {}"),
    ):
        values = [
            study.experiment[name] for study in studies if name in study.experiment
        ]
        text = phrase.format(_listed(sorted(values)))
        if values and text not in entries:
            entries.append(text)
    return f"{'; '.join(entries)}. {recipe.remark}".strip()


def _fields(studies: Sequence[Study]) -> Iterator[tuple[str, str]]:
    """Yield symbol and values of every field that varies, or is not at its default.

    The values of few different scenarios stand in the order of the scenarios, so that
    they belong together.
    """
    scenarios: dict[str, dict[str, tuple[Any, bool]]] = {}
    grids: dict[str, list[Any]] = {}
    for study in studies:
        leaves = {
            symbol: (name, value, given)
            for name, symbol, value, given in _leaves(study.scenario)
        }
        for symbol, (name, _, _) in leaves.items():
            if name in study.grid:
                grids.setdefault(symbol, []).extend(
                    np.ravel(np.asarray(study.grid[name], dtype=object)).tolist()
                )
        varied = tuple(
            name
            for name in study.grid
            if "." in name or name in type(study.scenario).model_fields
        )
        scenarios.setdefault(
            study.scenario.digest(without=varied),
            {s: leaf[1:] for s, leaf in leaves.items()},
        )
    for symbol in dict.fromkeys(
        symbol for leaves in scenarios.values() for symbol in leaves
    ):
        if symbol in grids:
            numbers = all(isinstance(value, int | float) for value in grids[symbol])
            yield symbol, _listed(sorted(grids[symbol]) if numbers else grids[symbol])
        elif any(
            leaves[symbol][1] for leaves in scenarios.values() if symbol in leaves
        ):
            values = [
                leaves[symbol][0] for leaves in scenarios.values() if symbol in leaves
            ]
            yield symbol, _listed(values, together=len(values) == len(scenarios))


def _leaves(
    model: BaseModel, before: str = "", given: bool = True
) -> Iterator[tuple[str, str, Any, bool]]:
    """Yield dotted name, symbol, value of every field, those of parts among them, and
    whether it is not the default.
    """
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        own = given and (info.is_required() or _text(value) != _text(info.default))
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{before}{name}.", own)
        else:
            if isinstance(info.json_schema_extra, dict):
                extra = info.json_schema_extra
            else:
                extra = {}
            yield before + name, str(extra.get("symbol") or name), value, own


def _listed(values: Sequence[Any], together: bool = False) -> str:
    """Return values in words: the different ones, or one for each scenario; of many the
    first and the last.
    """
    texts = list(map(_text, values))
    if not together or len(texts) > MOST or len(set(texts)) == 1:
        texts = list(dict.fromkeys(texts))
    if len(texts) <= MOST:
        return ", ".join(texts)
    return f"{texts[0]} ... {texts[-1]}"


def _text(value: Any) -> str:
    if isinstance(value, Function | Target):
        return value.expression or value.name
    if isinstance(value, FrozenArray):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if value.size > MOST:
            return f"{' x '.join(map(str, value.shape))} numbers"
        return _text(value.tolist())
    if isinstance(value, list | tuple):
        if len(value) <= 2 * MOST:
            return f"({', '.join(map(_text, value))})"
        return f"{len(value)} numbers"
    if isinstance(value, float | int | np.generic) and not isinstance(value, bool):
        return f"{value:.6g}"
    return str(value)
