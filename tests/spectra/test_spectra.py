"""Panels on laws with known densities."""

from __future__ import annotations

import numpy as np
import pytest

from giantstep.core.maths.spectra import bulk_panels


def marchenko_pastur(x: np.ndarray, ratio: float) -> np.ndarray:
    """Density of X^T X/n for n x p Gaussian X with p/n = `ratio` < 1."""
    low = (1 - np.sqrt(ratio)) ** 2
    high = (1 + np.sqrt(ratio)) ** 2
    return np.sqrt(np.maximum((high - x) * (x - low), 0)) / (2 * np.pi * ratio * x)


@pytest.mark.parametrize("ratio", [0.02, 0.5, 0.95, 0.9999])
def test_panels_integrate_square_root_edges(ratio: float) -> None:
    """Mass 1, mean 1, variance `ratio`; ten nodes a panel are good to 1e-6 down to a
    lower edge of 2e-9.
    """
    low = (1 - np.sqrt(ratio)) ** 2
    high = (1 + np.sqrt(ratio)) ** 2
    panels = bulk_panels(low, high)
    density = marchenko_pastur(panels.nodes, ratio)
    assert panels.integral(density) == pytest.approx(1, abs=1e-6)
    assert panels.integral(density * panels.nodes) == pytest.approx(1, abs=1e-6)
    assert panels.integral(density * panels.nodes**2) == pytest.approx(
        1 + ratio, abs=1e-6
    )


def test_nodes_increase_and_weights_are_positive() -> None:
    for low in (0.0, 1e-5, 0.3):
        panels = bulk_panels(low, 2.0)
        assert np.all(np.diff(panels.nodes.ravel()) > 0)
        assert np.all(panels.weights > 0)
        assert panels.right[-1] == 2.0
        np.testing.assert_array_equal(panels.left[1:], panels.right[:-1])


def test_tail_is_the_mass_above() -> None:
    ratio = 0.5
    low = (1 - np.sqrt(ratio)) ** 2
    high = (1 + np.sqrt(ratio)) ** 2
    panels = bulk_panels(low, high)
    density = marchenko_pastur(panels.nodes, ratio)
    x = np.array([low / 2, low, 0.3, 1.0, 2.0, high, 2 * high])
    found = panels.tail(density, x)
    grid = [np.linspace(max(point, low), high, 400_001) for point in x[:-2]]
    expected = [
        np.trapezoid(marchenko_pastur(points, ratio), points) for points in grid
    ] + [0.0, 0.0]
    np.testing.assert_allclose(found, expected, atol=2e-6)
