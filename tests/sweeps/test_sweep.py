"""A sweep is `simulate` or `predict` with a memory: same tables, nothing computed
twice.
"""

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.lab.threads import SMALL
from giantstep.core.run import trials
from giantstep.core.scenario.grid import Grid, scenario_at
from giantstep.tools.sweeps.inspect import entries, overview
from giantstep.tools.sweeps.store import Ask, name_points

from .faulty import COUNTS_THREADS, NO_NUMBER, SINGULAR, Faulty

GRID = {"dim": [10, 20], "level": [1, 3, 5], "offset": [0, 1]}


def network():
    step = gs.PlantedSpike(1.0, 1.0, 0.5)
    return gs.OneStep(
        activation="relu",
        target="tanh",
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.01,
        step=step,
    )


def test_it_returns_what_simulate_returns(store):
    expected = gs.simulate(Faulty(), trials=3, **GRID)
    for _ in range(2):  # computed, then read
        xarray.testing.assert_identical(
            gs.sweep(Faulty(), trials=3, store=store, **GRID), expected
        )
    kept = gs.simulate(Faulty(), trials=3, keep_trials=True, **GRID)
    xarray.testing.assert_identical(
        gs.sweep(Faulty(), trials=3, keep_trials=True, store=store, **GRID), kept
    )
    xarray.testing.assert_identical(gs.sweep(Faulty(), trials=3, **GRID), expected)


def test_it_returns_what_predict_returns(store, diary):
    expected = gs.predict(Faulty(), **GRID)
    assert diary() == ["limit of 12"]
    for _ in range(2):
        xarray.testing.assert_identical(
            gs.sweep(Faulty(), source="limit", store=store, **GRID), expected
        )
    assert diary() == ["limit of 12"]


def test_a_stored_limit_says_what_it_approximates(store):
    """Catches a sweep whose curves are not called approximate where those of `predict`
    are.
    """
    blocks = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
    s = gs.OneStep(
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        step=gs.MaximalStep(2.0, 9.0),
        inputs=blocks,
    )
    with pytest.warns(gs.GiantstepWarning):
        said = gs.predict(s).attrs["approximations"]
    for _ in range(2):  # computed, then read
        with pytest.warns(gs.GiantstepWarning):
            assert (
                gs.sweep(s, source="limit", store=store).attrs["approximations"] == said
            )


def test_limits_are_solved_in_batches_and_only_where_missing(store, diary):
    gs.sweep(Faulty(), {"offset": np.arange(600.0)}, source="limit", store=store)
    assert diary() == ["limit of 100", "limit of 250", "limit of 250"]
    gs.sweep(Faulty(), {"offset": np.arange(610.0)}, source="limit", store=store)
    assert diary() == ["limit of 10"]


@pytest.mark.filterwarnings("ignore:.*not (measured|solved)")
def test_failed_points_look_as_in_simulate_and_predict(store):
    for trouble in (SINGULAR, NO_NUMBER):
        faulty = Faulty(trouble=trouble, since=1)
        expected = gs.simulate(faulty, trials=3, **GRID)
        assert not expected["converged"].any()
        for _ in range(2):
            xarray.testing.assert_identical(
                gs.sweep(faulty, trials=3, store=store, **GRID), expected
            )
    expected = gs.predict(Faulty(), level=[1, 11, 3])
    assert expected["converged"].values.tolist() == [True, False, True]
    for _ in range(2):
        xarray.testing.assert_identical(
            gs.sweep(Faulty(), source="limit", store=store, level=[1, 11, 3]), expected
        )


def test_adding_trials_and_points_computes_only_what_is_missing(store, diary):
    first = gs.sweep(
        Faulty(),
        store=store,
        dim=10,
        trials=2,
        level=[1, 2],
        offset=[0, 1],
        keep_trials=True,
    )
    assert len(diary()) == 4  # a draw for each level and trial, for both offsets
    grown = gs.sweep(
        Faulty(),
        store=store,
        dim=10,
        trials=3,
        level=[1, 2, 3],
        offset=[0, 1, 2],
        keep_trials=True,
    )
    assert diary() == [
        "trial 0 level 1 offsets [2.0]",
        "trial 0 level 2 offsets [2.0]",
        "trial 0 level 3 offsets [0.0, 1.0, 2.0]",
        "trial 1 level 1 offsets [2.0]",
        "trial 1 level 2 offsets [2.0]",
        "trial 1 level 3 offsets [0.0, 1.0, 2.0]",
        "trial 2 level 1 offsets [0.0, 1.0, 2.0]",
        "trial 2 level 2 offsets [0.0, 1.0, 2.0]",
        "trial 2 level 3 offsets [0.0, 1.0, 2.0]",
    ]
    inside = grown["mean"].sel(level=[1, 2], offset=[0, 1], trial=[0, 1])
    np.testing.assert_array_equal(inside, first["mean"])
    whole = gs.simulate(
        Faulty(), dim=10, trials=3, level=[1, 2, 3], offset=[0, 1, 2], keep_trials=True
    )
    xarray.testing.assert_identical(grown, whole)


def test_fewer_points_and_trials_are_read(store, diary):
    gs.sweep(Faulty(), store=store, trials=3, **GRID)
    diary()
    some = gs.sweep(Faulty(), store=store, trials=2, dim=20, offset=1.0, level=[5, 1])
    assert diary() == []
    xarray.testing.assert_identical(
        some, gs.simulate(Faulty(), trials=2, dim=20, offset=1.0, level=[5, 1])
    )


def test_a_point_has_the_same_mean_alone_and_in_a_grid(store):
    levels = [1, 2, 3, 4, 5, 6]
    many = gs.sweep(
        Faulty(), store=store, dim=10, trials=20, level=levels, offset=[0.0, 0.1]
    )
    for place, level in enumerate(
        levels
    ):  # sums in pairs differ from sums in order at four of them
        alone = gs.sweep(
            Faulty(), store=store, dim=10, trials=20, level=level, offset=0.1
        )
        for name in ("mean", "mean_stderr"):
            assert float(alone[name]) == float(many[name][place, 1])


def test_a_point_twice_in_a_grid_is_computed_once(store, diary):
    result = gs.sweep(
        Faulty(), store=store, dim=10, trials=1, level=[1, 1], offset=[0, 0, 1]
    )
    assert diary() == ["trial 0 level 1 offsets [0.0, 1.0]"]
    xarray.testing.assert_identical(
        result, gs.simulate(Faulty(), dim=10, trials=1, level=[1, 1], offset=[0, 0, 1])
    )


def test_settings_that_matter_make_other_results(store, diary, monkeypatch):
    def run(**settings):
        gs.sweep(Faulty(), store=store, **{"dim": 10, "trials": 1, **settings})
        return len(diary())

    assert run() == 1
    assert run(engine="local", threads=1, keep_trials=True, progress=False) == 0
    assert [run(seed=1), run(paired=True), run(dim=11), run(level=2)] == [1, 1, 1, 1]
    assert [run(source="limit", trials=1), run(source="limit", tolerance=1e-9)] == [
        1,
        1,
    ]
    monkeypatch.setattr(Faulty, "formula_version", 2)
    assert run() == 1
    assert sum(line["results"] for line in overview(store)) == 8


def test_names_of_points_come_from_what_their_scenario_would_say():
    grid = Grid(
        Faulty(),
        {
            "level": [1, 2.5],
            "trouble": [0, 3],
            "pause": [0.0, 1e-3],
            "shape": ["relu", "tanh"],
        },
        dim=7,
    )
    ask = Ask("faulty", "mean", "experiment", 1, {})
    for batch in grid.batches():
        for place, point in enumerate(name_points(ask, batch.scenario, batch.points)):
            (alone,) = name_points(
                ask,
                scenario_at(batch.scenario, batch.points, place),
                {
                    name: values[place : place + 1]
                    for name, values in batch.points.items()
                },
            )
            assert point == alone


def test_a_store_of_another_order_or_engine_is_the_same(tmp_path):
    stores = [tmp_path / "a.db", tmp_path / "b.db"]
    gs.sweep(Faulty(), store=stores[0], trials=2, **GRID)
    gs.sweep(
        Faulty(),
        store=stores[1],
        trials=2,
        workers=2,
        dim=[20, 10],
        offset=[1, 0],
        level=[5, 3, 1],
    )
    first, second = (
        {e.point.digest: [r.values["mean"] for r in e.rows] for e in entries(s)}
        for s in stores
    )
    assert first == second and len(first) == 12


def test_real_networks_are_the_same_to_rounding_where_points_of_a_draw_are_added(store):
    s = network()
    few = [0.5, 2.0, 3.0]
    many = [0.5, 1.0, 1.7, 2.0, 2.4, 3.0]
    before = gs.sweep(s, store=store, dim=60, trials=2, samples_per_dim=few)
    after = gs.sweep(s, store=store, dim=60, trials=2, samples_per_dim=many)
    whole = gs.simulate(s, dim=60, trials=2, samples_per_dim=many)
    for name in ("test_error", "train_error", "norm"):
        # no stored number changes
        np.testing.assert_array_equal(
            after[name].sel(samples_per_dim=few), before[name]
        )
        np.testing.assert_allclose(after[name], whole[name], rtol=1e-10)


def test_one_worker_and_two_give_the_same_bits(tmp_path):
    settings = {
        "dim": 40,
        "trials": 2,
        "samples_per_dim": [1.0, 2.0],
        "step__alignment": [0.2, 0.7],
        "threads": 1,
    }
    here = gs.sweep(network(), engine="local", store=tmp_path / "here.db", **settings)
    for workers in (1, 2):
        there = gs.sweep(
            network(),
            engine="processes",
            workers=workers,
            store=tmp_path / f"{workers}.db",
            **settings,
        )
        xarray.testing.assert_identical(there, here)


def test_one_blas_thread_and_two_agree_to_rounding(tmp_path, monkeypatch):
    # or small matrices would all run on one thread
    monkeypatch.setattr("giantstep.core.lab.threads.SMALL", 0)
    monkeypatch.setattr(
        "giantstep.core.run.trials.TrialDraw.run",
        counting(seen := [], trials.TrialDraw.run),
    )
    settings = {
        "dim": 150,
        "trials": 2,
        "samples_per_dim": [0.7, 2.0],
        "keep_trials": True,
    }
    found = {}
    for threads in (1, 2):
        found[threads] = gs.sweep(
            network(), threads=threads, store=tmp_path / f"{threads}.db", **settings
        )
        assert set(seen) == {threads}  # they are really in use
        seen.clear()
    for name in ("test_error", "train_error", "norm"):
        np.testing.assert_allclose(found[1][name], found[2][name], rtol=1e-10)


def counting(seen, run):
    """Return `run`, which first notes how many BLAS threads there are."""
    from threadpoolctl import threadpool_info

    def noted(self, *args):
        seen.extend(
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        )
        return run(self, *args)

    return noted


def test_threads_of_this_process_are_left_as_they_were():
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return [
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ]

    with threadpool_limits(2, "blas"):
        before = threads()
        gs.sweep(network(), threads=1, dim=20, trials=2)
        assert threads() == before


def test_gpu_workers_take_a_device_each(monkeypatch):
    from types import SimpleNamespace

    from giantstep.tools.sweeps.backends import worker_device

    runtime = SimpleNamespace(getDeviceCount=lambda: 2)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(
        "giantstep.tools.sweeps.backends.namespace", lambda device: cupy
    )
    assert [worker_device("cuda", slot) for slot in (0, 1, 2)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]
    assert worker_device("cuda:1", 0) == "cuda:1" and worker_device("cpu", 3) == "cpu"
    assert worker_device("cuda", None) == "cuda"


def test_workers_share_the_cores():
    from threadpoolctl import threadpool_limits

    from giantstep.tools.sweeps.verb import BackendOptions

    def threads(**options):
        empty = dict.fromkeys(
            ("engine", "workers", "scheduler", "threads", "memory", "time_limit")
        )
        return BackendOptions.from_input(**{**empty, **options}).orders.threads

    with threadpool_limits(2, "blas"):
        assert threads(engine="processes", workers=1) == 2
        assert (
            threads(engine="processes", workers=2)
            == threads(engine="processes", workers=5)
            == 1
        )
        assert threads(engine="processes", workers=2, threads=3) == 3
        assert threads() is None  # this process keeps what it has
        assert threads(scheduler="tcp://127.0.0.1:1") == 1


def test_workers_have_the_threads_they_are_told(diary, monkeypatch):
    # smaller trials take one thread anyway
    monkeypatch.setattr(Faulty, "memory", lambda *args: 2.0 * SMALL)
    counts = {"dim": 10, "trials": 2, "trouble": COUNTS_THREADS}
    for threads in (1, 2):
        gs.sweep(Faulty(), engine="processes", workers=1, threads=threads, **counts)
        assert [line for line in diary() if "threads" in line] == [
            f"threads [{threads}]"
        ] * 2


def test_a_spectrum_comes_back_with_its_abscissae(store):
    s = network()
    for source, verb in (("limit", gs.predict), ("experiment", gs.simulate)):
        settings = {
            "what": "spectrum",
            "samples_per_dim": [1.0, 2.0],
            "x": np.linspace(0.1, 4, 12),
            "dim": 40,
        }
        settings |= {"trials": 2} if source == "experiment" else {}
        expected = verb(s, **settings)
        for _ in range(2):
            swept = gs.sweep(s, source=source, store=store, **settings)
            if source == "experiment":
                xarray.testing.assert_identical(swept, expected)
            # its points are solved one by one: the last digit may differ from that of
            # both together
            else:
                xarray.testing.assert_allclose(swept, expected, rtol=1e-11, atol=1e-13)
                assert swept.attrs == expected.attrs
    complex_points = {"what": "resolvent", "z": [1 + 1j, 2 + 0.5j], "dim": 40}
    for _ in range(2):
        found = gs.sweep(s, source="limit", store=store, **complex_points)
        xarray.testing.assert_identical(found, gs.predict(s, **complex_points))


def test_settings_of_a_sweep_collide_with_no_field():
    import inspect

    from giantstep.core.scenario.families import SHIPPED, family_class
    from giantstep.tools.sweeps.verb import sweep

    own = set(inspect.signature(sweep).parameters) - {
        "scenario",
        "grid",
        "dim",
        "fields",
    }
    for family in SHIPPED:
        scenario = family_class(family)
        assert not own & set(scenario.model_fields), family
        for question in scenario.questions.values():
            assert not own & set(question.settings), family
