"""Verbs that the run calls and does not know: their packages register them.

A verb is an entry point of the group ``giantstep.verbs``, as a family is one of
``giantstep.families``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from giantstep.core.base.errors import InputError


def installed_verb(name: str) -> Callable[..., Any]:
    """Return a verb by its name; one sentence where nobody brings it."""
    for entry in entry_points(group="giantstep.verbs", name=name):
        verb: Callable[..., Any] = entry.load()
        return verb
    raise InputError(f"No installed package brings the verb `{name}`.")
