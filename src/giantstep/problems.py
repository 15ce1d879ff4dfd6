"""Points that were not computed: one warning per call says how many and why, or `strict` raises."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from giantstep.errors import ConvergenceError, GiantstepWarning
from giantstep.family import Engine


@dataclass
class Problems:
    """Points that one engine did not compute, and what else it has to say.

    Attributes
    ----------
    engine : whose points.
    points : how many there are.
    reasons : one for each point that was not computed.
    remarks : sentences worth a warning, whatever was computed.
    """

    engine: Engine
    points: int
    reasons: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        """Say how many points were not computed and why the first was not; empty where all were."""
        if not self.reasons:
            return ""
        verb = "solved" if self.engine == "limit" else "measured"
        count = f"{len(self.reasons)} of {self.points}"
        return f"{count} points were not {verb} (first reason: {self.reasons[0]})."

    def refuse(self, strict: bool) -> None:
        """Raise `ConvergenceError` where `strict` asks for it and a point was not computed."""
        if strict and self.reasons:
            raise ConvergenceError(self.sentence())


def warn(*engines: Problems) -> None:
    """Say everything in one warning, at the line that called the verb which calls this."""
    sentences: Sequence[str] = [remark for problems in engines for remark in problems.remarks]
    sentences = [*dict.fromkeys(sentences), *(problems.sentence() for problems in engines)]
    text = " ".join(filter(None, sentences))
    if text:
        warnings.warn(text, GiantstepWarning, stacklevel=3)
