import numpy as np
import pytest

from giantstep import OneStep, SmallStep
from giantstep.core.base.errors import InputError
from giantstep.core.lab import (
    Draws,
    array_module,
    available_memory,
    check_memory,
    namespace,
    ridge_path,
    synchronize,
    to_numpy,
)
from giantstep.core.lab.devices import device_index
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.network.steps import MaximalStep, PlantedSpike


def test_cpu_is_numpy():
    assert namespace("cpu") is np
    assert array_module(np.zeros(2)) is np
    assert to_numpy(np.ones(2)).tolist() == [1, 1]
    synchronize(np)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", 0, None])
def test_unknown_devices_are_refused(device):
    with pytest.raises(InputError, match="Field `device` must be"):
        namespace(device)


def test_missing_cupy_is_one_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(
        InputError, match=r"Field `device` must be .*CuPy is not installed"
    ):
        Draws(0, "point", 0, "cuda")


def test_missing_gpu_is_one_sentence(fake_cupy):
    with pytest.raises(InputError, match=r"Field `device` must be .*1 CUDA devices"):
        namespace("cuda:1")


def test_a_twin_of_numpy_takes_its_place(fake_cupy):
    draws = Draws(0, "point", 0, "cuda")
    assert draws.xp is fake_cupy
    assert available_memory("cuda") == 2**30
    with pytest.raises(
        InputError, match="2 GiB of memory, but device 'cuda' has 1 GiB"
    ):
        check_memory(2 * 2**30, "cuda")
    synchronize(fake_cupy)
    assert "synchronize" in fake_cupy.calls
    with pytest.raises(TypeError):
        draws.normal("x", 3) + np.ones(3)
    with pytest.raises(TypeError):
        np.linalg.norm(draws.normal("x", 3))


def test_ridge_path_is_the_same_on_the_twin(fake_cupy):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((90, 30))
    labels = rng.standard_normal(90)
    features[:, 3] = features[:, 4]
    sizes = np.array([10, 20, 20, 50, 90, 90])
    penalties = np.array([0.0, 0.1, 0.0, 0.1, 0.0, 2.0])
    expected, train = ridge_path([(features, labels)], 30, sizes, penalties, np)
    blocks = [(fake_cupy.asarray(features), fake_cupy.asarray(labels))]
    found, also = ridge_path(blocks, 30, sizes, penalties, fake_cupy)
    assert array_module(found) is fake_cupy
    np.testing.assert_allclose(to_numpy(found), expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(also, train, rtol=1e-10, atol=1e-14)


STEPS = [PlantedSpike(1.0, 1.0, 0.5), MaximalStep(1.0), MaximalStep(1.0, 2.0)]


@pytest.mark.parametrize(
    ("step", "what"),
    [(step, what) for step in STEPS for what in ("errors", "spectrum", "resolvent")]
    + [(SmallStep(2.0, 2.0), what) for what in ("weights", "spikes")],
)
def test_the_whole_experiment_uses_its_namespace_only(fake_cupy, step, what):
    scenario = OneStep(
        activation="relu",
        target="tanh",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer=Vocabulary([1, -1], [0.7, 0.3]),
        step=step,
    )
    points = {
        name: np.repeat(value, 3)
        for name, (value, _) in scenario.numeric_fields().items()
    }
    points["samples_per_dim"] = np.array([0.5, 2.0, 2.0])
    points["ridge"] = np.array([0.1, 0.1, 0.0])
    settings = {
        "x": np.linspace(0.1, 2, 5),
        "z": np.array([1 + 1j, -1]),
        "degree": np.arange(5),
        "test_samples": 500,
    }

    class SameNumbers(Draws):
        def normal(self, stream, shape, out=None):
            values = self.xp.asarray(cpu.normal(stream, shape))
            if out is None:
                return values
            out[...] = values
            return out

        def anew(self):
            nonlocal cpu
            cpu = Draws(0, "point", 0)
            return self

    cpu = Draws(0, "point", 0)
    settings = scenario.prepare({**points, "dim": np.full(3, np.inf)}, what, settings)
    found = scenario.trial(
        points, what, 30, SameNumbers(0, "point", 0, "cuda"), settings
    )
    expected = scenario.trial(points, what, 30, Draws(0, "point", 0), settings)
    assert "matmul" in fake_cupy.calls
    assert found.keys() == expected.keys()
    for name in expected:
        assert type(found[name]) is np.ndarray
        np.testing.assert_allclose(
            found[name], expected[name], rtol=1e-7, atol=1e-9, err_msg=name
        )


def test_the_number_of_a_device():
    assert [device_index(device) for device in ("cpu", "cuda", "cuda:1")] == [
        None,
        0,
        1,
    ]
