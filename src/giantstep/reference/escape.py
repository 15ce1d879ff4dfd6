"""How long one neuron stays at the saddle M = 0: section 2.5 of gradient_dynamics.

One projected neuron of one-pass SGD starts with an overlap m0 ~ N(0, 1/d). Where the
first order of its target is 2, the overlap m grows at a rate r, and batches add noise:

    dm = r m dt + sqrt(D_m) dB      near m = 0,
    dm/dt = b(m)                    later.

First the noise decides how large m is when it starts to grow by itself. Then b(m) takes
it to the threshold. Both parts have a singular logarithm, and in the sum it cancels.

>>> from giantstep.reference.online_sgd import Run
>>> run = Run(
...     target=lambda z: z[0] ** 2 - 1,
...     activation=lambda x: x * x - 1,
...     slope=lambda x: 2 * x,
...     second_layer=[1.0],
...     dim=1000,
...     batch=1,
...     rate=0.1 / 1000,
...     algorithm="correlation",
...     constraint="projected",
...     nodes=8,
... )
>>> round(float(escape_time(run, threshold=0.5)) / 1000, 5)
9.50343
"""

import numpy as np

from giantstep.reference.averages import panels
from giantstep.reference.online_sgd import averages, fields, forces


def drift(run, m):
    """Return dm/dt of one projected neuron, (2.3b)."""
    B, _, chi, _ = averages(run, np.array([[m]]), np.eye(1))
    gamma = run.rate * run.second_layer[0]
    # On the sphere only the part of z beside lambda counts: (1 - m^2) S(m).
    turn = B[0, 1] - m * B[0, 0]
    return gamma * turn - gamma**2 * run.dim / (2 * run.batch) * chi[0, 0] * m


def escape_time(run, threshold):
    """Return the mean number of updates from m0 ~ N(0, 1/d) to |m|, (2.5a)."""
    small = 1e-5
    r = drift(run, small) / small  # (2.5b)
    L, xi, y, weights = fields(run, np.zeros((1, 1)), np.eye(1))
    lam, z = L @ xi
    F = forces(run, lam[None], y)[0]
    D_m = run.rate**2 / run.batch * (weights @ (F * z) ** 2)
    spread = 1 / run.dim + D_m / (2 * r)
    linear = (-np.log(spread) + np.euler_gamma + np.log(2)) / (2 * r)

    def beyond_linear(u):
        m = np.exp(u)
        return m / drift(run, m) - 1 / r

    # With u = log m the integrand is smooth, and of order m^2 at m -> 0.
    top = np.log(threshold)
    u, lengths = panels(np.linspace(-12, top, 13))
    rest = sum(lengths * [beyond_linear(value) for value in u])
    return linear + rest + top / r
