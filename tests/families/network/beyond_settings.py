"""The settings of beyond_the_error section 8, with their printed values."""

import math

import giantstep as gs

PARTS = (
    "bias",
    "from_layer",
    "from_samples",
    "from_noise",
    "from_layer_samples",
    "from_layer_noise",
    "test_error",
)


def planted(activation, target, pi, shifts, bulk, alpha, beta, readout, **more):
    return gs.Network(
        activation=activation,
        target=target,
        second_layer=gs.Vocabulary([1.0 + q for q in range(len(pi))], pi),
        steps=[gs.PlantedShifts(shifts, bulk)],
        samples_per_dim=alpha,
        width_per_dim=beta,
        readout=readout,
        **more,
    )


def trained(activation, target, zeta, pi, steps, alpha, beta, ridge, noise):
    return gs.Network(
        activation=activation,
        target=target,
        second_layer=gs.Vocabulary(zeta, pi),
        steps=[gs.MaximalStep(2.0)] * steps,
        samples_per_dim=alpha,
        width_per_dim=beta,
        readout=gs.Ridge(ridge),
        noise=noise,
    )


THREE = ([0.4, 0.3, 0.3], [[1.2, 0.3], [-0.5, 1], [0.4, -1.5]], [1, 0.8, 1.2])
RELU = ("relu", "z1 + z1*z2", [1, -1], [0.5, 0.5])
P1 = planted(
    "tanh", "sin(z1)", [1.0], [[1.1]], [1.05], 1.5, 1, gs.Ridge(0.1), noise=0.1
)
P5 = gs.Network(
    activation="relu",
    target=gs.Target("tanh(z1)", directions=2),
    second_layer=gs.Vocabulary([1.0]),
    samples_per_dim=2,
    width_per_dim=1.5,
    readout=gs.Ridge(0.1),
    noise=0.1,
)
REGRESSION = {
    "P1": P1,
    "P2": planted(
        *(
            "relu",
            "tanh(0.8*z1 + 0.6*z2)",
            [0.7, 0.3],
            [[1, 0], [-1, 0]],
            [1, 1],
            1.5,
            1.2,
            gs.Ridge(0.05),
        ),
        noise=0.05,
    ),
    "P3": planted(
        "softplus",
        "relu(z1)",
        [0.5, 0.5],
        [[1.5], [-1.5]],
        [1, 1],
        2,
        1.2,
        gs.Ridge(0.02),
        noise=0.1,
    ),
    "P4": planted(
        "tanh", "tanh(z1) + sin(z1*z2)", *THREE, 2, 1.5, gs.Ridge(0.05), noise=0.1
    ),
    "P5": P5,
    "P6": planted(
        *(
            "erf",
            "sin(0.6*z1 + 0.8*z2)",
            [0.5, 0.5],
            [[1, 0], [2, 0]],
            [1, 0.7],
            0.8,
            1.5,
            gs.Ridge(0.05),
        ),
        noise=0.05,
    ),
    "T1": trained(*RELU, 1, 2, 1.5, 0.1, 0.1),
    "T2": trained(*RELU, 2, 2, 1.5, 0.1, 0.1),
    "T3": trained(
        "erf", "z1 + 0.7*h2(z1)*z2", [1, -0.6], [0.6, 0.4], 2, 3, 1.2, 0.05, 0.05
    ),
}
TILTED = f"sign(0.7*z1 + {math.sqrt(0.51)!r}*z2)"
CLASSES = {
    "L1": planted(
        "tanh",
        "sign(0.8*z1 + 0.6*z2)",
        [1.0],
        [[1.2, 0]],
        [1],
        1.5,
        1.2,
        gs.Logistic(0.1),
    ),
    "L2": planted(
        "relu",
        TILTED,
        [0.6, 0.4],
        [[1, 0], [-1, 0]],
        [1, 1],
        2,
        1,
        gs.Logistic(0.05),
        flip=0.1,
    ),
}
RIDGE_ON_CLASSES = CLASSES["L1"].replace(readout=gs.Ridge(0.3))

TABLE_A = {
    "P1": (
        0.0209739,
        0.000636002,
        0.00138351,
        0.0165178,
        0.00250963,
        0.0214720,
        0.163493,
    ),
    "P2": (0.0664340, 0.0214653, 0.0137585, 0.0107392, 0.0553227, 0.0284609, 0.246181),
    "P3": (
        0.0253875,
        0.00479828,
        0.00809758,
        0.0325992,
        0.0164462,
        0.0498110,
        0.237140,
    ),
    "P4": (0.282157, 0.000343740, 0.0490937, 0.0223459, 0.0832946, 0.0287988, 0.566034),
    "P5": (0.112610, 0.0476285, 0.0174578, 0.0155028, 0.0514468, 0.0274983, 0.372145),
    "P6": (0.155439, 0.0177258, 0.0296563, 0.00946223, 0.0524167, 0.0138858, 0.328586),
    "T1": (0.473930, 0.108488, 0.0889440, 0.0173612, 0.199135, 0.0312502, 1.019108),
    "T2": (0.301923, 0.0525029, 0.0666979, 0.0200644, 0.119122, 0.0304613, 0.690772),
    "T3": (0.909926, 0.00592331, 0.0216552, 0.00753041, 0.0620348, 0.0103158, 1.067385),
}
"""Table A: bias2, W, X, E, WX, WE, test."""
HALVES = {
    "P1": (0.0260705, 0.0436303),
    "P2": (0.0875482, 0.170573),
    "P3": (0.0881252, 0.147579),
    "P4": (0.119977, 0.197793),
    "P5": (0.109427, 0.219753),
    "P6": (0.0818045, 0.143441),
    "T1": (0.285949, 0.562913),
    "T2": (0.186689, 0.349747),
    "T3": (0.0720806, 0.139964),
}
"""Table A: disagreement with a fit of half the samples and 3 lambda, on the same layer
and on one of its own.
"""
TABLE_D = {
    "P1": (0.484480, 0.0559808, 0.208677, 0.493290),
    "P2": (0.523946, 0.183247, 0.278130, 0.655298),
    "P3": (0.454496, 0.122114, 0.248191, 0.598955),
    "P4": (0.835713, 0.255358, 0.518402, 1.293365),
    "P5": (0.375152, 0.276667, 0.300368, 0.766301),
    "P6": (0.450285, 0.159616, 0.295443, 0.736600),
    "T1": (2.110598, 0.628356, 1.057253, 2.604010),
    "T2": (2.467855, 0.369732, 0.924594, 2.232329),
    "T3": (1.563822, 0.162945, 0.514525, 1.972866),
}
"""E|grad f|^2, its part across the target, E|y - f||grad f|, and (5.6) at eps = 0.5."""
TABLE_C = {
    "P1": (
        0.793376,
        0.790978,
        0.278327,
        0.195672,
        0.252907,
        0.141023,
        0.317206,
        0.0662744,
    ),
    "P2": (
        0.594577,
        0.969981,
        0.413539,
        0.274778,
        0.249158,
        0.183826,
        0.328723,
        0.412576,
    ),
    "P3": (
        0.659199,
        0.955153,
        0.385939,
        0.254633,
        0.263421,
        0.177380,
        0.353710,
        0.323894,
    ),
    "P4": (
        0.709088,
        1.439643,
        0.735539,
        0.605418,
        0.580233,
        0.490943,
        0.710735,
        0.315376,
    ),
    "P5": (
        0.708691,
        1.184887,
        0.527191,
        0.378151,
        0.374959,
        0.290782,
        0.438547,
        0.496168,
    ),
    "P6": (
        0.558006,
        1.127544,
        0.452261,
        0.357398,
        0.281822,
        0.272004,
        0.382154,
        0.215853,
    ),
    "T1": (
        0.727866,
        2.007806,
        3.289156,
        1.641406,
        1.394547,
        0.748998,
        1.478469,
        1.328380,
    ),
    "T2": (
        0.738860,
        1.641793,
        2.377672,
        1.250543,
        1.022513,
        0.545269,
        1.244263,
        0.792179,
    ),
    "T3": (
        0.954191,
        1.722011,
        8.610637,
        2.735092,
        3.894836,
        1.029179,
        1.468476,
        0.224480,
    ),
}
"""Naive coverage, honest half width, errors under scale, mean, cov, bulk, angle, and
disagreement ii under scale.
"""
CALIBRATION = {
    "L1": (0.378472, 0.121495, 0.019788, 1.016434, 0.378434, 0.018602, 0.375147),
    "L2": (0.641980, 0.211662, 0.091909, 1.944948, 0.590391, 0.012014, 0.589289),
    "R1": (0.496136, 0.157168, 0.175588, 0.313086, 0.379520, 0.016195, 0.377388),
}
"""Log loss, Brier, ECE, T, log loss and ECE at T, refined log loss; the second and the
last two to 5e-6.
"""


def shifts(directions):
    """Return the shifts of section 8 in their order."""
    one = directions == 1
    covariance = [[2.0]] if one else [[1.5, 0.4], [0.4, 0.8]]
    return {
        "scale": gs.Shift(scale=1.4),
        "mean": gs.Shift(mean=0.8 if one else [0.8, -0.5]),
        "cov": gs.Shift(covariance=covariance),
        "bulk": gs.Shift(bulk=0.7),
        "angle": gs.Shift(angle=0.6),
    }
