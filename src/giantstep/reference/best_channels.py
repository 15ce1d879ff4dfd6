"""What a label tells about the directions: section 2 of bayes_multi_index.

An estimate of overlap M leaves z ~ N(omega, V), V = 1 - M, and omega ~ N(0, M) over the
samples. A label y then has the law Z(y, omega) = E P(y | z), and moves the estimate by
the slope g_out of log Z, (1). The page needs two averages of these (2): the information
I(M) = E[g_out g_out^T] and the entropy Psi(M) = E[log Z], whose slope is I/2.

There are four kinds of label: `noisy` for y = g(z) + noise and any number of
directions, `labels` for targets with few values, `exact` for a target without noise and
`parity` for signs of products. `best_possible.py` does the rest.

With a linear target and noise delta, I = 1/(V + delta):

>>> information, _ = noisy(lambda z: z[0], 0.25, np.array([[0.6]]))
>>> round(float(information[0, 0]) * (0.4 + 0.25), 10)
1.0
"""

import itertools

import numpy as np
from scipy.special import erf, ndtr

from giantstep.reference.averages import normal_density, panel_points, panels

# -- noisy labels -----------------------------------------------------------------


def z_points(r, width, kinks, count):
    """Return points and volumes of a product rule over z in a ball."""
    edges = np.unique(np.concatenate([np.arange(-8.5, 8.6, width), kinks]))
    line, lengths = panels(edges, count)
    z = np.array(list(itertools.product(line, repeat=r)))
    volumes = np.prod(list(itertools.product(lengths, repeat=r)), axis=1)
    inside = np.sum(z**2, axis=1) < 8.5**2
    return z[inside], volumes[inside]


def label_law(target, noise, z):
    """Return y, the spacing of its trapezoidal rule, and P(y | z)."""
    g = target(z.T)
    width = np.sqrt(noise)
    likely = np.sum(z**2, axis=1) < 7.6**2
    low = g[likely].min() - 8 * width
    high = g[likely].max() + 8 * width
    y = np.arange(low, high, 0.4 * width)
    return y, 0.4 * width, normal_density((y[:, None] - g) / width) / width


def noisy(target, noise, M, kinks=(), step=0.12, count=12):
    """Return I(M) and Psi(M) of y = g(z) + noise, (1) and (2), for any r."""
    r = len(M)
    V = np.eye(r) - M
    V_inverse = np.linalg.inv(V)
    shares, axes = np.linalg.eigh(M)
    # omega by the trapezoidal rule, along the eigenvectors of M.
    line = np.arange(-8, 8 + step, step)
    omegas = np.array(list(itertools.product(line, repeat=r)))
    masses = np.prod(step * normal_density(omegas), axis=1)
    heavy = masses > 1e-14
    omegas = omegas[heavy] * np.sqrt(np.maximum(shares, 0)) @ axes.T
    # Panels are as narrow as the law of z given omega. Where g is steep P(y | z) is
    # narrower still, and more nodes (`count`) are needed.
    width = min(1.0, 2.5 * np.sqrt(1 - shares.max()))
    z, volumes = z_points(r, width, kinks, count)
    _, spacing, L = label_law(target, noise, z)
    norm = np.sqrt((2 * np.pi) ** r * np.linalg.det(V))
    information = np.zeros((r, r))
    psi = 0.0
    for omega, share in zip(omegas, masses[heavy], strict=True):
        gap = z - omega
        law = volumes * np.exp(-np.sum(gap @ V_inverse * gap, axis=1) / 2) / norm
        Z = np.maximum(L @ law, 1e-300)
        g_out = (L @ (law[:, None] * gap) / Z[:, None]) @ V_inverse  # (1)
        weight = share * spacing * Z
        information += (g_out * weight[:, None]).T @ g_out  # (2)
        psi += weight @ np.log(Z)
    return information, psi


# -- a few labels -----------------------------------------------------------------


def label_chances(pieces, q, omega, flip=0.0):
    """Return the labels, Z_l(omega) and their slopes, (6); a piece is (a, b, label)."""
    names = sorted({label for _, _, label in pieces})
    s = np.sqrt(1 - q)
    P = np.zeros((len(names), len(omega)))
    slope = np.zeros_like(P)
    for a, b, label in pieces:
        low = (a - omega) / s
        high = (b - omega) / s
        row = names.index(label)
        # On the right side differences of small tails lose no digits.
        P[row] += np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        slope[row] += (normal_density(low) - normal_density(high)) / s
    other = flip / (len(names) - 1)
    Z = (1 - flip) * P + other * (1 - P)
    return np.array(names), np.maximum(Z, 1e-300), (1 - flip - other) * slope


def label_points(pieces, q):
    """Return omega and weights, with panels as narrow as the steps of Z."""
    edges = []
    for place in {end for a, b, _ in pieces for end in (a, b)} - {-np.inf, np.inf}:
        for distance in (0, 0.5, 1, 2, 3, 4, 6, 8):
            edges.append((place + distance * np.sqrt(1 - q)) / np.sqrt(q))
            edges.append((place - distance * np.sqrt(1 - q)) / np.sqrt(q))
    points, weights = panel_points(edges, width=0.5, count=20)
    return np.sqrt(q) * points, weights


def labels(pieces, q, flip=0.0):
    """Return I(q) and Psi(q) of a target with few values, (6)."""
    omega, weights = label_points(pieces, q)
    _, Z, slope = label_chances(pieces, q, omega, flip)
    psi = np.sum(Z * np.log(Z) @ weights)
    return np.sum(slope**2 / Z @ weights), psi


# -- labels without noise, and parities -------------------------------------------


def exact(preimages, q, kinks=(0.0,)):
    """Return I(q) of y = g(z) without noise, (7).

    `preimages(z)` returns all places with the label of z, and |g'| there.
    """
    V = 1 - q
    z, z_weights = panel_points(kinks)
    xi, xi_weights = panel_points(width=0.5)
    information = 0.0
    for place, weight in zip(z, z_weights, strict=True):
        # omega | z ~ N(q z, q V).
        omega = q * place + np.sqrt(q * V) * xi
        mean = np.zeros_like(omega)
        total = np.zeros_like(omega)
        roots, slopes = preimages(place)
        nearest = np.min([(root - omega) ** 2 for root in roots], axis=0)
        for root, slope in zip(roots, slopes, strict=True):
            chance = np.exp((nearest - (root - omega) ** 2) / (2 * V)) / slope
            mean += chance * root
            total += chance
        g_out = (mean / total - omega) / V
        information += weight * (xi_weights @ g_out**2)
    return information


def parity(k, q, flip=0.0):
    """Return I (its diagonal) and Psi of sign(z1 ... zk), where M = q 1, (9)."""
    xi, weights = panel_points(width=0.5)
    omega = np.sqrt(q) * xi
    t = erf(omega / np.sqrt(2 * (1 - q)))
    slope = 2 * normal_density(omega / np.sqrt(1 - q)) / np.sqrt(1 - q)
    keep = 1 - 2 * flip
    information = 0.0
    psi = -np.log(2)
    # Powers of T factorise over the directions; the sums are of 1/(1 - T^2) and H_2.
    for n in range(1500):
        even = weights @ t ** (2 * n)
        information += (
            keep ** (2 * n + 2)
            * (weights @ (slope**2 * t ** (2 * n)))
            * (weights @ t ** (2 * n + 2)) ** (k - 1)
        )
        if n > 0:
            psi += keep ** (2 * n) * even**k / (2 * n * (2 * n - 1))
    return information, psi
