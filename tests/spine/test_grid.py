import time

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.scenario.grid import Grid, scenario_at

from .toy import Noise, Toy


def sentence(fields, **settings):
    with pytest.raises(gs.InputError) as caught:
        Grid(Toy(), fields, **settings)
    return str(caught.value)


def test_a_single_value_replaces():
    grid = Grid(Toy(), {"level": 3.0, "noise__size": 2})
    assert (grid.dims, grid.shape, grid.size) == ((), (), 1)
    assert (grid.scenario.level, grid.scenario.noise.size) == (3.0, 2.0)
    [batch] = grid.batches()
    assert batch.points["noise.size"].tolist() == [2.0]
    assert np.isinf(batch.points["dim"]).all()


def test_lists_make_an_outer_product_in_the_order_given():
    grid = Grid(Toy(), {"noise.size": [1, 2], "level": np.array([3.0, 4.0, 5.0])})
    assert grid.dims == ("noise.size", "level")
    assert grid.shape == (2, 3)
    [batch] = grid.batches()
    assert batch.points["noise.size"].tolist() == [1, 1, 1, 2, 2, 2]
    assert batch.points["level"].tolist() == [3, 4, 5, 3, 4, 5]
    assert batch.points["count"].tolist() == [2] * 6


def test_data_arrays_are_paired_along_shared_dimensions():
    level = xarray.DataArray([1.0, 3.0], dims="curve", coords={"curve": [10, 20]})
    offset = xarray.DataArray(
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dims=("curve", "part")
    )
    grid = Grid(Toy(), {"noise.size": [1, 2], "level": level, "offset": offset})
    assert grid.dims == ("noise.size", "curve", "part")
    assert grid.shape == (2, 2, 3)
    [batch] = grid.batches()
    assert batch.points["level"].tolist() == [1, 1, 1, 3, 3, 3] * 2
    assert batch.points["offset"].tolist() == [1, 2, 3, 4, 5, 6] * 2
    assert grid.coords["curve"][1].tolist() == [10, 20]
    transposed = Grid(Toy(), {"level": level, "offset": offset.T})
    assert transposed.dims == ("curve", "part")
    assert transposed.flat("offset").tolist() == [1, 2, 3, 4, 5, 6]


def test_data_arrays_that_do_not_fit_are_refused():
    level = xarray.DataArray([1.0, 3.0], dims="curve", coords={"curve": [10, 20]})
    assert "2 values along `curve`" not in sentence(
        {"level": level, "offset": level.assign_coords(curve=[1, 2])}
    )
    assert "along `curve`" in sentence(
        {"level": level, "offset": xarray.DataArray([1.0, 2.0, 3.0], dims="curve")}
    )
    assert "a field that does not vary" in sentence(
        {"level": xarray.DataArray([1.0, 3.0], dims="offset")}
    )


def test_names_vary_and_split_the_batches():
    grid = Grid(Toy(), {"shape": ["relu", "tanh", "relu"], "level": [1, 3]})
    batches = list(grid.batches())
    assert [batch.scenario.shape.name for batch in batches] == ["relu", "tanh"]
    assert [batch.index.tolist() for batch in batches] == [[0, 1, 4, 5], [2, 3]]
    assert grid.coords["shape"][1].tolist() == ["relu", "tanh", "relu"]


def test_callables_vary():
    grid = Grid(Toy(), {"shape": [np.tanh, "relu"]})
    assert len(list(grid.batches())) == 2


def test_list_fields_are_replaced_and_do_not_vary():
    assert Grid(Toy(), {"shares": [1, 2, 3]}).scenario.shares == (1.0, 2.0, 3.0)
    expected = (
        "Field `shares` is a list and cannot vary over a grid: those are different"
        " studies."
    )
    assert sentence({"shares": [[1, 2], [3, 4]]}) == expected
    assert sentence({"shares": xarray.DataArray([1.0, 2.0], dims="shares")}) == expected


def test_a_number_where_a_list_is_possible_varies():
    spike = gs.OneStep(
        width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=gs.PlantedSpike()
    )
    assert Grid(spike, {"step.strength": [1, 2, 3]}).shape == (3,)
    blocks = spike.replace(
        second_layer=gs.Vocabulary([1, -1]), step=gs.PlantedSpike(strength=[1, -1])
    )
    assert Grid(blocks, {"step.strength": [2, -2]}).scenario.step.strength == (
        2.0,
        -2.0,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"level": []},
            "Field `level` must be a list of at least one value, but is level=[].",
        ),
        (
            {"level": [1, -2.5, 3]},
            "Field `level` must be a number at least 0, but is level=-2.5.",
        ),
        ({"level": [1, np.nan]}, "but is level=nan."),
        (
            {"level": np.array([1, np.inf])},
            "must be a number at least 0, finite, but is level=inf.",
        ),
        ({"level": [1, True]}, "in each place of the list, but is level=True."),
        (
            {"level": np.array([True, False])},
            "in each place of the list, but is level=True.",
        ),
        (
            {"level": [1, "a"]},
            "a number at least 0 in each place of the list, but is level='a'.",
        ),
        (
            {"level": [[1, 2], [3, 4]]},
            "in each place of the list, but is level=[1, 2].",
        ),
        ({"level": np.ones((2, 2))}, "one-dimensional array"),
        ({"level": {1.0, 2.0}}, "a set has no order"),
        ({"level": "text"}, "Field `level` must be a number, but is level='text'."),
        (
            {"count": [1, 2.5]},
            "must be a whole number at least 1 and at most 9, but is count=2.5.",
        ),
        ({"count": [1, 10]}, "but is count=10.0"),
        ({"shape": ["relu", "nothing(z)"]}, "Field `shape`"),
        ({"shape": [["relu"]]}, "a single name in each place"),
        ({"shape": []}, "at least one value"),
        (
            {"noise": [Noise(1), Noise(2)]},
            (
                "Field `noise` holds a Noise and cannot vary over a list; vary a "
                "field inside it (noise.size) or make a study of each."
            ),
        ),
        ({"levels": [1]}, "(did you mean `level`?)"),
        ({"noise.sizes": [1]}, "(did you mean `noise.size`?)"),
        (
            {"level": [1, 2], "far": [2, 3]},
            "Field `far` must be different from level, but is far=2.0.",
        ),
    ],
)
def test_bad_grids_are_refused_before_anything_runs(fields, expected):
    assert expected in sentence(fields)


def test_dim_is_the_first_dimension():
    grid = Grid(Toy(), {"level": [1, 3]}, dim=[100, 200, 300])
    assert grid.dims == ("dim", "level")
    assert grid.coords["dim"][1].dtype.kind == "i"
    [batch] = grid.batches()
    assert batch.points["dim"].tolist() == [100, 100, 200, 200, 300, 300]
    [single] = Grid(Toy(), {}, dim=50).batches()
    assert single.points["dim"].tolist() == [50.0]


@pytest.mark.parametrize("dim", [0, -5, 2.5, True, "100", np.nan, [100, 0], []])
def test_bad_dimensions_are_refused(dim):
    assert "Field `dim` must be" in sentence({}, dim=dim)


def test_values_that_fit_only_together_are_accepted():
    base = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.0)
    grid = Grid(base, {"width_per_dim": 2.0, "samples_per_dim": [1.0, 3.0]})
    assert grid.scenario.width_per_dim == 2.0
    with pytest.raises(gs.InputError, match="ridgeless"):
        Grid(base, {"width_per_dim": 2.0, "samples_per_dim": [1.0, 2.0, 3.0]})


def test_parts_and_what_lies_inside_can_be_given_together():
    base = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    for step in (gs.MaximalStep(1.0), {"kind": "maximal", "rate": 1.0}):
        grid = Grid(base, {"step": step, "step.rate": [1, 2]})
        assert grid.dims == ("step.rate",)


def test_a_scenario_at_a_point_keeps_whole_numbers_whole():
    [batch] = Grid(Toy(), {"count": [1, 3], "level": [5, 6]}).batches()
    assert scenario_at(batch.scenario, batch.points, 2) == Toy(count=3, level=5)


def test_many_points_are_cheap():
    start = time.perf_counter()
    grid = Grid(
        Toy(), {"level": np.linspace(3, 5, 400), "offset": list(np.linspace(0, 1, 250))}
    )
    [batch] = grid.batches()
    assert len(batch.index) == 100_000
    assert time.perf_counter() - start < 0.5
