"""Every registered family is held to what `Scenario` promises; nothing here names
one.
"""

import inspect
import json
import math
import warnings

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

import giantstep as gs
import giantstep.problems._skeleton.scenario
from giantstep.core.run.study import Study
from giantstep.core.run.verbs import compare
from giantstep.core.scenario.dimensions import _KNOWN
from giantstep.core.scenario.families import family_class, family_names
from giantstep.core.scenario.family import RESERVED
from giantstep.core.scenario.fields import check_numbers
from giantstep.core.scenario.model import from_content
from giantstep.core.scenario.names import walk_fields
from giantstep.core.scenario.references import BIBTEX

from . import toy

assert giantstep.problems._skeleton.scenario and toy  # importing a family registers it

# no toys
FAMILIES = [
    name
    for name in family_names()
    if family_class(name).__module__.startswith("giantstep.")
]
QUESTIONS = [
    (family, what) for family in FAMILIES for what in family_class(family).questions
]
DIM = 40


def example_settings(family, what):
    settings = family_class(family).questions[what].settings
    return {
        name: setting.example
        for name, setting in settings.items()
        if setting.example is not None
    }


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.GiantstepWarning)
        yield


@pytest.mark.parametrize("family", FAMILIES)
def test_it_says_what_it_is(family):
    scenario = family_class(family)
    assert scenario.family == family
    assert (
        scenario.title
        and scenario.update_rule
        and scenario.questions
        and scenario.theories
    )
    assert inspect.getdoc(scenario)
    assert scenario.papers and set(scenario.papers) <= set(BIBTEX)
    assert "@software" in gs.cite(scenario.example())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_has_a_symbol_and_a_meaning(family):
    for name, _, info in walk_fields(family_class(family).example()):
        assert info.description, name
        assert info.json_schema_extra["symbol"], name


def submodels(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from submodels(inner)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_part_is_documented(family):
    for info in family_class(family).model_fields.values():
        for part in submodels(info.annotation):
            assert inspect.getdoc(part)
            for name, inner in part.model_fields.items():
                assert name == "kind" or (
                    inner.description and inner.json_schema_extra["symbol"]
                ), (
                    part,
                    name,
                )


@pytest.mark.parametrize("family", FAMILIES)
def test_names_do_not_collide(family):
    scenario = family_class(family)
    reserved = {*inspect.signature(compare).parameters, "keep_trials", *RESERVED} - {
        "scenario",
        "grid",
        "dim",
    }
    fields = set(scenario.model_fields)
    assert not fields & reserved
    for question in scenario.questions.values():
        names = [variable.name for variable in question.variables]
        assert len(set(names)) == len(names)
        assert not {*names} & {*fields, *RESERVED}
        assert not {*question.settings} & {*fields, *reserved}
        assert set(question.plot) <= set(names)
        for variable in question.variables:
            assert variable.symbol and variable.meaning and variable.engines
            assert not variable.name.endswith(("_stderr", "_gap", "_z"))
            assert all(dim.removesuffix("_2") in _KNOWN for dim in variable.dims), (
                variable.dims
            )
        for setting in question.settings.values():
            assert setting.meaning and (
                not setting.choices or setting.default in setting.choices
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_fields_are_fields(family):
    scenario = family_class(family).example()
    assert set(scenario.shared_fields) <= {name for name, _, _ in walk_fields(scenario)}


@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_hold_at_both_ends(family):
    scenario = family_class(family).example()
    for name, (_, info) in scenario.numeric_fields().items():
        for bound in info.metadata:
            inclusive = {Ge: "ge", Le: "le"}.get(type(bound))
            exclusive = {Gt: "gt", Lt: "lt"}.get(type(bound))
            if inclusive:
                edge = float(getattr(bound, inclusive))
                check_numbers(name, info, np.array([edge]))
                outside = math.nextafter(
                    edge, -math.inf if inclusive == "ge" else math.inf
                )
            elif exclusive:
                outside = float(getattr(bound, exclusive))
            else:
                continue
            with pytest.raises(gs.InputError, match=name):
                scenario.replace(
                    {
                        name: (
                            int(outside)
                            if info.annotation is int and outside.is_integer()
                            else outside
                        )
                    }
                )
            with pytest.raises(gs.InputError, match=name):
                gs.predict(scenario, {name: [outside]})
        for bad in (math.nan, "text", True, None):
            with pytest.raises(gs.InputError, match=name):
                scenario.replace({name: bad})


@pytest.mark.parametrize("family", FAMILIES)
def test_files_bring_it_back(family):
    scenario = family_class(family).example()
    assert (
        from_content(json.loads(json.dumps(scenario.content(), allow_nan=False)))
        == scenario
    )
    study = Study(scenario, experiment={"dim": DIM})
    for text in (study.to_toml(), study.to_toml(comments=True)):
        assert Study.from_toml(text).scenario == scenario


def check_layout(result, question, engine, grid_dims):
    expected = {
        variable.name for variable in question.variables if engine in variable.engines
    }
    names = {str(name) for name in result.data_vars}
    assert {variable.name for variable in question.variables} & names == expected
    for variable in question.variables:
        if engine in variable.engines:
            assert result[variable.name].dims == (*grid_dims, *variable.dims)
            assert result[variable.name].attrs["long_name"] == variable.meaning
    assert result["converged"].dims == grid_dims
    assert bool(result["converged"].all()), result["status"].values


@pytest.mark.parametrize(("family", "what"), QUESTIONS)
def test_both_engines_answer_with_the_declared_table(family, what):
    scenario = family_class(family).example_for(what)
    question = scenario.questions[what]
    settings = {"what": what, **example_settings(family, what)}
    check_layout(gs.predict(scenario, **settings), question, "limit", ())
    check_layout(
        gs.simulate(scenario, dim=DIM, trials=2, **settings), question, "experiment", ()
    )
    both = gs.compare(scenario, dim=DIM, trials=2, **settings)
    for variable in question.variables:
        if variable.compared and variable.engines == ("limit", "experiment"):
            assert both[variable.name + "_z"].dims == variable.dims


def first_varying_field(scenario):
    shared = [
        name for name in scenario.shared_fields if name in scenario.numeric_fields()
    ]
    name = (shared or list(scenario.numeric_fields()))[0]
    value = scenario.numeric_fields()[name][0]
    return name, [value, 1.25 * value + 0.01]


@pytest.mark.parametrize(("family", "what"), QUESTIONS)
def test_a_point_means_the_same_alone_and_in_a_grid(family, what):
    scenario = family_class(family).example_for(what)
    question = scenario.questions[what]
    name, values = first_varying_field(scenario)
    settings = {"what": what, **example_settings(family, what)}
    for setting in question.settings:
        if (
            setting in gs.predict(scenario, **settings).coords
            and setting not in settings
        ):
            settings[setting] = gs.predict(scenario, **settings)[setting].values
    engines = (
        ("limit", lambda **fields: gs.predict(scenario, **settings, **fields), 1e-8),
        (
            "experiment",
            lambda **fields: gs.simulate(
                scenario, dim=DIM, trials=2, **settings, **fields
            ),
            1e-9,
        ),
    )
    for engine, call, tolerance in engines:
        alone = call()
        grid = call(**{name.replace(".", "__"): values})
        check_layout(grid, question, engine, (name,))
        for variable in question.variables:
            if engine in variable.engines:
                one = alone[variable.name].values
                inside = grid[variable.name].isel({name: 0}).values
                inside = inside[tuple(slice(size) for size in one.shape)]
                if one.dtype.kind == "U":  # a name, not a number
                    np.testing.assert_array_equal(one, inside)
                    continue
                np.testing.assert_allclose(
                    one,
                    inside,
                    rtol=tolerance,
                    atol=tolerance,
                    err_msg=f"{engine} {variable.name}",
                )


@pytest.mark.parametrize("family", FAMILIES)
def test_first_question_agrees_within_chance_and_five_percent(family):
    scenario = family_class(family).example()
    report = gs.agreement(
        gs.compare(
            scenario,
            dim=150,
            trials=10,
            **example_settings(family, next(iter(scenario.questions))),
        )
    )
    assert report.passes(allow=0.05), str(report)
