"""A field that holds a list of parts, everywhere a name of a field can stand; the
family is `toy.Chain`.
"""

import copy
import json
import pickle

import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import giantstep as gs
from giantstep.core.scenario.arrays import large_arrays
from giantstep.core.scenario.describe import describe, describe_text, template
from giantstep.core.scenario.grid import Grid, scenario_at
from giantstep.core.scenario.lists import declaration, names_meant, with_place
from giantstep.core.scenario.model import from_content
from giantstep.core.scenario.names import walk_fields
from giantstep.faces.cli.app import app
from giantstep.tools.sweeps.store import Ask, name_points

from .toy import Chain, Grow, Rest, Shift, Toy

TWO = Chain(moves=[Grow(2.0), Grow(3.0)])
MIXED = Chain(
    start=2.0,
    moves=[
        Grow(2.0),
        Rest(),
        Shift([[1.0, 2.0]], rate=0.5),
        Grow(3.0, loss="correlation"),
    ],
)


def sentence(call, *arguments, **fields):
    with pytest.raises(gs.InputError) as caught:
        call(*arguments, **fields)
    return str(caught.value)


def mean(*arguments, **fields):
    return gs.predict(*arguments, progress=False, **fields)["mean"]


# -- scenarios -------------------------------------------------------------------------


def test_a_list_is_a_tuple_of_parts_and_may_be_empty():
    assert Chain().moves == ()
    assert Chain(moves=[{"kind": "grow", "rate": 2}, Rest()]).moves == (
        Grow(2.0),
        Rest(),
    )
    assert from_content(json.loads(json.dumps(MIXED.content()))) == MIXED
    assert pickle.loads(pickle.dumps(MIXED)) == copy.deepcopy(MIXED) == MIXED


@pytest.mark.parametrize(
    ("changes", "moves"),
    [
        ({"moves.0.rate": 5}, [Grow(5.0), Grow(3.0)]),
        ({"moves.rate": 5}, [Grow(5.0), Grow(5.0)]),
        ({"moves__1__times": 4}, [Grow(2.0), Grow(3.0, times=4)]),
        ({"moves": []}, []),
        ({"moves": [Rest()]}, [Rest()]),
        ({"moves.0": Rest()}, [Rest(), Grow(3.0)]),
        ({"moves.0": {"kind": "rest"}, "moves.rate": 7}, [Rest(), Grow(7.0)]),
        ({"moves.0.kind": "shift"}, [Shift(rate=2.0), Grow(3.0)]),
        (
            {"moves.kind": "shift", "moves.1.by": [[4.0]]},
            [Shift(rate=2.0), Shift([[4.0]], 3.0)],
        ),
        (
            {"moves.1.rate": 8, "moves.rate": 7},
            [Grow(7.0), Grow(8.0)],
        ),  # all of them first, whatever the order
        (
            {"moves.1.rate": 8, "moves.1": Grow(1.0, times=2)},
            [Grow(2.0), Grow(8.0, times=2)],
        ),
        (
            {
                "moves": [Rest(), {"kind": "grow", "rate": 1}],
                "moves.power": 3,
                "moves.1.rate": 2,
            },
            [Rest(), Grow(2.0, 3.0)],
        ),
    ],
)
def test_replace_takes_one_entry_all_of_them_or_the_whole_list(changes, moves):
    assert TWO.replace(changes).moves == tuple(moves)
    assert TWO.moves == (Grow(2.0), Grow(3.0))


def test_the_kind_of_an_entry_that_needs_more_is_given_with_it():
    changed = MIXED.replace(
        {"moves.1.kind": "grow", "moves.1.rate": 7, "moves.1.times": 2}
    )
    assert changed.moves[1] == Grow(7.0, times=2)
    assert (
        sentence(MIXED.replace, {"moves.1.kind": "grow"})
        == "Field `moves.1.rate` is missing: growth rate."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"moves": 3},
            "Field `moves` must be a list of moves, e.g. [Grow(2.0)], but is moves=3.",
        ),
        (
            {"moves": Rest()},
            (
                "Field `moves` must be a list of moves, e.g. [Grow(2.0)], but is"
                " moves=Rest()."
            ),
        ),
        ({"moves": [3]}, "Field `moves.0` must be "),
        ({"moves": [Rest(), 3]}, "a table with a `kind`, one of grow, shift, rest"),
        (
            {"moves.1.rate": -1},
            "Field `moves.1.rate` must be a number above 0, but is moves.1.rate=-1.0.",
        ),
        (
            {"moves.rate": "a"},
            "Field `moves.0.rate` must be a number, but is moves.0.rate='a'.",
        ),
        (
            {"moves": [Rest(), {"kind": "gro"}]},
            "Field `moves.1.kind` must be one of 'grow', 'shift', 'rest'",
        ),
        ({"moves.1.kind": "gro"}, "(did you mean `grow`?), but is moves.1.kind='gro'."),
        (
            {"moves.2": Rest()},
            "There is no `moves.2`: there are 2 moves, counted from 0.",
        ),
        (
            {"moves.2.rate": 1},
            "There is no `moves.2`: there are 2 moves, counted from 0.",
        ),
        (
            {"moves": [Rest()], "moves.1": Rest()},
            "There is no `moves.1`: there are 1 moves, counted from 0.",
        ),
        (
            {"moves": [], "moves.0.rate": 1},
            "There is no `moves.0`: `moves` is an empty list.",
        ),
        (
            {"moves": [], "moves.rate": 1},
            "There is no field `moves.rate`: `moves` is an empty list.",
        ),
        (
            {"moves.by": 1},
            (
                "There is no field `moves.by` in any entry of `moves`; they have rate,"
                " power, loss, times."
            ),
        ),
        (
            {"moves.ratee": 1},
            (
                "There is no field `moves.ratee` (did you mean `moves.rate`?) in any"
                " entry of `moves`;"
            ),
        ),
        ({"moves.0.ratee": 1}, "There is no field `moves.0.ratee` in Grow (did you"),
        (
            {"moves": [{"kind": "rest", "rate": 1}]},
            "There is no field `moves.0.rate` in Rest; it has none.",
        ),
        ({"last.0": 1}, "There is no field `last.0` in Chain"),
        ({"moves.": 1}, "There is no field `moves.` in any entry of `moves`"),
        (
            {"moves.kind": np.ones(2)},
            "Field `moves.0.kind` must be one of 'grow', 'shift', 'rest'",
        ),
    ],
)
def test_an_error_names_the_entry(changes, said):
    assert said in sentence(TWO.replace, changes)


def test_the_numbers_are_those_of_every_entry():
    assert list(MIXED.numeric_fields()) == [
        "start",
        "moves.0.rate",
        "moves.0.power",
        "moves.0.times",
        "moves.2.rate",
        "moves.3.rate",
        "moves.3.power",
        "moves.3.times",
    ]
    assert MIXED.point()["moves.3.rate"].tolist() == [3.0]
    assert [name for name, _, _ in walk_fields(Chain())] == ["start", "moves"]
    assert names_meant(MIXED, "moves.rate") == [
        "moves.0.rate",
        "moves.2.rate",
        "moves.3.rate",
    ]
    assert names_meant(MIXED, "moves.3.rate") == ["moves.3.rate"]


def test_symbols_count_the_entries_from_one():
    symbols = {
        name: info.json_schema_extra["symbol"]
        for name, (_, info) in MIXED.numeric_fields().items()
    }
    assert (
        symbols["moves.0.rate"],
        symbols["moves.3.rate"],
        symbols["moves.3.power"],
    ) == ("eta_1", "eta_4", "a_0_4")
    assert declaration(MIXED, "moves.rate").json_schema_extra["symbol"] == "eta"
    assert (
        declaration(MIXED, "moves.2.rate").description
        == "factor of what is added, perhaps one of each column"
    )
    # the class itself stays as it was
    assert Grow.model_fields["rate"].json_schema_extra["symbol"] == "eta"
    assert with_place("sqrt(p) eta", 1) == "sqrt(p) eta"


@pytest.mark.parametrize("name", ["moves.rate", "moves.0.rate"])
def test_a_digest_leaves_out_what_it_is_told(name):
    other = TWO.replace({name: 9.0})
    assert other.digest() != TWO.digest()
    assert other.digest(without=[name]) == TWO.digest(without=[name])
    assert other.digest(without=["moves.1.rate", "moves.7.rate"]) != TWO.digest(
        without=["moves.1.rate"]
    )


def test_it_is_shown_entry_by_entry():
    text = str(MIXED)
    assert text.splitlines()[2].split() == [
        "moves",
        "moves",
        "list",
        "of",
        "4",
        "the",
        "moves",
    ]
    assert "    moves.3         Grow" in text
    assert "      rate   eta_4  3             growth rate" in text
    assert str(Chain()).splitlines()[2].split() == [
        "moves",
        "moves",
        "-",
        "the",
        "moves",
    ]
    assert "moves.3" in MIXED._repr_html_()
    assert "eta_4" in MIXED._repr_html_()


# -- grids -----------------------------------------------------------------------------


def test_a_grid_over_one_entry_and_over_all_of_them():
    one = mean(TWO, moves__0__rate=[1, 5])
    assert one.dims == ("moves.0.rate",)
    assert one.values.tolist() == [3.0, 15.0]
    every = mean(TWO, {"moves.rate": np.array([1.0, 5.0])}, moves__1__times=[0, 2])
    assert every.dims == ("moves.rate", "moves.1.times")
    assert every.values.tolist() == [[1.0, 1.0], [5.0, 125.0]]


def test_names_and_data_arrays_vary_in_entries():
    assert mean(TWO, {"moves.0.loss": ["square", "correlation"]}).values.tolist() == [
        6.0,
        -6.0,
    ]
    assert mean(
        TWO, {"moves.loss": ["square", "correlation"]}, moves__rate=[1, 2]
    ).values.tolist() == [[1, 4], [1, 4]]
    rates = {
        f"moves.{place}.rate": xarray.DataArray([1.0, 2.0 + place], dims="curve")
        for place in (0, 1)
    }
    assert mean(TWO, rates).values.tolist() == [1.0, 6.0]


def test_a_new_list_may_vary_inside_at_once():
    moves = [Rest(), {"kind": "grow", "rate": 1}]
    assert mean(TWO, moves=moves, moves__1__rate=[4, 5]).values.tolist() == [4.0, 5.0]
    assert mean(
        TWO, moves=moves, moves__rate=[4, 5], moves__1__power=2
    ).values.tolist() == [16.0, 25.0]
    assert mean(
        MIXED, {"moves.1": Grow(1.0), "moves.1.rate": [1, 2]}
    ).values.tolist() == [-16.5, -28.5]
    assert float(mean(TWO, moves=[])) == 1.0
    both = {
        "moves.1": {"kind": "grow", "rate": 7},
        "moves": [{"kind": "grow", "rate": 2}, Rest()],
    }
    # the entry goes into the new list, whatever the order
    assert float(mean(TWO, both)) == 14.0
    assert "`moves.1.rate` must be a number above 0" in sentence(
        mean, TWO, {"moves.1": {"kind": "grow", "rate": 0}}
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"moves": [[Rest()], [Grow(1.0)]]},
            "Field `moves` is a list and cannot vary over a grid",
        ),
        (
            {"moves.0": [Rest(), Grow(1.0)]},
            "Field `moves.0` holds a Grow and cannot vary over a list; vary a field",
        ),
        (
            {"moves.rate": [1, 2], "moves.0.rate": [1, 2]},
            "Field `moves.rate` varies and is given as `moves.0.rate`, too.",
        ),
        (
            {"moves.rate": [1, 2], "moves.0.rate": 3},
            "Field `moves.rate` varies and is given as `moves.0.rate`, too.",
        ),
        (
            {"moves.1.rate": [1, -2]},
            "Field `moves.1.rate` must be a number above 0, but is moves.1.rate=-2.0.",
        ),
        (
            {"moves.rate": [1, -2]},
            "Field `moves.rate` must be a number above 0, but is moves.rate=-2.0.",
        ),
        (
            {"moves.0.times": [1, 1.5]},
            "Field `moves.0.times` must be a whole number at least 0",
        ),
        (
            {"moves.0.loss": ["square", "x"]},
            "Field `moves.0.loss` must be one of 'square' or 'correlation'",
        ),
        (
            {"moves.5.rate": [1]},
            "There is no `moves.5`: there are 2 moves, counted from 0.",
        ),
        ({"moves.by": [1]}, "There is no field `moves.by` in any entry of `moves`"),
        (
            {"moves": [{"kind": "grow", "rate": -1}]},
            "Field `moves.0.rate` must be a number above 0",
        ),
        (
            {"moves": np.ones(2)},
            "Field `moves` must be a list of moves, e.g. [Grow(2.0)]",
        ),
        (
            {"moves": [Grow(1.0)], "moves.00.rate": [1, 2]},
            "There is no field `moves.00.rate`",
        ),  # no second name
        (
            {"moves.1.rate": [1, 13]},
            "Field `moves.1.rate` must be another number than 13",
        ),
    ],
)
def test_a_grid_refuses_by_name(fields, said):
    assert said in sentence(gs.predict, TWO, fields)


def test_all_entries_must_hold_a_number_that_varies():
    lists = Chain(moves=[Grow(2.0), Shift([[1.0, 2.0]], rate=[1.0, 2.0])])
    assert mean(lists, moves__0__rate=[1, 2]).values.tolist() == [6.0, 7.0]
    said = (
        "Field `moves.1.rate` must be one number where `moves.rate` varies, but is"
        " moves.1.rate=(1.0, 2.0)."
    )
    assert sentence(gs.predict, lists, {"moves.rate": [1, 2]}) == said
    assert float(mean(lists, moves__rate=2.0)) == 8.0


def test_numbers_of_a_list_have_no_names():
    """Else they would be points that nobody reads."""
    assert "There is no field `shares.0`" in sentence(
        gs.predict, Toy(), {"shares": [0.5, 0.5], "shares.0": [0.1, 0.2]}
    )


def test_one_value_for_all_and_a_list_for_one():
    assert mean(TWO, {"moves.rate": 2, "moves.1.rate": [1, 4]}).values.tolist() == [
        2.0,
        8.0,
    ]


def test_a_point_of_a_grid_is_its_scenario():
    [batch] = Grid(TWO, {"moves.rate": [4.0, 5.0], "moves.1.times": [2, 3]}).batches()
    assert scenario_at(batch.scenario, batch.points, 3).moves == (
        Grow(5.0),
        Grow(5.0, times=3),
    )
    assert "moves.rate" not in batch.points


def test_the_store_names_a_point_as_its_scenario_would():
    """The quick way over contents must give the name that the scenario of the point has
    itself.
    """
    ask = Ask("toy-chain", "end", "limit", 1, {})
    [batch] = Grid(TWO, {"moves.rate": [2.0, 5.0], "moves.1.times": [1, 3]}).batches()
    for index, point in enumerate(name_points(ask, batch.scenario, batch.points)):
        alone = scenario_at(batch.scenario, batch.points, index)
        assert json.loads(point.scenario) == alone.content()
        assert (
            point
            == name_points(ask, alone, {**alone.point(), "dim": np.array([np.inf])})[0]
        )


def test_sweeps_and_experiments_return_the_same_tables(tmp_path):
    grid = {"moves.rate": [1.0, 2.0], "moves.0.loss": ["square", "correlation"]}
    measured = gs.simulate(TWO, grid, dim=10, trials=2, progress=False)
    for _ in range(2):
        swept = gs.sweep(
            TWO, grid, dim=10, trials=2, store=tmp_path / "store", progress=False
        )
        xarray.testing.assert_identical(swept, measured)
    alone = gs.simulate(TWO.replace(moves__rate=2.0), dim=10, trials=2, progress=False)
    assert float(alone["mean"]) == float(
        measured["mean"].sel({"moves.rate": 2.0, "moves.0.loss": "square"})
    )
    report = gs.agreement(gs.compare(TWO, grid, dim=10, trials=3, progress=False))
    assert "mean" in str(report)
    assert "mei2022generalization" in gs.cite(measured)


# -- files -----------------------------------------------------------------------------


def test_results_keep_the_names(tmp_path):
    result = gs.predict(
        TWO, {"moves.0.rate": [1, 2], "moves.power": [1.0, 2.0]}, progress=False
    )
    assert result["moves.0.rate"].attrs == {
        "long_name": "growth rate",
        "symbol": "eta_1",
    }
    assert result["moves.power"].attrs["symbol"] == "a_0 = b/c"
    gs.save(result, tmp_path / "r.nc")
    xarray.testing.assert_identical(gs.load(tmp_path / "r.nc"), result)
    gs.save(result, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().startswith("moves.0.rate,moves.power,mean,")


def test_a_study_file_holds_the_list(tmp_path):
    study = gs.Study(MIXED, grid={"moves.0.rate": [1.0, 2.0], "moves.times": [1, 2]})
    text = study.to_toml()
    assert '\n  { kind = "rest" },\n' in text
    assert '"moves.0.rate" = [1.0, 2.0]' in text
    assert gs.Study.from_toml(text) == study
    by_hand = (
        '[scenario]\nfamily = "toy-chain"\nmoves = [{ kind = "grow", rate = 2.0 }, {'
        ' kind = "rest" }]\n'
    )
    nested = gs.Study.from_toml(by_hand + "[grid]\nmoves.0.rate = [1, 2]\n")
    assert nested.predict(progress=False)["mean"].values.tolist() == [1.0, 2.0]
    blocks = (
        '[scenario]\nfamily = "toy-chain"\n[[scenario.moves]]\nkind = "grow"\nrate ='
        " 2.0\n"
    )
    assert gs.Study.from_toml(blocks).scenario.moves == (Grow(2.0),)
    given = gs.Study(
        Chain(), grid={"moves": [Grow(1.0), {"kind": "rest"}], "moves.0.rate": [1, 2]}
    )
    assert gs.Study.from_toml(given.to_toml()).scenario.moves == (Grow(1.0), Rest())
    bad = '[scenario]\nfamily = "toy-chain"\nmoves = [{ kind = "grow", rate = 0 }]\n'
    assert "`moves.0.rate` must be a number above 0" in sentence(
        gs.Study.from_toml, bad
    )


def test_large_arrays_of_entries_lie_beside_the_file(tmp_path):
    scenario = Chain(moves=[Rest(), Shift(np.arange(400.0).reshape(20, 20))])
    [array] = large_arrays(scenario)
    assert array == scenario.moves[1].by
    gs.Study(scenario).write(tmp_path / "S.toml")
    assert (tmp_path / array.file).exists()
    assert gs.Study.read(tmp_path / "S.toml").scenario == scenario


# -- descriptions and commands ---------------------------------------------------------


def test_the_description_has_the_kinds_of_an_entry():
    [moves] = [
        field for field in describe("toy-chain")["fields"] if field["name"] == "moves"
    ]
    assert moves["type"] == "list of choices"
    assert moves["default"] == []
    assert [choice["kind"] for choice in moves["choices"]] == ["grow", "shift", "rest"]
    assert [field["name"] for field in moves["choices"][0]["fields"]][:2] == [
        "moves.rate",
        "moves.power",
    ]
    text = " ".join(describe_text("toy-chain").split())
    assert (
        'a list, each entry kind "grow" or kind "shift" or kind "rest"; default []'
        in text
    )
    assert Chain.model_json_schema()["properties"]["moves"]["type"] == "array"


def test_a_new_study_has_every_entry():
    assert gs.Study.from_toml(template("toy-chain")).scenario == Chain.example()


def command(tmp_path, *words):
    path = tmp_path / "S.toml"
    gs.Study(TWO).write(path)
    return CliRunner().invoke(app, [words[0], str(path), *words[1:]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "moves.0.rate=5"], [15.0]),
        (["--set", "moves.rate=5"], [25.0]),
        (["--grid", "moves.0.rate=1:3:2"], [3.0, 9.0]),
        (["--grid", "moves__rate=1,2"], [1.0, 4.0]),
        (["--set", "moves.0.kind=rest"], [3.0]),
        (["--set", 'moves=[{kind="grow", rate=7}]'], [7.0]),
        (["--set", 'moves.1={kind="rest"}'], [2.0]),
    ],
)
def test_options_change_entries(tmp_path, options, expected):
    out = tmp_path / "r.nc"
    done = command(tmp_path, "predict", *options, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert gs.load(out)["mean"].values.reshape(-1).tolist() == expected


def test_a_new_kind_of_an_entry_is_given_with_its_fields(tmp_path):
    gs.Study(MIXED).write(tmp_path / "M.toml")
    arguments = ["predict", str(tmp_path / "M.toml"), "--set", "moves.1.kind=grow"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "Field `moves.1.rate` is missing" in done.stderr
    assert (
        CliRunner().invoke(app, [*arguments, "--set", "moves.1.rate=2"]).exit_code == 0
    )
    refused = CliRunner().invoke(
        app, ["predict", str(tmp_path / "M.toml"), "--set", "moves.9.kind=grow"]
    )
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "There is no `moves.9`: there are 4 moves" in refused.stderr


def test_a_search_from_the_command_line(tmp_path):
    done = command(
        tmp_path, "optimize", "--over", "moves.0.rate=0.5:4", "--minimise", "mean"
    )
    assert done.exit_code == 0, done.output
    assert "mean = 1.5" in done.stdout


# -- questions asked back --------------------------------------------------------------


def test_searches_over_one_entry_and_over_all():
    one = gs.optimize(TWO, over={"moves.0.rate": (0.5, 4.0)}, minimise="mean")
    assert (float(one["moves.0.rate"]), float(one["mean"])) == (0.5, 1.5)
    every = gs.optimize(TWO, over={"moves.rate": (0.5, 4.0)}, minimise="mean")
    assert (float(every["moves.rate"]), float(every["mean"])) == (0.5, 0.25)
    rates = {"moves.0.rate": (0.1, 10.0), "moves.1.rate": (0.1, 10.0)}
    both = gs.optimize(
        TWO, over=rates, maximise="mean", budget="moves.0.rate + 2*moves.1.rate = 4"
    )
    # x y is largest where both terms are equal
    assert float(both["moves.0.rate"]) == pytest.approx(2.0, rel=1e-4)
    assert float(both["moves.1.rate"]) == pytest.approx(1.0, rel=1e-4)
    choices = gs.optimize(TWO, over={"moves.0": [Rest(), Grow(5.0)]}, maximise="mean")
    assert float(choices["mean"]) == 15.0
    lists = gs.optimize(TWO, over={"moves": [[], [Grow(2.0)] * 3]}, maximise="mean")
    assert float(lists["mean"]) == 8.0


def test_one_value_for_all_leaves_one_entry_to_be_searched():
    found = gs.optimize(
        TWO, over={"moves.0.rate": (0.5, 4.0)}, minimise="mean", moves__rate=7.0
    )
    assert float(found["mean"]) == 3.5


@pytest.mark.parametrize(
    ("over", "fields", "said"),
    [
        (
            {"moves.rate": (1, 2)},
            {"moves.0.rate": 3.0},
            "Field `moves.rate` is searched over and given a value, too.",
        ),
        (
            {"moves.0.rate": (1, 2)},
            {"moves.rate": [1.0, 2.0]},
            "Field `moves.0.rate` is searched over and given",
        ),
        ({"moves.0.rate": (1, 2), "moves.rate": (1, 2)}, {}, "is searched over twice"),
        ({"moves.9.rate": (1, 2)}, {}, "There is no `moves.9`"),
        ({"moves.times": (1, 2)}, {}, "a list of whole numbers"),
        ({"moves.rate": (-1, 2)}, {}, "Field `moves.rate` must be a number above 0"),
    ],
)
def test_a_search_refuses_what_is_said_twice_or_wrong(over, fields, said):
    assert said in sentence(gs.optimize, TWO, fields, over=over, minimise="mean")


def test_sensitivities_and_crossings():
    slopes = gs.sensitivity(TWO, of="mean").set_index(field="field")
    assert float(slopes["derivative"].sel(field="moves.0.rate")) == pytest.approx(3.0)
    together = gs.sensitivity(TWO, of="mean", to="moves.rate", moves__rate=2.0)
    assert float(together["derivative"].item()) == pytest.approx(4.0)  # of rate^2
    assert "no one value here" in sentence(
        gs.sensitivity, TWO, of="mean", to="moves.rate"
    )
    one = gs.solve_for(TWO, "moves.0.rate", mean=12.0)
    assert one["moves.0.rate"].values.reshape(-1)[0] == pytest.approx(4.0)
    every = gs.solve_for(TWO, "moves.rate", mean=9.0, between=(1, 20))
    assert every["moves.rate"].values.reshape(-1)[0] == pytest.approx(3.0)
    said = sentence(gs.solve_for, TWO, "moves.rate", mean=9.0)
    assert "no one value here (moves.0.rate = 2, moves.1.rate = 3)" in said


# -- figures and papers ----------------------------------------------------------------


def test_a_plot_names_the_entry():
    figure = gs.plot(
        gs.predict(TWO, {"moves.1.power": [1.0, 2.0, 3.0]}, progress=False)
    )
    assert figure.axes[0].get_xlabel() == "exponent of the rate,  $a_{0,2}$"
    tornado = gs.plot(gs.sensitivity(TWO, of="mean"))
    labels = [label.get_text() for label in tornado.axes[0].get_yticklabels()]
    assert r"moves.0 rate, $\eta_{1}$" in labels


def test_a_papers_symbols_make_entries(capsys):
    made = Chain.from_paper(
        "mei2022generalization", x=1, h=2, c=3, moves__0__loss="correlation"
    )
    assert made.moves == (Grow(4.0, loss="correlation"), Grow(3.0))
    assert "moves.0.rate  =  4  = h**2" in capsys.readouterr().out
    said = sentence(Chain.from_paper, "mei2022generalization", x=1, c=3)
    assert (
        said
        == "mei2022generalization needs `h` (rate of the first move): moves.0.rate ="
        " h**2."
    )
