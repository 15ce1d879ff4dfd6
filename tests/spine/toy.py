"""Families of a few lines: the mean of noisy numbers, a list of moves. Nothing
downstream of `Scenario` names them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Discriminator

from giantstep.core.base.errors import bad_field
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.arrays import ArrayField
from giantstep.core.scenario.family import Question, Setting, Variable
from giantstep.core.scenario.fields import Expression, Integer, Number, Numbers, field
from giantstep.core.scenario.lists import PartList
from giantstep.core.scenario.model import Part, Scenario
from giantstep.core.scenario.paper_symbols import Paper

_MEAN = Variable("mean", (), "m", "mean of the numbers")
_PARTS = Variable(
    "parts", ("block", "block_2"), "P", "outer product of the shares with the mean"
)
_OUTLIERS = Variable("outliers", ("outlier",), "z", "numbers found", compared=False)
_EXACT = Variable("exact", (), "e", "what only the limit knows", engines=("limit",))
_WAVE = Variable("wave", ("x",), "w(x)", "mean plus x")
_TRANSFORM = Variable("m_real", ("z",), "Re m", "real part of mean times z")
_SAMPLED = Variable("sampled", (), "s", "a limit computed by sampling")


class Noise(Part):
    """Noise with a size."""

    kind: Literal["noise"] = "noise"
    size: Number = field("s", "standard deviation", default=1.0, ge=0)


class Toy(Scenario):
    """The mean of `dim` noisy numbers around `level`; some levels fail, to be seen
    failing.
    """

    family: ClassVar[str] = "toy"
    title: ClassVar[str] = "Mean of noisy numbers"
    update_rule: ClassVar[str] = "mean = level + size N(0, 1)/sqrt(dim)"
    questions: ClassVar[Mapping[str, Question]] = {
        "mean": Question("the mean", (_MEAN, _PARTS, _OUTLIERS, _EXACT)),
        "wave": Question(
            "a curve",
            (_WAVE,),
            settings={
                "x": Setting(None, "where"),
                "sign": Setting("up", "?", choices=("up", "down")),
            },
        ),
        "transform": Question(
            "at complex points", (_TRANSFORM,), settings={"z": Setting(None, "where")}
        ),
        "sampled": Question(
            "by sampling",
            (_SAMPLED,),
            settings={"tests": Setting(10, "samples", engines=("experiment",))},
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "right",
        "wrong": "off by a tenth",
    }
    papers: ClassVar[tuple[str, ...]] = ("mei2022generalization",)
    shared_fields: ClassVar[tuple[str, ...]] = ("offset",)

    level: Number = field("l", "true mean", default=1.0, ge=0)
    offset: Number = field("o", "added at the end", default=0.0)
    count: Integer = field("k", "how many", default=2, ge=1, le=9)
    far: Number = field("f", "may be infinite", default=2.0, gt=0, infinite=True)
    shares: Numbers = field("p", "shares of the parts", default=(0.25, 0.75))
    shape: Expression = field("g", "a function", default="relu")
    noise: Noise = field("noise", "the noise", default=Noise())

    def block_count(self) -> Mapping[str, int]:
        return {"block": len(self.shares), "block_2": len(self.shares)}

    def check_points(self, points: Mapping[str, np.ndarray]) -> None:
        if np.any(points["level"] == points["far"]):
            raise bad_field(
                "far",
                points["far"][points["level"] == points["far"]][0],
                "different from level",
            )

    def prepare(
        self, points: Mapping[str, np.ndarray], what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        if what == "wave" and settings["x"] is None:
            width = 2.0 if self.shape.name == "tanh" else 1.0
            return {**settings, "x": np.array([0.0, width])}
        if what == "transform" and settings["z"] is None:
            return {**settings, "z": np.array([1j, 2 + 1j])}
        return dict(settings)

    def answer(
        self, mean: np.ndarray, what: str, settings: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Return the variables of a question at mean values (B,)."""
        if what == "wave":
            return {"wave": mean[:, None] + np.asarray(settings["x"])}
        if what == "transform":
            return {"m_real": (mean[:, None] * np.asarray(settings["z"])).real}
        if what == "sampled":
            return {"sampled": mean}
        shares = np.asarray(self.shares)
        return {
            "mean": mean,
            "parts": mean[:, None, None] * np.outer(shares, shares),
            "outliers": mean[:, None],
        }

    def limit(
        self, points: Mapping[str, np.ndarray], what: str, settings: Mapping[str, Any]
    ) -> Answer:
        mean = points["level"] + points["offset"]
        if settings["theory"] == "wrong":
            mean = mean * 1.1
        mean = mean + np.where(np.isinf(points["dim"]), 0, 1 / points["dim"])
        values = self.answer(mean, what, settings)
        if what == "mean":
            values["exact"] = mean
        if what == "sampled":
            values["sampled_stderr"] = np.full(len(mean), 0.1)
        status = np.where(points["level"] > 100, "too high", "")
        attrs = {"finite_size": "1/d"} if np.isfinite(points["dim"]).all() else {}
        return Answer(
            values, status, np.zeros(len(mean)), np.ones(len(mean), int), attrs=attrs
        )

    def trial(
        self,
        points: Mapping[str, np.ndarray],
        what: str,
        dim: int,
        draws: Any,
        settings: Any,
    ) -> dict[str, np.ndarray]:
        if points["level"][0] == 60:
            raise np.linalg.LinAlgError("singular")
        noise = points["noise.size"] * draws.normal("numbers", ()) / dim**0.5
        mean = points["level"] + points["offset"] + noise + 1 / dim
        values = self.answer(mean, what, settings)
        if points["level"][0] == 70:
            values["mean"] = np.where(draws.trial == 1, np.nan, mean)
        if what == "mean" and draws.trial == 0:
            values["outliers"] = np.stack([mean, mean + 1], axis=1)
        return values

    def memory(
        self, points: Mapping[str, np.ndarray], what: str, dim: int, settings: Any
    ) -> int:
        return 8 * dim


class Grow(Part):
    """Multiply by a rate, perhaps with an exponent."""

    kind: Literal["grow"] = "grow"
    rate: Number = field("eta", "growth rate", gt=0)
    power: Number = field(
        "a_0 = b/c", "exponent of the rate", default=1.0, infinite=True
    )
    loss: Literal["square", "correlation"] = field(
        "-", "what is lost", default="square"
    )
    times: Integer = field("t", "how often", default=1, ge=0)


class Shift(Part):
    """Add numbers."""

    kind: Literal["shift"] = "shift"
    by: ArrayField = field("U", "what is added", default=((0.0,),))
    rate: Number | Numbers = field(
        "eta", "factor of what is added, perhaps one of each column", default=1.0
    )


class Rest(Part):
    """Do nothing."""

    kind: Literal["rest"] = "rest"


AnyMove = Annotated[Grow | Shift | Rest, Discriminator("kind")]


def _symbols_of_mei(
    *,
    x: Annotated[float, "start"],
    h: Annotated[float, "rate of the first move"],
    c: Annotated[float, "rate of the second move"],
) -> dict[str, Any]:
    return {"start": x, "moves.0(grow).rate": h**2, "moves.1(grow).rate": c}


class Chain(Scenario):
    """A number that goes through a list of moves."""

    family: ClassVar[str] = "toy-chain"
    title: ClassVar[str] = "A number through a list of moves"
    update_rule: ClassVar[str] = "x <- x rate^power, or x <- x + rate sum by"
    questions: ClassVar[Mapping[str, Question]] = {
        "end": Question("the last number", (_MEAN,))
    }
    papers: ClassVar[tuple[str, ...]] = ("mei2022generalization",)
    paper_symbols: ClassVar[Mapping[str, Paper]] = {
        "mei2022generalization": Paper(_symbols_of_mei)
    }

    start: Number = field("x", "start", default=1.0)
    moves: Annotated[tuple[AnyMove, ...], PartList("moves", "[Grow(2.0)]")] = field(
        "moves", "the moves", default=()
    )
    last: AnyMove = field("last", "the last move", default=Rest())

    @classmethod
    def example(cls) -> "Chain":
        return cls(
            start=1.0,
            moves=[
                Grow(2.0),
                Rest(),
                Shift([[1.0, 2.0]], rate=0.5),
                Grow(3.0, loss="correlation"),
            ],
        )

    def check_points(self, points: Mapping[str, np.ndarray]) -> None:
        for index, move in enumerate(self.moves):
            if isinstance(move, Grow) and np.any(points[f"moves.{index}.rate"] == 13):
                raise bad_field(f"moves.{index}.rate", 13.0, "another number than 13")

    def end(self, points: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the last number at every point."""
        value = points["start"]
        for index, move in enumerate(self.moves):
            own = f"moves.{index}."
            if isinstance(move, Grow):
                value = value * points[own + "rate"] ** (
                    points[own + "power"] * points[own + "times"]
                )
                value = -value if move.loss == "correlation" else value
            elif isinstance(move, Shift):
                rate = points.get(own + "rate")
                value = value + (
                    np.sum(move.by.values * move.rate)
                    if rate is None
                    else rate * np.sum(move.by.values)
                )
        return value

    def limit(
        self, points: Mapping[str, np.ndarray], what: str, settings: Mapping[str, Any]
    ) -> Answer:
        mean = self.end(points)
        return Answer(
            {"mean": mean},
            np.full(len(mean), ""),
            np.zeros(len(mean)),
            np.ones(len(mean), int),
        )

    def trial(
        self,
        points: Mapping[str, np.ndarray],
        what: str,
        dim: int,
        draws: Any,
        settings: Any,
    ) -> dict[str, np.ndarray]:
        return {"mean": self.end(points) + draws.normal("numbers", ()) / dim}
