"""The rows of the reference table of mixture_glm section 9: a scenario and the limit's
values for each.

They were computed with an independent implementation; the experiment is compared with
them, so that this file tests the experiment without the limit.
"""

from __future__ import annotations

import math

import giantstep as gs

R3, R75 = math.sqrt(3), math.sqrt(0.75)
PLUS_MINUS = [[1, -1], [-1, 1]]


def case(**fields):
    return gs.MixtureGLM(**fields)


ROWS = {
    "A1": (
        case(labels="linear", noise=0.3, ridge=0.1, samples_per_dim=1.5),
        {
            "train_loss": 0.05698097,
            "test_error": 0.63413035,
            "q": 1.0623506,
            "m": 0.8641101,
        },
    ),
    "A2": (
        case(labels="linear", noise=0.3, loss="interpolate", samples_per_dim=0.5),
        {"test_error": 1.1, "q": 0.8, "m": 0.5},
    ),
    "A3": (
        case(labels="sign", loss="logistic", ridge=0.1, samples_per_dim=2.0),
        {
            "train_loss": 0.18214964,
            "train_error": 0.00647511,
            "test_error": 0.17966239,
            "q": 4.1458036,
            "m": 1.7203131,
        },
    ),
    "A4": (
        case(
            labels="logit",
            teacher_norm=4.0,
            loss="logistic",
            ridge=0.01,
            samples_per_dim=4.0,
        ),
        {
            "train_loss": 0.30884138,
            "test_error": 0.29441608,
            "q": 12.963247,
            "m": 5.6873065,
        },
    ),
    "A5": (
        case(labels="sign", noise=0.5, loss="hinge", ridge=0.5, samples_per_dim=2.0),
        {
            "train_loss": 0.26629364,
            "test_error": 0.30695450,
            "q": 1.1554709,
            "m": 0.750374,
        },
    ),
    "A6": (
        case(labels="sign", loss="maxmargin", samples_per_dim=1.5),
        {"test_error": 0.22157638, "q": 3.0070716, "m": 1.3306496},
    ),
    "A7": (
        case(labels="sign", flip=0.1, ridge=0.2, samples_per_dim=1.5),
        {
            "train_loss": 0.11833650,
            "test_error": 0.33305347,
            "test_mse": 1.0332715,
            "q": 0.6705913,
            "m": 0.4992263,
        },
    ),
    "A8": (
        case(labels="phase", noise=0.1, ridge=0.3, samples_per_dim=2.0),
        {"train_loss": 0.29117647, "test_error": 1.6176471, "q": 0.5176471, "m": 0.0},
    ),
    "A9": (
        case(
            labels="linear",
            noise=1.0,
            loss="huber",
            huber_threshold=0.5,
            ridge=0.2,
            samples_per_dim=2.0,
        ),
        {
            "train_loss": 0.18511395,
            "test_error": 1.5379754,
            "q": 1.0124002,
            "m": 0.7372124,
        },
    ),
    "B1": (
        case(
            covariances=gs.Blocks([0.25, 0.75], [[2, 0.3]], teacher=[2.8, 0.4]),
            labels="sign",
            noise=0.1,
            loss="logistic",
            ridge=0.05,
            samples_per_dim=1.5,
        ),
        {
            "train_loss": 0.13811476,
            "test_error": 0.16270944,
            "q": 7.6082927,
            "m": 3.0335102,
        },
    ),
    "B2": (
        case(
            covariances=gs.Blocks([0.25, 0.75], [[2, 0.5]], teacher=[4, 0]),
            labels="linear",
            noise=0.2,
            l1=0.3,
            samples_per_dim=0.8,
        ),
        {
            "train_loss": 0.05774344,
            "test_error": 0.35007414,
            "q": 1.6449532,
            "m": 1.7474395,
        },
    ),
    "C1": (
        case(
            weights=[0.5, 0.5],
            mean_gram=PLUS_MINUS,
            teacher_means=[R75, -R75],
            labels="linear",
            ridge=0.7,
            samples_per_dim=1.2,
        ),
        {
            "train_loss": 0.04925073,
            "test_error": 0.28947368,
            "q": 0.4561404,
            "m": 0.625,
            "h": 0.5773503,
        },
    ),
    "C2": (
        case(
            weights=[0.5, 0.5],
            mean_gram=[[4, -4], [-4, 4]],
            teacher_means=[R3, -R3],
            labels="sign",
            loss="logistic",
            ridge=0.1,
            samples_per_dim=2.0,
        ),
        {
            "train_loss": 0.06909266,
            "test_error": 0.03922578,
            "q": 2.7431598,
            "m": 1.3765534,
            "h": 2.9100495,
        },
    ),
    "C3": (
        case(
            weights=[0.3, 0.7],
            mean_gram=[[1.5, 0.3], [0.3, 0.8]],
            teacher_means=[0.7, -0.4],
            labels="sign",
            noise=0.2,
            loss="hinge",
            intercept=True,
            ridge=0.3,
            samples_per_dim=2.0,
        ),
        {
            "train_loss": 0.13526688,
            "test_error": 0.23110458,
            "q": 1.6929561,
            "m": 0.994647,
            "h": 0.7217603,
            "b": -0.0437298,
        },
    ),
    "C4": (
        case(
            weights=[0.4, 0.6],
            covariances=[0.5, 0.5],
            mean_gram=PLUS_MINUS,
            labels="cluster",
            loss="logistic",
            intercept=True,
            ridge=0.05,
            samples_per_dim=1.5,
        ),
        {
            "train_loss": 0.12357619,
            "test_error": 0.12750614,
            "q": 2.6964323,
            "h": 1.8446606,
            "b": -0.4226081,
        },
    ),
    "D1": (
        case(
            weights=[0.5, 0.5],
            covariances=[0.2, 1.8],
            labels="sign",
            loss="logistic",
            ridge=0.1,
            samples_per_dim=2.0,
        ),
        {
            "train_loss": 0.24764124,
            "test_error": 0.18784224,
            "q": 0.7777779,
            "m": 0.3277003,
        },
    ),
    "D2": (
        case(
            weights=[0.5, 0.5],
            covariances=[0.2, 1.8],
            labels="phase",
            ridge=0.0,
            samples_per_dim=3.0,
        ),
        {"train_loss": 0.24748096, "test_error": 1.8922644, "q": 0.1784529},
    ),
    "D3": (
        case(
            weights=[0.5, 0.5],
            covariances=gs.Blocks(
                [1 / 3, 1 / 3, 1 / 3], [[0.01, 0.98, 0.01], [0.495, 0.01, 0.495]]
            ),
            labels="random",
            loss="hinge",
            ridge=0.1,
            samples_per_dim=2.0,
        ),
        {"train_loss": 0.43993343, "train_error": 0.18418613, "q": 1.3538572},
    ),
    "E1": (
        case(
            weights=[0.2, 0.3, 0.5],
            covariances=[0.5, 1.0, 1.5],
            mean_gram=[[2, 0.5, -0.5], [0.5, 1, 0], [-0.5, 0, 1]],
            teacher_norm=2.0,
            teacher_means=[0.8, -0.3, 0.2],
            labels="logit",
            loss="logistic",
            intercept=True,
            ridge=0.2,
            samples_per_dim=2.5,
        ),
        {
            "train_loss": 0.37210894,
            "train_error": 0.12721603,
            "test_error": 0.34490232,
            "q": 0.5 * 1.8421754,
            "m": 0.5 * 1.2740308,
            "h": 0.5354998,
            "b": 0.0735652,
        },
    ),
}
"""Name -> (scenario, variable -> value of the limit; of the first cluster where there
are several).
"""

SHIFT = (
    case(
        weights=[0.4, 0.6, 0.0],
        test_weights=[0.0, 0.0, 1.0],
        covariances=gs.Blocks(
            [0.5, 0.5], [[1.5, 0.5], [0.6, 1.2], [0.3, 2.0]], teacher=[1.5, 0.5]
        ),
        labels="sign",
        noise=0.1,
        loss="logistic",
        ridge=0.1,
        samples_per_dim=2.0,
    ),
    {"test_error": 0.2536695, "q": 3.6517447, "m": 1.2131025},
)
"""A covariate shift (mixture_glm section 14); q and m of the last cluster."""

WEIGHTED = (
    case(
        weights=[0.3, 0.7],
        covariances=[0.6, 1.4],
        mean_gram=[[1.5, 0.3], [0.3, 0.8]],
        teacher_means=[0.7, -0.4],
        labels="sign",
        noise=0.1,
        loss="logistic",
        ridge=0.1,
        samples_per_dim=2.0,
        loss_weights=[3.0, 0.5],
    ),
    {
        "train_loss": 0.1902513,
        "test_error": 0.2000006,
        "q": 2.7612645,
        "m": 1.0200925,
        "h": 1.4342687,
    },
)
"""Clusters that count differently in the loss (mixture_glm section 14)."""
