"""The sign step: every weight moves by the same amount, in the direction of its
gradient's sign.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats, Points
from giantstep.core.lab import Draws
from giantstep.core.readout import PACKED_BLOCKS
from giantstep.core.readout.sign_statistics import sign_gradients, sign_statistics
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.network.coordinates import (
    components,
    draw_directions,
    reflected,
    reflections,
)
from giantstep.problems.network.sign.rows import SignRows
from giantstep.problems.network.steps.base import GradientStep, Place

if TYPE_CHECKING:
    from giantstep.core.readout.sign_statistics import SignGradient
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem
    from giantstep.problems.network.trained import Trained

NOTICED = 0.03
TOO_LARGE = 0.1
"""chi of sign_step (6.2) from which a finite dimension shows, and from which zero
coordinates are described wrongly.
"""
SMALL_BATCH = 0.5
LARGE_DIM = 2000
"""Samples per dimension below which networks of a smaller dimension than this were
found up to 8% off.
"""


class SignStep(GradientStep):
    """Adam's first step: every weight moves by the same amount, along the sign of its
    gradient.

    w_i <- w_i + rate sign(G_i)/sqrt(d), G_i = zeta_q (1/n0) sum_mu (y_mu - f(x_mu))
    sigma'(<w_i, x_mu>) x_mu, on a batch of n0 = batch_per_dim * d samples of its own.
    `rate` is the distance that every row moves. Adam with bias correction, signSGD and
    Lion take this step first, with a learning rate of rate/sqrt(d).

    With `eps` the sign is G/(|G| + eps/sqrt(d)), as in Adam: `eps` is that of PyTorch
    times p sqrt(d). Networks are trained with it; the limit knows eps = 0 only.

    What is learnt depends on the law of the target's coordinates,
    `Network.coordinates`.

    >>> import giantstep as gs
    >>> s = gs.Network(
    ...     target="sin(z)",
    ...     activation="tanh",
    ...     width_per_dim=1.0,
    ...     samples_per_dim=1.5,
    ...     noise=0.02,
    ...     second_layer=gs.Vocabulary([1]),
    ...     steps=[SignStep(1.2, batch_per_dim=0.5)],
    ... )
    >>> gs.predict(s).test_error.values.round(4)
    array([0.2942, 0.2841])
    """

    if TYPE_CHECKING:

        def __init__(
            self, rate: float = ..., batch_per_dim: float = ..., eps: float = ...
        ) -> None: ...

    sees_coordinates: ClassVar[bool] = True
    jumps_at: ClassVar[str] = "rate"

    kind: Literal["sign"] = "sign"
    rate: Number = field(
        "rate",
        "distance that every row moves; the learning rate is rate/sqrt(d)",
        default=1.0,
        gt=0,
    )
    batch_per_dim: Number = field(
        "alpha0 = n0/d",
        "fresh samples of the step per dimension",
        default=math.inf,
        gt=0,
        infinite=True,
    )
    eps: Number = field(
        "eps",
        "Adam's eps: |G| + eps/sqrt(d) divides G; above 0 in networks only",
        default=0.0,
        ge=0,
    )

    def check_place(self, place: Place) -> None:
        """Refuse a gradient that vanishes, whose sign is not defined, beside what every
        gradient step refuses.
        """
        super().check_place(place)
        law = place.network.second_layer
        if isinstance(law, Vocabulary) and 0.0 in law.values:
            allowed = (
                "different from 0 with a SignStep (the gradient of these neurons is 0,"
                " and has no sign)"
            )
            raise bad_field("second_layer.values", list(law.values), allowed)

    # -- the limit ---------------------------------------------------------------------

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Refuse what sign_step section 13 refuses, and what it does not cover."""
        network = place.network
        eps = place.field("eps")
        lacking = {
            f"a theory of Adam's first step with eps > 0 ({eps}=0 has one)": np.any(
                points[eps] > 0
            ),
            "a theory of sign steps beside other steps": not place.alone,
            f'theory="{theory}" of a sign step (it has the exact one)': (
                theory not in (None, "exact")
            ),
            "a theory of sign steps for several target directions": (
                network.target.directions > 1
            ),
            "a theory of sign steps where inputs have a covariance": (
                not network.isotropic
            ),
            'a theory of sign steps on Gaussian rows (rows="sphere" has one)': (
                network.rows == "gaussian"
            ),
            f"a theory of sign steps with a Gaussian second layer or more than {PACKED_BLOCKS} blocks": (  # noqa: E501
                network.second_layer == "gaussian" or network.blocks > PACKED_BLOCKS
            ),
            "a theory of logistic and hinge fits after a sign step": (
                network.readout.classes
            ),
        }
        return next(
            (words for words, holds in lacking.items() if holds), ""
        ) or self._undefined(place, points)

    def _undefined(self, place: Place, points: Points) -> str:
        """Say where the sign is decided by what the limit leaves out."""
        batch = points[place.field("batch_per_dim")]
        chi = self._chi(place, points)
        finite = f"({place.field('batch_per_dim')} finite has one)"
        for number, gradient in enumerate(gradients(place, points)):
            parts = components(place.network.coordinates, points, number)
            zeros = any(part.mean == part.variance == 0 for part in parts)
            whole = np.isinf(batch[number])
            # a of sign_step (2.1) has a factor c1 = E sigma'
            if gradient.slope == 0:
                return (
                    "a theory of sign steps for an activation without a linear part, E"
                    " sigma' = 0"
                )
            # the noise of a batch, the other part of a, is not there
            if whole and gradient.shared == 0:
                return (
                    "a theory of a sign step on the population for a target without a"
                    f" linear part {finite}"
                )
            # sign_step section 3: at tau = 0 nothing decides the sign of an atom at 0
            if whole and gradient.own == 0 and zeros:
                return (
                    "a theory of a sign step on the population where coordinates of"
                    f" the target are zero, whose signs nothing else decides {finite}"
                )
            # sign_step section 6: with an atom at 0 the error is not cured by (6.2)
            if chi[number] > TOO_LARGE and zeros:
                return (
                    "a theory of a sign step at a finite dim that decides the signs"
                    " where coordinates of the target are zero: chi ="
                    f" {chi[number]:.3g} of sign_step (6.2) is above {TOO_LARGE:g};"
                    " smaller batches lower it"
                )
        return ""

    def _chi(self, place: Place, points: Points) -> Floats:
        """Return chi of sign_step (6.2), 0 in the limit of an infinite dimension."""
        found = np.array([gradient.chi for gradient in gradients(place, points)])
        dim = np.broadcast_to(points["dim"], found.shape)
        return np.divide(
            found, dim, out=np.zeros_like(found), where=np.isfinite(dim) & (found != 0)
        )

    def remarks(self, place: Place, points: Points, theory: str | None) -> list[str]:
        """Say where a network of this dimension was found to differ."""
        # what is refused has no accuracy to warn of
        if self.missing(place, points, theory):
            return []
        said = []
        chi = self._chi(place, points)
        batch = place.field("batch_per_dim")
        if np.any(chi > NOTICED):
            said.append(
                "At this dim the neurons' own overlaps decide some signs (chi ="
                f" {chi.max():.2g} of sign_step (6.2), above {NOTICED:g}), which the"
                " limit leaves out: networks are 1% off at chi = 1.4, 3% at inf."
            )
        if np.any((points[batch] < SMALL_BATCH) & (points["dim"] < LARGE_DIM)):
            small = f"{batch} below {SMALL_BATCH:g} at a dim below {LARGE_DIM}"
            said.append(f"{small}: networks were found up to 8% off.")
        return said

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Return the layer after the step: sign_step sections 2 and 5."""
        from giantstep.problems.network.layer import Layer

        network = problem.network
        sets = len(problem.pi)
        # m0, the output before the step: the same for all inputs in the limit
        offset = problem.activation.hermite(0)[0] * (problem.pi @ problem.zeta)
        # of zeta only the sign survives
        e = problem.of_step(number, "rate")[:, None] * np.sign(problem.zeta)
        laws = [
            components(network.coordinates, problem.numbers, row) for row in range(sets)
        ]
        alpha0 = problem.of_step(number, "batch_per_dim")
        noise = problem.numbers["noise"]
        batch, spikes = sign_statistics(
            problem.activation, network.target, laws, offset, e, alpha0, noise
        )
        # rounding may take gamma^2 above 1
        across = np.sqrt(np.maximum(0.0, 1 - batch.gamma**2))
        # the first coordinate is the spike, the second what the target has across it
        frame = np.stack([batch.gamma, across], axis=1)[:, None]
        means = np.stack([spikes, np.zeros_like(spikes)], axis=2)
        return Layer(means=means, frame=frame, rows=SignRows.of(batch))

    # -- the experiment ----------------------------------------------------------------

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Move every weight by the sign of its gradient, in axes in which the target
        has coordinates of its law.
        """
        name = f"steps.{number}."
        xp = trained.draws.xp
        d = trained.dim
        batch = float(point[name + "batch_per_dim"][0]) * d
        gradient, _ = trained.gradient(True, batch, trained.stream(number))
        gradient *= trained.second_layer[:, None]
        if trained.inputs.root is None:
            root = None
        else:
            root = xp.asarray(trained.inputs.root)
        axes = xp.zeros((trained.network_of.target.directions, d))
        trained.inputs.add_along(axes, xp.eye(len(axes)), xp)
        if (
            root is not None
        ):  # what a target and a gradient are before the inputs are whitened
            axes = axes / xp.where(root > 0, root, 1.0)
            gradient = gradient * root
            # what was orthonormal before the division is no more
            axes = xp.linalg.qr(axes.T)[0].T
        # the target is that of all networks of a trial, and of all their steps
        draws = trained.draws
        world = Draws(draws.seed, "coordinates", draws.trial, draws.device)
        found = draw_directions(
            trained.network_of.coordinates, point, axes.shape, world
        )
        # the target's directions are drawn isotropically: they are turned to the drawn
        # coordinates, whose signs the step sees, and back
        units = reflections(axes, found, xp)
        turned = reflected(gradient, units)
        eps = float(point[name + "eps"][0]) / math.sqrt(d)
        moved = reflected(
            turned / (xp.abs(turned) + eps) if eps else xp.sign(turned), units[::-1]
        )
        moved *= float(point[name + "rate"][0]) / math.sqrt(d)
        after = trained.with_weights(
            trained.network.weights + (moved if root is None else moved * root)
        )
        if (
            eps
            or len(trained.network_of.steps) > 1
            or trained.inputs.frame is not None
            or len(axes) > 1
        ):
            return after
        signs = xp.sign(trained.second_layer)
        # m/sqrt(d), to the mean of p signs
        return after.with_spike(signs, signs @ moved / len(signs))


def gradients(place: Place, points: Points) -> list[SignGradient]:
    """Return what the gradient's entries are made of at every point."""
    network = place.network
    batch = points[place.field("batch_per_dim")]
    offset = network.activation.hermite(0)[0] * network.layer_moments()[0]
    noise = np.broadcast_to(points["noise"], batch.shape)
    return sign_gradients(network.activation, network.label, offset, batch, noise)
