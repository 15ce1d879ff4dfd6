"""The read-outs of a network: what its second layer minimises, in the limit and in a
real fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import pydantic

from giantstep.core.base.types import Floats
from giantstep.core.readout.fits import solve_classes, solve_ridge
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Part
from giantstep.problems.network import fields

if TYPE_CHECKING:
    from giantstep.core.lab import Draws
    from giantstep.core.readout.fits import Asked, Fit
    from giantstep.problems.network.trained import RealFit, Trained


class ReadOut(Part):
    """How the second layer is fitted on fresh samples, or on those of the step: here
    with a convex loss of classes.
    """

    if TYPE_CHECKING:
        kind: Literal["ridge", "logistic", "hinge"]
        ridge: float

    # a read-out of a user has a limit if it has this method
    limit_methods: ClassVar[tuple[str, ...]] = ("solve",)
    classes: ClassVar[bool] = True
    """Whether the labels are classes, 1 and -1."""

    def solve(self, asked: Asked) -> Fit:
        """Return the errors and order parameters of the fit in the limit."""
        return solve_classes(asked, self.kind)

    def fit(
        self, trained: Trained, ridges: Floats, draws: Draws, noise: str
    ) -> RealFit:
        """Fit b = a/sqrt(p) at every point, to optimality: penalty ridge*p/2 |b|^2; a
        fit that failed is NaN.

        The samples come from `draws`; the label noise of a ridge fit has a stream of
        this name.
        """
        from giantstep.core.readout.losses.fitting import fit_path
        from giantstep.problems.network.trained import RealFit

        # smaller samples are the first rows of the largest
        rows = int(trained.samples.max())
        xp = draws.xp
        p = trained.network.width
        inputs = xp.empty((rows, p))
        labels = xp.empty(rows)
        start = 0
        # Newton's method passes over the samples many times: all are held
        for features, chunk in trained.training(draws, noise):
            stop = start + len(chunk)
            inputs[start:stop] = features
            labels[start:stop] = chunk
            start = stop
        # after all labels: the stream is one, whatever the chunks are
        labels[draws.uniform("flips", rows) < trained.flip] *= -1
        # ridge |a|^2/2 with a = sqrt(p) b
        fit = fit_path(inputs, labels, self.kind, trained.samples, ridges * p)
        weights, train, objective = fit
        return RealFit(weights=weights, train=train, objective=objective)


class Ridge(ReadOut):
    """Ridge regression: a = argmin sum (y - f)^2 + ridge |a|^2; 0 is the ridgeless
    limit.

    >>> import giantstep as gs
    >>> gs.Network(
    ...     target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, readout=Ridge(0.1)
    ... ).readout.ridge
    0.1
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    classes: ClassVar[bool] = False

    kind: Literal["ridge"] = "ridge"
    ridge: Number = fields.ridge()

    def solve(self, asked: Asked) -> Fit:
        """Return the errors and order parameters of the fit in the limit."""
        return solve_ridge(asked)

    def fit(
        self, trained: Trained, ridges: Floats, draws: Draws, noise: str
    ) -> RealFit:
        """Fit b = a/sqrt(p) at every point: f(x) = sum_i b_i sigma(<w_i,x>), penalty
        ridge*p |b|^2.
        """
        from giantstep.core.lab import ridge_path, to_numpy
        from giantstep.problems.network.trained import RealFit

        p = trained.network.width
        xp = draws.xp
        # one pass over the samples for all sizes and ridges
        weights, train = ridge_path(
            trained.training(draws, noise), p, trained.samples, ridges * p, xp
        )
        norm = to_numpy(xp.sum(weights * weights, axis=0))
        # per sample, as the training error; ridge |a|^2 = ridge p |b|^2
        objective = train + ridges * p * norm / trained.samples
        return RealFit(weights=weights, train=train, objective=objective)


class Logistic(ReadOut):
    """Logistic regression: l(m) = log(1 + e^-m); the target is the sign of one
    direction.

    >>> import giantstep as gs
    >>> s = gs.Network(
    ...     target="sign(z)",
    ...     flip=0.05,
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     readout=Logistic(0.1),
    ...     steps=[gs.MaximalStep(2.0)],
    ... )
    >>> gs.predict(s, dim=200).test_error.values.round(3)
    array([0.332, 0.114])
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    kind: Literal["logistic"] = "logistic"
    ridge: Number = field(
        "lambda", "penalty in sum log(1 + e^-yf) + lambda |a|^2/2", gt=0
    )


class Hinge(ReadOut):
    """Support-vector machine: l(m) = max(1 - m, 0); the target is the sign of one
    direction.

    >>> Hinge(0.1).kind
    'hinge'
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    kind: Literal["hinge"] = "hinge"
    ridge: Number = field(
        "lambda", "penalty in sum max(1 - yf, 0) + lambda |a|^2/2", gt=0
    )


AnyReadOut = Annotated[Ridge | Logistic | Hinge, pydantic.Field(discriminator="kind")]
