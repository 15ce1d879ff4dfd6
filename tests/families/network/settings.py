"""The settings of few_steps_readout section 14, with their printed values: test, train
and norm2 in the limit.
"""

import giantstep as gs


def network(activation, target, pi, zeta, rates, alpha, beta, ridge, noise, **more):
    return gs.FewSteps(
        activation=activation,
        target=target,
        second_layer=gs.Vocabulary(zeta, pi),
        rate=rates,
        steps=len(rates),
        samples_per_dim=alpha,
        width_per_dim=beta,
        ridge=ridge,
        noise=noise,
        **more,
    )


HALF = [0.5, 0.5]
SIGNS = [1, -1]
THREE = [1, -1, 0.4]
LAW = [0.35, 0.35, 0.3]
A = ("relu", "z1 + z1*z2", HALF, SIGNS)
B = ("erf", "z1 + 0.7*h2(z1)*z2", [0.6, 0.4], [1, -0.6])
C = ("relu", "z1 + z1*z2 + z2*z3", LAW, THREE)
D = ("relu", "0.5 + z1 + 0.6*h2(z1) + z1*z2 - 0.5*h2(z2)", [0.7, 0.3], [1, -0.5])
G = ("tanh(z + 0.7)", "tanh(z1) + z1*z2", HALF, SIGNS)
H = ("erf", "z + 0.3*h3(z)", [1.0], [1])
L = ("relu(z + 0.5)", "0.8*z1 + 0.8*z1*z2 + 0.4*h2(z2)", LAW, THREE)
GAUSSIAN = {"rows": "gaussian"}

SETTINGS = {
    "A3": (
        network(*A, [2, 2, 2], 2, 1.5, 0.1, 0.1),
        [2.09072848, 1.01910756, 0.69077155, 0.62289614],
    ),
    "B2": (network(*B, [2, 2], 3, 1.2, 0.05, 0.05), [None, 1.15524849, 1.06738503]),
    "C2": (network(*C, [2, 2], 4, 2, 0.1, 0.1), [3.148724, 2.32402353, 1.80657373]),
    "D2": (network(*D, [1.5, 1], 2, 1, 0.1, 0.1), [None, 2.57047126, 2.16061781]),
    "G2": (network(*G, [3, 3], 2, 1, 0.05, 0.05), [None, None, 1.17188186]),
    "H1s": (network(*H, [3, 1], 1.5, 1, 0.1, 0.0), [None, None, 0.91795719]),
    "H1g": (
        network(*H, [3, 1], 1.5, 1, 0.1, 0.0, **GAUSSIAN),
        [None, None, 0.86978503],
    ),
    "H2": (
        network(*B, [2, 2], 3, 1.2, 0.05, 0.05, **GAUSSIAN),
        [None, None, 1.06688733],
    ),
    "I2": (
        network(*A, [2, 2], 2, 1.5, 0.1, 0.1, loss_of_steps="correlation"),
        [None, None, 0.71614175],
    ),
    "K2": (
        network("relu", "z1 + z2*z3", HALF, SIGNS, [2, 2], 2, 1, 0.1, 0.1),
        [None, None, 1.59238213],
    ),
    "L2": (network(*L, [2, 2], 1.2, 1.6, 0.05, 0.2), [None, None, 1.48801234]),
    "L3": (network(*L, [2, 1, 1], 1.2, 1.6, 0.05, 0.2), [None, None, None, 1.48451008]),
}

ISOTROPIC = {
    "G2b": (
        network(*G, [3, 3], 2, 1, 0.05, 0.05, batch_per_dim=100.0),
        [None, None, 1.18202918],
    ),
    "N5": (
        network(*A, [2, 2], 2, 1.5, 0.1, 0.1, batch_per_dim=5.0),
        [None, None, 0.89774302],
    ),
    "N20": (
        network(*A, [2, 2], 2, 1.5, 0.1, 0.1, batch_per_dim=20.0),
        [None, None, 0.73312206],
    ),
}
"""Finite batches as isotropic noise, few_steps_readout section 6: an approximation,
which is asked for by name.
"""
