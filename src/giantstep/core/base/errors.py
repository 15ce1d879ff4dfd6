"""What giantstep raises and warns with: one sentence each, with the field, the value
and what is allowed.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, ParamSpec, TypeVar


class Code(Enum):
    """What kind of refusal an `InputError` is, for whoever acts on it; its words are
    for people.
    """

    NEEDS_DIMENSION = "needs-dimension"
    """The answer exists at a finite `dim` only."""
    NO_THEORY = "no-theory"
    """The limit has no theory for it; the experiment answers all the same."""
    TOO_MANY_NODES = "too-many-nodes"
    """An average would need more nodes than are allowed."""


class GiantstepError(Exception):
    """Base class of everything giantstep raises on purpose.

    >>> (
    ...     issubclass(InputError, GiantstepError),
    ...     issubclass(ConvergenceError, GiantstepError),
    ... )
    (True, True)
    """


class InputError(GiantstepError, ValueError):
    """The input cannot be used; the message says which field, which value, and what is
    allowed.

    It is a ``ValueError`` too.

    >>> import giantstep as gs
    >>> try:
    ...     gs.Vocabulary([1, -1], [0.9, 0.3])
    ... except gs.InputError as error:
    ...     print(error)
    Field `probabilities` must be numbers that sum to one (they sum to 1.2), but is probabilities=[0.9, 0.3].
    """  # noqa: E501

    field: str | None = None
    value: Any = None
    allowed: str = ""
    sentence: str = ""
    """The message with ``{field}`` in it, so that whoever holds the field can put its
    own name in front.
    """

    def __init__(self, message: str, code: Code | None = None) -> None:
        super().__init__(message)
        self.code = code

    def inside(self, parent: str) -> InputError:
        """Return the same error for a field that lies inside `parent`."""
        if not (parent or self.field):
            return self
        sentence = self.sentence or f"Field `{{field}}`: {self}"
        error = field_error(".".join(filter(None, (parent, self.field))), sentence)
        error.value = self.value
        error.allowed = self.allowed
        error.code = self.code
        return error


class NotFiniteError(GiantstepError, ArithmeticError):
    """Numbers left the range of floating point on the way to a solution; the point is
    flagged with this reason.
    """


class ConvergenceError(GiantstepError):
    """A point was not solved and ``strict=True`` asked for an error.

    Without ``strict`` such a point is NaN, its ``converged`` False, and its ``status``
    says why.

    >>> import giantstep as gs
    >>> # it diverges
    >>> s = gs.BatchReuse(
    ...     target="z", activation="relu", samples_per_dim=2, rate=300.0, steps=20
    ... )
    >>> try:
    ...     gs.predict(s, strict=True, nodes=256)
    ... except gs.ConvergenceError as error:
    ...     print("diverged" in str(error))
    True
    """


class GiantstepWarning(UserWarning):
    """Something the reader of a result should know, for example an approximation that
    was chosen for them.

    >>> import warnings
    >>> import giantstep as gs
    >>> s = gs.FewSteps(
    ...     target="z1 + z1*z2",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     steps=1,
    ...     batch_per_dim=9.0,
    ... )
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     r = gs.predict(
    ...         s
    ...     )  # several steps on finite batches have no exact theory: an approximation answers
    >>> issubclass(caught[0].category, gs.GiantstepWarning)
    True
    """  # noqa: E501


def bad_field(
    field: str, value: Any, allowed: str, code: Code | None = None
) -> InputError:
    """Return the error for one field: ``bad_field("ridge", -0.1, "at least 0")``."""
    shown = repr(
        value.item()
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0
        else value
    )
    shown = " ".join(shown.split()) if "\n" in shown else shown  # an array is one line
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    error = field_error(
        field, f"Field `{{field}}` must be {allowed}, but is {{field}}={shown}.", code
    )
    error.value = value
    error.allowed = allowed
    return error


def field_error(field: str, sentence: str, code: Code | None = None) -> InputError:
    """Return the error for a field that is missing or unknown; ``{field}`` in
    `sentence` is its name.
    """
    error = InputError(sentence.replace("{field}", field), code)
    error.field = field
    error.sentence = sentence
    return error


def unreadable(file: object, error: OSError) -> InputError:
    """Return the error for a file that could not be opened."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"There is no file {str(file)!r}.")
    return InputError(
        f"{file} cannot be read: {(error.strerror or str(error)).lower()}."
    )


def check_ending(
    path: str | Path, endings: Sequence[str], said: str, *, there: bool = False
) -> str:
    """Return the ending of a file's name in small letters; refuse others, and what is
    not `there` where it must be.
    """
    name = Path(path).name
    ending = Path(path).suffix.lower()
    if ending not in endings:
        raise InputError(
            f"{said.format(', '.join(endings))}, but the file is called {name!r}."
        )
    if there and not Path(path).is_file():
        raise InputError(f"There is no file {str(path)!r}.")
    return ending


def nearest(name: Any, candidates: Sequence[str]) -> str:
    """Return `` (did you mean `...`?)`` with the candidate that a name misspells,
    begins or ends, or nothing.
    """
    text = str(name).lower()
    if len(text) < 3:
        return ""
    best = ""
    likeness = 0.0
    for candidate in candidates:
        now = _likeness(text, candidate.lower())
        if now > likeness:
            best = candidate
            likeness = now
    return f" (did you mean `{best}`?)" if best else ""


_MISSPELT = 0.66
"""Least likeness of a misspelt name: two letters of three in place. `nmu` is `num`,
`loss` is not `rows`.
"""
_MISSPELT_WORD = 0.75
"""The same where one word of a longer name is misspelt: `widht` is `width_per_dim`."""


def _likeness(text: str, candidate: str) -> float:
    """Return how much a text looks like a name, from 0 (not at all) to 1 (it is the
    name).
    """
    whole = difflib.SequenceMatcher(None, candidate, text).ratio()
    if whole >= _MISSPELT:
        return whole
    if candidate.startswith((f"{text}_", f"{text}-")) or candidate.endswith(f".{text}"):
        return _MISSPELT
    words = [word for word in re.split("[_.-]", candidate)[:-1] if len(word) > 3]
    found = [difflib.SequenceMatcher(None, word, text).ratio() for word in words]
    # less than a whole name that is as much alike
    return max(
        (ratio - 0.01 for ratio in found if ratio >= _MISSPELT_WORD), default=0.0
    )


# -- What a user sees of a call: a refusal without our frames, a warning at their line -

FULL_TRACEBACK = "GIANTSTEP_FULL_TRACEBACK"
"""Environment variable: where it is set, a refusal keeps the frames of this package."""
Told = ParamSpec("Told")
Answered = TypeVar("Answered")


def at_the_door(verb: Callable[Told, Answered]) -> Callable[Told, Answered]:
    """Return a public function whose refusals show the caller's line and their
    sentence, none of our own frames.
    """

    @functools.wraps(verb)
    def public(*values: Told.args, **settings: Told.kwargs) -> Answered:
        try:
            return verb(*values, **settings)
        except InputError as error:
            raise without_frames(error) from None

    # where it is public: there pickle finds it
    public.__module__ = __name__.partition(".")[0]
    return public


def without_frames(error: InputError) -> InputError:
    """Return a refusal as it is raised at a public door, without the frames that led to
    it.
    """
    if os.environ.get(FULL_TRACEBACK):
        return error
    return error.with_traceback(None)


_NOT_THE_USER = ("giantstep", "pydantic", "functools")
"""Modules whose lines lie between a user and a warning."""


def warn_user(text: str, kind: type[Warning] = GiantstepWarning) -> None:
    """Warn at the line of the user: the first one on the way here that is of none of
    these modules.
    """
    frame = sys._getframe(1)
    depth = 2
    while frame.f_back is not None and _package(frame) in _NOT_THE_USER:
        frame = frame.f_back
        depth += 1
    warnings.warn(text, kind, stacklevel=depth)


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
