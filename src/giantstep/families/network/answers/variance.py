"""Where the variance of the fit comes from after every step, and what averages of networks do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.network.answers.errors import groups, note_fit
from giantstep.families.network.answers.table import Table
from giantstep.families.network.problem import Share
from giantstep.families.network.trajectory import Moment
from giantstep.readout.pairs import Parts, ridge_parts
from giantstep.types import Floats

SUM_OF_PARTS = 1e-6
"""Relative difference of the test error and the sum of its parts above which digits are lost."""


def answer_variance(table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]) -> None:
    """Fill ``what="variance"``: beyond_the_error (2.6)-(2.8)."""
    for group in groups(table, share, moment, {**settings, "floors": False}):
        fit = table.network.readout.solve(group.asked)
        note_fit(table, group.index, moment, fit, group.members)
        assert fit.first is not None
        noise = group.asked.points["noise"]
        parts = ridge_parts(fit.first, noise, group.asked.size)
        values = parts.variance()
        test = fit.solution.test
        lost = np.abs(sum(values.values()) + noise - test) > SUM_OF_PARTS * test
        table.note(group.index, np.where(lost, "digits lost: the parts of the variance do not sum to the error", ""))
        apart = half_disagreements(parts)
        values |= {"test_error": test, "disagreement": 2 * apart, "ensemble_error": averaged(test, apart, settings)}
        for name, array in values.items():
            table.put(name, group.index, time, array)


def half_disagreements(parts: Parts) -> Floats:
    """Return E(f_a - f_b)^2/2 of networks that share the layer, the samples, nothing (B, 3): (2.6)."""
    own = parts.everything.mean
    return np.stack([own - parts.layer.mean, own - parts.samples.mean, own], axis=1)


def averaged(test: Floats, apart: Floats, settings: Mapping[str, Any]) -> Floats:
    """Return the error of the mean of networks whose pairs are `apart` (B, 3), for all members (B, 3, K): (2.8)."""
    return test[:, None, None] - (1 - 1 / np.asarray(settings["members"])) * apart[:, :, None]
