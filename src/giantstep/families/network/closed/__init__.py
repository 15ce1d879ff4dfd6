"""Closed forms of a network with a single small or growing step, chosen by its pattern of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from giantstep.family import Answer
from giantstep.types import Points

if TYPE_CHECKING:
    from giantstep.families.network.scenario import Network

NOT_FINITE = "the closed form has no finite answer here"
ClosedForm = Callable[["Network", Points, Mapping[str, Any]], Answer]
"""Answers a question by a formula of its own; its variables have no time, they are those after the step."""
