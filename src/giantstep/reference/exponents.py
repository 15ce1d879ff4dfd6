"""How hard a target is to find, in plain loops: section 1 of gradient_dynamics.

The order of the argument is that of the page:

1. The Hermite coefficients C_k = E[h H_k] of one direction. The first one that is not
   zero is the information exponent: what one pass over the data can see (`information`).
2. A label may be transformed first. The generative exponent is the first k for which
   E[H_k(z) | y] depends on y. For one direction without noise it follows from the ends
   of the sets {h <= t}, without any binning (`generative`, (1.1a)).
3. Several directions are found stage by stage, given those that are known already
   (`stages`, section 1.2): with T = y for one pass, with powers or indicators of y for
   the generative staircase.

A quadratic direction that can be seen once the first one is known:

>>> from giantstep.reference.averages import hermite_points
>>> points, weights = hermite_points(2, 12)
>>> stages(lambda z: z[0] + z[0] * z[1], points, weights, [identity])
[(1, 1), (1, 1)]
>>> stages(lambda z: z[0] + z[0] * z[1], points, weights, powers(4))
[(1, 2)]
"""  # noqa: E501

import itertools

import numpy as np
from scipy.special import eval_hermitenorm, factorial

from giantstep.reference.averages import normal_density, panel_points

TOLERANCE = 1e-7

# -- section 1.1: one direction ---------------------------------------------------


def coefficients(h, highest, kinks=()):
    """Return C_0, ..., C_highest by panels that end at the kinks."""
    z, weights = panel_points(kinks)
    return [weights @ (h(z) * eval_hermitenorm(k, z)) for k in range(highest + 1)]


def information(h, highest=8, kinks=()):
    """Return the information exponent."""
    C = coefficients(h, highest, kinks)
    z, weights = panel_points(kinks)
    variance = weights @ h(z) ** 2 - C[0] ** 2
    for k in range(1, highest + 1):
        if abs(C[k]) > TOLERANCE * np.sqrt(factorial(k) * variance):
            return k
    return np.inf


def level_set_ends(h, t):
    """Return the ends of {h <= t}: -1 where the set lies left of it, +1 where right."""
    z = np.linspace(-9, 9, 20_001)
    inside = h(z) <= t
    ends = []
    for i in np.flatnonzero(inside[1:] != inside[:-1]):
        low = z[i]
        high = z[i + 1]
        # Bisect the indicator: this is right at jumps and on flat pieces too.
        for _ in range(60):
            middle = (low + high) / 2
            if (h(middle) <= t) == inside[i]:
                low = middle
            else:
                high = middle
        sign = 1.0
        if inside[i]:
            sign = -1.0
        ends.append((sign, low))
    return ends


def generative(h, highest=8):
    """Return the generative exponent, from A_k(t) of (1.1a) at quantiles t of y."""
    levels = np.unique(
        np.quantile(h(np.linspace(-3, 3, 2001)), np.linspace(0.02, 0.98, 41))
    )
    sets = [level_set_ends(h, t) for t in levels]
    for k in range(1, highest + 1):
        squares = []
        for ends in sets:
            A = sum(
                sign * eval_hermitenorm(k - 1, u) * normal_density(u)
                for sign, u in ends
            )
            squares.append(A**2)
        if np.sqrt(np.mean(squares) / factorial(k)) > TOLERANCE:
            return k
    return np.inf


# -- section 1.2: several directions ----------------------------------------------


def identity(y):
    """Return the label as it is: one pass over the data."""
    return y


def powers(highest):
    """Return the transforms y, ..., y^highest, for polynomials."""
    return [lambda y, j=j: y**j for j in range(1, highest + 1)]


def indicators(values):
    """Return one transform for each value of a target that has few."""
    return [lambda y, value=value: 1.0 * (np.abs(y - value) < 1e-9) for value in values]


def hermite_product(x, degrees):
    """Return the product of Hermite polynomials of the columns of x."""
    product = np.ones(len(x))
    for column, degree in zip(x.T, degrees, strict=True):
        product = product * eval_hermitenorm(degree, column)
    return product


def visible(labels, z, weights, U, D, order, degree):
    """Return the Gram matrix of the tensors E[T(y) q(z_U) H_k(z_D)] on D."""
    known = z @ U
    rest = z @ D
    size = D.shape[1]
    tests = [
        degrees
        for degrees in itertools.product(range(degree + 1), repeat=U.shape[1])
        if sum(degrees) <= degree
    ]
    gram = np.zeros((size, size))
    for label in labels:
        for degrees in tests:
            q = hermite_product(known, degrees)
            q = (
                weights
                * label
                * q
                / np.sqrt(np.prod(factorial(np.array(degrees, int))))
            )
            C = np.zeros((size, size ** (order - 1)))
            for row in range(size):
                others = itertools.product(range(size), repeat=order - 1)
                for column, index in enumerate(others):
                    counts = [[row, *index].count(r) for r in range(size)]
                    C[row, column] = q @ hermite_product(rest, counts)
            gram += C @ C.T / factorial(order - 1)
    return gram


def stages(h, points, weights, transforms, highest=4):
    """Return (order, number of new directions), stage by stage."""
    r = points.shape[1]
    y = h(points.T)
    labels = []
    for transform in transforms:
        T = transform(y) - weights @ transform(y)
        labels.append(T / np.sqrt(weights @ T**2))
    U = np.zeros((r, 0))
    found = []
    while U.shape[1] < r:
        # D is an orthonormal basis of what is not known yet.
        D = np.linalg.svd(U, full_matrices=True)[0][:, U.shape[1] :]
        for order in range(1, highest + 1):
            gram = visible(labels, points, weights, U, D, order, highest)
            values, vectors = np.linalg.eigh(gram)
            new = D @ vectors[:, values > TOLERANCE**2 * 10]
            if new.shape[1] > 0:
                break
        if new.shape[1] == 0:
            found.append((np.inf, 0))
            break
        found.append((order, new.shape[1]))
        U = np.concatenate([U, new], axis=1)
    return found
