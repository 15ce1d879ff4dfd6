"""The read-outs of a network: what its second layer minimises, in the limit and in a real fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pydantic

from giantstep.families.network import fields
from giantstep.scenario import Number, Part, field
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    from giantstep.families.network.trained import Trained
    from giantstep.readout.fits import Asked, Fit


class ReadOut(Part):
    """How the second layer is fitted on fresh samples, or on those of the step."""

    if TYPE_CHECKING:
        kind: str
        ridge: float

    @property
    def classes(self) -> bool:
        """Whether the labels are classes, 1 and -1."""
        return self.kind != "ridge"

    def solve(self, asked: Asked) -> Fit:
        """Return the errors and order parameters of the fit in the limit."""
        from giantstep.readout.fits import solve_classes, solve_ridge

        return solve_classes(asked, self.kind) if self.classes else solve_ridge(asked)

    def fit(self, trained: Trained, ridges: Floats, flip: float, test_samples: int) -> dict[str, Array]:
        """Fit a real second layer at every point and measure it."""
        from giantstep.families.network.measure import measure_classes, measure_ridge

        if self.classes:
            return measure_classes(trained, self.kind, ridges, flip, test_samples)
        return measure_ridge(trained, ridges, test_samples)


class Ridge(ReadOut):
    """Ridge regression: a = argmin sum (y - f)^2 + ridge |a|^2; 0 is the ridgeless limit.

    >>> import giantstep as gs
    >>> gs.Network(target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, readout=Ridge(0.1)).readout.ridge
    0.1
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    kind: Literal["ridge"] = "ridge"
    ridge: Number = fields.ridge()


class Logistic(ReadOut):
    """Logistic regression: l(m) = log(1 + e^-m); the target is the sign of one direction.

    >>> import giantstep as gs
    >>> s = gs.Network(target="sign(z)", flip=0.05, width_per_dim=1.5, samples_per_dim=2.0, readout=Logistic(0.1),
    ...                steps=[gs.MaximalStep(2.0)])
    >>> gs.predict(s, dim=200).test_error.values.round(3)
    array([0.332, 0.114])
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    kind: Literal["logistic"] = "logistic"
    ridge: Number = field("lambda", "penalty in sum log(1 + e^-yf) + lambda |a|^2/2", gt=0)


class Hinge(ReadOut):
    """Support-vector machine: l(m) = max(1 - m, 0); the target is the sign of one direction.

    >>> Hinge(0.1).kind
    'hinge'
    """

    if TYPE_CHECKING:

        def __init__(self, ridge: float = ...) -> None: ...

    kind: Literal["hinge"] = "hinge"
    ridge: Number = field("lambda", "penalty in sum max(1 - yf, 0) + lambda |a|^2/2", gt=0)


AnyReadOut = Annotated[Ridge | Logistic | Hinge, pydantic.Field(discriminator="kind")]
