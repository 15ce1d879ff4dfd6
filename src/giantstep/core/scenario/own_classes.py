"""Classes of a user that derive from one of ours: what they inherit of it, and what
they must declare themselves.

A class stands for itself if it gives itself a name, the `kind` of a part or the
`family` of a scenario, or if it derives from nothing that could be used as it is. Any
other one is a *variant* of the class it derives from. It may train or measure in
another way, and nobody can tell. So it keeps the experiment, and has no limit of its
parent, no file form and no name in a store but one with its own code in it.

Nothing is imported from the spine, so that scenarios and parts can ask.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from giantstep.core.base.errors import InputError, field_error

CLASSES = "classes"
"""Where the content of a scenario says which of its parts are variants: dotted field ->
name, parent and source.
"""


# -- what a class is -------------------------------------------------------------------


def is_named(cls: type) -> bool:
    """Tell whether a class gives itself a name in its own body: a `kind` or a `family`
    that no base of it has.
    """
    bases = cls.__mro__[1:]
    family = vars(cls).get("family")
    if family:
        return all(getattr(base, "family", None) != family for base in bases)
    if "kind" in inspect.get_annotations(cls):
        return all(_kind_of(base) != _kind_of(cls) for base in bases)
    return False


def _kind_of(cls: type) -> str | None:
    fields: dict[str, Any] = getattr(cls, "model_fields", {})
    return fields["kind"].default if "kind" in fields else None


def parent_of(cls: type) -> type | None:
    """Return the class that a variant derives from; None where a class stands for
    itself.
    """
    if is_named(cls):
        return None
    for base in cls.__mro__[1:]:
        if getattr(base, "model_fields", None):
            return base
    return None


def variants_in(
    model: BaseModel, name: str = ""
) -> Iterator[tuple[str, type[BaseModel], type]]:
    """Yield (dotted field, class, parent) of a scenario and the parts in it that are
    variants; its own field is "".
    """
    parent = parent_of(type(model))
    if parent is not None:
        yield name, type(model), parent
    dot = f"{name}." if name else ""
    for field in type(model).model_fields:
        value = getattr(model, field)
        if isinstance(value, BaseModel):
            yield from variants_in(value, dot + field)
        elif isinstance(value, tuple):
            for place, entry in enumerate(value):
                if isinstance(entry, BaseModel):
                    yield from variants_in(entry, f"{dot}{field}.{place}")


def content_of_variants(model: BaseModel) -> dict[str, dict[str, str]]:
    """Return what plain data says of the variants in a scenario: dotted field -> their
    name, parent and source.
    """
    return {
        name: {
            "name": cls.__name__,
            "parent": parent.__name__,
            "source": source_digest(cls),
        }
        for name, cls, parent in variants_in(model)
    }


# -- what is refused -------------------------------------------------------------------


def refuse_file(model: BaseModel, place: str = "a file") -> None:
    """Refuse to write a scenario with variants to a file, which would make the class
    they derive from out of them.
    """
    for name, cls, parent in variants_in(model):
        said = f"is a {cls.__name__}, a Python class derived from {parent.__name__}"
        raise _refusal(name, f"{said}, and cannot be written to {place}.")


def refuse_content(content: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse plain data that came of variants: their classes live in Python only."""
    for name, about in content.items():
        said = f"was a {about['name']}, a Python class derived from {about['parent']}"
        raise _refusal(name, f"{said}; it lives in Python only.")


def refuse_limit(model: BaseModel) -> None:
    """Refuse the limit of a scenario with variants that declare none: the theory of
    their parent is another one.
    """
    for name, cls, parent in variants_in(model):
        methods = _limit_methods(parent)
        if methods and not _missing_in(cls, parent, methods):
            continue
        said = (
            f"no theory of {cls.__name__} is known, which derives from"
            f" {parent.__name__}"
        )
        if methods:
            named = " and ".join(f"`{method}`" for method in methods)
            said = f"{said} and has no {named} of its own"
        raise _refusal(
            name, f"has no limit here: {said}. `gs.simulate` runs the real experiment."
        )


def _refusal(name: str, said: str) -> InputError:
    """Return the error for the part in a field, or for the scenario itself, whose name
    is empty.
    """
    if name:
        return field_error(name, f"Field `{{field}}` {said}")
    return InputError(f"The scenario {said}")


def _limit_methods(parent: type) -> list[str]:
    """Return the methods that make the limit of a class: those of `limit_methods` that
    it has, at least the first.
    """
    declared: tuple[str, ...] = getattr(parent, "limit_methods", ())
    root = next(
        (base for base in reversed(parent.__mro__) if vars(base).get("limit_methods")),
        parent,
    )
    own = [
        name for name in declared if getattr(parent, name) is not getattr(root, name)
    ]
    return own or list(declared[:1])


def _missing_in(cls: type, parent: type, methods: list[str]) -> bool:
    """Tell whether a variant lacks one of these methods in its own body and in those
    between it and its parent.
    """
    own = cls.__mro__[: cls.__mro__.index(parent)]
    return any(all(method not in vars(base) for base in own) for method in methods)


# -- where a family has its engines ----------------------------------------------------


def folder_with(cls: type, module: str) -> tuple[type, str] | None:
    """Return the nearest class with a name that has such a module in its folder, and
    the folder; None if none has.
    """
    for base in cls.__mro__:
        folder = base.__module__.rpartition(".")[0]
        if (
            folder
            and is_named(base)
            and importlib.util.find_spec(f"{folder}.{module}") is not None
        ):
            return base, folder
    return None


# -- the digest of a class -------------------------------------------------------------

_WRAPPERS: dict[type, str] = {
    classmethod: "__func__",
    staticmethod: "__func__",
    functools.cached_property: "func",
    functools._lru_cache_wrapper: "__wrapped__",
}
"""What may stand around a function in the body of a class -> where it has the
function.
"""


def source_digest(cls: type) -> str:
    """Return a digest of the code of a variant: its methods and constants, and what of
    its module they use.

    It is made of compiled code rather than of text, which a class typed at a prompt
    does not have. What another module defines is known by its name only. It is made
    anew each time, since a constant of the module may have changed.
    """
    ours = cls
    while (parent := parent_of(ours)) is not None:
        ours = parent
    own = cls.__mro__[: cls.__mro__.index(ours)]
    seen: set[int] = set()
    told = [_told_of_class(base, seen) for base in own]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _told_of_class(cls: type, seen: set[int]) -> str:
    """Return the methods and constants of a class as text, without what pydantic
    adds.
    """
    seen.add(id(cls))
    rows = [cls.__name__]
    for name, value in sorted(vars(cls).items()):
        is_code = isinstance(value, (types.FunctionType, property, *_WRAPPERS))
        if is_code or not name.startswith(("_", "model_")):
            rows.append(f"{name} = {_told(value, cls.__module__, seen)}")
    fields: dict[str, Any] = getattr(cls, "__private_attributes__", {})
    rows += [
        f"{name} = {_told(info.default, cls.__module__, seen)}"
        for name, info in fields.items()
    ]
    return "\n".join(rows)


def _told(value: Any, module: str, seen: set[int]) -> str:
    """Return a value that code uses as text: constants whole, code of the same module
    too, others by their name.
    """
    if isinstance(value, property):
        return " ".join(
            _told(part, module, seen) for part in (value.fget, value.fset, value.fdel)
        )
    if isinstance(value, tuple(_WRAPPERS)):
        inside = next(
            getattr(value, name)
            for kind, name in _WRAPPERS.items()
            if isinstance(value, kind)
        )
        return f"{type(value).__name__} {_told(inside, module, seen)}"
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(_told(item, module, seen) for item in value)})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_told(item, module, seen) for item in value))}}}"
    if isinstance(value, dict):
        rows = (
            f"{_told(key, module, seen)}: {_told(item, module, seen)}"
            for key, item in value.items()
        )
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, np.ndarray):
        return (
            f"{value.dtype} {value.shape}"
            f" {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
        )
    if isinstance(value, types.CodeType):
        return _told_of_code(value, module, seen)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    home = getattr(value, "__module__", None)
    if home != module or id(value) in seen:
        return f"{_stable_home(home)}.{name}"
    if isinstance(value, types.FunctionType):
        return _told_of_function(value, module, seen)
    if isinstance(value, type):
        return _told_of_class(value, seen)
    return name


def _told_of_function(function: types.FunctionType, module: str, seen: set[int]) -> str:
    """Return a function as text: its code, its defaults, what it closes over, and the
    globals that it names.
    """
    seen.add(id(function))
    named = {
        name: function.__globals__[name]
        for name in _names_in(function.__code__)
        if name in function.__globals__
    }
    cells = [
        cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)
    ]
    around = [function.__defaults__, function.__kwdefaults__, cells, named]
    return " ".join(
        [
            _told_of_code(function.__code__, module, seen),
            *(_told(part, module, seen) for part in around),
        ]
    )


def _told_of_code(code: types.CodeType, module: str, seen: set[int]) -> str:
    return (
        f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
        f" {_told(code.co_consts, module, seen)}"
    )


def _names_in(code: types.CodeType) -> list[str]:
    """Return the names that code looks up, those of functions inside it too."""
    inner = [
        name
        for part in code.co_consts
        if isinstance(part, types.CodeType)
        for name in _names_in(part)
    ]
    return sorted({*code.co_names, *inner})


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is not bound yet
        return False


def _stable_home(module: str | None) -> str:
    """Return the module that a digest names: of ours the package alone, so that no move
    inside it changes what a store knows.
    """
    if module is None:
        return ""
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:
        return package
    return module
