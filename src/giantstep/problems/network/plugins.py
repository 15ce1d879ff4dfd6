"""Questions that live in folders of their own, looked up by name.

A folder here has a module `questions`, which fills a `Questions`; nothing else in the
network imports it. Its engines are loaded when one of its questions is asked. (Steps
that live in folders of their own are in `steps.registry`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.family import Question

if TYPE_CHECKING:
    from giantstep.problems.network.scenario import Network

HOME = "giantstep.problems.network"
FOLDERS = ("beyond",)

Lacking = Callable[["Network", Points, str], tuple[str, str] | None]
"""Returns the field and the theory that a question is missing; None where there is
one.
"""


class Questions(NamedTuple):
    """What a folder says of its questions."""

    questions: Mapping[str, Question]
    checks: Mapping[str, Callable[[Any], Floats]]
    """Setting -> what checks it, and fills it in where it is left out."""
    lacking: Lacking
    answers: Mapping[str, str]
    """Question -> module below the network whose `answer_<question>` fills it."""
    measures: str
    """Module whose `measure_<question>` measures it, for which `PAIRED` names the
    questions about two networks, `second_draws` draws the second, and `fitting_memory`
    says how much is needed.
    """


def folders() -> list[Questions]:
    """Return what every folder says of its questions."""
    found = []
    for folder in FOLDERS:
        # loaded when it is asked for: the module of the folder imports this one
        found.append(import_module(f"{HOME}.{folder}.questions").OFFERED)
    return found


def questions() -> dict[str, Question]:
    """Return all questions of the folders."""
    every: dict[str, Question] = {}
    for folder in folders():
        every |= folder.questions
    return every


def checks() -> dict[str, Callable[[Any], Floats]]:
    """Return the checks of all their settings."""
    every: dict[str, Callable[[Any], Floats]] = {}
    for folder in folders():
        every |= folder.checks
    return every


def folder_of(what: str) -> Questions | None:
    """Return what the folder of a question says; None for a question without one."""
    for folder in folders():
        if what in folder.questions:
            return folder
    return None


def module_of_answer(what: str) -> ModuleType:
    """Return the module that fills a question's answer; no other is loaded."""
    folder = folder_of(what)
    # questions of the network itself have a module of their own name
    if folder is None:
        return import_module(f"{HOME}.answers.{what}")
    return import_module(f"{HOME}.{folder.answers[what]}")


def module_of_measures(what: str) -> ModuleType | None:
    """Return the module that measures the questions of a folder; None for a question
    without one.
    """
    folder = folder_of(what)
    # the experiment itself measures the questions of the network
    if folder is None:
        return None
    return import_module(f"{HOME}.{folder.measures}")
