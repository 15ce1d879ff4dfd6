"""A stand-in for CuPy: NumPy under another name, whose arrays refuse to meet
NumPy's.
"""

import contextlib
import sys
import types

import numpy as np
import pytest
import scipy.linalg
import scipy.special


def _bare(value):
    if isinstance(value, FakeArray):
        return value.view(np.ndarray)
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a NumPy array was handed to the device")
    if isinstance(value, tuple | list):
        return type(value)(_bare(item) for item in value)
    return value


def _wrapped(value):
    if isinstance(value, np.ndarray):
        return value.view(FakeArray)
    if isinstance(value, tuple):
        return tuple(_wrapped(item) for item in value)
    return value


class FakeArray(np.ndarray):
    """An array "on the device": it mixes with scalars and its own kind only."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if out is not None:
            options["out"] = tuple(_bare(item) for item in out)
        result = getattr(ufunc, method)(*_bare(inputs), **options)
        return out[0] if out is not None else _wrapped(result)

    def __array_function__(self, function, types, arguments, options):
        if function in (np.shape, np.ndim):
            return function(*_bare(arguments))
        raise TypeError(
            f"numpy.{function.__name__} was called on an array of the device"
        )

    def get(self):
        return np.array(self.view(np.ndarray))


FakeArray.__module__ = "cupy"


def _lifted(function, calls, name):
    def call(*arguments, **options):
        calls.append(name)
        out = options.get("out")
        if name not in ("asarray", "array"):
            arguments = _bare(arguments)
            options = {key: _bare(value) for key, value in options.items()}
        result = _wrapped(function(*arguments, **options))
        return out if out is not None else result

    return call


class _Namespace(types.ModuleType):
    def __init__(self, name, source, calls, **extra):
        super().__init__(name)
        self.source = source
        self.calls = calls
        self.__dict__.update(extra)

    def __getattr__(self, name):
        value = getattr(self.source, name)
        if callable(value) and not isinstance(value, type):
            return _lifted(value, self.calls, name)
        return value


class _Generator:
    def __init__(self, bits):
        self.bits = bits

    def standard_normal(self, size=None, dtype=np.float64, out=None):
        values = self.bits.standard_normal(size)
        if out is None:
            return _wrapped(values)
        out[...] = _wrapped(values)
        return out


@pytest.fixture
def fake_cupy(monkeypatch):
    """Install the stand-in as `cupy` and `cupyx`; ``.calls`` lists the functions it was
    asked for.
    """
    calls = []
    random = types.SimpleNamespace(
        Philox4x3210=lambda seed: np.random.default_rng(seed), Generator=_Generator
    )
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        memGetInfo=lambda: (2**30, 2**31),
        CUDARuntimeError=RuntimeError,
    )
    device = types.SimpleNamespace(use=lambda: None)
    stream = types.SimpleNamespace(synchronize=lambda: calls.append("synchronize"))
    cuda = types.SimpleNamespace(
        runtime=runtime, Device=lambda index: device, get_current_stream=lambda: stream
    )
    linalg = _Namespace("cupy.linalg", np.linalg, calls)
    cupy = _Namespace("cupy", np, calls, linalg=linalg, random=random, cuda=cuda)
    modules = {
        "cupy": cupy,
        "cupyx": types.SimpleNamespace(
            errstate=lambda linalg: contextlib.nullcontext()
        ),
        "cupyx.scipy": types.ModuleType("cupyx.scipy"),
        "cupyx.scipy.linalg": _Namespace("cupyx.scipy.linalg", scipy.linalg, calls),
        "cupyx.scipy.special": _Namespace("cupyx.scipy.special", scipy.special, calls),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return cupy
