"""What ``help`` and a notebook's ``?`` say of a scenario or a part: its fields, and nothing of the library below.

>>> import giantstep as gs
>>> print(gs.NoStep.__signature__, gs.MaximalStep.__signature__)
() (rate, batch_per_dim=inf, loss='square', precondition=0.0, weight_decay=0.0, momentum=0.0)
>>> "model_dump" in dir(gs.OneStep), "replace" in dir(gs.OneStep)
(False, True)
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

HEADING = "Fields, each with its symbol, meaning, what it allows and its default:"
"""Stands above the fields in a docstring."""
_ALWAYS = ("__doc__", "__module__", "__class__")

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)


class FieldHelp(_ModelType):
    """The metaclass of scenarios and parts: their docstring has their fields, `dir` leaves out what is pydantic's.

    So does ``__mro__``, which is what ``help`` lists as bases. It decides nothing: ``isinstance``, ``super`` and
    attributes follow the order of the interpreter, which ``mro()`` returns. A class that is not complete has all bases.
    """

    @property
    def __doc__(cls) -> str | None:  # type: ignore[override]
        written = next((vars(base)["__doc__"] for base in _bases(cls) if vars(base).get("__doc__")), None)
        if not written or not _is_complete(cls) or not getattr(cls, "model_fields", {}):
            return written
        return with_fields(cls, inspect.cleandoc(written))

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return (*_own_bases(cls), object) if _is_complete(cls) else _bases(cls)

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if _is_own(cls, name)]


def _is_own(cls: type, name: str) -> bool:
    if name in _ALWAYS:
        return True
    if name.startswith(("_", "model_")):
        return False
    return not hasattr(BaseModel, name) or any(name in vars(base) for base in _own_bases(cls))


def _is_complete(cls: type) -> bool:
    return bool(vars(cls).get("__pydantic_complete__"))


def _bases(cls: type) -> tuple[type, ...]:
    bases: tuple[type, ...] = vars(type)["__mro__"].__get__(cls)
    return bases


def _own_bases(cls: type) -> list[type]:
    return [base for base in _bases(cls) if base.__module__.partition(".")[0] != "pydantic" and base is not object]


def with_fields(model: Any, written: str) -> str:
    """Return a docstring with the fields of `model` before its example."""
    from giantstep.describe import field_table

    before, prompt, example = written.partition(">>> ")
    return f"{before.rstrip()}\n\n{HEADING}\n\n{field_table(model)}\n\n{prompt}{example}".rstrip()


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
