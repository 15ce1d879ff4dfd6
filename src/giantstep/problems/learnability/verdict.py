"""The verdict of `giantstep.learnable`: what is said, and the experiment that shows
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.display import Block, Table
from giantstep.core.base.jsondata import json_data
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.functions import Function
from giantstep.core.maths.gaussian.subspaces import (
    direction_text,
)
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.run.verbs import simulate
from giantstep.core.scenario.families import family_class
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.learnability.proportional import ProportionalAnswer, stages_text

if TYPE_CHECKING:
    import xarray

    from giantstep.core.scenario.model import Scenario


ROUNDS = ("reused", "single-pass")
"""A constant number of steps on a batch of order d, kept or fresh."""


@dataclass(frozen=True)
class LearnedStage:
    """One stage of what the student learns: new directions (rows), the order it takes,
    and the samples.
    """

    order: int
    directions: Floats
    samples: str
    note: str = ""

    @property
    def text(self) -> str:
        """The directions as combinations of the variables."""
        return ", ".join(map(direction_text, self.directions))


@dataclass(frozen=True, repr=False)
class LearnabilityVerdict(ProportionalAnswer):
    """The answer of `giantstep.learnable`."""

    target: Target
    activation: Function
    algorithm: str
    second_layer: tuple[float, ...]
    learned: bool  # whether every direction of the target is found
    # "d", "d log d", "d^2", ... for the slowest direction found, "never" where none is
    # found
    samples: str
    exponent: float  # the power of d in it; inf where some direction is never found
    # samples of the first stage over that power, at the rate in `data`, where it is
    # known
    constant: float | None
    reason: str  # one sentence
    stages: tuple[LearnedStage, ...]  # what is found, in order
    hidden: Floats  # (m, k) orthonormal rows, the directions that are never found
    data: dict[str, Any] = field(default_factory=dict)  # the numbers behind it

    def __bool__(self) -> bool:
        return self.learned

    def __str__(self) -> str:
        lines = [self._verdict()]
        for stage in self.stages:
            note = f" ({stage.note})" if stage.note else ""
            lines.append(
                f"  order {stage.order}: {stage.text} in {stage.samples} samples{note}"
            )
        return "\n".join([*lines, *(f"  {sentence}" for sentence in self._beside())])

    def blocks(self) -> list[Block]:
        """Return the verdict, the stages as a table, and what is said beside them."""
        rows = [
            (str(stage.order), stage.text, stage.samples, stage.note)
            for stage in self.stages
        ]
        blocks: list[Block] = [self._verdict()]
        if rows:
            blocks.append(Table(("order", "directions", "samples", "note"), rows))
        return blocks + self._beside()

    def _verdict(self) -> str:
        head = f"{self.algorithm}, {self.activation.name} on {self.target.name}: "
        never = f"never{self.within}"
        if not self.stages:
            return f"{head}{never}, because {self.reason}"
        if self.constant:
            about = f"about {self.constant:.3g} {self.samples}"
        else:
            about = f"about {self.samples}"
        if self.learned:
            done = "learned"
        else:
            done = f"only in part, the rest {never}"
        return f"{head}{done}, in {about} samples, because {self.reason}"

    def _beside(self) -> list[Block]:
        """Return sentences on directions that are never found, and on the best known
        fast algorithm.
        """
        sentences: list[Block] = []
        if not self.stages:
            return sentences
        if len(self.hidden):
            directions = ", ".join(map(direction_text, self.hidden))
            sentences.append(f"never{self.within}: {directions}")
        if self.exponent == 1:
            sentences.append(
                "message passing, the best known fast algorithm:"
                f" {stages_text(self.target)}"
            )
        return sentences

    @property
    def within(self) -> str:
        """What "never" means of few steps, in words: more of them may learn what these
        do not.
        """
        if self.algorithm in ROUNDS:
            return " within O(d) samples and a fixed number of steps"
        if self.algorithm == "giant-steps":
            return " within a fixed number of steps"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as strict JSON data."""
        return json_data(
            {
                **vars(self),
                "target": self.target.expression or self.target.name,
                "activation": self.activation.name,
                "stages": [vars(stage) for stage in self.stages],
            }
        )

    def scenario(self, dim: int = 512, **fields: Any) -> Scenario:
        """Return the scenario whose experiment shows the verdict: run it with
        `giantstep.simulate` or `compare`.

        One sample at a time (`OnlineSGD`) at the rate of ``data``; three giant steps on
        4 d samples (`GiantSteps`).
        """
        problem: dict[str, Any] = {"target": self.target, "activation": self.activation}
        if self.algorithm == "giant-steps":
            law = Vocabulary(list(dict.fromkeys(self.second_layer)))
            known = {
                "second_layer": law,
                "rate": 1.0,
                "batch_per_dim": 4.0,
                "steps": 3,
                "width": 40,
            }
            return family_class("giant-steps")(**{**problem, **known, **fields})
        if self.algorithm in ROUNDS:
            known = {
                "second_layer": list(self.second_layer),
                "samples_per_dim": 3.0,
                "rate": 0.2,
                "steps": 4,
            }
            known["data"] = "reused" if self.algorithm == "reused" else "fresh"
            return family_class("batch-reuse")(**{**problem, **known, **fields})
        rate = float(self.data["rate"])
        p = len(self.second_layer)
        known = {
            "second_layer": list(self.second_layer),
            "dim": dim,
            "batch_size": 1,
            "rate": rate * p / dim,
            "steps": 50 * dim,
            "algorithm": self.algorithm,
            "initial_overlap": "zero",
        }
        if self.algorithm in ("extragradient", "sam"):
            known["inner_rate"] = self.data["inner_rate"]
        return family_class("online-sgd")(**{**problem, **known, **fields})

    def experiment(
        self, dim: int = 128, *, runs: int = 32, seed: int = 0, **fields: Any
    ) -> xarray.Dataset:
        """Run the network of `scenario` and return the largest cosine of any neuron
        with each direction at the end.

        One-pass runs last as long as the verdict says where its constant is known (at
        least 50 d samples, at most 400 d), 50 d samples otherwise. ``cosine`` and
        ``cosine_stderr`` over ``direction`` are the mean over runs of max_j |cosine_j|,
        of the order of d^-1/2 where nothing is learned; the attribute ``text`` says it
        in a sentence.
        """
        from giantstep.core.result.text import Result

        if self.algorithm == "giant-steps" or self.algorithm in ROUNDS:
            scenario = self.scenario(dim, **fields)
            cosine = simulate(
                scenario, dim=dim, trials=runs, seed=seed, keep_trials=True
            )["cosine"].isel(time=-1)
            best = abs(cosine).max(
                [name for name in cosine.dims if name not in ("trial", "direction")]
            )
            mean = best.mean("trial")
            error = best.std("trial", ddof=1) / math.sqrt(runs)
            length = f"{scenario.numeric_fields()['steps'][0]:.0f} steps"
        else:
            log = math.log(dim) if "log" in self.samples else 1.0
            lasting = min(max(50.0, 1.2 * (self.constant or 0.0) * log), 400.0)
            scenario = self.scenario(dim, **{"steps": round(lasting * dim), **fields})
            per_trial = max(1, runs // 4)
            last = int(scenario.numeric_fields()["steps"][0])
            ends = simulate(
                scenario, trials=4, runs=per_trial, times=[last], seed=seed
            ).isel(time=-1)
            runs = 4 * per_trial
            mean = ends["best"]
            error = ends["best_stderr"]
            length = f"{last / dim:.4g} d samples"
        each = ", ".join(
            f"{m:.3f}({e:.3f}) with {direction_text(row)}"
            for m, e, row in zip(
                mean.values, error.values, np.eye(self.target.directions)
            )
        )
        text = (
            f"experiment, d = {dim}, {runs} runs of {length}: largest cosine {each} (by"
            f" chance about {dim**-0.5:.2f})"
        )
        values = {
            "cosine": mean.drop_vars("time"),
            "cosine_stderr": error.drop_vars("time"),
        }
        return Result(
            values, attrs={"text": text, "dim": dim, "runs": runs, "seed": seed}
        )
