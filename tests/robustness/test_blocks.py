"""What can become large is computed in blocks, between which the end of its time is
heard; blocks change no number.
"""

from __future__ import annotations

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base import chunks as blocks
from giantstep.core.maths.gaussian.quadrature import trapezoid_rule
from giantstep.problems.batch_reuse import points
from giantstep.problems.bayes_limit import pairs
from giantstep.problems.bayes_limit.reading import read_target


def test_parts_cover_all_rows_once() -> None:
    for rows, numbers, block in (
        (0, 3, 10),
        (7, 3, 10),
        (7, 100, 10),
        (7, 0, 10),
        (7, 1, 7),
    ):
        parts = list(blocks.split_rows(rows, numbers, block))
        assert [row for part in parts for row in range(part.start, part.stop)] == list(
            range(rows)
        )
        assert all(
            (part.stop - part.start) * numbers <= max(block, numbers) for part in parts
        )


def test_filled_holds_its_value_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    split = blocks.split_rows
    monkeypatch.setattr(
        blocks, "split_rows", lambda rows, numbers: split(rows, numbers, 7)
    )
    assert np.array_equal(blocks.filled((3, 2, 5), 2.5), np.full((3, 2, 5), 2.5))


def test_two_noisy_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one piece, in blocks of y, and with a likelihood that is computed anew for
    each.
    """
    reading, M = (
        read_target(gs.Target("z1 + relu(z2)")),
        np.array([[0.5, 0.1], [0.1, 0.2]]),
    )

    def answer() -> list[np.ndarray]:
        channel = pairs.PairNoisy(reading, 0.5)
        information, entropy = channel.information(M)
        slab = channel.slab(np.array([0.6, 0.8]))
        return [information, np.array(entropy), slab.law, slab.first, slab.second]

    whole = answer()
    monkeypatch.setattr(pairs, "_BLOCK", 1 << 16)
    for expected, in_blocks in zip(whole, answer()):
        np.testing.assert_allclose(in_blocks, expected, rtol=0, atol=1e-12)


def test_a_likelihood_is_never_computed_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of this target has 5e8 numbers: one operation on it was deaf for 20 s, four
    of it would not fit.
    """
    density = pairs.normal_density
    sizes = []
    monkeypatch.setattr(
        pairs, "normal_density", lambda z: sizes.append(np.size(z)) or density(z)
    )
    s = gs.BayesLimit(target="tanh(z1) + h3(z2)", noise=0.0879, samples_per_dim=0.566)
    with pytest.warns(gs.GiantstepWarning, match="too long"):
        assert not gs.predict(s, what="thresholds", cpu_limit=0.1).converged
    assert max(sizes, default=0) <= 1 << 20


def test_sobol_points_of_batch_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = points.Layout(
        directions=2, noisy=True, normals=30, mask="cycle", batches=3, steps=10
    )
    whole = points.sobol_points(layout, 1 << 8, 3, 1)
    monkeypatch.setattr(points, "BLOCK", 1 << 9)
    drawn = points.sobol_points(layout, 1 << 8, 3, 1)
    monkeypatch.setattr(points, "_PRODUCT", 200)
    matched = points.sobol_points(layout, 1 << 8, 3, 1)
    for name in ("target", "noise", "normals", "weights", "mask"):
        assert np.array_equal(getattr(drawn, name), getattr(whole, name))
        np.testing.assert_allclose(
            getattr(matched, name), getattr(whole, name), rtol=0, atol=1e-12
        )


def test_a_rule_of_too_many_nodes_is_not_made() -> None:
    with pytest.raises(MemoryError, match="nodes"):
        trapezoid_rule(1e-9, 9.0)


def test_too_many_points_are_refused_before_they_are_made() -> None:
    """A table of five smooth directions would have 1e8 points and more."""
    s = gs.BayesLimit(target="z1*z2*z3*z4*z5", noise=0.05, samples_per_dim=2.0)
    with pytest.raises(gs.InputError, match="would take too long"):
        gs.predict(s, what="thresholds")
