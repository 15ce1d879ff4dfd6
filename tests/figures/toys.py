"""Hand-made results of the documented layouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

SOURCES = ["limit", "experiment"]
ABOUT = {
    "samples_per_dim": {
        "long_name": "fresh samples of the ridge fit per dimension",
        "symbol": "alpha = n/d",
    },
    "ridge": {
        "long_name": (
            "penalty in sum (y - f)^2 + lambda |a|^2; 0 is the ridgeless limit"
        ),
        "symbol": "lambda",
    },
    "step.rate": {
        "long_name": "step size divided by the width: eta_raw = rate * p",
        "symbol": "eta",
    },
    "test_error": {
        "long_name": "mean squared error on fresh samples, label noise included",
        "symbol": "E(y - f)^2",
    },
}


def comparison(
    count: int = 9, ridges=(0.01, 0.1, 1.0), noise: float = 0.03, seed: int = 0
) -> xr.Dataset:
    """A comparison over samples_per_dim and ridge, with a failed point of each
    engine.
    """
    rng = np.random.default_rng(seed)
    x = np.linspace(0.3, 4, count)
    ridge = np.array(ridges)
    limit = 0.2 + 1 / (0.5 + x[:, None] + ridge)
    stderr = noise * limit
    measured = limit + stderr * rng.standard_normal(limit.shape)
    converged = np.ones((2, *limit.shape), bool)
    limit[4, 0] = measured[6, 1] = stderr[6, 1] = np.nan
    converged[0, 4, 0] = converged[1, 6, 1] = False
    dims = ("source", "samples_per_dim", "ridge")
    return xr.Dataset(
        {
            "test_error": (dims, np.stack([limit, measured]), ABOUT["test_error"]),
            "test_error_stderr": (dims, np.stack([0 * stderr, stderr])),
            "test_error_gap": (dims[1:], measured - limit),
            "test_error_z": (dims[1:], (measured - limit) / stderr),
            "null_error": (
                dims,
                np.stack([np.ones_like(limit), np.full_like(limit, np.nan)]),
            ),
            "converged": (dims, converged),
            "status": (dims, np.where(converged, "", "no")),
        },
        {
            "source": SOURCES,
            "samples_per_dim": ("samples_per_dim", x, ABOUT["samples_per_dim"]),
            "ridge": ("ridge", ridge, ABOUT["ridge"]),
        },
        {"engine": "comparison", "trials": 5},
    )


def prediction(x_count: int = 30, y_count: int = 20) -> xr.Dataset:
    """A limit over two long numeric dimensions, one of them geometric; some points
    failed.
    """
    x = np.linspace(0.3, 4, x_count)
    ridge = np.geomspace(1e-3, 10, y_count)
    values = 0.1 + 1 / (0.1 + (x[:, None] - 1.5) ** 2 + ridge)
    converged = np.ones(values.shape, bool)
    converged[3, 2:4] = False
    values[~converged] = np.nan
    dims = ("samples_per_dim", "ridge")
    return xr.Dataset(
        {
            "test_error": (dims, values, ABOUT["test_error"]),
            "converged": (dims, converged),
        },
        {
            "samples_per_dim": (dims[0], x, ABOUT["samples_per_dim"]),
            "ridge": (dims[1], ridge, ABOUT["ridge"]),
        },
        {"engine": "limit"},
    )


def spectrum(trials: int = 5) -> xr.Dataset:
    """Marchenko-Pastur laws before and after, an atom, a near outlier and one that
    grows.
    """
    rng = np.random.default_rng(1)
    x = (np.arange(120) + 0.5) * 3.2 / 120
    density = []
    measured = []
    for scale in (1.0, 0.6):
        low = scale * (1 - np.sqrt(0.3)) ** 2
        high = scale * (1 + np.sqrt(0.3)) ** 2
        with np.errstate(invalid="ignore"):
            rho = (
                np.nan_to_num(
                    np.sqrt((high - x) * (x - low)) / (2 * np.pi * 0.3 * scale * x)
                )
                * 0.8
            )
        density.append(rho)
        measured.append(
            np.maximum(rho + 0.03 * rng.standard_normal(len(x)) * (rho > 0), 0)
        )
    nothing = np.full((2, 2, 3), np.nan)
    nothing[:, :, 0] = [[np.inf, np.inf], [410.0, 300.0]]
    nothing[:, 1, 1] = [2.9, 2.85]
    dims = ("source", "step.strength", "x")
    both = np.stack([density, measured])
    cdf = np.cumsum(both, axis=2) * (x[1] - x[0]) + 0.2
    return xr.Dataset(
        {
            "density": (
                dims,
                both,
                {"long_name": "density of the bulk", "symbol": "rho(x)"},
            ),
            "density_stderr": (dims, np.stack([0 * both[0], 0.03 + 0 * both[0]])),
            "cdf": (
                dims,
                cdf,
                {"long_name": "fraction of eigenvalues up to x", "symbol": "F(x)"},
            ),
            "atom": (dims[:2], np.full((2, 2), 0.2)),
            "outliers": (("source", "step.strength", "outlier"), nothing),
            "converged": (dims[:2], np.ones((2, 2), bool)),
        },
        {
            "source": SOURCES,
            "step.strength": (
                "step.strength",
                [0.0, 1.0],
                {"long_name": "size of the spike", "symbol": "u_q"},
            ),
            "x": x,
            "outlier": [1, 2, 3],
        },
        {"engine": "comparison", "trials": trials},
    )


def trajectories() -> xr.Dataset:
    """Order parameters over time, three neurons, one of which diverges."""
    time = np.arange(0, 41) * 0.25
    q = np.stack([1 - np.exp(-time / tau) for tau in (1.0, 2.0, 4.0)], axis=1)
    q[25:, 2] = np.nan
    measured = q + 0.02 * np.random.default_rng(2).standard_normal(q.shape)
    dims = ("source", "time", "neuron")
    return xr.Dataset(
        {
            "Q": (
                dims,
                np.stack([q, measured]),
                {"long_name": "overlap with the target", "symbol": "Q_j"},
            ),
            "Q_stderr": (dims, np.stack([0 * q, 0.02 + 0 * q])),
            "converged": (("source",), [True, True]),
        },
        {
            "source": SOURCES,
            "time": (
                "time",
                time,
                {"long_name": "updates made per dimension", "symbol": "t"},
            ),
            "neuron": [1, 2, 3],
        },
        {"engine": "comparison", "trials": 5},
    )


def numbers() -> xr.Dataset:
    """A comparison without a grid, with a variable by block."""
    return xr.Dataset(
        {
            "test_error": ("source", [0.418511, 0.4209], ABOUT["test_error"]),
            "test_error_stderr": ("source", [0.0, 0.0018]),
            "test_error_gap": ((), 0.0024),
            "test_error_z": ((), 1.3),
            "norm": (
                "source",
                [1.6414, 1.649],
                {"long_name": "squared norm", "symbol": "|a|^2/p"},
            ),
            "norm_stderr": ("source", [0.0, 0.006]),
            "theta": (
                ("source", "block"),
                [[0.7, -0.4, 0.1], [0.72, -0.41, 0.09]],
                {"symbol": "theta_q"},
            ),
            "theta_stderr": (("source", "block"), [[0, 0, 0], [0.03, 0.02, 0.03]]),
            "converged": ("source", [True, True]),
        },
        {"source": SOURCES, "block": [1, 2, 3]},
        {"engine": "comparison", "trials": 5},
    )


def named() -> xr.Dataset:
    """A comparison over names."""
    limit = np.array([0.42, 0.31, 0.55])
    dims = ("source", "activation")
    return xr.Dataset(
        {
            "test_error": (
                dims,
                np.stack([limit, limit + [0.01, -0.01, 0.005]]),
                ABOUT["test_error"],
            ),
            "test_error_stderr": (dims, np.stack([0 * limit, [0.012, 0.008, 0.01]])),
            "converged": (dims, np.ones((2, 3), bool)),
        },
        {"source": SOURCES, "activation": ["relu", "tanh", "erf"]},
        {"engine": "comparison", "trials": 5},
    )


def shrunk(recipe, change=None, **sizes):
    """Return a recipe whose experiments are tiny: every line of it runs, nothing is
    learned from their numbers.

    `change` may give other sizes for a study: it takes the study and returns what to
    change in its experiment.
    """

    def small(asked):
        study = asked.study
        if asked.stored is not None or not study.experiment:
            return asked
        own = sizes if change is None else change(study)
        return replace(
            asked, study=replace(study, experiment={**study.experiment, **own})
        )

    def all_small(declare):
        return lambda known: {
            name: small(asked) for name, asked in declare(known).items()
        }

    return replace(
        recipe,
        studies=all_small(recipe.studies),
        then=recipe.then and all_small(recipe.then),
    )
