"""Settings of beyond_the_error section 8 whose labels have P(y = 1|z) = pi(z), which no
scenario says.

The first layer is that of a network of a smooth target. Its features are given other
labels, and the fit, the overlaps and the laws of the output are asked for as the engine
asks for them.
"""

import dataclasses

import numpy as np
from scipy.special import expit, ndtr

import giantstep as gs
from giantstep.core.readout import Features
from giantstep.problems.network.answers.errors import Table, groups
from giantstep.problems.network.beyond.laws import Fits
from giantstep.problems.network.follow import follow
from giantstep.problems.network.problem import share_points

from .beyond_settings import THREE, planted


@dataclasses.dataclass(frozen=True)
class Setting:
    """A network whose labels are 1 with the probability `positive` (z: (N, r) -> (N,)),
    and its read-out.
    """

    network: gs.Network
    readout: gs.Ridge | gs.Logistic
    positive: object
    normal: tuple = ()
    offset: float = 0.0
    blur: float = 0.0
    """The probability is Phi((normal . z + offset)/sqrt(blur)), where there is a
    normal.
    """


def probit(network, ridge, normal, offset, width):
    w = np.array(normal)
    return Setting(
        network,
        gs.Logistic(ridge),
        lambda z: ndtr((z @ w + offset) / width),
        normal,
        offset,
        width**2,
    )


def curved(z):
    return expit(1.5 * (z[:, 0] ** 2 - 1 + z[:, 0] / 2))


def crossed(z):
    return expit(1.5 * (z[:, 0] + z[:, 0] * z[:, 1]))


ANY = gs.Ridge(0.1)
THREE_BLOCKS = planted("relu", "z1 + z2", *THREE, 2, 1, ANY)
FLAT = gs.Network(
    activation="tanh",
    target="z1 + z2",
    second_layer=gs.Vocabulary([1.0]),
    samples_per_dim=2,
    width_per_dim=1.5,
    readout=ANY,
)
SETTINGS = {
    "L3": Setting(
        planted("softplus", "z1", [0.5, 0.5], [[1.5], [-1]], [1, 0.8], 2, 1.2, ANY),
        gs.Logistic(0.05),
        curved,
    ),
    "L4": Setting(THREE_BLOCKS, gs.Logistic(0.1), crossed),
    "L5": probit(FLAT, 0.02, (1.0, 0.0), 0.0, 0.5),
    "L6": probit(
        planted(
            "erf", "z1 + z2", [0.5, 0.5], [[1.5, 0], [0.5, 0]], [1, 1], 1, 1.5, ANY
        ),
        *(1.0, (0.9, np.sqrt(0.19)), 0.4, 0.3),
    ),
    "R2": Setting(THREE_BLOCKS, gs.Ridge(0.1), crossed),
}


def fitted(setting: Setting) -> Fits:
    """Return the fit after the last step, of the labels of the setting."""
    network = setting.network.replace({"readout.ridge": setting.readout.ridge})
    points = {**network.point(), "dim": np.array([np.inf])}
    (share,) = share_points(network, points, np.arange(1))
    moment = list(follow(share.problem, "exact", {}))[-1]
    (group,) = groups(Table(network, points, 1), share, moment, {"floors": False})
    asked = dataclasses.replace(
        group.asked, features=relabelled(setting, group.descriptions[0]), coarse=None
    )
    return Fits(
        moment, dataclasses.replace(group, asked=asked), setting.readout.solve(asked)
    )


def relabelled(setting: Setting, seen) -> Features:
    """Return features with the labels of the setting, of which all directions are
    learnt unless it has a normal.
    """
    features = seen.features
    kappa = features.kappa[0].T
    basis = seen.view.basis
    axes = np.zeros((2, len(basis.learnt)))
    both = np.concatenate([basis.learnt, basis.rest], axis=1)[:, :2].T
    axes[: len(both)] = both
    learnt = kappa.shape[1]
    unlearnt = np.zeros((1, features.h1.shape[1]))
    if setting.normal:
        normal = axes @ np.array(setting.normal)
        unlearnt[0, : len(normal) - learnt] = normal[learnt:]
        field = kappa @ normal[:learnt] + setting.offset
        return dataclasses.replace(
            features, field=field[None], rho=unlearnt, blur=np.array([setting.blur])
        )
    positive = setting.positive(kappa @ axes[:learnt])[None]
    one = np.ones_like(positive)
    labels = {"h": 2 * positive - 1, "h1": 0 * features.h1, "hh": one}
    return dataclasses.replace(
        features, field=one, rho=unlearnt, turned=1 - positive, **labels
    )
