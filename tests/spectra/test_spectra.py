"""Panels and edges on laws with known densities."""

from __future__ import annotations

import numpy as np
import pytest

from giantstep.spectra import bulk_panels, march_to_edge


def marchenko_pastur(x: np.ndarray, ratio: float) -> np.ndarray:
    """Density of X^T X/n for n x p Gaussian X with p/n = `ratio` < 1."""
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    return np.sqrt(np.maximum((high - x) * (x - low), 0)) / (2 * np.pi * ratio * x)


@pytest.mark.parametrize("ratio", [0.02, 0.5, 0.95, 0.9999])
def test_panels_integrate_square_root_edges(ratio: float) -> None:
    """Mass 1, mean 1, variance `ratio`; ten nodes a panel are good to 1e-6 down to a lower edge of 2e-9."""
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    panels = bulk_panels(low, high)
    density = marchenko_pastur(panels.nodes, ratio)
    assert panels.integral(density) == pytest.approx(1, abs=1e-6)
    assert panels.integral(density * panels.nodes) == pytest.approx(1, abs=1e-6)
    assert panels.integral(density * panels.nodes**2) == pytest.approx(1 + ratio, abs=1e-6)


def test_nodes_increase_and_weights_are_positive() -> None:
    for low in (0.0, 1e-5, 0.3):
        panels = bulk_panels(low, 2.0)
        assert np.all(np.diff(panels.nodes.ravel()) > 0)
        assert np.all(panels.weights > 0)
        assert panels.right[-1] == 2.0
        np.testing.assert_array_equal(panels.left[1:], panels.right[:-1])


def test_tail_is_the_mass_above() -> None:
    ratio = 0.5
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    panels = bulk_panels(low, high)
    density = marchenko_pastur(panels.nodes, ratio)
    x = np.array([low / 2, low, 0.3, 1.0, 2.0, high, 2 * high])
    found = panels.tail(density, x)
    grid = [np.linspace(max(point, low), high, 400_001) for point in x[:-2]]
    expected = [np.trapezoid(marchenko_pastur(points, ratio), points) for points in grid] + [0.0, 0.0]
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(("edge", "start", "step"), [(2.0, 50.0, -5.0), (0.3, -1.0, 0.02), (1e-3, -1.0, 0.02)])
def test_march_to_edge(edge: float, start: float, step: float) -> None:
    """A stability sqrt(t)/(1 + sqrt(t)) with t the distance to the edge, and nothing beyond it."""

    def stability(z: float) -> float | None:
        t = (z - edge) * np.sign(start - edge)
        return None if t < 0 else float(np.sqrt(t) / (1 + np.sqrt(t)))

    assert march_to_edge(stability, start, step) == pytest.approx(edge, rel=1e-8, abs=1e-11)


def test_march_refuses_a_start_inside_the_bulk() -> None:
    assert march_to_edge(lambda z: None, 1.0, 0.1) is None


def test_a_solver_that_goes_astray_from_afar_does_not_hide_the_edge():
    """A long step ends on another branch well before the edge; the edge was extrapolated from there, 10% off."""
    edge, solved = 1.6, [-0.3]

    def stability(z: float) -> float | None:
        if z > edge or z - max(solved) > 0.7:
            return -0.1
        solved.append(z)
        v = 0.3 * np.sqrt((edge - z) / (edge + 0.3))
        return float(v * (1 + 0.4 * v))

    assert march_to_edge(stability, -0.3, 0.3) == pytest.approx(edge, rel=1e-8)
    assert 1.2 < max(solved)
