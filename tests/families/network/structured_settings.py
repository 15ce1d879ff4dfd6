"""Settings of structured_inputs section 12 with their printed values: limit (test,
train, norm2), test at d = 400.
"""

import numpy as np

import giantstep as gs

B1 = ([2.5, 0.5], [0.25, 0.75])
B2 = ([4, 1, 0.2], [0.1, 0.4, 0.5])
B3 = ([4, 0.25], [0.2, 0.8])
SIGNS = ([0.5, 0.5], [1, -1])
ONE = ([1.0], [1])
T1 = "z + h2(z)/2"
T2 = "tanh(z) + 0.4*h2(z)"
POSITIONS = (np.arange(1, 41) - 0.5) / 40


def network(activation, target, inputs, law, rates, sizes, **more):
    alpha, beta, ridge, noise = sizes
    return gs.FewSteps(
        activation=activation,
        target=target,
        inputs=inputs,
        second_layer=gs.Vocabulary(law[1], law[0]),
        rate=rates,
        steps=len(rates),
        samples_per_dim=alpha,
        width_per_dim=beta,
        ridge=ridge,
        noise=noise,
        **more,
    )


def blocks(spectrum, *shares):
    return gs.InputBlocks(*spectrum, shares if len(shares) > 1 else shares[0])


DECAYING = gs.InputBlocks(POSITIONS**-0.8, [1 / 40] * 40, POSITIONS**-0.8)
C = ("tanh", "sin(z)", blocks(B1, [0.5, 0.5]), ONE)
D = (
    "tanh(z + 0.7)",
    T2,
    blocks(B1, [0.3, 0.7]),
    ([0.6, 0.4], [1, -1]),
    [2.5],
    (2, 1.2, 0.05, 0.05),
)
PLANE = ("relu", "z1 + z1*z2")
SETTINGS = {
    "A": (
        network("relu", T1, blocks(B1, [1, 0]), SIGNS, [2], (2, 1, 0.1, 0.1)),
        (0.58795838, 0.2262368, 0.7388294),
        0.588069,
    ),
    "B": (
        network("relu", T1, blocks(B1, [0, 1]), SIGNS, [2], (2, 1, 0.1, 0.1)),
        (0.75447612, 0.2835524, 0.9988945),
        0.763045,
    ),
    "C": (
        network(*C, [3], (1.5, 1, 0.1, 0.02)),
        (0.15983567, 0.0668036, 0.3526432),
        0.160041,
    ),
    "G": (
        network(*C, [], (1.5, 1, 0.1, 0.02)),
        (0.26809206, 0.0976187, 0.6770473),
        0.268092,
    ),
    "P": (
        network(*C, [3], (1.5, 1, 0.1, 0.02), precondition="whitened"),
        (0.04729172, 0.0247014, 0.0601655),
        0.047802,
    ),
    "D": (network(*D), (0.57234704, 0.2455715, 1.5705557), 0.572771),
    "R": (network(*D, precondition=0.5), (0.48770776, 0.1993751, 1.3107912), 0.488441),
    "E": (
        network(
            "relu",
            "0.5 + z + 0.4*h2(z)",
            blocks(B2, [0.2, 0.3, 0.5]),
            ([0.7, 0.3], [1, -0.5]),
            [1.5],
            (1.5, 1.5, 0.05, 0.1),
        ),
        (1.18088993, 0.1416008, 1.9416805),
        1.182450,
    ),
    "F": (
        network(
            "relu(z + 0.5)",
            "sin(1.5*z) + 0.3*cos(z)",
            DECAYING,
            SIGNS,
            [2],
            (2, 1, 0.02, 0.05),
        ),
        (0.62883611, 0.1872550, 1.4420585),
        0.628994,
    ),
    "H": (
        network(
            "relu", T1, blocks(B2, [0.2, 0.3, 0.5]), SIGNS, [1.5, 1], (2, 1.5, 0.1, 0.1)
        ),
        (0.92974496, 0.2741298, 1.4142845),
        0.931135,
    ),
    "I": (
        network(
            "erf",
            "z + 0.3*h3(z)",
            blocks(B1, [0.4, 0.6]),
            ONE,
            [2, 1],
            (1.5, 1, 0.1, 0.05),
        ),
        (1.05402381, 0.8344405, 0.9668759),
        1.054936,
    ),
    "J": (
        network(
            "tanh(z + 0.7)",
            T2,
            blocks(B3, [0.5, 0.5]),
            SIGNS,
            [3],
            (2, 1, 0.05, 0.05),
            rows="gaussian",
        ),
        (0.59155035, 0.3731731, 1.4014228),
        0.591714,
    ),
    "M": (
        network(
            "relu(z + 0.5)",
            "sin(z)",
            blocks(B3, [0.5, 0.5]),
            ONE,
            [2.5],
            (1.5, 1.5, 0.02, 0.02),
        ),
        (0.50808087, 0.1267916, 1.5844966),
        0.508080,
    ),
    "X1": (
        network(*PLANE, blocks(B1, [1, 0], [0, 1]), SIGNS, [2], (2, 1.5, 0.1, 0.1)),
        (1.00973461,),
        None,
    ),
    "Y1": (
        network(
            *PLANE, blocks(B1, [0.4, 0.6], [0.7, 0.3]), SIGNS, [2], (2, 1.5, 0.1, 0.1)
        ),
        (1.25851220, 0.3635781, 1.9660851),
        1.258529,
    ),
}
PLANES = {
    "X2": (
        network(
            *PLANE, blocks(B1, [1, 0], [0, 1]), SIGNS, [1.5, 1.5], (2, 1.5, 0.1, 0.1)
        ),
        (1.04145449,),
        None,
    ),
    "Y2": (
        network(
            *PLANE,
            blocks(B1, [0.4, 0.6], [0.7, 0.3]),
            SIGNS,
            [1.5, 1.5],
            (2, 1.5, 0.1, 0.1),
        ),
        (0.87915399, 0.2436467, 1.3780494),
        0.879596,
    ),
}
"""Two learnt directions."""

ATOMS = np.arange(1.0, 401)
TRAILING = (ATOMS > 200).astype(float)
MANY = {
    "N": (
        network("relu", T1, gs.PowerLaw(0.4, 0.4), SIGNS, [2], (2, 1, 0.05, 0.05)),
        (0.89763054, 0.2888327, 1.8502591),
        0.898304,
    ),
    "O": (
        network(
            "tanh(z + 0.5)",
            T2,
            gs.InputBlocks(ATOMS**-0.4, [1 / 400] * 400, TRAILING),
            ([0.6, 0.4], [1, -1]),
            [3],
            (1.5, 1.2, 0.05, 0.05),
        ),
        (0.52640548, 0.1680488, 1.1123396),
        0.527468,
    ),
    "Q": (
        network(
            "relu", "sin(z)", gs.PowerLaw(0.8, 0.5), ONE, [], (0.6, 1.5, 0.01, 0.05)
        ),
        (0.48144592, 0.0025615, 0.8352371),
        0.481446,
    ),
}
"""400 atoms."""
LOW_RANK = {
    "K": (
        network("tanh", "sin(z)", gs.PowerLaw(0.8, 0.5), ONE, [3], (2, 1, 0.05, 0.05)),
        0.41312944,
    ),
    "L": (
        network(
            "relu",
            T1,
            gs.InputBlocks(ATOMS**-0.8, [1 / 400] * 400, TRAILING),
            SIGNS,
            [3],
            (2, 1, 0.05, 0.05),
        ),
        0.71512185,
    ),
}
"""Outside the range of the bare theory, at d = 400."""
