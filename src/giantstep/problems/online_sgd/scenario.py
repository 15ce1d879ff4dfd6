"""The scenario of one-pass SGD: a two-layer network trained on fresh samples, its
overlaps with the target followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.scenario.arrays import ArrayField
from giantstep.core.scenario.family import PhaseDiagram, Question, Setting, Variable
from giantstep.core.scenario.fields import (
    Expression,
    Integer,
    MultiIndex,
    Number,
    Numbers,
    field,
)
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import (
    Paper,
    either,
    nearest_integer,
    notation_of,
)
from giantstep.problems.learnability.algorithms import (
    NAMED,
    Algorithm,
    Student,
    as_algorithm,
)
from giantstep.problems.learnability.prepared import rules

_Target = Annotated[Function | str, "target"]
_Activation = Annotated[Function | str, "activation"]
_SecondLayer = Annotated[Floats, "second layer, a number for every neuron"]
_Dimension = Annotated[int, "input dimension"]
_Batch = Annotated[int, "samples of an update"]
_Updates = Annotated[int, "number of updates"]


def _arnaboldi2024online(
    *,
    h_star: _Target,
    sigma: _Activation,
    a: _SecondLayer,
    d: _Dimension,
    n_b: _Batch,
    T: _Updates,
    gamma: Annotated[float, "learning rate"],
    gamma0: Annotated[float, "its prefactor, gamma = gamma0 d^-delta"],
    delta: Annotated[float, "its decay with the dimension"],
    mu: Annotated[float, "growth of the batch, n_b = d^mu"],
    Delta: Annotated[float, "variance of the label noise"],
) -> dict[str, Any]:
    """Arnaboldi et al. 2024 let the rate fall and the batch grow with the dimension."""
    return {
        "target": h_star,
        "activation": sigma,
        "second_layer": a,
        "dim": d,
        "steps": T,
        "rate": either(gamma, gamma0 * d ** (-delta)),
        "batch_size": either(n_b, nearest_integer(d**mu)),
        "noise": Delta,
    }


def _arnaboldi2024repetita(
    *,
    h_star: _Target,
    sigma: _Activation,
    a: _SecondLayer,
    d: _Dimension,
    n_b: _Batch = 1,
    T: _Updates,
    gamma0: Annotated[float, "rate of a sample, gamma = gamma0 n_b p/d"],
    p: Annotated[int, "number of neurons"],
    rho0: Annotated[float, "rate of the inner step, rho = rho0 p/d"],
    rho: Annotated[float, "inner step"],
) -> dict[str, Any]:
    """Arnaboldi et al. 2024, where every sample is seen twice: their rates are those of
    one neuron and one sample.
    """
    return {
        "target": h_star,
        "activation": sigma,
        "second_layer": a,
        "dim": d,
        "steps": T,
        "rate": gamma0 * n_b * p / d,
        "inner_rate": either(rho0, rho * d / p),
        "batch_size": n_b,
    }


PAPERS = {
    "arnaboldi2024online": Paper(
        _arnaboldi2024online,
        shown={
            "target": "h*",
            "activation": "sigma",
            "noise": "Delta",
            "M": "M",
            "Q": "Q",
        },
    ),
    "arnaboldi2024repetita": Paper(
        _arnaboldi2024repetita,
        shown={
            "target": "h*",
            "activation": "sigma",
            "rate": "gamma = gamma0 n_b p/d",
            "M": "M",
        },
    ),
}
"""BibTeX key -> the parameters of that paper."""


def _read_algorithm(value: Any) -> Any:
    """Return a name, a label transform as a Function, or a callable as an Algorithm."""
    try:
        known = as_algorithm(value)
    except InputError as error:
        if error.allowed:
            raise ValueError(error.allowed) from None
        raise
    if known.source is None:
        return known.name
    if isinstance(known.source, Function):
        return known.source
    return known


def _algorithm_json(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Function) and value.expression is not None:
        return value.expression
    known = as_algorithm(value)
    return {"callable": known.name, "fingerprint": known.identity()}


AlgorithmField = Annotated[
    Literal["squared", "correlation", "extragradient", "sam", "two-step", "exponential"]
    | Function
    | Algorithm,
    BeforeValidator(_read_algorithm),
    PlainSerializer(_algorithm_json, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "description": f"{', '.join(NAMED)}, or a transform of the label, T(z)",
        }
    ),
]
"""A named algorithm, a label transform T (F = s'(l) T(y)) or a callable F(l, y)."""

_SHARED = {
    "runs": Setting(
        1,
        "independent runs in each trial, made at once; a trial answers with their mean"
        " (time: median)",
    ),
    "starts": Setting(
        1,
        "random starts the limit is averaged over; a comparison takes those of its"
        " trials",
        ("limit",),
    ),
    "moments": Setting(
        "auto",
        "how Gaussian averages are taken: chosen, product rules, or Sobol points",
        choices=("auto", "tensor", "sobol"),
    ),
    "nodes": Setting(
        None, "nodes per dimension of a product rule (chosen if left out)", ("limit",)
    ),
    "points": Setting(
        8192,
        "Sobol points of each of the four scrambles that measure the error",
        ("limit",),
    ),
    "simulator": Setting(
        "exact-law",
        "draw what the overlaps see, exactly in law and at a cost that does not grow "
        "with d; or the d-dimensional network",
        ("experiment",),
        choices=("exact-law", "direct"),
    ),
}
_TRAJECTORY = (
    Variable(
        "M",
        ("time", "neuron", "direction"),
        "M = W W*^T",
        "overlaps of the neurons with the target directions",
    ),
    Variable(
        "Q",
        ("time", "neuron", "neuron_2"),
        "Q = W W^T",
        "overlaps of the neurons with each other",
    ),
    Variable(
        "mse", ("time",), "E(h - f)^2", "mean squared error, label noise left out"
    ),
    Variable(
        "cosine",
        ("time", "neuron", "direction"),
        "M_jr/sqrt(Q_jj P_rr)",
        "cosine of neuron and direction",
    ),
    Variable(
        "best",
        ("time", "direction"),
        "max_j |cosine|",
        "largest cosine of any neuron with a direction, what the "
        "papers plot; lifted by noise of order d^-1/2",
        compared=False,
    ),
    Variable(
        "rms",
        ("time", "direction"),
        "sqrt(E cosine_1^2)",
        "root mean square over `runs` (or starts) of the first neuron's cosine",
        compared=False,
    ),
)
_NEVER = "no neuron reaches the cosine within `steps`"
_LATE = "half of its runs or more did not reach the cosine within `steps`"
_NO_ESCAPE = (
    "zero overlap has no linear instability, or there is more than one neuron or"
    " direction"
)
_RECOVERY = (
    Variable(
        "recovery_time",
        (),
        "T",
        "updates until some neuron's cosine reaches `threshold`: median over `runs`",
        missing=_LATE,
        absent=_NEVER,
    ),
    Variable(
        "recovery_samples",
        (),
        "n_b T/d",
        "the same in samples per dimension",
        missing=_LATE,
        absent=_NEVER,
    ),
    Variable(
        "escape_time",
        (),
        "E T",
        "mean time to leave the saddle at M = 0 by a linear instability and noise (one "
        "neuron and direction, NaN else)",
        absent=_NO_ESCAPE,
        stands=True,
    ),
    Variable(
        "escape_rate",
        (),
        "r",
        "rate of that instability per update (NaN where there is none)",
        ("limit",),
        absent=_NO_ESCAPE,
        stands=True,
    ),
    Variable(
        "recovered",
        (),
        "-",
        "fraction of the runs that reached it within `steps`",
        compared=False,
    ),
)
_PHASES = tuple(
    Variable(name, (), symbol, meaning, ("limit",))
    for name, symbol, meaning in (
        (
            "order",
            "l",
            "information exponent of the target: order of its first Hermite tensor",
        ),
        ("mu", "log_d n_b", "exponent of the batch size of this run"),
        ("delta", "-log_d gamma", "exponent of the rate of this run"),
        (
            "theta",
            "log_d T",
            "exponent of the time this run needs at its rate (inf: it does not learn)",
        ),
        ("theta_best", "theta(mu)", "smallest exponent of the time at this batch size"),
        (
            "delta_best",
            "delta(mu)",
            "exponent of the largest useful rate at this batch size",
        ),
        ("mu_best", "mu*", "smallest batch exponent that reaches the shortest time"),
        ("theta_run", "log_d steps", "exponent of the number of steps of this run"),
        ("phase", "-", "where the run lies when it starts without overlap"),
        (
            "regime",
            "-",
            "what drives overlaps that are not small: drift, noise or both",
        ),
    )
)


class OnlineSGD(Scenario):
    """One-pass SGD on the first layer of a two-layer network, with fresh batches.

    Data x ~ N(0, I_d), labels y = h(W* x) + sqrt(noise) N(0,1); student f = (1/p) sum_j
    a_j s(w_j.x). Every update is w_j <- w_j + (rate/p) a_j mean over the batch of F_j
    x, with the force F of the algorithm. The limit follows the overlaps M = W W*^T and
    Q = W W^T by their exact mean map (or its ODE), the experiment draws them or the
    network.

    >>> import giantstep as gs
    >>> s = gs.OnlineSGD(
    ...     target="h3(z1)",
    ...     activation="h3",
    ...     dim=64,
    ...     batch_size=64,
    ...     rate=0.0025,
    ...     steps=3000,
    ...     algorithm="correlation",
    ...     constraint="projected",
    ...     initial_overlap="random",
    ... )
    >>> int(gs.predict(s, what="recovery").recovery_time)
    157
    """

    family: ClassVar[str] = "online-sgd"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "width": (
            "its neurons are the numbers of `second_layer`, as in second_layer=[1, -1]"
            " for two"
        ),
        "samples_per_dim": "it sees `batch_size` fresh samples in each of its `steps`",
    }
    title: ClassVar[str] = "One-pass SGD of a two-layer network"
    update_rule: ClassVar[str] = cleandoc("""
        data      x ~ N(0, I_d),  y = h(W* x) + sqrt(noise) N(0,1),  W* W*^T = target_gram (identity)
        network   f(x) = (1/p) sum_j a_j s(l_j),  l_j = <w_j,x>,  loss (y - f)^2/2
        update    w_j <- w_j + (rate/p) a_j (1/n_b) sum_b F_j(l^b, y^b) x^b,  n_b = batch_size fresh samples
        squared   F = s'(l)(y - f(l))          correlation  F = s'(l) y
        extragradient, sam   F = s'(l~)(y - f(l~)),  l~_j = l_j + inner_rate S a_j s'(l_j)(y - f(l)),  S = |x|^2/d;
                             inner step per sample; sam has inner_rate < 0
        two-step  F = F1 + F2 on one sample, F2 after the first step, inner rate (rate/p) d; needs batch_size = 1
        exponential  F = exp(min(-y f, 2)) y s'(l)
        projected    w_j <- w_j/|w_j| after the update;  spherical: x - l_j w_j for x in row j, then the same
        limit     d -> inf at p, k fixed; the map keeps the terms of order d/n_b and 1/n_b exactly
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "trajectory": Question(
            "overlaps, cosines and error along the run",
            _TRAJECTORY,
            settings={
                "times": Setting(
                    None,
                    "updates that are kept (at most 400, denser early, if left out)",
                ),
                **_SHARED,
            },
            plot=("cosine", "mse"),
        ),
        "recovery": Question(
            "how many updates until some neuron has a cosine with the target",
            _RECOVERY,
            settings={
                "threshold": Setting(0.5, "cosine that counts as recovery"),
                **_SHARED,
            },
            plot=("recovery_time",),
        ),
        "phases": Question(
            "exponents of batch size, rate and time (single-index scaling), and the"
            " place of this run among them",
            _PHASES,
            plot=("theta",),
            figure="phase-diagram",
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "map": "the mean map of the overlaps, one step exact given the overlaps",
        "ode": (
            "its limit of small rates: population drift plus the noise term of order"
            " rate d/n_b"
        ),
        "asymptotic": (
            "the map with only the leading term, of order d/n_b, of what a batch"
            " scatters"
        ),
        "published": (
            "the map as published: asymptotic, and without the correction by 1/n_b to"
            " the squared drift"
        ),
    }
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)
    papers: ClassVar[tuple[str, ...]] = (
        "arnaboldi2024online",
        "arnaboldi2024repetita",
        "dandi2023giant",
        "saad1995online",
    )
    shared_fields: ClassVar[tuple[str, ...]] = ("rate", "inner_rate", "noise")

    target: MultiIndex = field(
        "h", "target: the label is h(z1..zk) plus noise, z = W* x", default="h3(z1)"
    )
    activation: Expression = field(
        "s", "activation of the hidden layer", default="relu"
    )
    second_layer: Numbers = field(
        "a",
        "second layer, one number per neuron, fixed; its length is the width p",
        default=(1.0,),
    )
    noise: Number = field("D", "variance of the label noise", default=0.0, ge=0)
    dim: Integer = field("d", "input dimension, at least 2p + k", default=1000, ge=2)
    batch_size: Integer = field("n_b", "fresh samples of each update", default=1, ge=1)
    rate: Number = field(
        "gamma",
        "learning rate; each neuron moves by (rate/p) a_j times the mean of F x",
        gt=0,
    )
    steps: Integer = field("T", "updates", default=1000, ge=1)
    algorithm: AlgorithmField = field(
        "F",
        "squared, correlation, extragradient, sam, two-step, exponential, or a force of"
        " your own",
        default="squared",
    )
    inner_rate: Number = field(
        "rho0",
        "rate of the inner step (extragradient, sam), in units of p/d",
        default=0.1,
    )
    constraint: Literal["none", "projected", "spherical"] = field(
        "|w_j|",
        "what is done to the rows: nothing, normalised, or moved on the sphere",
        default="none",
    )
    initial_overlap: Literal["zero", "random", "gaussian"] | ArrayField = field(
        "M_0",
        "a p x k matrix, zero, random (norm d^-1/2, from the seed) or gaussian"
        " (variance 1/d)",
        default="random",
    )
    initial_gram: Literal["orthogonal", "random"] | ArrayField = field(
        "Q_0",
        "a p x p matrix, or unit rows whose parts outside the target space are"
        " orthogonal or random",
        default="orthogonal",
    )
    target_gram: Literal["identity"] | ArrayField = field(
        "P", "Gram matrix W* W*^T of the target directions", default="identity"
    )

    # -- what follows from the fields --------------------------------------------------

    @property
    def width(self) -> int:
        """Number of hidden neurons p."""
        return len(self.second_layer)

    @property
    def directions(self) -> int:
        """Number of target directions k."""
        return self.target.directions

    @property
    def known_algorithm(self) -> Algorithm:
        """The algorithm with its force."""
        return as_algorithm(self.algorithm)

    @property
    def network(self) -> Student:
        """The student."""
        return Student(self.activation, np.array(self.second_layer))

    @property
    def whitening(self) -> Floats:
        """C with C C^T = P: z = C zeta for independent zeta."""
        if isinstance(self.target_gram, str):
            return np.eye(self.directions)
        return np.linalg.cholesky(np.array(self.target_gram))

    @property
    def frame(self) -> Floats:
        """The unit target directions in whitened coordinates, as columns."""
        directions = self.whitening.T
        return np.asarray(directions / np.linalg.norm(directions, axis=0))

    def seconds(self, what: str) -> float:
        """Return about how long the map takes to its recovery, where the escape from
        the saddle says when that is.
        """
        from giantstep.problems.online_sgd.limit import SECONDS_OF_UPDATE, beforehand

        if what != "recovery":
            return 0.0
        settings = {
            name: setting.default
            for name, setting in self.questions[what].settings.items()
        }
        updates = float(
            beforehand(self, self.point(), what, settings)["escape_time"][0]
        )
        if math.isnan(updates):
            return 0.0
        return min(updates, float(self.steps)) * SECONDS_OF_UPDATE

    def diagram(self) -> PhaseDiagram:
        """Return the exponents of batch size, rate and time, which have a drawing of
        their own.
        """
        return PhaseDiagram("phases")

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the counted dims."""
        return {
            "neuron": self.width,
            "neuron_2": self.width,
            "direction": self.directions,
        }

    # -- checks ------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the parts fit together."""
        if not self.second_layer:
            raise bad_field(
                "second_layer", [], "a list of at least one number, one per neuron"
            )
        if self.activation.jumps:
            jump = f"{self.activation.name} jumps at {self.activation.jumps[0]:g}"
            raise InputError(f"Field `activation` must have a derivative, but {jump}.")
        self._check_target()
        self._check_start()
        self.check_points(self.point())

    def _check_target(self) -> None:
        k = self.directions
        if not isinstance(self.target_gram, str):
            P = np.array(self.target_gram)
            if P.shape != (k, k):
                raise bad_field(
                    "target_gram",
                    self.target_gram,
                    f"a {k} x {k} matrix, as many rows as directions",
                )
            if not np.allclose(P, P.T) or np.linalg.eigvalsh(P)[0] < 1e-10:
                raise bad_field(
                    "target_gram", self.target_gram, "symmetric and positive definite"
                )
        with np.errstate(all="ignore"):
            values = self.target(np.random.default_rng(0).standard_normal((512, k)))
        if not np.all(np.isfinite(values)):
            raise bad_field("target", self.target.name, "finite almost everywhere")
        if k <= 3 and (self.target.expression is None or not self.target.all_planes):
            rules(self.target, None)  # refuses kinks and jumps that no rule expects

    def _check_start(self) -> None:
        p = self.width
        k = self.directions
        if isinstance(self.initial_overlap, str):
            M = None
        else:
            M = np.array(self.initial_overlap)
        if isinstance(self.initial_gram, str):
            Q = None
        else:
            Q = np.array(self.initial_gram)
        if M is not None and M.shape != (p, k):
            shape = (
                f"a {p} x {k} matrix: a row for each number of second_layer, a column"
                " for each target direction"
            )
            raise bad_field("initial_overlap", self.initial_overlap, shape)
        if Q is not None and (Q.shape != (p, p) or not np.allclose(Q, Q.T)):
            shape = (
                f"a symmetric {p} x {p} matrix: a row for each number of second_layer"
            )
            raise bad_field("initial_gram", self.initial_gram, shape)
        if (
            Q is not None
            and self.constraint == "spherical"
            and not np.allclose(np.diag(Q), 1.0, rtol=0, atol=1e-9)
        ):
            raise bad_field(
                "initial_gram",
                np.diag(Q).tolist(),
                'one on the diagonal where constraint="spherical"',
            )
        if M is None:
            return
        M = M @ np.linalg.inv(self.whitening).T
        if Q is None and np.any((M**2).sum(axis=1) > 1 + 1e-12):
            unit = (
                "rows of length at most 1 where initial_gram is not given (rows have"
                " unit norm)"
            )
            raise bad_field("initial_overlap", self.initial_overlap, unit)
        rest = 0.0 if Q is None else float(np.linalg.eigvalsh(Q - M @ M.T)[0])
        if rest < -1e-10:  # beyond rounding
            least = (
                "at least M P^-1 M^T of the initial overlaps (an eigenvalue of the"
                f" difference is {rest:.2g})"
            )
            raise bad_field("initial_gram", self.initial_gram, least)

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Check dimension, batch and inner rate against width and algorithm."""
        p = self.width
        k = self.directions
        least = 2 * p + k
        if np.any(points["dim"] < least):
            raise bad_field(
                "dim",
                int(points["dim"].min()),
                f"at least 2p + k = {least} (p = {p} neurons, k = {k})",
            )
        if self.algorithm == "two-step" and np.any(points["batch_size"] != 1):
            raise bad_field(
                "batch_size",
                int(points["batch_size"].max()),
                "1 for two-step (both steps on one sample)",
            )
        worst = (
            float(np.max(self.inner_rates(points)))
            * max(a * a for a in self.second_layer)
            / p
        )
        if (
            worst >= 1
            and self.known_algorithm.repeats
            and "relu" in str(self.activation.expression)
        ):
            name = "rate" if self.algorithm == "two-step" else "inner_rate"
            below = (
                f"such that inner rate * a^2/p is below 1 for relu (here {worst:.3g}:"
                " the inner step overshoots)"
            )
            raise bad_field(name, float(np.max(points[name])), below)
        for name, sign, other in (
            ("sam", 1, "extragradient"),
            ("extragradient", -1, "sam"),
        ):
            wrong = sign * points["inner_rate"] > 0
            if self.algorithm == name and np.any(wrong):
                side, beyond = ("most", "above") if sign > 0 else ("least", "below")
                value = float(points["inner_rate"][wrong][0])
                raise bad_field(
                    "inner_rate",
                    value,
                    f"at {side} 0 for {name} ({beyond} 0 is {other})",
                )

    def inner_rates(self, points: Mapping[str, Floats]) -> Floats:
        """Return the inner rate at every point: inner_rate, or (rate/p) d for two steps
        on one sample.
        """
        if self.algorithm == "two-step":
            return np.asarray(points["rate"] / self.width * points["dim"])
        return np.asarray(points["inner_rate"], dtype=float)

    # -- examples ----------------------------------------------------------------------

    @classmethod
    def example(cls) -> OnlineSGD:
        """Return a small valid scenario."""
        numbers = {
            "dim": 200,
            "batch_size": 200,
            "rate": 0.8,
            "steps": 12,
            "initial_overlap": [[0.4]],
        }
        return cls(
            target="erf(z1/sqrt(2))",
            activation="erf(z/sqrt(2))",
            constraint="projected",
            **numbers,
        )
