"""What stands behind ``--set`` and ``--grid``: ``ridge=0.1``, ``ridge=0.1:5:50:log``, ``ridge=0.1,1,10``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from giantstep.errors import InputError


def assignments(option: str, texts: Sequence[str], read: Callable[[str, str], Any]) -> dict[str, Any]:
    """Return field -> value of the texts given to one option; `read` makes the value.

    >>> assignments("--set", ["ridge=0.1", "step.rate=2"], lambda name, text: single(text))
    {'ridge': 0.1, 'step.rate': 2}
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("__", ".")
        if not equals or not name or not value.strip():
            raise InputError(f"{option} takes FIELD=VALUE, but got {text!r}.")
        if name in values:
            raise InputError(f"Field `{name}` is given twice to {option}.")
        values[name] = read(name, value.strip())
    return values


def single(text: str) -> Any:
    """Return a value as TOML reads it; what is no TOML value is a name or an expression.

    >>> single("0.1"), single("inf"), single("tanh(z)"), single("[1, -1]")
    (0.1, inf, 'tanh(z)', [1, -1])
    """
    try:
        content = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return content["value"] if list(content) == ["value"] else text


def many(name: str, text: str) -> Any:
    """Return the values of a grid: ``start:stop:num[:log]``, a list with commas, or one value.

    >>> many("ridge", "1:100:3:log").tolist(), many("activation", "relu,tanh")
    ([1.0, 10.0, 100.0], ['relu', 'tanh'])
    """
    if ":" in text:
        return _range(name, text)
    value = single(text)
    if isinstance(value, list):
        return value
    return [single(word) for word in _split(text)]


def _range(name: str, text: str) -> Any:
    from giantstep.studyfile import expand_range

    table = dict(zip(("start", "stop", "num", "scale", "more"), (single(word.strip()) for word in text.split(":"))))
    try:
        return expand_range(name, table)
    except InputError as error:
        if "num" not in table:
            raise InputError(
                f"The range {text!r} of `{name}` has no number of values, as in {name}={text}:20."
            ) from None
        raise InputError(f"The range {text!r} is not start:stop:num or start:stop:num:log: {error}") from None


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]


def dimensions(text: str | None) -> Any:
    """Return ``--dim``: a whole number, or a list of them with commas."""
    if text is None:
        return None
    values = [single(word) for word in _split(text)]
    return values if len(values) > 1 else values[0]
