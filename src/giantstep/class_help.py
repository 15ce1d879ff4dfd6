"""What ``help`` and a notebook's ``?`` say of a scenario or a part first: its fields."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

HEADING = "Fields, each with its symbol, meaning, what it allows and its default:"
"""Stands above the fields in a docstring."""

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)


class FieldHelp(_ModelType):
    """The metaclass of scenarios and parts: their docstring has their fields, `dir` leaves out what is pydantic's."""

    @property
    def __doc__(cls) -> str | None:  # type: ignore[override]
        written = next((vars(base)["__doc__"] for base in cls.__mro__ if vars(base).get("__doc__")), None)
        model: Any = cls
        if not written or not vars(cls).get("__pydantic_complete__") or not model.model_fields:
            return written
        from giantstep.describe import field_table

        before, prompt, example = inspect.cleandoc(written).partition(">>> ")
        return f"{before.rstrip()}\n\n{HEADING}\n\n{field_table(model)}\n\n{prompt}{example}".rstrip()

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name == "__doc__" or not hasattr(BaseModel, name)]


def plain_signature(model: Any, *, in_order: bool) -> inspect.Signature:
    """Return the signature of a model: names and defaults, without annotations; `in_order` also by position."""
    parameters: list[inspect.Parameter] = []
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if in_order else inspect.Parameter.KEYWORD_ONLY
    for name, info in model.model_fields.items():
        default = inspect.Parameter.empty if info.is_required() else info.default
        if info.is_required() and any(other.default is not other.empty for other in parameters):
            kind = inspect.Parameter.KEYWORD_ONLY  # Python allows no other after one with a default
        if name != "kind":
            parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)
