"""The reference values of forecast section 12, to the printed digits."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.data.forecasts import rowwise

PAGE = (Path(__file__).parents[2] / "docs" / "theory" / "forecast.md").read_text(
    encoding="utf-8"
)
COLUMNS = ("kappa", "df1", "df2", "gcv", "loo_over_gcv", "mse")


def printed_rows():
    section = PAGE[PAGE.index("## 12.") : PAGE.index("## 13.")]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 11 and re.fullmatch(r"\d+", cells[1]):
            yield cells


def agrees(value, printed):
    """Tell whether a number rounds to the digits printed, a unit in the last one
    granted.
    """
    digits = printed.replace(".", "").lstrip("0")
    decimals = len(printed.partition(".")[2])
    if digits:
        return abs(value - float(printed)) <= 0.5000001 * 10.0**-decimals
    return abs(value) < 1e-12


ROWS = list(printed_rows())


def test_the_page_has_its_rows():
    assert len(ROWS) == 24


@pytest.mark.filterwarnings(
    "ignore:.* columns are constant"
)  # the first rows of the digits have more of them
@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: "-".join(cells[:3]))
def test_every_printed_digit(cells, datasets, monkeypatch):
    name, n, ridge, matched, *numbers, se, error = cells
    if name == "wine":  # the misclassified share of ten classes has a test of its own
        monkeypatch.setattr(rowwise, "WILD", 512 * len(datasets[name][1]))
    t = gs.forecast(*datasets[name], ridge=float(ridge), samples=int(n), trials=0)
    point = t.isel(source=0, samples=0, ridge=0)
    for column, printed in zip(COLUMNS, numbers):
        assert agrees(float(point[column]), printed), (
            column,
            float(point[column]),
            printed,
        )
    assert agrees(float(point["mse_se"]), se)
    known = float(point["kappa"]) and float(ridge) + (t.attrs["N"] - int(n)) * float(
        point["kappa"]
    )
    assert known == pytest.approx(float(matched), rel=1e-4, abs=1e-12)
    drawn = name in ("digits ten", "wine") and int(n) < t.attrs["N"]
    if error and not (name == "digits ten" and drawn):
        tolerance = 2e-4 if drawn else 1e-12
        assert (
            agrees(float(point["error"]), error)
            or abs(float(point["error"]) - float(error)) < tolerance
        )


def test_the_drawn_share_of_ten_classes(datasets, monkeypatch):
    rows = len(datasets["digits ten"][1])
    monkeypatch.setattr(rowwise, "WILD", 192 * rows)
    t = gs.forecast(*datasets["digits ten"], ridge=10, samples=[183, 500], trials=0)
    assert t["error"].values[0, :, 0] == pytest.approx([0.1009, 0.0737], rel=0.01)


@pytest.mark.filterwarnings("ignore:.* columns are constant")
def test_what_the_rows_do_not_determine(datasets):
    with pytest.warns(
        gs.GiantstepWarning,
        match="50 rows do not determine this; use a ridge of at least 0.00389",
    ):
        t = gs.forecast(*datasets["digits wide"], ridge=[0, 30], samples=100, trials=0)
    assert t["converged"].values.tolist() == [[False, True]]
    assert np.isnan(t["mse"].values[0, 0, 0]) and t["mse"].values[
        0, 0, 1
    ] == pytest.approx(0.360995, abs=1e-6)


def test_trust_of_the_digits(datasets):
    """forecast section 12: gaps of a fraction of a per cent at 898 and 449 rows, 0/1
    within a few per cent.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = gs.forecast(*datasets["digits ten"], ridge=10, samples=1797)
    import json

    numbers = json.loads(t.attrs["trust_numbers"])
    assert [probe["samples"] for probe in numbers["probes"]] == [449, 898]
    assert all(
        abs(probe["gap"][0]) < 0.01 + 2 * probe["se"][0] < 0.03
        for probe in numbers["probes"]
    )
    assert numbers["verdicts"] == ["good"]
    assert all(
        abs(probe["gap"][0]) < 0.05 + 2 * probe["se"][0]
        for probe in numbers["error_probes"]
    )
