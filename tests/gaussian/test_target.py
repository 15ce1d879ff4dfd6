"""Targets: values, planes, identity, and what is refused."""

import pickle

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import Plane, as_target


def test_values_and_gradient():
    h = gs.Target("z1*z2**2 + relu(z3)")
    z = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 2.0]])
    np.testing.assert_allclose(h(z), [4.0, 2.5])
    np.testing.assert_allclose(h.gradient(z), [[4.0, 4.0, 0.0], [1.0, -1.0, 1.0]])
    assert h(z[None]).shape == (1, 2)


@pytest.mark.parametrize(
    ("source", "normals", "complete"),
    [
        ("sign(z1*z2)", [(0.0, 1.0), (1.0, 0.0)], True),
        ("relu(3*z1 - 4*z2 + 5)", [(0.6, -0.8)], True),
        ("maximum(z1, z2)", [(0.70710678118655, -0.70710678118655)], True),
        ("sign(z1**2 - 1)", [(1.0,), (1.0,)], True),
        ("abs(z1**2 - z2)", [], False),
        ("z1*z2", [], True),
    ],
)
def test_planes_where_it_is_not_smooth(source, normals, complete):
    h = gs.Target(source)
    assert [plane.normal for plane in h.planes] == normals
    assert h.all_planes is complete
    for (
        plane
    ) in h.planes:  # the function bends or jumps across the plane, and not beside it
        base = -plane.offset * np.array(plane.normal) + 0.37 * _along(plane)
        step = 1e-4 * np.array(plane.normal)
        bend = h(base + step) - 2 * h(base) + h(base - step)
        jump = h(base + step) - h(base - step)
        assert max(abs(bend), abs(jump) if abs(jump) > 0.1 else 0.0) > 1e-5


def _along(plane):
    if len(plane.normal) == 1:
        return np.zeros(1)
    other = np.array([-plane.normal[1], plane.normal[0]])
    return other


@pytest.mark.parametrize(
    ("source", "degree", "axis"),
    [("h3(z1)*z2", 4, 3), ("(z1 + z2)**2", 2, 2), ("tanh(z1)", None, None)],
)
def test_degrees(source, degree, axis):
    h = gs.Target(source)
    assert (h.degree, h.axis_degree) == (degree, axis)


def test_identity_and_pickling():
    h = gs.Target("z1*z2 + 0")
    assert (
        h == gs.Target("z1*z2")
        and hash(h) == hash(gs.Target("z1*z2"))
        and h != gs.Target("z1 + z2")
    )
    assert pickle.loads(pickle.dumps(h)) == h
    assert as_target(h) is h
    assert gs.Target(gs.Function("relu")).planes == (Plane((1.0,), 0.0),)
    one = gs.Target(lambda z: z[..., 0] ** 2)
    assert one == gs.Target(lambda z: z[..., 0] * z[..., 0]) and one.expression is None
    with pytest.raises(AttributeError):
        h.name = "other"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("z1*z9",), "at most 6"),
        ((lambda z: z, 2), "shape"),
        ((lambda z: 1 / 0, 1), "raised"),
        (("z1*z2", 1), "at least 2"),
        (("z1", 7), "directions"),
        ((4,), "must be a name"),
    ],
)
def test_bad_targets(arguments, words):
    source, *directions = arguments
    with pytest.raises(gs.InputError, match=words):
        gs.Target(source, directions=directions[0] if directions else None)


@pytest.mark.parametrize(
    "kinks", [[np.inf], [([1.0], 0.0)], [([0.0, 0.0], 1.0)], ["x"]]
)
def test_bad_kinks(kinks):
    with pytest.raises(gs.InputError, match="kinks"):
        gs.Target(lambda z: z[..., 0] * z[..., 1], directions=2, kinks=kinks)
