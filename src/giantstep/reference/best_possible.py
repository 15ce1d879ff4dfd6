"""The best possible error of a multi-index target, in plain loops: bayes_multi_index.

A target y = g(z) of r directions z is known, the directions are not. The order of the
argument is that of the page:

1. What a label tells, I and Psi at a given overlap, is in `best_channels.py`.
2. State evolution (3) says what the samples together tell (`sweep`).
3. With one direction M = q, and alpha(q) of (5) is explicit. Every q where it is equal
   to the samples per dimension is a fixed point (`fixed_points`). Message passing ends
   at the smallest stable one, the best possible is the one of largest `phi`, (4).
4. Test errors are averages at the fixed point, section 3.
5. Where no direction is known, the first order in M decides when one is found,
   section 4 (`weak_recovery`).

The sign of one direction, two samples per dimension:

>>> from giantstep.reference.best_channels import labels
>>> halves = [(-np.inf, 0.0, -1), (0.0, np.inf, 1)]
>>> q = fixed_points(lambda q: labels(halves, q), alpha=2.0)[0]
>>> round(q, 8), round(float(label_errors(halves, q)[0]), 8)
(0.72829817, 0.17453419)
"""

import numpy as np
from scipy import optimize

from giantstep.reference.averages import normal_density, panel_points
from giantstep.reference.best_channels import (
    label_chances,
    label_law,
    label_points,
    z_points,
)

# -- state evolution, (3) to (5) --------------------------------------------------


def sweep(information, alpha):
    """Return M' of (3)."""
    return np.eye(len(information)) - np.linalg.inv(
        np.eye(len(information)) + alpha * information
    )


def alpha_of(information, q):
    """Return alpha(q) of (5)."""
    return q / ((1 - q) * information(q)[0])


def phi(information, alpha, q, r=1):
    """Return the free entropy of (4) at M = q 1."""
    return r * (q + np.log(1 - q)) / 2 + alpha * information(q)[1]


def fixed_points(information, alpha, grid=None):
    """Return the stable overlaps of one direction, in increasing order."""
    if grid is None:
        grid = [1e-6, *np.linspace(0.02, 0.98, 25), 0.99, 0.995, 0.999, 0.9999]
    values = [alpha_of(information, q) - alpha for q in grid]
    stable = []
    if values[0] > 0:
        # Below alpha(0) nothing grows out of nothing.
        stable.append(0.0)
    for i in range(len(grid) - 1):
        if values[i] < 0 < values[i + 1]:
            root = optimize.brentq(
                lambda q: alpha_of(information, q) - alpha, grid[i], grid[i + 1]
            )
            stable.append(root)
    return stable


# -- section 3: test errors -------------------------------------------------------


def label_errors(pieces, q, flip=0.0):
    """Return the smallest share of wrong labels, and of square error, (11)."""
    omega, weights = label_points(pieces, q)
    names, Z, _ = label_chances(pieces, q, omega, flip)
    square = np.sum(names**2 @ Z @ weights)
    return 1 - weights @ Z.max(axis=0), square - weights @ (names @ Z) ** 2


def noisy_error(target, noise, q, kinks=()):
    """Return the smallest square error of one direction, (10)."""
    z, weights = panel_points(kinks)
    square = weights @ target(z[None]) ** 2
    explained = 0.0
    omegas, masses = panel_points()
    for omega, mass in zip(np.sqrt(q) * omegas, masses, strict=True):
        places = [(kink - omega) / np.sqrt(1 - q) for kink in kinks]
        u, weights = panel_points(places)
        guess = weights @ target((omega + np.sqrt(1 - q) * u)[None])
        explained += mass * guess**2
    return noise + square - explained


# -- section 4: when the first direction is found ---------------------------------


def weak_recovery(target, noise, r=1, kinks=()):
    """Return alpha_c of (12): one over the largest eigenvalue of E[G x G]."""
    z, volumes = z_points(r, width=1.0, kinks=kinks, count=12)
    law = volumes * np.prod(normal_density(z), axis=1)
    y, spacing, L = label_law(target, noise, z)
    total = np.zeros((r * r, r * r))
    for row in L:
        Z = row @ law
        if Z > 1e-300:
            # G(y) = E[z z^T - 1 | y].
            G = (z * (row * law)[:, None]).T @ z / Z - np.eye(r)
            total += spacing * Z * np.kron(G, G)
    return 1 / np.linalg.eigvalsh(total).max()
