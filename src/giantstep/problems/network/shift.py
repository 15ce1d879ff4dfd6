"""The law of test inputs where it is not that of the fit: what a user says, and what it
means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.errors import bad_field, field_error
from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.arrays import ArrayField, FrozenArray
from giantstep.core.scenario.fields import Number, Numbers, field
from giantstep.core.scenario.model import Part

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian.target import Target
    from giantstep.problems.network.scenario import Network

AT_THE_FIT = ("errors", "along", "variance")
"""Questions about test inputs of the law of the fit: a `shift` is refused, lest it be
ignored.
"""
SINGULAR = 1e-12
"""Eigenvalue of a covariance, relative to the largest, that is rounding."""


@dataclass(frozen=True, eq=False)
class FreshLaw:
    """The law of test inputs: N(mean, root root^T) along the target (r,), (r, r),
    `bulk` across it, a turned label.
    """

    mean: Floats
    root: Floats
    bulk: float = 1.0
    angle: float = 0.0
    """By how much the label's first direction has turned towards one that no network
    has seen.
    """

    @property
    def key(self) -> tuple[bytes, bytes, float, float]:
        """What tells two laws apart."""
        # arrays cannot be keys of a dictionary, their bytes can
        return self.mean.tobytes(), self.root.tobytes(), self.bulk, self.angle

    @classmethod
    def of_the_fit(cls, directions: int) -> FreshLaw:
        """Return the law of the inputs of the fit."""
        return cls(np.zeros(directions), np.eye(directions))


class Shift(Part):
    """Test inputs of another law than those of the fit: beyond_the_error section 4.

    Along the target z' ~ N(mean, scale^2 covariance); all other directions have the
    standard deviation scale bulk. The label may depend on cos(angle) z1 + sin(angle) of
    a direction that nobody has seen, and may have another `noise`.

    >>> import giantstep as gs
    >>> net = gs.Network(
    ...     target="tanh(z)",
    ...     noise=0.1,
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     shift=Shift(scale=1.4),
    ... )
    >>> gs.predict(net, what="shift", shift__scale=[1.0, 1.4]).test_error.values.round(
    ...     4
    ... ).ravel()
    array([0.3721, 0.5272])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            scale: float = ...,
            mean: float | Sequence[float] = ...,
            covariance: ArrayLike = ...,
            bulk: float = ...,
            angle: float = ...,
            noise: float | None = ...,
        ) -> None: ...

    scale: Number = field("tau", "factor of all inputs", default=1.0, gt=0)
    mean: Number | Numbers = field(
        "E z'", "mean along the target: of z1, or of every direction", default=0.0
    )
    covariance: ArrayField = field(
        "Cov z'", "covariance along the target; 1 if left out", default=FrozenArray([])
    )
    bulk: Number = field(
        "tau_b", "factor of the inputs across the target", default=1.0, gt=0
    )
    angle: Number = field(
        "phi", "angle by which the label's first direction turns away", default=0.0
    )
    noise: Number | None = field(
        "delta'", "variance of the label noise (that of the fit)", default=None, ge=0
    )

    def check_network(self, network: Network) -> None:
        """Refuse a mean or a covariance that does not fit the target's directions, and
        inputs with a covariance.
        """
        self._check_target(network.target)
        if network.inputs is not None:
            raise bad_field("shift", "given", "left out where inputs have a covariance")

    def _check_target(self, target: Target) -> None:
        r = target.directions
        given = np.asarray(self.covariance)
        # one number is the mean of z1 alone, whatever the number of directions
        if not isinstance(self.mean, float) and len(self.mean) != r:
            raise bad_field(
                "shift.mean",
                list(self.mean),
                f"a number or a list of {r}, one for each direction",
            )
        # left out it is the identity, which fits any target
        if not given.size:
            return
        matrix = np.atleast_2d(given)
        if matrix.shape != (r, r) or not np.allclose(
            matrix, matrix.T, rtol=0, atol=1e-12
        ):
            raise bad_field(
                "shift.covariance", given.tolist(), f"a symmetric {r} x {r} matrix"
            )
        values = np.linalg.eigvalsh(matrix)
        # an eigenvalue of zero may be negative by rounding
        if values.min() < -SINGULAR * values.max() or values.max() <= 0:
            raise bad_field(
                "shift.covariance",
                given.tolist(),
                "a covariance, without negative eigenvalues",
            )
        # refused by beyond_the_error section 12
        if values.min() <= SINGULAR * values.max() and target.planes:
            raise bad_field(
                "shift.covariance",
                given.tolist(),
                "invertible where the target has kinks or jumps",
            )

    def law(self, directions: int, points: Points, number: int) -> FreshLaw:
        """Return the law of the test inputs at one point of a grid."""
        values = {
            name: float(points[f"shift.{name}"][number])
            for name in ("scale", "bulk", "angle")
        }
        mean = np.zeros(directions)
        # a number may vary along a grid, a list may not
        if isinstance(self.mean, float):
            mean[0] = float(points["shift.mean"][number])
        else:
            mean[:] = self.mean
        # `scale` multiplies deviations in all directions and leaves the mean where it
        # is
        return FreshLaw(
            mean,
            values["scale"] * self._root(directions),
            values["scale"] * values["bulk"],
            values["angle"],
        )

    def _root(self, directions: int) -> Floats:
        given = np.asarray(self.covariance)
        if not given.size:
            return np.eye(directions)
        # the symmetric root, with the rounding that the check lets through taken off
        values, vectors = np.linalg.eigh(np.atleast_2d(given))
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def test_law(network: Network, points: Points, number: int) -> tuple[FreshLaw, float]:
    """Return the law of the test inputs at one point of a grid, and the variance of
    their label noise.
    """
    # a shift without a noise of its own has that of the fit
    noise = float(points["shift.noise" if "shift.noise" in points else "noise"][number])
    if network.shift is None:
        return FreshLaw.of_the_fit(network.target.directions), noise
    return network.shift.law(network.target.directions, points, number), noise


def refuse_shift(network: Network, what: str) -> None:
    """Refuse test inputs of another law where a question does not know them."""
    if network.shift is not None and what in AT_THE_FIT:
        raise field_error(
            "shift",
            f'Field `{{field}}` must be left out where what="{what}", which is about'
            ' inputs of the fit: what="shift", "calibration" and "sensitivity"'
            " take it.",
        )
