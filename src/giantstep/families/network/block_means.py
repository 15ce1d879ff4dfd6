"""What giant steps do to the means of the classes of neurons at a finite width: finite_size_steps sections 2, 6 and 7.

The mean m_q of the p_q rows of a class (without their target components) has a squared length of order 1/p_q, and the
network's own output, which contains it, turns these means among themselves at every step. They are followed as

    m_q = sum_c F_qc n_c,   n_c independent vectors with |n_c|^2 = 1/p_c (of class c modulo k where there are more),

at the K atoms of the inputs; isotropic inputs have one. Arrays start with an axis of M networks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from giantstep.gaussian import Function, expectation
from giantstep.types import Floats

LARGE_MEANS = 0.3
"""What steps may add to the squared length of the mean of a class, in units of its rows, for first order in it."""


def turn_means(F: Floats, growth: Floats, pull: Floats, e: Floats, slopes: Floats, share: Floats) -> Floats:
    """Return F (M, K, k, C) after a step on the square loss: (2.2), (6.1).

    `growth` (M, K, k) multiplies the bulk rows, `pull` (K,) is lambda F(lambda), e (M, k) = rate zeta_q, `slopes`
    (M, k, k) is E[D_1q D_1c] and `share` (M, k) is pi_c zeta_c, 0 for the correlation loss.
    """
    feedback = e[:, :, None] * slopes * share[:, None, :]
    return growth[..., None] * F - pull[:, None, None] * (feedback[:, None] @ F)


def products_of_means(F: Floats, neurons: Floats) -> Floats:
    """Return Gam_qq' = <m_q, m_q'> (M, K, k, k) for classes of so many neurons (M, k): (2.4), (6.2)."""
    per_column = np.tile(1 / neurons, (1, F.shape[-1] // F.shape[-2]))
    return (F * per_column[:, None, None, :]) @ np.swapaxes(F, 2, 3)


def own_action(e: Floats, zeta: Floats, neurons: Floats, own: Floats, slope: Floats, bend: Floats) -> Floats:
    """Return f_q (M, k), by which a step on the square loss shortens every row through its own output: (2.5).

    `own` is O_q (`self_overlap`), `slope` E D_1^2 and `bend` E[D_0 D_2], all (M, k) or of that shape broadcast.
    """
    return e * zeta / neurons.sum(axis=1, keepdims=True) * (own - slope - bend)


def whole_length(length: Floats, plain: Floats, F: Floats, neurons: Floats) -> Floats:
    """Return s_q (M, k): rows of this length beside their mean, and the mean of the class (isotropic inputs): (2.6).

    Nodes of a continuous law stand for less than one neuron, which has no mean beside itself: what the other neurons
    and its own output add is taken relative to the `plain` length of its row, without feedback.
    """
    mean = np.einsum("mqq->mq", products_of_means(F[:, :1], neurons)[:, 0])
    beside = np.where(neurons >= 1, length**2 * (1 - 1 / neurons), length**2 - plain**2 / neurons)
    return np.copysign(np.sqrt(beside + mean), length)


def warn_of_long_means(squares: Floats, neurons: Floats) -> list[str]:
    """Warn where steps made the mean of a class too long for a theory of first order in it: section 13.

    `squares` are the Gamh_qq of classes of so many `neurons`.
    """
    added = float(np.max(squares - 1 / neurons))
    if not added > LARGE_MEANS:
        return []
    return [
        f"The steps add {added:.2g} to the squared length of the mean of a class, in units of its rows: the correction "
        f"at a finite dim is of first order in it ({LARGE_MEANS:g} at most)."
    ]


@lru_cache(maxsize=512)
def self_overlap(activation: Function, tau: float) -> float:
    """Return O = E[t sigma(tau t) sigma'(tau t)]/tau for t ~ N(0, 1), of (2.5)."""
    kinks = tuple(kink / tau for kink in activation.kinks)
    value, _ = expectation(lambda t: t * activation(tau * t) * activation.derivative(tau * t), kinks=kinks)
    return float(value) / tau
