"""Mixtures with few active features, and how many labels are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment


def draw(
    n: int, d: int, k: int, active: int, ratio: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return data, labels and cluster means (k, d): balanced, V^T V = s exactly,
    ratio = snr sqrt(n/d)/k.
    """
    rng = np.random.default_rng([seed, n, d, k, active])
    labels = rng.permutation(np.arange(n) % k)
    V = rng.standard_normal((active, k))
    left, _, right = np.linalg.svd(
        V - V.mean(axis=1, keepdims=True), full_matrices=False
    )
    means = np.zeros((k, d))
    means[:, :active] = (
        np.sqrt(ratio * k * np.sqrt(d / n)) * (left[:, : k - 1] @ right[: k - 1]).T
    )
    return means[labels] + rng.standard_normal((n, d)), labels, means


def score(labels: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of right labels under the best relabelling."""
    size = int(max(labels.max(), truth.max())) + 1
    table = np.zeros((size, size))
    np.add.at(table, (labels, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


@pytest.fixture
def mixture() -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return draw


@pytest.fixture
def accuracy() -> Callable[[np.ndarray, np.ndarray], float]:
    return score
