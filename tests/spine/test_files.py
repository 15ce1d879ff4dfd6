import csv
import json
import math

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.result.files import from_json, to_json

from .toy import Toy


@pytest.fixture(
    params=[
        "point",
        "grid",
        "names",
        "comparison",
        "wave",
        "complex",
        "paired",
        "trials",
    ],
)
def result(request):
    level = xarray.DataArray([1.0, 3.0], dims="curve", coords={"curve": ["a", "b"]})
    return {
        "point": lambda: gs.predict(Toy()),
        "grid": lambda: gs.predict(
            Toy(), {"noise.size": [1, 2]}, far=[3.0, gs.inf], dim=[10, 20]
        ),
        "names": lambda: gs.simulate(Toy(), dim=10, shape=["relu", "tanh"]),
        "comparison": lambda: gs.compare(Toy(), dim=10, level=[1, 3, 4]),
        "wave": lambda: gs.compare(
            Toy(), dim=10, what="wave", level=[1, 3], x=[0, 1, 2]
        ),
        "complex": lambda: gs.predict(
            Toy(), what="transform", level=[1, 3], z=[1j, 2j, 3j]
        ),
        "paired": lambda: gs.predict(
            Toy(), level=level, offset=level.assign_coords(curve=["a", "b"])
        ),
        "trials": lambda: gs.simulate(Toy(), dim=10, level=[1, 3], keep_trials=True),
    }[request.param]()


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_what_is_saved_comes_back(result, suffix, tmp_path):
    path = tmp_path / f"result.{suffix}"
    gs.save(result, path)
    again = gs.load(path)
    assert again.equals(result) and again.identical(result)
    for name, variable in result.variables.items():
        assert again[name].dtype.kind == variable.dtype.kind, name
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert gs.cite(again) == gs.cite(result)


def test_a_result_read_from_netcdf_is_written_as_json(tmp_path):
    result = gs.compare(Toy(), dim=10)
    gs.save(result, tmp_path / "result.nc")
    gs.save(gs.load(tmp_path / "result.nc"), tmp_path / "result.json")
    assert gs.load(tmp_path / "result.json").identical(result)


def test_json_is_strict_and_by_name():
    with pytest.warns(gs.GiantstepWarning):
        result = gs.predict(Toy(), level=[1, 200], far=[3.0, gs.inf])
    data = json.loads(to_json(result), parse_constant=lambda word: pytest.fail(word))
    assert data["mean"] == [[1.0, 1.0], [None, None]]
    assert data["far"] == [3.0, "inf"]
    assert data["converged"] == [[True, True], [False, False]]
    assert data["dims"]["mean"] == ["level", "far"]
    assert data["attrs"]["family"] == "toy"
    assert from_json(to_json(result)).identical(result)
    assert json.loads(to_json(gs.predict(Toy())))["mean"] == 1.0


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_per_point_and_columns_for_small_dimensions(tmp_path):
    gs.save(gs.predict(Toy(), level=[1, 3], offset=[0, 0.5, 1]), tmp_path / "r.csv")
    rows = read_csv(tmp_path / "r.csv")
    assert len(rows) == 6
    assert list(rows[0])[:4] == ["level", "offset", "mean", "parts[1,1]"]
    assert {
        "parts[1,2]",
        "parts[2,1]",
        "parts[2,2]",
        "outliers[1]",
        "converged",
        "status",
    } <= set(rows[0])
    assert float(rows[4]["mean"]) == 3.5
    assert float(rows[4]["parts[1,2]"]) == pytest.approx(3.5 * 0.25 * 0.75)
    assert rows[0]["converged"] == "True"


def test_csv_of_a_comparison_has_a_row_per_source_and_x(tmp_path):
    gs.save(
        gs.compare(Toy(), dim=10, what="wave", level=[1, 3], x=[0, 1, 2]),
        tmp_path / "r.csv",
    )
    rows = read_csv(tmp_path / "r.csv")
    assert len(rows) == 3 * 2 * 3
    assert [row["source"] for row in rows[:6]] == ["limit"] * 6
    assert [row["source"] for row in rows[6:12]] == ["theory at d = 10"] * 6
    assert {row["x"] for row in rows} == {"0.0", "1.0", "2.0"}
    assert rows[0]["wave_z"] == rows[6]["wave_z"]


def test_csv_of_one_point_and_of_complex_points(tmp_path):
    gs.save(gs.predict(Toy()), tmp_path / "r.csv")
    assert len(read_csv(tmp_path / "r.csv")) == 1
    gs.save(gs.predict(Toy(), what="transform", z=[1j, 2 + 1j]), tmp_path / "r.csv")
    rows = read_csv(tmp_path / "r.csv")
    assert [(row["z"], row["z_real"], row["z_imag"]) for row in rows] == [
        ("0", "0.0", "1.0"),
        ("1", "2.0", "1.0"),
    ]


def test_csv_says_nan_and_inf(tmp_path):
    with pytest.warns(gs.GiantstepWarning):
        gs.save(gs.predict(Toy(), level=200, far=[3, math.inf]), tmp_path / "r.csv")
    row = read_csv(tmp_path / "r.csv")[1]
    assert row["far"] == "inf" and row["mean"] == "nan" and row["status"] == "too high"


def test_tex_is_a_table_for_pgfplots(tmp_path):
    gs.save(
        gs.predict(Toy(), {"noise.size": [1, 2]}, shape=["relu", "tanh"]),
        tmp_path / "r.tex",
    )
    lines = (tmp_path / "r.tex").read_text().splitlines()
    body = [line for line in lines if not line.startswith("%")]
    assert body[0] == r"\pgfplotstableread{" and body[-1] == r"}\giantstepdata"
    names = body[1].split()
    assert names[:4] == ["noise-size", "shape", "mean", "parts-1-1"]
    assert {len(line.split()) for line in body[2:-1]} == {len(names)}
    assert body[2].split()[:3] == ["1.0", "{relu}", "1.0"]
    assert "x=noise-size, y=mean" in "\n".join(lines)


def test_nothing_is_half_written(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    gs.save(gs.predict(Toy()), path)
    before = path.read_text()
    broken = gs.predict(Toy()).assign_attrs(bad=object())
    with pytest.raises(TypeError):
        gs.save(broken, path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda folder: gs.save(gs.predict(Toy()), folder / "r.xls"),
            "saved as .csv, .nc, .json, .tex",
        ),
        (lambda folder: gs.save(gs.predict(Toy()), folder / "r"), "saved as"),
        (lambda folder: gs.save({}, folder / "r.csv"), "takes a result"),
        (
            lambda folder: gs.save(gs.predict(Toy()), folder / "no" / "r.csv"),
            "There is no folder",
        ),
        (lambda folder: gs.load(folder / "r.nc"), "There is no file"),
        (lambda folder: gs.load(folder / "r.csv"), "loaded from .nc, .json"),
        (
            lambda folder: (
                (folder / "r.json").write_text("{") and gs.load(folder / "r.json")
            ),
            "is not a result",
        ),
        (
            lambda folder: (
                (folder / "r.nc").write_text("text") and gs.load(folder / "r.nc")
            ),
            "is not a result",
        ),
    ],
)
def test_bad_files_are_one_sentence(call, expected, tmp_path):
    with pytest.raises(gs.InputError, match=expected):
        call(tmp_path)


def test_long_settings_fit_into_netcdf(tmp_path):
    result = gs.predict(Toy(), what="wave", x=np.linspace(0, 1, 20_000))
    gs.save(result, tmp_path / "r.nc")
    assert json.loads(gs.load(tmp_path / "r.nc").attrs["settings"])["x"] == {
        "first": 0.0,
        "last": 1.0,
        "num": 20_000,
    }


def test_cite_has_papers_and_software():
    for source in (Toy(), gs.predict(Toy())):
        text = gs.cite(source)
        assert (
            "@article{mei2022generalization," in text and "@software{giantstep," in text
        )
        assert text.count("{") == text.count("}")
    with pytest.raises(gs.InputError, match="cite takes"):
        gs.cite(3)
