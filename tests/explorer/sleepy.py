"""A family whose limit takes as long as it is told, without any work: the server can be
kept waiting exactly.
"""

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Scenario


class Sleepy(Scenario):
    """A level that is known after some seconds."""

    family: ClassVar[str] = "sleepy"
    title: ClassVar[str] = "A level known after some seconds"
    update_rule: ClassVar[str] = "out = level"
    questions: ClassVar[Mapping[str, Question]] = {
        "level": Question("the level", (Variable("out", (), "o", "level"),))
    }

    level: Number = field("l", "the level", default=1.0)
    coarse: Number = field(
        "c", "seconds of a limit of at most 25 points", default=0.0, ge=0
    )
    fine: Number = field("f", "seconds of a larger one", default=0.0, ge=0)

    def prepare(self, points: Any, what: str, settings: Any) -> dict[str, Any]:
        """Leave everything as it is."""
        return dict(settings)

    def limit(self, points: Any, what: str, settings: Any) -> Answer:
        """Sleep, then answer."""
        time.sleep(
            float(points["coarse" if len(points["level"]) <= 25 else "fine"].max())
        )
        return Answer.closed({"out": points["level"]}, residual=0.0 * points["level"])

    def trial(
        self, points: Any, what: str, dim: int, draws: Any, settings: Any
    ) -> dict[str, Any]:
        """Answer at once."""
        return {"out": points["level"]}
