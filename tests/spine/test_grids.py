"""A grid is its points, whichever verb is asked and whichever family: nothing is taken
from the scenario behind it.

The fields that vary are drawn from those of each family; nothing here names one, but
for the studies of bounds below.
"""

import functools
import itertools
import json
import warnings

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

import giantstep as gs
from giantstep.core.result.provenance import grid_of
from giantstep.core.scenario.families import family_class, family_names
from giantstep.core.scenario.fields import allowed_types
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.names import walk_fields

from .toy import Toy

FAMILIES = [
    name
    for name in family_names()
    if family_class(name).__module__.startswith("giantstep.problems.")
]
DIM = 100
TRIALS = 2
CLOSE = {"rtol": 1e-7, "atol": 1e-9}
# fields at an optimum or a crossing; the observable there is far better known
SEARCHED = {
    "rtol": 1e-4,
    "atol": 1e-6,
}
DRAWS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 9))]
"""Each test draws its fields once in the quick suite, and more often in the slow
one.
"""


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.GiantstepWarning)
        yield


# -- what varies -----------------------------------------------------------------------


def other_values(value, info):
    """Return further values that a field may have."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        if info.annotation is int:
            return [int(value) + 1]
        return [1.25 * value + 0.01, 0.8 * value]
    if (
        getattr(value, "expression", None) is not None
        and getattr(value, "directions", 1) == 1
    ):
        return ["tanh(z)", "erf(0.8*z)"]
    return [
        word
        for word in allowed_types(info.annotation)
        if isinstance(word, str) and isinstance(value, str)
    ]


@functools.cache
def varying(family):
    """Return the example of a family and, of each field that can vary, values the
    scenario takes one at a time.
    """
    scenario = family_class(family).example()
    fields = {}
    for name, value, info in walk_fields(scenario):
        values = [getattr(value, "name", value)]
        for other in other_values(value, info):
            if other in values:
                continue
            try:
                Grid(scenario, {name: [*values, other]})
                assert np.isfinite(
                    first_number(gs.predict(scenario.replace({name: other})))
                )
                values.append(other)
            except (gs.GiantstepError, AssertionError):
                continue
        if len(values) > 1 and value != float("inf"):
            fields[name] = values[:3]
    return scenario, fields


def first_number(result):
    """Return an entry of the first variable that holds numbers."""
    name = next(name for name in result.data_vars if result[name].dtype.kind == "f")
    return float(result[name].values.reshape(-1)[-1])


def draw_grid(scenario, fields, words, most=2):
    """Return fields with two values of each, in any order, chosen by what the words
    say.
    """
    rng = np.random.default_rng(list("/".join(map(str, words)).encode()))
    names = rng.permutation(sorted(fields))[: rng.integers(1, most + 1)]
    return {
        str(name): [fields[name][i] for i in rng.permutation(len(fields[name]))[:2]]
        for name in names
    }


def points_of(chosen):
    """Return every point of the outer product: (place along each field, fields)."""
    for place in itertools.product(*(range(len(values)) for values in chosen.values())):
        yield (
            dict(zip(chosen, place)),
            {name: values[i] for i, (name, values) in zip(place, chosen.items())},
        )


def same(part, alone, **close):
    """Hold the part of a result equal to a result of its own; it may be padded by
    longer neighbours.
    """
    close = close or CLOSE
    for name in alone.data_vars:
        one = alone[name]
        inside = part[name]
        if one.dims != inside.dims:
            assert set(one.dims) == set(inside.dims), name
            inside = inside.transpose(*one.dims)
        short = tuple(slice(size) for size in one.shape)
        values = one.values
        found = inside.values[short]
        if (
            values.dtype.kind == "f"
            and "field" not in one.dims
            and not str(name).endswith("_stderr")
        ):
            assert (
                np.isnan(inside.values).sum() - np.isnan(found).sum()
                == inside.size - found.size
            ), name
        if values.dtype.kind != "f":
            if str(name) != "iterations":  # of the batch
                np.testing.assert_array_equal(values, found, err_msg=name)
        elif name == "residual" or str(name).endswith("_z"):
            assert (np.isnan(values) == np.isnan(found)).all(), name
        else:
            np.testing.assert_allclose(found, values, err_msg=name, **close)


# -- a grid is its points --------------------------------------------------------------

ENGINES = {
    "predict": gs.predict,
    "simulate": functools.partial(gs.simulate, trials=TRIALS),
    "compare": functools.partial(gs.compare, trials=TRIALS),
    "sweep of the limit": functools.partial(gs.sweep, source="limit", progress=False),
    "sweep": functools.partial(gs.sweep, trials=TRIALS, progress=False),
}


def ask(verb, scenario, fields):
    """Ask one of the engines at a small dimension where the family lets it choose."""
    if "limit" in verb or verb == "predict" or "dim" in type(scenario).model_fields:
        dim = {}
    else:
        dim = {"dim": DIM}
    return ENGINES[verb](scenario, fields, **dim)


@pytest.mark.parametrize("verb", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_a_grid_equals_its_points(family, verb, number):
    scenario, fields = varying(family)
    chosen = draw_grid(scenario, fields, [family, verb, number])
    whole = ask(verb, scenario, chosen)
    for place, point in points_of(chosen):
        same(whole.isel(place), ask(verb, scenario.replace(point), {}))


@pytest.mark.parametrize("verb", ["simulate", "sweep"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_value_given_twice_is_answered_twice(family, verb):
    scenario, fields = varying(family)
    name = next(iter(fields))
    first, second = fields[name][:2]
    twice = ask(verb, scenario, {name: [first, second, first]})
    same(twice.isel({name: 2}), twice.isel({name: 0}), rtol=0)
    same(twice.isel({name: 1}), ask(verb, scenario.replace({name: second}), {}))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_a_result_and_its_parts_know_their_scenarios(family, number):
    scenario, fields = varying(family)
    chosen = draw_grid(scenario, fields, [family, "parts", number], most=3)
    result = gs.predict(scenario, chosen)
    for place, point in points_of(chosen):
        assert grid_of(result.isel(place)).scenarios() == [scenario.replace(point)]
    wanted = [scenario.replace(point) for _, point in points_of(chosen)]
    assert grid_of(result).scenarios() == wanted
    name = next(iter(chosen))
    turned = grid_of(result.isel({name: [1, 0]}).transpose(...))
    assert turned.scenarios() == [
        scenario.replace({**p, name: chosen[name][1 - i[name]]})
        for i, p in points_of(chosen)
    ]
    with pytest.raises(gs.InputError, match=f"`{name}`"):
        grid_of(result.isel({name: 0}, drop=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_order_pairing_and_naming_change_nothing(family, number):
    scenario, fields = varying(family)
    chosen = draw_grid(scenario, fields, [family, "turned", number])
    whole = gs.predict(scenario, chosen)
    named = gs.predict(
        scenario, **{name.replace(".", "__"): values for name, values in chosen.items()}
    )
    same(named.transpose(*chosen, ...), whole, rtol=0)
    order = dict(reversed(chosen.items()))
    turned = gs.predict(scenario, order)
    assert turned["converged"].dims == tuple(order)
    same(turned.transpose(*chosen, ...), whole)
    backwards = gs.predict(
        scenario, {name: values[::-1] for name, values in chosen.items()}
    )
    same(backwards.isel({name: slice(None, None, -1) for name in chosen}), whole)
    paired = gs.predict(
        scenario,
        {name: xarray.DataArray(values, dims="run") for name, values in chosen.items()},
    )
    for run in range(2):
        same(paired.isel(run=run), whole.isel(dict.fromkeys(chosen, run)))
    assert grid_of(paired).scenarios() == [
        scenario.replace({name: values[run] for name, values in chosen.items()})
        for run in range(2)
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_agreement_of_a_part_is_that_of_its_points(family, number):
    scenario, fields = varying(family)
    chosen = draw_grid(scenario, fields, [family, "agreement", number], most=1)
    both = ask("compare", scenario, chosen)
    for place, point in points_of(chosen):
        part, alone = (
            gs.agreement(r).to_dict()
            for r in (both.isel(place), ask("compare", scenario.replace(point), {}))
        )
        # those of a grid are about all of its points
        assert bool(part.pop("notes")) >= bool(alone.pop("notes"))
        assert_alike(part, alone)


def assert_alike(one, other):
    """Hold plain data equal, numbers up to rounding."""
    if isinstance(one, dict | list):
        keys = one if isinstance(one, dict) else range(len(one))
        assert len(one) == len(other) and type(one) is type(other)
        for key in keys:
            if (
                key == "where" and (one["largest_relative_gap"] or 0.0) < 1e-4
            ):  # where rounding happens to be largest
                continue
            assert_alike(one[key], other[key])
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-5, nan_ok=True)
    else:
        assert one == other


NUMBERS = st.floats(0.1, 9.0).map(lambda value: round(value, 3))
FIELDS = {
    "level": NUMBERS,
    "noise.size": NUMBERS,
    "count": st.integers(1, 9),
    "shape": st.sampled_from(["relu", "tanh(z)", "z**2"]),
}


@settings(max_examples=40)
@given(data=st.data())
def test_any_part_of_any_grid_knows_its_scenarios(data):
    """Lists, paired arrays, names and single values; points chosen, turned round,
    stacked.
    """
    toy = Toy(far=50.0)
    lengths = {"run": 2, "lane": 3}
    given_fields = {}
    for name in data.draw(
        st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True)
    ):
        how = data.draw(st.sampled_from(["single", "list", *lengths]))
        count = lengths.get(how, 1 if how == "single" else data.draw(st.integers(1, 3)))
        drawn = [data.draw(FIELDS[name]) for _ in range(count)]
        if how == "single":
            given_fields[name] = drawn[0]
        elif how in lengths:
            given_fields[name] = xarray.DataArray(drawn, dims=how)
        else:
            given_fields[name] = drawn
    result = gs.predict(toy, given_fields)
    dims = result["converged"].dims
    part = result.assign(
        place=(
            dims,
            np.arange(result["converged"].size).reshape(result["converged"].shape),
        )
    )
    for dim in dims:
        size = result.sizes[dim]
        part = part.isel(
            {
                dim: data.draw(
                    st.one_of(st.integers(0, size - 1), st.permutations(range(size)))
                )
            }
        )
    if len(part["place"].dims) > 1 and data.draw(st.booleans()):
        part = part.stack(both=part["place"].dims[:2])
    grid = grid_of(part)
    assert set(grid.dims) == set(part["place"].dims)
    places = part["place"].transpose(*grid.dims).values.reshape(-1)

    def value(name, place):
        index = dict(zip(dims, np.unravel_index(place, result["converged"].shape)))
        field = given_fields[name]
        if isinstance(field, xarray.DataArray):
            return field.values[index[field.dims[0]]].item()
        return field[index[name]] if isinstance(field, list) else field

    assert grid.scenarios() == [
        toy.replace({n: value(n, place) for n in given_fields}) for place in places
    ]


# -- design ----------------------------------------------------------------------------


def observable(scenario, engine="limit"):
    """Return a variable of the first question, or an entry of one, with its value."""
    question = next(iter(scenario.questions.values()))
    if engine == "limit":
        result = gs.predict(scenario)
    else:
        result = ask("simulate", scenario, {})
    for variable in question.variables:
        if engine in variable.engines and result[variable.name].dtype.kind == "f":
            column = result[variable.name]
            last = column.isel(dict.fromkeys(column.dims, -1))
            inside = ", ".join(f"{dim}={last[dim].item()}" for dim in column.dims)
            if np.isfinite(last) and abs(float(last)) > 1e-6:
                return f"{variable.name}[{inside}]" if inside else variable.name, float(
                    last
                )
    raise AssertionError("no number to ask for")


def designs(scenario, free):
    """Return the verbs of `design` over one free field of a scenario."""
    of, value = observable(scenario)
    now = scenario.numeric_fields()[free][0]
    span = (0.8 * now, 1.2 * now)
    return {
        "optimize": lambda s, grid: gs.optimize(
            s, grid, over={free: span}, minimise=of, starts=3
        ),
        "solve_for": lambda s, grid: gs.solve_for(
            s, free, grid, between=span, reach={of: value}, points=5
        ),
        "sensitivity": lambda s, grid: gs.sensitivity(s, grid, of=of, to=[free]),
        "trials_needed": lambda s, grid: trials_needed(
            s, grid, observable(scenario, "experiment")[0]
        ),
    }


def trials_needed(scenario, grid, of):
    dim = None if "dim" in type(scenario).model_fields else DIM
    return gs.trials_needed(scenario, dim, grid, of=of, pilot=3)


@pytest.mark.parametrize(
    "verb", ["optimize", "solve_for", "sensitivity", "trials_needed"]
)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_a_design_over_a_grid_equals_its_points(family, verb, number):
    scenario, fields = varying(family)
    numbers = [
        n
        for n, (v, info) in scenario.numeric_fields().items()
        if n in fields and info.annotation is not int
    ]
    rng = np.random.default_rng(list(f"{family}/{verb}/{number}".encode()))
    free = str(
        rng.choice(sorted(n for n in numbers if scenario.numeric_fields()[n][0] > 0))
    )
    name = str(rng.choice(sorted(set(fields) - {free, "steps", "dim"})))
    values = fields[name][:2]
    call = designs(scenario, free)[verb]
    whole = call(scenario, {name: values})
    for place, value in enumerate(values):
        part = whole.isel({name: place})
        alone = call(scenario.replace({name: value}), {})
        if verb == "trials_needed":  # more points have a higher line of chance
            part = part.drop_vars(_LINES)
            alone = alone.drop_vars(_LINES)
        hidden = [
            n
            for n in ("rival_" + free, "minima", "failed_share", "status", "remark")
            if n in alone
        ]
        same(part.drop_vars(hidden), alone.drop_vars(hidden), **SEARCHED)


_LINES = ["trials", "trials_at_most", "visible"]


# -- the best possible error -----------------------------------------------------------

_NETWORK = {
    "target": "tanh(z)",
    "width_per_dim": 1.2,
    "samples_per_dim": 2.0,
    "ridge": 0.2,
    "noise": 0.1,
}
BOUNDED = {
    "one-step": (
        gs.OneStep(
            **_NETWORK,
            activation="relu",
            step=gs.MaximalStep(rate=1.0, batch_per_dim=3.0),
        ),
        {},
        {
            "noise": [0.02, 0.3],
            "target": ["z/2", "sin(z)"],
            "step.batch_per_dim": [1.0, 5.0],
            "ridge": [0.1, 1.0],
        },
    ),
    "classes": (
        gs.OneStep(
            **{**_NETWORK, "noise": 0.0, "target": "sign(z)"},
            loss="logistic",
            activation="erf",
        ),
        {},
        {
            "flip": [0.0, 0.2],
            "samples_per_dim": [1.0, 3.0],
            "loss": ["hinge", "logistic"],
        },
    ),
    "network": (
        gs.Network(
            target="tanh(z)",
            noise=0.1,
            activation="erf",
            width_per_dim=1.2,
            samples_per_dim=2.0,
            steps=[gs.MaximalStep(1.0, batch_per_dim=3.0)],
        ),
        {},
        {
            "noise": [0.02, 0.3],
            "steps.0.batch_per_dim": [1.0, 5.0],
            "readout.ridge": [0.1, 1.0],
        },
    ),
    "few-steps": (
        gs.FewSteps(**_NETWORK, activation="erf", rate=1.0, steps=2, batch_per_dim=8.0),
        {},
        {
            "noise": [0.02, 0.3],
            "batch_per_dim": [4.0, 16.0],
            "steps": [1, 2],
            "samples_per_dim": [1.0, 4.0],
        },
    ),
    "giant-steps": (
        gs.GiantSteps(
            target="tanh(z1)",
            activation="erf",
            noise=0.1,
            rate=1.0,
            batch_per_dim=2.0,
            steps=2,
        ),
        {"what": "errors"},
        {"noise": [0.02, 0.3], "batch_per_dim": [1.0, 4.0]},
    ),
    "batch-reuse": (
        gs.BatchReuse(
            target="tanh(z)",
            activation="erf",
            noise=0.1,
            samples_per_dim=2.0,
            rate=0.3,
            steps=3,
        ),
        {},
        {
            "noise": [0.02, 0.3],
            "samples_per_dim": [1.0, 4.0],
            "data": ["reused", "fresh"],
        },
    ),
    "online-sgd": (
        gs.OnlineSGD(
            target="tanh(z1)",
            activation="erf",
            noise=0.1,
            rate=1.0,
            dim=100,
            steps=60,
            initial_overlap="random",
            second_layer=[1.0],
        ),
        {},
        {"noise": [0.02, 0.3], "dim": [50, 200], "batch_size": [1, 3]},
    ),
    "mixture-glm": (
        gs.MixtureGLM(
            labels="linear", loss="square", noise=0.1, ridge=0.3, samples_per_dim=2.0
        ),
        {},
        {
            "noise": [0.02, 0.3],
            "teacher_norm": [1.0, 4.0],
            "labels": ["tanh(z)", "linear"],
            "ridge": [0.02, 1.0],
        },
    ),
    "bayes-limit": (
        gs.BayesLimit(target="tanh(z)", noise=0.1, samples_per_dim=2.0),
        {},
        {
            "noise": [0.02, 0.3],
            "target": ["z/2", "sin(z)"],
            "samples_per_dim": [1.0, 4.0],
        },
    ),
}


def test_every_family_with_a_bound_is_here():
    from giantstep.problems.bounds.counting import _READERS

    assert {scenario.family for scenario, _, _ in BOUNDED.values()} == set(_READERS)


@pytest.mark.parametrize("case", BOUNDED)
@pytest.mark.parametrize("number", DRAWS)
def test_efficiency_of_a_grid_equals_its_points(case, number):
    """The scenario behind the grid has none of these values."""
    scenario, asked, fields = BOUNDED[case]
    chosen = draw_grid(scenario, fields, [case, "efficiency", number])
    result = gs.predict(scenario, chosen, **asked)
    whole = gs.efficiency(result)
    for place, point in points_of(chosen):
        alone = gs.efficiency(gs.predict(scenario.replace(point), **asked))
        same(whole.isel(place), alone, rtol=1e-6)
        same(gs.efficiency(result.isel(place)), alone, rtol=1e-6)
        ratios = [name for name in alone.data_vars if str(name).endswith("ratio")]
        assert (alone[ratios].fillna(1.0).to_array() > 1 - 1e-6).all()
    if "time" in result.dims:
        same(gs.efficiency(result.isel(time=-1)), whole.isel(time=-1), rtol=1e-12)


@pytest.mark.parametrize("case", BOUNDED)
@pytest.mark.parametrize("number", DRAWS)
def test_the_bound_of_a_curve_is_that_of_its_points(case, number):
    """Each line stands at its own scenario's `best_possible`, at every point of its
    curve.
    """
    scenario, asked, fields = BOUNDED[case]
    chosen = draw_grid(scenario, fields, [case, "bound", number])
    result = gs.predict(scenario, chosen, **asked)
    from giantstep.problems.bounds.teachers import Teachers

    name = next(
        name for name in Teachers(grid_of(result)).observables if name in result
    )
    result = result.isel(time=-1) if "time" in result.dims else result
    result = result.sel(branch="uninformed") if "branch" in result.dims else result
    across = next(iter(chosen))
    figure = gs.plot(result, name, x=across, bound=True)
    lines = [
        line
        for line in figure.axes[0].get_lines()
        if line.get_label().startswith("best possible")
    ]
    others = {n: values for n, values in chosen.items() if n != across}
    wanted = [
        [
            best_value(scenario.replace({**point, across: value}), result, name)
            for value in chosen[across]
        ]
        for _, point in points_of(others)
    ]
    drawn = [at(line, chosen[across]) for line in lines]
    if len(lines) == 1:  # they are all alike
        drawn *= len(wanted)
    np.testing.assert_allclose(drawn, wanted, rtol=1e-7)


def best_value(scenario, result, name):
    """Return the best possible value of a variable at the end of a scenario."""
    from giantstep.problems.bounds.counting import teacher_of

    teacher = teacher_of(scenario)
    observable = next(o for o in teacher.observables if o.variable == name)
    if "time" in result.coords and len(teacher.batches):
        steps = int(result["time"])
    else:
        steps = None
    best = gs.best_possible(scenario).replace(
        samples_per_dim=max(teacher.total(steps), 1e-9)
    )
    value = float(gs.predict(best)[observable.name].sel(branch="bayes"))
    return float(observable.from_best(value, teacher.flip))


def at(line, values):
    x = line.get_xdata()
    y = line.get_ydata()
    if isinstance(values[0], str):
        return y.tolist()
    return [float(y[np.flatnonzero(np.isclose(x, value))[0]]) for value in values]


# -- through files, the command line and the page --------------------------------------


@pytest.mark.parametrize("case", BOUNDED)
def test_a_result_from_a_file_is_looked_back_at_alike(case, tmp_path):
    scenario, asked, fields = BOUNDED[case]
    chosen = dict(itertools.islice(fields.items(), 2))
    result = gs.predict(scenario, chosen, **asked)
    wanted = gs.efficiency(result)
    for kind in ("nc", "json"):
        gs.save(result, tmp_path / f"r.{kind}")
        again = gs.load(tmp_path / f"r.{kind}")
        assert grid_of(again).scenarios() == grid_of(result).scenarios()
        same(gs.efficiency(again), wanted, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("number", DRAWS)
def test_a_study_file_the_command_line_and_the_page_give_the_same_grid(
    family, number, tmp_path
):
    from typer.testing import CliRunner

    from giantstep.core.result.files import from_json
    from giantstep.faces.cli.app import app
    from giantstep.faces.page.tasks import limit

    scenario, fields = varying(family)
    chosen = draw_grid(scenario, fields, [family, "file", number])
    wanted = gs.predict(scenario, chosen)
    folder = tmp_path
    study = gs.Study(scenario, grid=chosen)
    study.write(folder / "S.toml")
    same(gs.Study.read(folder / "S.toml").predict(), wanted)
    done = CliRunner().invoke(
        app, ["predict", str(folder / "S.toml"), "--out", str(folder / "r.nc")]
    )
    assert done.exit_code == 0, done.output
    told = []
    scenario_table = json.loads(json.dumps(scenario.content()))
    grid = {
        name: [json.loads(json.dumps(v)) for v in values]
        for name, values in chosen.items()
    }
    limit(
        lambda event, text: told.append(json.loads(text)),
        {"scenario": scenario_table, "grid": grid},
        None,
    )
    for result in (gs.load(folder / "r.nc"), from_json(json.dumps(told[0]["result"]))):
        same(result, wanted)
        assert grid_of(result).scenarios() == grid_of(wanted).scenarios()
