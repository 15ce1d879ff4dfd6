"""Refusals of a scenario: what pydantic finds wrong, as one sentence in our words.

The sentence names the field, its value and what is allowed.

A name that does not exist is answered with the one that was meant: a field inside a
part, what other programs call it, a setting of a question, a symbol, a spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pydantic
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import InputError, bad_field, field_error, nearest
from giantstep.core.scenario.fields import allowed_values, models_allowed
from giantstep.core.scenario.lists import symbol_of

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Scenario

# -- what pydantic finds ---------------------------------------------------------------


def refusal_of(model: type[BaseModel], error: pydantic.ValidationError) -> InputError:
    """Turn pydantic's message into one sentence of ours; nothing else does."""
    problems = error.errors()
    # a misspelt name first: what is missing may be what it stands for
    problem = min(problems, key=lambda entry: entry["type"] != "extra_forbidden")
    # parts are built through their own `__init__` and report for themselves, so a
    # location here is a field, then perhaps the tag of a union (which is no name) or
    # indices in a list
    name, *rest = problem["loc"] or ("",)
    places = [str(key) for key in rest if isinstance(key, int)]
    path = ".".join([str(name), *places])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.inside(path)
    info = model.model_fields.get(str(name))
    value = problem["input"]
    kind = problem["type"]
    if kind == "extra_forbidden":
        return field_error(path, unknown_field(model, path, _fields_to_give(model)))
    if kind == "missing":
        meaning = info.description if info else "it has no default"
        return field_error(path, f"Field `{{field}}` is missing: {meaning}.")
    if kind.startswith(("greater_than", "less_than")) and info is not None:
        return bad_field(path, value, allowed_values(info))
    if kind in _NOT_A_PART:
        return bad_field(path, value, _how_parts_are_given(info, value))
    if kind == "union_tag_invalid":
        return _unknown_kind(path, problem["ctx"])
    allowed = " or ".join(_causes_at(problems, problem["loc"][:1]))
    if kind == "literal_error":
        return _unknown_choice(model, path, value, problem["ctx"]["expected"], allowed)
    if cause is None:
        return bad_field(path, value, f"valid ({problem['msg'].lower()})")
    is_list = isinstance(value, list | tuple | np.ndarray)
    if allowed == "a number" and is_list and _has_questions(model):
        allowed += (
            f" (several go to the verb, gs.predict(scenario, {path}=[...]), or into"
            " [grid] of a file)"
        )
    return bad_field(path, value, allowed)


_NOT_A_PART = (
    "union_tag_not_found",
    "model_type",
    "model_attributes_type",
    "dict_type",
)
"""What pydantic says of a value that is no part, where one is wanted."""


def _has_questions(model: type[BaseModel]) -> bool:
    """Tell a scenario, whose fields may vary over a grid, from a part."""
    return hasattr(model, "questions")


def _fields_to_give(model: type[BaseModel]) -> dict[str, FieldInfo]:
    fields = dict(model.model_fields)
    fields.pop("kind", None)
    return fields


def _causes_at(problems: Sequence[Any], place: tuple[Any, ...]) -> list[str]:
    """Return what our own checks say is wanted in a field: a number or a list of
    numbers, say.
    """
    causes = []
    for problem in problems:
        context = problem.get("ctx", {})
        if problem["loc"][:1] == place and "error" in context:
            causes.append(str(context["error"]))
    return list(dict.fromkeys(causes))


def _unknown_kind(path: str, context: Mapping[str, Any]) -> InputError:
    """Return the error for a part of a kind that there is not."""
    kind = context["tag"]
    kinds = context["expected_tags"]
    guess = nearest(str(kind), [name.strip("'") for name in kinds.split(", ")])
    return bad_field(f"{path}.kind", kind, f"one of {kinds}{guess}")


def _unknown_choice(
    model: type[BaseModel], path: str, value: Any, choices: str, allowed: str
) -> InputError:
    """Return the error for a word that is none of the choices; `allowed` is what may
    stand in their place.
    """
    elsewhere = getattr(model, "elsewhere", {}).get(f"{path}={value}")
    if elsewhere:
        hint = f" ({elsewhere})"
    else:
        hint = nearest(value, re.findall("'(.*?)'", choices))
    words = f"one of {choices}{hint}"
    if allowed:
        words += f", or {allowed}"
    return bad_field(path, value, words)


def _how_parts_are_given(info: FieldInfo | None, value: Any) -> str:
    """Say how a part is given, in Python and in a file; of several the one that a name
    or a class means.
    """
    models = [] if info is None else models_allowed(info)
    kinds = {model: _kind_of(model) for model in models if _kind_of(model)}
    all_kinds = ", ".join(kinds.values())
    if not models or isinstance(value, Mapping):
        return (
            f"a table that says its `kind`, one of {all_kinds}" if kinds else "a table"
        )
    named = [model for model in models if value is model]
    if isinstance(value, str):
        named = [model for model in models if kinds.get(model) == value]
    calls = " or ".join(map(call_of, named or models))
    if not kinds:
        in_file = " and ".join(models[0].model_fields)
    elif named:
        in_file = f'kind = "{kinds[named[0]]}"'
    else:
        in_file = f"a `kind`, one of {all_kinds}"
    return f"{calls} (in a file a table with {in_file})"


def _kind_of(model: type[BaseModel]) -> str:
    declared = model.model_fields.get("kind")
    return "" if declared is None else str(declared.default)


def call_of(part: type[BaseModel]) -> str:
    """Return the call that makes a part, with the fields that must be given."""
    # the public names stand above everything else of the package
    import giantstep

    name = part.__name__
    if name in dir(giantstep):
        name = f"gs.{name}"
    required = [
        f"{field}=..."
        for field, info in part.model_fields.items()
        if info.is_required()
    ]
    return f"{name}({', '.join(required)})"


# -- names that do not exist -----------------------------------------------------------

_OTHER_WORDS = {
    "learning_rate": "rate",
    "lr": "rate",
    "lam": "ridge",
    "penalty": "ridge",
    "regularization": "ridge",
    "weight_decay": "ridge",
    "n": "samples_per_dim",
    "n_samples": "samples_per_dim",
    "epochs": "steps",
    "hidden": "width_per_dim",
    "n_trials": "trials",
    "d": "dim",
}
"""What other programs call a field or setting -> ours, suggested where there is one of
that name.
"""


def unknown_field(
    model: Any,
    name: str,
    fields: Mapping[str, FieldInfo],
    also: Sequence[str] = (),
    scenario: Scenario | None = None,
) -> str:
    """Say of a field that does not exist what to write instead; ``{field}`` stands for
    its name.

    `fields` are those of the model, dotted, and `also` other keywords that may be
    meant. The first that fits is said, from what is certain to what is guessed.
    """
    missing = f"There is no field `{{field}}` in {model.__name__}"
    inside = next((leaf for leaf in fields if leaf.endswith(f".{name}")), None)
    if inside is not None:
        keyword = inside.replace(".", "__")
        return f"{missing} (did you mean `{inside}`, as a keyword {keyword}?)."
    elsewhere = getattr(model, "elsewhere", {})
    if name in elsewhere:
        return f"{missing}: {elsewhere[name]}."
    ours = _OTHER_WORDS.get(name, "")
    is_here = any(_last_word(leaf) == ours for leaf in fields)
    if not is_here and ours in elsewhere:
        return f"{missing}; it is called `{ours}`: {elsewhere[ours]}."
    lacking = lacked_by_part(model, name, scenario)
    if lacking:
        return f"{missing}: {lacking}."
    for what, question in getattr(model, "questions", {}).items():
        if name in question.settings:
            call = f'gs.predict(scenario, what="{what}", {name}=...)'
            return f'{missing}: it is a setting of what="{what}", as in {call}.'
    guess = nearest(name, [*fields, *model.model_fields, *also])
    if not guess:
        guess = _guess_by_meaning(name, fields, also)
    return f"{missing}{guess}; it has {', '.join(fields) or 'none'}."


def _last_word(leaf: str) -> str:
    return leaf.rpartition(".")[2]


def _guess_by_meaning(
    name: str, fields: Mapping[str, FieldInfo], also: Sequence[str]
) -> str:
    """Suggest the field whose symbol is the name, or what other programs call so."""
    candidates = [*_fields_with_symbol(name, fields)]
    ours = _OTHER_WORDS.get(name, "")
    candidates += [leaf for leaf in [*fields, *also] if _last_word(leaf) == ours]
    if not candidates:
        return ""
    first = candidates[0]
    if first in fields:
        return f" (did you mean `{first}`: {fields[first].description}?)"
    return f" (did you mean `{first}`?)"


def _fields_with_symbol(name: str, fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    """Yield the fields with this symbol, one of ``alpha`` and ``n/d`` in ``alpha =
    n/d``.
    """
    for leaf, info in fields.items():
        symbols = re.split(r"\s*[=,]\s*", symbol_of(info))
        # as keywords of Python have it: lambda_
        if name.rstrip("_") in symbols:
            yield leaf


def lacked_by_part(model: Any, name: str, scenario: Scenario | None) -> str:
    """Say which parts have a field that the part which a scenario holds has not;
    nothing where none has.
    """
    field, _, inner = name.partition(".")
    info = model.model_fields.get(field)
    if scenario is None or info is None or not inner:
        return ""
    part = getattr(scenario, field)
    having = [other for other in models_allowed(info) if inner in other.model_fields]
    if not having or not isinstance(part, BaseModel):
        return ""
    calls = " or ".join(call_of(other) for other in having)
    return (
        f"`{field}` is {call_of(type(part))} here, which has none; take {field}={calls}"
    )
