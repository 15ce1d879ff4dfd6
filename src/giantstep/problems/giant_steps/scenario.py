"""The scenario of giant steps: a two-layer network, a few gradient steps on batches of
order d^l, then a ridge fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
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
from giantstep.core.scenario.paper_symbols import Paper, notation_of, sqrt
from giantstep.core.scenario.vocabulary import Vocabulary


def _dandi2023giant(
    *,
    f_star: Annotated[Function | str, "target"],
    sigma: Annotated[Function | str, "activation"],
    eta: Annotated[float, "step size, of order p"],
    p: Annotated[int, "number of neurons"],
    a: Annotated[Floats, "second layer, of order 1/sqrt(p), a number for every neuron"],
    alpha: Annotated[float, "samples of a batch over d^l"],
    l: Annotated[float, "growth of the batch, n = alpha d^l"],
    T: Annotated[int, "number of steps"],
) -> dict[str, Any]:
    """Dandi et al. 2023 have a second layer of order 1/sqrt(p) and a step size of order
    p, where ours are of order one.
    """
    return {
        "target": f_star,
        "activation": sigma,
        "rate": eta / p,
        "width": p,
        "second_layer": sqrt(p) * a,
        "batch_per_dim": alpha,
        "batch_exponent": l,
        "steps": T,
    }


PAPERS = {
    "dandi2023giant": Paper(
        _dandi2023giant, shown={"target": "f*", "second_layer": "sqrt(p) a_j"}
    )
}
"""BibTeX key -> the parameters of that paper."""
_LIMIT: tuple[Engine, ...] = ("limit",)
_EXPERIMENT: tuple[Engine, ...] = ("experiment",)
_CLEANED = (
    "whether the Hermite components of the labels below order l are fitted and"
    " subtracted first"
)
_NO_STEP = "the next step of these neurons vanishes"
_STEPS = (
    Variable(
        "cosine",
        ("time", "block", "direction"),
        "M_tr/|w|",
        "cosine of the neurons of a block with a direction",
    ),
    Variable(
        "norm", ("time", "block"), "|w|^2", "squared norm of the weights of a neuron"
    ),
    Variable(
        "M",
        ("time", "block", "direction"),
        "<w_i, w*_r>",
        "overlap of the neurons of a block with a direction",
    ),
    Variable(
        "R",
        ("time", "block", "block_2"),
        "<w_i, w_j>",
        "overlap of two different neurons of two blocks",
    ),
    Variable(
        "gradient_cosine",
        ("time", "block", "direction"),
        "cos(a_i G_i, w*_r)",
        "cosine of the next step of a neuron with a direction",
        absent=_NO_STEP,
    ),
)
_NEURONS = (
    Variable(
        "cosine",
        ("time", "neuron", "direction"),
        "M_ir/|w_i|",
        "cosine of every neuron with a direction",
    ),
    Variable(
        "gradient_cosine",
        ("time", "neuron", "direction"),
        "cos(a_i G_i, w*_r)",
        "cosine of the next step of every neuron with a direction",
        absent=_NO_STEP,
    ),
)
_SPECIALISATION = (
    Variable(
        "alignment",
        (),
        "E cos^2(G_i, V*)",
        "squared cosine of a neuron's gradient with the target space",
    ),
    Variable(
        "alignment_by_direction",
        ("direction",),
        "E cos^2(G_i, w*_r)",
        "the same, direction by direction (terms of order 1/d are not in the limit)",
        compared=False,
    ),
    Variable(
        "specialised",
        (),
        "(tr C)^2/tr C^2",
        "number of directions over which the gradients spread (over the neurons there"
        " are)",
        compared=False,
    ),
    Variable(
        "spike",
        (),
        "cos(X^T y, C_1)",
        "cosine of the average of y x with the linear part of the target",
    ),
)
_ERRORS = (
    Variable(
        "test_error",
        ("time",),
        "E(y - f)^2",
        "error of the network with the best second layer, noise included",
    ),
    Variable(
        "lower_bound",
        ("time",),
        "E(y - P h)^2",
        "least error of any fit of order d^kappa samples once the subspace is learned",
        engines=_LIMIT,
    ),
    Variable(
        "kernel_bound",
        (),
        "E(y - P_0 h)^2",
        "the same where nothing is learned: kernels",
        engines=_LIMIT,
    ),
    Variable(
        "learned", ("time",), "dim U_t", "number of directions learned", engines=_LIMIT
    ),
)
_FIT = (
    Variable(
        "test_error",
        (),
        "E(y - f)^2",
        "error after one step and a ridge fit, both on labels without their fitted"
        " constant and linear part",
        engines=_EXPERIMENT,
    ),
    Variable(
        "initial_error",
        (),
        "E(y - f_0)^2",
        "the same without the step: random features",
        _EXPERIMENT,
    ),
    Variable(
        "kernel_bound",
        (),
        "E(y - P_0 h)^2",
        "least error of kernels on less than d^2 samples",
        engines=_LIMIT,
    ),
)


def _second_layer(value: Any) -> Any:
    if isinstance(value, Vocabulary | Mapping):
        return Vocabulary(**value) if isinstance(value, Mapping) else value
    if isinstance(value, str) or not np.iterable(value):
        raise ValueError(
            "a Vocabulary(values, probabilities), or a list with a number for every"
            " neuron"
        )
    return value


SecondLayer = Annotated[Vocabulary | Numbers, BeforeValidator(_second_layer)]


class GiantSteps(Scenario):
    """A few gradient steps of the first layer, each on a fresh batch of n =
    batch_per_dim * d^batch_exponent samples.

    f = (1/p) sum_j a_j s(w_j.x) with a fixed second layer a; y = h(z1..zk) +
    sqrt(noise) N(0,1), z_r = w*_r.x. The limit is d -> inf with p fixed, or p -> inf
    after it (``width=inf``). Neurons with equal a_j form a block: they stay
    exchangeable, and the exact map has one overlap M per block and direction, one
    squared norm per block, and one overlap R for every pair of blocks.

    >>> import giantstep as gs
    >>> s = gs.GiantSteps(
    ...     target="(z1 + z1**2 + z2 - z2**2)/2",
    ...     activation="relu",
    ...     rate=2.0,
    ...     batch_per_dim=1.0,
    ...     steps=2,
    ... )
    >>> gs.predict(s).gradient_cosine.sel(block=1).values[:2].round(5)
    array([[0.26726, 0.26726],
           [0.23182, 0.03278]])
    """

    family: ClassVar[str] = "giant-steps"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "width_per_dim": (
            "its `width` is a number of neurons; in FewSteps it grows with the"
            " dimension"
        ),
        "samples_per_dim": (
            "a step takes `batch_per_dim` fresh samples, the fit `fit_per_dim`"
            ' (what="errors")'
        ),
    }
    formula_version: ClassVar[int] = 2
    title: ClassVar[str] = "Giant steps: a few gradient steps on large batches"
    update_rule: ClassVar[str] = cleandoc("""
        data    x ~ N(0, I_d),  y = h(W* x) + sqrt(noise) N(0,1),  W* has k orthonormal rows
        start   rows of W: N(0, I/d),  f(x) = (1/p) sum_j a_j s(w_j.x),  a fixed (`second_layer`), p = width
        step    w_j <- w_j + rate a_j (1/n) sum (y - f(x)) s'(w_j.x) x,  n = batch_per_dim d^batch_exponent samples
                (gradient of sum (y - f)^2/(2n), learning rate gamma = rate p)
        limit   d -> inf; with batch_exponent > 1 every step is on the population
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "steps": Question(
            "overlaps, cosines and norms after every step",
            _STEPS,
            plot=("cosine", "gradient_cosine"),
        ),
        "neurons": Question(
            "cosines of every single neuron, block after block",
            _NEURONS,
            plot=("cosine",),
        ),
        "specialisation": Question(
            "orientation of the first gradients at n = batch_per_dim d^l, l ="
            " batch_exponent: one direction or many",
            _SPECIALISATION,
            settings={
                "labels": Setting("cleaned", _CLEANED, choices=("cleaned", "raw"))
            },
            plot=("alignment", "specialised"),
        ),
        "errors": Question(
            "error with the second layer fitted by ridge after every step, and the"
            " bounds it is measured by",
            _ERRORS,
            settings={
                "kappa": Setting(
                    1, "the bounds are for fits on d^kappa samples", engines=_LIMIT
                ),
                "fit_per_dim": Setting(
                    40.0,
                    "fresh samples of the fit per dimension (0: as a batch)",
                    _EXPERIMENT,
                ),
                "ridge": Setting(
                    1e-6,
                    "penalty of the fit: sum (y - a.s/sqrt(p))^2 + ridge |a|^2",
                    _EXPERIMENT,
                ),
            },
            plot=("test_error", "lower_bound"),
        ),
        "fit": Question(
            "one step on n samples and a ridge fit on n fresh ones, after the constant"
            " and linear parts are taken away",
            _FIT,
            settings={
                "fit_ridge": Setting(
                    1.0,
                    "penalty: sum (y - a.s/sqrt(p))^2 + fit_ridge |a|^2",
                    _EXPERIMENT,
                )
            },
            plot=("test_error",),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "the exact map of overlaps, d -> inf"
    }
    papers: ClassVar[tuple[str, ...]] = ("dandi2023giant",)
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)

    target: MultiIndex = field(
        "h(z1..zk)", "target, a function of up to six directions"
    )
    activation: Expression = field("s", "activation", default="relu")
    second_layer: SecondLayer = field(
        "a_j",
        "second layer: a Vocabulary (law), or a list with a number for every neuron",
        default=Vocabulary([1, -1]),
    )
    noise: Number = field("Delta", "variance of the label noise", default=0.0, ge=0)
    rate: Number = field("g = gamma/p", "step size divided by the width", gt=0)
    batch_per_dim: Number = field(
        "alpha = n/d^l", "samples of a batch over d^batch_exponent", gt=0, infinite=True
    )
    batch_exponent: Number = field(
        "l", "growth of the batch with the dimension", default=1.0, ge=1, le=3
    )
    steps: Integer = field("T", "number of steps", default=3, ge=1, le=100)
    width: Number = field(
        "p",
        "number of neurons; a list as second layer has its own",
        default=math.inf,
        gt=0,
        infinite=True,
    )

    def check(self) -> None:
        """Check that the parts fit together."""
        if self.activation.jumps:
            raise bad_field(
                "activation",
                self.activation.name,
                "a function without jumps (it needs a derivative)",
            )
        self.check_points(self.point())
        if isinstance(self.second_layer, tuple) and not self.second_layer:
            raise bad_field("second_layer", [], "a list of at least one number")
        if not any(self.values):
            raise bad_field("second_layer", list(self.values), "not zero everywhere")

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Check every width of a grid."""
        if isinstance(self.second_layer, tuple):
            size = len(self.second_layer)
        else:
            size = len(self.values)
        for width in (
            float(width)
            for width in np.unique(points["width"])
            if not math.isinf(width)
        ):
            if isinstance(self.second_layer, tuple) and width != size:
                raise bad_field(
                    "width",
                    width,
                    f"{size}, as many neurons as the second layer has (or left out)",
                )
            if width != round(width):
                raise bad_field("width", width, "a whole number, or inf")
            if width < size:
                raise bad_field(
                    "width", width, f"at least {size}, one neuron for every value"
                )

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the second layer, one for every block."""
        law = self.second_layer
        if isinstance(law, Vocabulary):
            return law.values
        return tuple(dict.fromkeys(law))

    def fractions(self, width: float) -> tuple[Floats, Floats]:
        """Return the fraction of neurons in every block at a width, and their whole
        numbers, at least 1 (or inf).
        """
        if isinstance(self.second_layer, tuple):
            counts = np.array(
                [self.second_layer.count(value) for value in self.values], dtype=float
            )
            return counts / counts.sum(), counts
        shares = np.array(self.second_layer.probabilities)
        if math.isinf(width):
            return shares, np.full(len(shares), math.inf)
        # the largest remainders are rounded up
        counts = np.maximum(np.floor(shares * width), 1.0)
        while counts.sum() > width:
            counts[
                np.argmax(np.where(counts > 1, counts - shares * width, -np.inf))
            ] -= 1
        while counts.sum() < width:
            counts[np.argmax(shares * width - counts)] += 1
        return counts / width, counts

    def neurons(self, width: float) -> int:
        """Return the number of neurons of an experiment."""
        if isinstance(self.second_layer, tuple):
            return len(self.second_layer)
        if math.isinf(width):
            raise bad_field("width", width, "finite for an experiment, as in width=100")
        return int(width)

    @classmethod
    def example(cls) -> GiantSteps:
        """Return a small valid scenario."""
        target = "(z1 + z1**2 + z2 - z2**2)/2"
        return cls(
            target=target, rate=1.0, noise=0.1, batch_per_dim=4.0, steps=2, width=20
        )

    @classmethod
    def example_for(cls, what: str) -> GiantSteps:
        """Return a small valid scenario; specialisation is asked at n of order d^2."""
        if what == "specialisation":
            return cls.example().replace(
                target="z1*z2", batch_exponent=2.0, batch_per_dim=2.0
            )
        return cls.example()

    def block_count(self) -> Mapping[str, int]:
        """Return the number of blocks and of directions."""
        blocks = len(self.values)
        return {"block": blocks, "block_2": blocks, "direction": self.target.directions}
