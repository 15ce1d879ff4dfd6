"""Limit against experiment: each check states the error it would catch; a known wrong
formula must be caught.

The long version, over growing dimensions, is `benchmarks/verify_report.py` (`make
verify`).
"""

import pytest

import giantstep as gs
from giantstep.core.result.agreement import agreement

from .checks import CHECKS, LARGE_BATCH, Check, wrong_scores

ERRORS = ("test_error", "train_error", "objective", "norm")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_agreement(check: Check) -> None:
    """80 trials at d = 250 see a test error that is wrong by about 3% (measured: 2.6%
    to 3.1%).
    """
    dim = 250
    result = gs.compare(check.scenario, check.grid, dim=dim, trials=80, progress=False)
    rows = {row.variable: row for row in agreement(result).rows}
    assert rows["test_error"].smallest_visible < 0.035
    for name in ERRORS:
        assert rows[name].passes(allow=check.finite_size / dim), rows[name]
    if check.wrong:
        score, gap = wrong_scores(check, result.sel(source="experiment"), dim)
        assert score > 4
        assert gap > check.finite_size / dim


def test_isotropic_map_is_five_percent_off() -> None:
    """It lacks the c3 term of spiked_features (5.5); for tanh/sin at rate 3 that
    matters at any dimension.
    """
    exact, isotropic = (
        float(
            gs.predict(LARGE_BATCH.scenario, theory=theory, progress=False)[
                "test_error"
            ]
        )
        for theory in ("exact", "isotropic")
    )
    assert isotropic / exact - 1 > 0.05
