"""What giant steps do to the means of the blocks of neurons at a finite width:
finite_size_steps, whose equations are cited by number.

The mean m_q of the p_q rows of a block (without their target components) has a squared
length of order 1/p_q, and the network's own output, which contains it, turns these
means among themselves at every step. They are followed as

    m_q = sum_c F_qc n_c, n_c independent vectors with |n_c|^2 = 1/p_c (of block c
    modulo k where there are more),

at the K atoms of the inputs; isotropic inputs have one. Arrays start with an axis of M
networks. `finite_size` is what a read-out pays for these means.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, expectation


def products_of_means(F: Floats, neurons: Floats) -> Floats:
    """Return Gam_qq' = <m_q, m_q'> (M, K, k, k) for blocks of so many neurons (M, k):
    (2.4), (6.2).
    """
    # columns are blocks, again and again: n_c is of block c modulo k
    k, columns = F.shape[-2:]
    per_column = np.tile(1 / neurons, (1, columns // k))
    return (F * per_column[:, None, None, :]) @ np.swapaxes(F, 2, 3)


def whole_length(length: Floats, plain: Floats, F: Floats, neurons: Floats) -> Floats:
    """Return s_q (M, k): rows of this length beside their mean, and the mean of the
    block (isotropic inputs): (2.6).

    Nodes of a continuous law stand for less than one neuron, which has no mean beside
    itself: what the other neurons and its own output add is taken relative to the
    `plain` length of its row, without feedback. A node whose own output would take away
    more than there is keeps the length beside it: such a row is long along what it has
    learnt.
    """
    mean = np.einsum("mqq->mq", products_of_means(F[:, :1], neurons)[:, 0])
    # rows beside the mean of p_q of them have lost 1/p_q of their square
    of_block = length**2 * (1 - 1 / neurons)
    of_node = length**2 - plain**2 / neurons
    beside = np.where(neurons >= 1, of_block, of_node)
    nothing_left = (neurons < 1) & (beside + mean <= 0)
    whole = np.where(nothing_left, length**2, beside + mean)
    # a step may turn rows round, and s keeps that sign: (2.6)
    return np.copysign(np.sqrt(whole), length)


def in_initial_rows(
    means: Floats, theta: Floats, kept: Floats, per_neuron: Floats
) -> Floats:
    """Return what to add to Q1 of the bulk rows to have that of the rows w0_i before
    the steps (B, k, k).

    Along the mean n_c of the initial rows of block c the fit has theta_q F_qc/s_q -
    x_qc of the bulk rows, with x = (I - Th) diag(theta) F/s what it gives up, and
    theta_q delta_qc - x_qc of the initial ones. `kept` is Th.
    """
    carried = theta[:, :, None] * means
    of_bulk = kept @ carried
    of_start = of_bulk - carried + theta[:, :, None] * np.eye(theta.shape[1])
    # |n_c|^2 = 1/p_c
    weight = per_neuron[:, None, :]
    square_of_start = (of_start * weight) @ np.swapaxes(of_start, 1, 2)
    square_of_bulk = (of_bulk * weight) @ np.swapaxes(of_bulk, 1, 2)
    return square_of_start - square_of_bulk


def self_overlaps(activation: Function, tau: Floats) -> Floats:
    """Return O = E[t sigma(tau t) sigma'(tau t)]/tau for t ~ N(0, 1), of (2.5); lengths
    that are the same share one.
    """
    lengths, length_of_entry = np.unique(tau, return_inverse=True)

    def overlap(length: float) -> float:
        # the kinks of t -> sigma(length t)
        kinks = tuple(kink / length for kink in activation.kinks)
        value, _ = expectation(
            lambda t: t * activation(length * t) * activation.derivative(length * t),
            kinks=kinks,
        )
        return float(value) / length

    overlaps = np.array([overlap(length) for length in lengths.tolist()])
    return overlaps[length_of_entry].reshape(tau.shape)
