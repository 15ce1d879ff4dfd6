"""The read-out written once more, plainly: one point, damped iteration, dense normal
equations; slow and simple.
"""

from __future__ import annotations

import numpy as np


def read_out(
    features, pi, samples, width, ridge, dim=np.inf, product=None, masses=None
):
    """Return test, train, norm and the violation of (4.10) of few_steps_readout, from
    one set of features.

    `product` (K, k, k) is lambda B_q B_q' of structured_inputs section 4 at the atoms
    with `masses`; without it the inputs are isotropic, and B is in mu1.
    """
    w, mu0, mu1, mu2, h, hh = (
        getattr(features, name)[0]
        for name in ("weights", "mu0", "mu1", "mu2", "h", "hh")
    )
    h1 = features.h1[0]
    T0 = features.T0[0]
    Jp = features.Jp[0]
    k, N = mu1.shape
    L, X = Jp.shape
    C = X // k  # entry c k + q belongs to channel c of class q
    rho = samples / width
    beta_q = np.asarray(pi) * width
    PB = np.ones((1, k, k)) if product is None else product
    mass = np.ones(1) if masses is None else masses
    V = np.zeros(N)
    R = beta_q / ridge
    for _ in range(100_000):
        node = rho * w / (1 + V)
        Vh1 = (mu1 * node) @ mu1.T
        D = ridge + mu2 @ node
        H = PB * Vh1
        for _ in range(100):
            G = np.linalg.solve(np.eye(k) + H * R, H)
            R = 0.5 * R + 0.5 * beta_q / (D + mass @ np.einsum("jqq->jq", G))
        S = np.linalg.solve(
            np.eye(k) + R[:, None] * H, np.broadcast_to(np.diag(R), H.shape)
        )
        new = (
            np.einsum("qn,qn->n", mu1, np.einsum("j,jqr->qr", mass, PB * S) @ mu1)
            + R @ mu2
        ) / width
        done = np.max(np.abs(new - V)) < 1e-14 * np.max(np.abs(new))
        V = 0.3 * V + 0.7 * new
        if done:
            break
    node = rho * w / (1 + V)
    twice = rho * w / (1 + V) ** 2
    T1 = Jp.T[:, :, None] * np.tile(mu1, (C, 1))[:, None, :]
    rows = [np.concatenate([mu0, T0]) * np.sqrt(node)]
    data = [h * np.sqrt(node)]
    for l in range(L):
        rows.append(np.concatenate([np.zeros((k, N)), T1[:, l]]) * np.sqrt(node))
        data.append(h1[l] * np.sqrt(node))
    penalty = np.concatenate([1 / (dim * R), np.tile(1 / R, C)])
    design = np.concatenate(rows, axis=1).T
    aim = np.concatenate(data)
    stacked = np.concatenate([design, np.diag(np.sqrt(penalty))])
    solution = np.linalg.lstsq(
        stacked, np.concatenate([aim, np.zeros(len(penalty))]), rcond=1e-15
    )[0]
    theta = solution[:k]
    t = solution[k:].reshape(C, k).T
    c0 = theta @ mu0 + solution[k:] @ T0
    c1 = np.einsum("c,cln->ln", solution[k:], T1)
    base = hh - 2 * c0 * h + c0**2 - 2 * np.sum(h1 * c1, axis=0) + np.sum(c1**2, axis=0)
    paid = width / R**2 * (np.sum(t**2, axis=1) + theta**2 / dim)
    Th = np.eye(k) - S @ H
    transfer = np.eye(k) - (R**2 / beta_q)[:, None] * np.einsum("j,jqr->qr", mass, G**2)
    res = base
    for _ in range(20_000):
        A = (mu1 * (twice * res)) @ mu1.T
        eh = mu2 @ (twice * res) + paid
        dH = PB * A
        pushed = mass @ np.einsum("jqa,jqr,jra->ja", Th, dH, Th)
        delta = np.linalg.solve(transfer, R**2 / beta_q * (eh + pushed))
        Q2 = delta / width
        Q1 = (
            np.einsum("j,jqr->qr", mass, PB * (S @ dH @ S + (S * (delta / R**2)) @ S))
            / width
        )
        new = base + np.einsum("qn,qn->n", mu1, Q1 @ mu1) + Q2 @ mu2
        if np.max(np.abs(new - res)) < 1e-14 * np.max(np.abs(new)):
            break
        res = new
    test = w @ res
    train = w @ (res / (1 + V) ** 2)
    norm = Q2.sum()
    objective = train + ridge / rho * norm
    other = w @ ((hh - c0 * h - np.sum(h1 * c1, axis=0)) / (1 + V))
    return {
        "test": test,
        "train": train,
        "norm": norm,
        "identity": abs(objective / other - 1),
    }
