"""The scenario of the best possible error: a target of a few directions, its noise, and
the samples per dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from inspect import cleandoc
from typing import ClassVar

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.dimensions import Dimension
from giantstep.core.scenario.family import Engine, Question, Setting, Variable
from giantstep.core.scenario.fields import MultiIndex, Number, field
from giantstep.core.scenario.model import Scenario
from giantstep.problems.bayes_limit.reading import TargetReading, read_target

BRANCHES = ("uninformed", "informed", "bayes")
"""What message passing reaches without knowledge, what it keeps from full knowledge,
and the best possible.
"""
PHASES = ("impossible", "hard", "optimal")
"""Nothing can be learnt; message passing stays below the best possible; it reaches the
best possible.
"""

_LIMIT: tuple[Engine, ...] = ("limit",)
_EXPERIMENT: tuple[Engine, ...] = ("experiment",)
_LOST = (
    "GAMP contradicted itself from every start (more samples, another start or a larger"
    " dim helps)"
)
_NO_LABELS = "the outputs are numbers, not labels that can be wrong"
_NO_JUMP = (
    "there is no such jump, or none was looked for (several directions without"
    " symmetry; `transition` says so)"
)
_SAMPLED = (
    "three or more directions are sampled: the free entropies of two branches do not"
    " tell which is the best"
)


def _table(along: str) -> tuple[Variable, ...]:
    return (
        Variable(
            "q",
            (along,),
            "tr M/r",
            "overlap with the target's directions, a squared cosine",
            missing=_LOST,
            absent=_SAMPLED,
        ),
        Variable(
            "M",
            (along, "direction", "direction_2"),
            "M",
            "overlap matrix of the posterior mean with the truth",
            absent=_SAMPLED,
        ),
        Variable(
            "mse",
            (along,),
            "E(y - ghat)^2",
            "best square error given this overlap, noise included",
            absent=_SAMPLED,
        ),
        Variable(
            "error",
            (along,),
            "P(y != yhat)",
            "best fraction of wrong labels, flips included; NaN without labels",
            compared=False,
            absent=_NO_LABELS,
        ),
    )


_ERRORS = (
    *_table("branch"),
    Variable(
        "phi",
        ("branch",),
        "phi",
        "free entropy per dimension; infinite at full recovery",
        engines=_LIMIT,
        absent=_SAMPLED,
    ),
    Variable(
        "phase",
        (),
        "-",
        "impossible, hard (AMP stays below the best possible) or optimal",
        engines=_LIMIT,
    ),
    Variable(
        "sweeps",
        (),
        "-",
        "sweeps until GAMP stood still",
        engines=_EXPERIMENT,
        compared=False,
    ),
)
_ABSENT_THRESHOLDS = {
    **dict.fromkeys(
        ("alpha_dyn", "alpha_it", "alpha_amp", "q_dyn", "q_it", "q_amp"), _NO_JUMP
    ),
    "alpha_direction": "the stages before it are known, this one is not computed",
}
_THRESHOLDS = tuple(
    Variable(
        name,
        dims,
        symbol,
        meaning,
        engines=_LIMIT,
        absent=_ABSENT_THRESHOLDS.get(name, ""),
    )
    for name, dims, symbol, meaning in (
        (
            "alpha_weak",
            (),
            "alpha_c",
            (
                "samples per dimension above which AMP learns something; 0 where it"
                " always does"
            ),
        ),
        (
            "alpha_dyn",
            (),
            "alpha_dyn",
            "where a better fixed point than that of AMP is born",
        ),
        (
            "alpha_it",
            (),
            "alpha_IT",
            (
                "where the best possible overlap jumps; without a jump, where it leaves"
                " zero"
            ),
        ),
        ("alpha_amp", (), "alpha_AMP", "above which AMP reaches the best possible"),
        (
            "alpha_full",
            (),
            "alpha_full",
            "above which AMP recovers the directions exactly; inf with noise or labels",
        ),
        ("q_dyn", (), "q_dyn", "overlap of the better fixed point where it is born"),
        ("q_it", (), "q_IT", "best possible overlap just above alpha_it"),
        ("q_amp", (), "q_AMP", "overlap of AMP just below alpha_amp"),
        (
            "alpha_direction",
            ("direction",),
            "alpha_k",
            "where AMP starts to learn each direction of `vector`",
        ),
        (
            "vector",
            ("direction", "direction_2"),
            "u_k",
            "orthonormal directions in the order in which they are learnt",
        ),
        (
            "transition",
            (),
            "-",
            "first-order (the overlap jumps), continuous, or not looked for",
        ),
    )
)
_CURVE = tuple(
    Variable(name, ("overlap",), symbol, meaning, engines=_LIMIT)
    for name, symbol, meaning in (
        (
            "alpha",
            "alpha(q)",
            "samples per dimension at which this overlap is a fixed point",
        ),
        (
            "phi",
            "phi(q)",
            "free entropy per dimension at the samples_per_dim of the scenario",
        ),
        ("stable", "-", "1 where the fixed point is stable (alpha rises), 0 where not"),
    )
)


class BayesLimit(Scenario):
    """The best possible test error on n = samples_per_dim d samples of a target, and
    the best of message passing.

    x ~ N(0, I_d), y = g(z1..zr) + sqrt(noise) N(0, 1) with z_j = <w_j, x>/sqrt(d),
    |w_j|^2 = d; without noise y = g(z); where g takes K values, y is another of them
    with probability `flip`. The target is known, its directions are not. The overlap q
    is the squared cosine between the posterior mean of the directions and the truth;
    the limit is d -> inf with n/d fixed.

    >>> import giantstep as gs
    >>> r = gs.predict(gs.BayesLimit(target="abs(z)", samples_per_dim=1.05))
    >>> # message passing, from full knowledge, best possible
    >>> (
    ...     r.q.values.round(4).tolist(),
    ...     str(r.phase.values),
    ... )
    ([0.5684, 1.0, 1.0], 'hard')
    """

    family: ClassVar[str] = "bayes-limit"
    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("activation", "ridge", "loss", "width_per_dim", "rate"),
            "it is the best any estimator can do; networks are OneStep, FewSteps,"
            " GiantSteps",
        ),
        **dict.fromkeys(
            ("shift", "what=shift"),
            "fresh inputs have the law of the samples; others are"
            " Network(shift=gs.Shift(scale=1.4))",
        ),
        "what=calibration": (
            "probabilities of the exact posterior are right; those of a fit are asked"
            " of Network"
        ),
    }
    title: ClassVar[str] = "The best possible error of a multi-index target"
    update_rule: ClassVar[str] = cleandoc("""
        data     x ~ N(0, I_d),  z = W x/sqrt(d) in R^r,  rows of W of squared length d
                 y = g(z) + sqrt(noise) N(0,1);  labels: another one with probability flip
        Bayes    posterior mean of W and of y given n = samples_per_dim d samples; g, noise and flip are known
        GAMP     omega = X What - g V,  g = V^-1 (E[z|y,omega] - omega),  A = -sum dg/domega/d,
                 What = (X^T g + What A)(1 + A)^-1,  V = (1 + A)^-1,  X with entries N(0, 1/d)
        limit    d -> inf with n/d fixed:  M' = alpha I(M)(1 + alpha I(M))^-1 is one sweep of GAMP;
                 the fixed point of largest free entropy phi is Bayes-optimal
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "errors": Question(
            "overlaps, best errors and free entropy of message passing, from full"
            " knowledge, and of the best possible",
            _ERRORS,
            settings={
                "start": Setting(
                    "random",
                    "where GAMP starts; seed (at `overlap`) follows the informed"
                    " branch, others the uninformed",
                    engines=_EXPERIMENT,
                    choices=("random", "spectral", "seed"),
                ),
                "overlap": Setting(
                    0.9, "overlap of the seed with the truth", engines=_EXPERIMENT
                ),
                "max_sweeps": Setting(
                    200, "sweeps of GAMP at most", engines=_EXPERIMENT
                ),
            },
            plot=("mse", "error", "q"),
            labels={"branch": BRANCHES},
        ),
        "trajectory": Question(
            "GAMP sweep by sweep beside state evolution, from a start of known overlap"
            " with the truth",
            _table("time"),
            settings={
                "overlap": Setting(
                    None,
                    "overlap of the start: q, the r diagonal entries of M, or all r r"
                    " entries",
                ),
                "steps": Setting(12, "sweeps"),
            },
            plot=("q", "mse"),
        ),
        "thresholds": Question(
            "samples per dimension at which each direction is learnt, branches are born"
            " and the optimum is reached; samples_per_dim itself plays no part",
            _THRESHOLDS,
            plot=("alpha_weak", "alpha_it", "alpha_amp"),
        ),
        "branches": Question(
            "the curve alpha(q) of all fixed points, where one overlap describes them",
            _CURVE,
            settings={
                "overlap": Setting(
                    None,
                    "overlaps q (0.01, 0.02, ..., 0.99 if left out)",
                    engines=_LIMIT,
                )
            },
            plot=("alpha",),
            dimensions=(Dimension("overlap", "curve", "overlap", "q"),),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "Bayes-optimal state evolution and its free entropy"
    }
    papers: ClassVar[tuple[str, ...]] = (
        "giantstep2026best",
        "barbier2019optimal",
        "aubin2019committee",
        "mondelli2019fundamental",
        "troiani2024fundamental",
    )
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim",)

    target: MultiIndex = field(
        "g(z1..zr)",
        "target, a function of up to six directions; known to the estimator",
    )
    noise: Number = field("delta", "variance of Gaussian noise on y", default=0.0, ge=0)
    flip: Number = field(
        "f",
        "probability that a label is replaced by another one",
        default=0.0,
        ge=0,
        lt=1,
    )
    samples_per_dim: Number = field("alpha = n/d", "samples per dimension", gt=0)

    @cached_property
    def reading(self) -> TargetReading:
        """What the target is, as the limit sees it."""
        return read_target(self.target)

    def check(self) -> None:
        """Check that the parts fit together."""
        self.check_points(self.point())

    def check_points(self, points: Points) -> None:
        """Refuse what no channel covers."""
        noise = points["noise"]
        flip = points["flip"]
        if np.any((noise > 0) & (flip > 0)):
            raise bad_field(
                "flip", float(flip.max()), "0 where there is noise (one of the two)"
            )
        reading = self.reading
        most = 0.0 if reading.labels is None else 1 - 1 / len(reading.labels)
        if np.any(flip > 0) and reading.labels is None:
            raise bad_field(
                "flip",
                float(flip.max()),
                f"0 for {self.target.name}, which is no label: give it noise",
            )
        if np.any((flip > 0) & (flip >= most)):
            raise bad_field(
                "flip",
                float(flip.max()),
                f"below {most:g}, where {len(reading.labels or ())} labels say nothing",
            )
        if (
            np.any(noise == 0)
            and reading.rank > 1
            and reading.labels is None
            and reading.product_scale is None
        ):
            raise InputError(
                f"The target {self.target.name} has {reading.rank} directions and no"
                " level sets in closed form; field `noise` must be above 0, but is"
                " noise=0.0."
            )

    @classmethod
    def example(cls) -> BayesLimit:
        """Return a small valid scenario."""
        return cls(target="tanh(z)", noise=0.1, samples_per_dim=1.0)

    def direction_thresholds(self) -> tuple[Floats, Floats]:
        """Return n/d above which message passing learns each direction, and the
        directions as orthonormal rows.

        0 where samples of order d always show it, infinite where they never do.

        >>> alpha, rows = BayesLimit(
        ...     target="z1 + h2(z2)", noise=0.25, samples_per_dim=1.0
        ... ).direction_thresholds()
        >>> alpha.round(6).tolist(), rows.tolist()
        ([0.0, 0.644912], [[1.0, 0.0], [0.0, 1.0]])
        """
        from giantstep.problems.bayes_limit.problem import problem_of

        problem = problem_of(self.target, float(self.noise), float(self.flip))
        alpha, rows = problem.first_learnt()
        return alpha, rows @ problem.reading.basis

    def seconds(self, what: str) -> float:
        """Return about how long a point takes: seconds for noisy targets of several
        directions, else milliseconds.
        """
        from giantstep.problems.bayes_limit.problem import problem_of

        if what == "branches" or self.reading.rank == 1:
            return 0.0
        return float(
            problem_of(self.target, float(self.noise), float(self.flip)).seconds
        )

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the own dimensions."""
        return {
            "direction": self.target.directions,
            "direction_2": self.target.directions,
        }
