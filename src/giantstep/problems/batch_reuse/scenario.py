"""The scenario of batch reuse: gradient descent of a finite-width two-layer network on
the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.scenario.arrays import ArrayField
from giantstep.core.scenario.family import Engine, Question, Setting, Variable
from giantstep.core.scenario.fields import (
    Expression,
    Integer,
    MultiIndex,
    Number,
    Numbers,
    field,
)
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.problems.batch_reuse.tolerances import NEGATIVE


def _dandi2024benefits(
    *,
    f_star: Annotated[Function | str, "target"],
    sigma: Annotated[Function | str, "activation"],
    a: Annotated[Floats, "second layer, a number for every neuron"],
    alpha: Annotated[float, "n/d"],
    eta: Annotated[float, "step size on the sum over samples"],
    lambda_: Annotated[float, "weight decay"],
    T: Annotated[int, "number of steps"],
) -> dict[str, Any]:
    """Dandi et al. 2024 have our normalisation, in other letters."""
    return {
        "target": f_star,
        "activation": sigma,
        "second_layer": a,
        "samples_per_dim": alpha,
        "rate": eta,
        "decay": lambda_,
        "steps": T,
    }


PAPERS = {
    "dandi2024benefits": Paper(
        _dandi2024benefits,
        shown={
            "target": "f*",
            "M": "M^t",
            "Q": "C_theta(t,t)",
            "samples_per_dim": "alpha = n/d (the loss is a sum over samples)",
        },
    )
}
"""BibTeX key -> the parameters of that paper."""
Loss = Literal["square", "correlation"]
_LIMIT: tuple[Engine, ...] = ("limit",)
_TRAJECTORY = (
    Variable(
        "M",
        ("time", "neuron", "direction"),
        "M_jr",
        "overlap of each neuron with each direction of the target",
    ),
    Variable(
        "Q",
        ("time", "neuron", "neuron_2"),
        "Q_ij",
        "overlaps of the neurons with each other",
    ),
    Variable(
        "cosine",
        ("time", "neuron", "direction"),
        "M_jr/sqrt(Q_jj)",
        "cosine of neuron and target direction",
    ),
    Variable(
        "train_loss",
        ("time",),
        "E l(h^t, y)",
        "loss per sample on the training samples",
    ),
    Variable(
        "population_loss",
        ("time",),
        "E l(f(x), y)",
        "loss per sample on fresh samples, label noise included",
    ),
    Variable(
        "generalisation",
        ("time",),
        "population - train",
        "population loss minus training loss",
    ),
    Variable("a", ("time", "neuron"), "a_j", "second layer", compared=False),
)
_KERNELS = (
    Variable(
        "C",
        ("time", "time_2", "neuron", "neuron_2"),
        "<w_i(t),w_j(s)>/d - M M^T",
        "overlaps of the weights at two times, outside the target directions",
    ),
    Variable(
        "Cl",
        ("step", "step_2", "neuron", "neuron_2"),
        "alpha E F(t)F(s)^T",
        "covariance of one sample's gradients at two steps, times samples per"
        " dimension",
    ),
    Variable(
        "K",
        ("time", "step", "neuron", "neuron_2"),
        "K(t,s)",
        "memory: how far a sample's own gradient at step s still pushes its"
        " pre-activation at time t",
        engines=_LIMIT,
    ),
)
_SETTINGS = {
    "nodes": Setting(
        2**16, "points of one run of the limit, a power of two", _LIMIT, coarse=2**12
    ),
    "scrambles": Setting(
        4,
        "independent runs of the limit, which make its standard errors",
        _LIMIT,
        coarse=1,
    ),
    "method": Setting(
        "matrix-free",
        "draw only the products of the data that gradient descent asks for, or the"
        " whole data matrix",
        ("experiment",),
        choices=("matrix-free", "direct"),
    ),
}


class BatchReuse(Scenario):
    """Gradient descent of a two-layer network of finite width on n = alpha d samples,
    again and again the same ones.

    f(x) = sum_j a_j sigma(w_j.x/sqrt(d)) with p neurons of squared length about d,
    labels y = g(h*) + noise with h*_r = w*_r.x/sqrt(d). The limit is d -> inf with n/d
    and the number of steps fixed; in it the pre-activation of one sample follows a
    process with memory, and a batch that is used twice teaches directions no single
    pass can see.

    >>> import giantstep as gs
    >>> s = gs.BatchReuse(
    ...     target="h3(z)/sqrt(6)",
    ...     activation="erf(z/sqrt(2))",
    ...     samples_per_dim=2,
    ...     rate=0.3,
    ...     steps=2,
    ... )
    >>> [
    ...     round(abs(gs.predict(s, data=data).M[2, 0, 0].item()), 3)
    ...     for data in ("reused", "fresh")
    ... ]
    [0.036, 0.0]
    """

    family: ClassVar[str] = "batch-reuse"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "width": (
            "its neurons are the numbers of `second_layer`, as in second_layer=[1, -1]"
            " for two"
        )
    }
    title: ClassVar[str] = "Batch reuse: gradient descent on the same samples"
    update_rule: ClassVar[str] = cleandoc("""
        data    x ~ N(0, I_d),  y = g(h*) + sqrt(noise) N(0,1),  h*_r = <w*_r, x>/sqrt(d),  |w*_r|^2 = d, orthogonal
        net     f(h) = sum_j a_j sigma(h_j),  h_j = <w_j, x>/sqrt(d),  p = len(second_layer) neurons
        step    W <- (1 - rate decay) W - (rate/sqrt(d)) sum_mu F(h_mu, y_mu) x_mu^T     (a sum, not a mean)
                loss = "square": F_j = (f - y) a_j sigma'(h_j);  "correlation": F_j = -y a_j sigma'(h_j)
                momentum: V <- momentum V + gradient + decay W,  W <- W - rate V;  a <- a - second_layer_rate dl/da
                constraint = "spherical": rows brought back to |w_j|^2 = d after every step
        data    "reused": the same n = samples_per_dim d samples at every step;  "fresh": n new ones
                "cycle": groups of n/batches in turn;  "replacement": each sample with probability 1/batches
        limit   d -> inf with samples_per_dim and steps fixed;  M = W W*^T/d,  Q = W W^T/d
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "trajectory": Question(
            "overlaps, weight Gram matrix and losses after every step",
            _TRAJECTORY,
            settings=_SETTINGS,
            plot=("M", "train_loss", "population_loss"),
        ),
        "kernels": Question(
            "two-time kernels of the theory: what the weights and the gradients"
            " remember",
            _KERNELS,
            settings=_SETTINGS,
            plot=("C",),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "discrete-time dynamical mean-field theory"
    }
    papers: ClassVar[tuple[str, ...]] = ("dandi2024benefits",)
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)

    target: MultiIndex = field(
        "g", "target: the label is g(h*_1, ..., h*_k) plus noise", default="tanh(z)"
    )
    activation: Expression = field(
        "sigma", "activation of the hidden layer", default="relu"
    )
    second_layer: Numbers = field(
        "a", "second layer at the start, one number for each neuron", default=(1.0,)
    )
    noise: Number = field("Delta", "variance of the label noise", default=0.0, ge=0)
    samples_per_dim: Number = field(
        "alpha = n/d", "samples per dimension (of every step where fresh)", gt=0
    )
    rate: Number | Numbers = field(
        "eta",
        "step size above 0, or a list of one for each step; the gradient is a sum",
    )
    steps: Integer = field("T", "number of gradient steps", default=6, ge=1)
    decay: Number = field("lambda", "weight decay", default=0.0, ge=0)
    loss: Loss = field("l", "(f - y)^2/2, or -y f", default="square")
    data: Literal["reused", "fresh", "cycle", "replacement"] = field(
        "b^t",
        "samples of a step: all, new ones, groups in turn, or a random part",
        default="reused",
    )
    batches: Integer = field(
        "B",
        "groups of a cycle; 1/B of the samples at a time",
        default=1,
        ge=1,
        only={"data": ("cycle", "replacement")},
    )
    momentum: Number = field("beta", "heavy-ball momentum", default=0.0, ge=0, lt=1)
    constraint: Literal["none", "spherical"] = field(
        "|w_j|", "lengths of the rows after a step", default="none"
    )
    second_layer_rate: Number = field(
        "eta_a", "step size of the second layer on the mean gradient", default=0.0, ge=0
    )
    initial_overlap: ArrayField | Literal["zero"] = field(
        "M^0", "overlaps at the start (p x k)", default="zero"
    )
    initial_gram: ArrayField | Literal["identity", "paired"] = field(
        "Q^0",
        "W W^T/d at the start (p x p); paired: w_j = w_{p+1-j}",
        default="identity",
    )

    @property
    def neurons(self) -> int:
        """Number of neurons p."""
        return len(self.second_layer)

    @property
    def start(self) -> tuple[Floats, Floats]:
        """Order parameters (M, Q) at the start."""
        p = self.neurons
        k = self.target.directions
        if isinstance(self.initial_overlap, str):
            overlap = np.zeros((p, k))
        else:
            overlap = np.asarray(self.initial_overlap)
        if isinstance(self.initial_gram, str):
            gram = np.eye(p)
            if self.initial_gram == "paired":
                gram = np.maximum(gram, gram[::-1])
            else:
                gram = gram
        else:
            gram = np.asarray(self.initial_gram)
        return overlap, gram

    def rates(self) -> Floats:
        """Return the step sizes of all steps."""
        if isinstance(self.rate, tuple):
            return np.array(self.rate)
        return np.full(self.steps, self.rate)

    def block_count(self) -> Mapping[str, int]:
        """Return the numbers of neurons and target directions."""
        return {
            "neuron": self.neurons,
            "neuron_2": self.neurons,
            "direction": self.target.directions,
        }

    def check(self) -> None:
        """Check that the parts fit together."""
        p = self.neurons
        k = self.target.directions
        if not p:
            raise bad_field("second_layer", [], "a list of at least one number")
        if self.activation.jumps:
            raise InputError(
                "Field `activation` must have a derivative for a gradient step, but"
                f" {self.activation.name} jumps at {self.activation.jumps[0]:g}."
            )
        if isinstance(self.rate, tuple) and (
            len(self.rate) != self.steps or min(self.rate, default=0) <= 0
        ):
            raise bad_field(
                "rate",
                list(self.rate),
                f"one number above 0, or a list of {self.steps} (steps) of them",
            )
        self.check_points(self.point())
        for name, shape in (("initial_overlap", (p, k)), ("initial_gram", (p, p))):
            value = getattr(self, name)
            if not isinstance(value, str) and value.shape != shape:
                raise bad_field(
                    name, value, f"a matrix of {shape[0]} rows and {shape[1]} columns"
                )
        overlap, gram = self.start
        if not np.allclose(gram, gram.T, atol=NEGATIVE):
            raise bad_field("initial_gram", self.initial_gram, "symmetric")
        if np.any(np.diagonal(gram) <= 0):
            raise bad_field(
                "initial_gram", self.initial_gram, "positive on the diagonal"
            )
        least = np.linalg.eigvalsh(gram - overlap @ overlap.T).min()
        if least < -NEGATIVE:
            raise InputError(
                "Field `initial_gram` minus initial_overlap initial_overlap^T must be"
                f" positive semi-definite, but has the eigenvalue {least:.3g}."
            )
        with np.errstate(all="ignore"):
            values = np.asarray(
                self.target(np.random.default_rng(0).standard_normal((64, k)))
            )
        if not np.isfinite(values).all():
            raise bad_field(
                "target", self.target.name, "a function that is finite everywhere"
            )

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Refuse what only the numbers of a grid show."""
        if "rate" in points and np.any(points["rate"] <= 0):
            raise bad_field("rate", points["rate"].min(), "above 0")
        if isinstance(self.rate, tuple) and np.any(points["steps"] != len(self.rate)):
            other = int(points["steps"][points["steps"] != len(self.rate)][0])
            raise bad_field(
                "steps", other, f"{len(self.rate)}, the length of the list `rate`"
            )
        if self.data in ("reused", "fresh") and np.any(points["batches"] != 1):
            raise bad_field(
                "batches",
                points["batches"].max(),
                '1 unless data="cycle" or data="replacement"',
            )

    @classmethod
    def example(cls) -> BatchReuse:
        """Return a small valid scenario."""
        return cls(
            target="tanh(z)",
            activation="tanh",
            samples_per_dim=2.0,
            rate=0.3,
            steps=3,
            decay=0.1,
            noise=0.1,
        )
