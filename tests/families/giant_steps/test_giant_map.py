"""The exact map of giant steps: reference values, invariances, limits, and what is
refused.
"""

import math

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.giant_steps.limit import lower_bound
from giantstep.problems.giant_steps.overlap_map import private_averages

EX1 = "(4*z1 + z1**2 + z2)/2"
EX2 = "(z1 + z1**2 + z2 - z2**2)/2"
PAIR = "(h4(z1)/24 + h2(z1)/2 + z1 + h4(z2)/24 + h2(z2)/2 + z2)/2"

# gradient_dynamics section 5.3: cosines of the step with w*_1, w*_2 for a = +1, then
# a = -1; squared norms after it
REFERENCE = {
    EX1: [
        ((0.52688, 0.13172, -0.52688, -0.13172), (16.20704, 14.61127)),
        ((0.46480, 0.08625, -0.17372, -0.08468), (30.19617, 16.57246)),
        ((0.34062, 0.04340, -0.03552, -0.05915), (38.30002, 17.03655)),
        ((0.24357664, 0.01541848, 0.03606100, -0.04642991), (42.77799827, 17.23079381)),
    ],
    EX2: [
        ((0.26726, 0.26726, -0.26726, -0.26726), (4.5, 4.5)),
        ((0.23182, 0.03278, -0.03278, -0.23182), (7.07074, 7.07074)),
        ((0.18504, -0.02086, 0.02086, -0.18504), (9.29642, 9.29642)),
        (
            (0.14728102, -0.04270582, 0.04270582, -0.14728102),
            (11.21446392, 11.21446392),
        ),
    ],
}


def network(target=EX2, **fields):
    known = {
        "rate": 2.0,
        "batch_per_dim": 1.0,
        "second_layer": gs.Vocabulary([1, -1]),
        "steps": 4,
    }
    return gs.GiantSteps(target=target, **{**known, **fields})


@pytest.mark.parametrize("target", [EX1, EX2])
def test_reference_values(target):
    found = gs.predict(network(target))
    for time, (cosines, norms) in enumerate(REFERENCE[target]):
        digits = 5e-9 if time == 3 else 5.1e-6
        np.testing.assert_allclose(
            found.gradient_cosine.values[time].ravel(), cosines, atol=digits
        )
        np.testing.assert_allclose(found.norm.values[time + 1], norms, atol=digits)
    assert float(found.residual) < 1e-7


def test_dropping_the_pair_noise_would_be_seen():
    """Where R' misses chi/alpha (n of order d taken for n >> d), the second step is off
    by more than a tenth.
    """
    wrong = gs.predict(network(EX1, batch_exponent=1.5))
    assert abs(float(wrong.gradient_cosine[1, 0, 0]) - 0.46480) > 0.05


@pytest.mark.parametrize(("rate", "slope"), [(1.0, 0.332), (2.0, -0.132)])
def test_slope_of_the_second_step_on_the_population(rate, slope):
    found = gs.predict(network(EX2, batch_per_dim=gs.inf, rate=rate, steps=2))
    first, second = found.gradient_cosine.values[1, 0]
    assert second / first == pytest.approx(slope, abs=6e-4)
    large = gs.predict(
        network(EX2, batch_per_dim=3.0, batch_exponent=1.4, rate=rate, steps=2)
    )
    np.testing.assert_allclose(large.M, found.M, rtol=1e-12)


def test_finite_width_tends_to_infinite_width():
    limit = gs.predict(network(EX1, steps=3))
    gaps = []
    for width in (100, 400):
        found = gs.predict(network(EX1, width=width, steps=3))
        gaps.append(float(np.max(np.abs(found.M - limit.M))))
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.05)


def test_a_list_is_the_network_of_its_values():
    listed = gs.predict(network(second_layer=[1.0, -1.0, 1.0, -1.0]))
    law = gs.predict(network(width=4))
    np.testing.assert_allclose(listed.cosine, law.cosine, rtol=1e-12)
    turned = gs.predict(network(second_layer=[-1.0, 1.0, -1.0, 1.0]))
    np.testing.assert_allclose(turned.cosine[:, ::-1], listed.cosine, atol=1e-10)


def test_equal_blocks_may_be_split():
    """Two blocks with the same value are one block, at infinite and at finite width."""
    for width in (gs.inf, 8):
        one = gs.predict(network(EX1, width=width, steps=2))
        split = gs.predict(
            network(
                EX1,
                width=width,
                steps=2,
                second_layer=gs.Vocabulary([1, 1, -1], [0.25, 0.25, 0.5]),
            )
        )
        np.testing.assert_allclose(split.M.values[:, [0, 2]], one.M, atol=1e-7)
        np.testing.assert_allclose(
            split.M.values[:, 1], split.M.values[:, 0], atol=1e-9
        )


def test_turning_the_target_turns_the_overlaps():
    c = math.cos(0.7)
    s = math.sin(0.7)
    u = f"({c!r}*z1 + {s!r}*z2)"
    v = f"({-s!r}*z1 + {c!r}*z2)"
    turned = gs.predict(network(f"{u} + {u}*{v}", steps=3))
    plain = gs.predict(network("z1 + z1*z2", steps=3))
    np.testing.assert_allclose(
        turned.M, plain.M.values @ np.array([[c, s], [-s, c]]), atol=1e-6
    )
    np.testing.assert_allclose(turned.norm, plain.norm, atol=1e-6)


def test_an_even_target_stays_at_zero_and_tanh_never_finds_z2():
    assert float(np.max(np.abs(gs.predict(network("z1*z2")).cosine))) < 1e-12
    found = gs.predict(network("z1 + z1*z2", activation="tanh", steps=4))
    assert (
        float(np.max(np.abs(found.cosine[..., 1])))
        < 1e-9
        < float(found.cosine[1, 0, 0])
    )


@pytest.mark.parametrize(
    "activation", ["tanh", "abs", "leaky_relu(z, 0.2)", "softplus"]
)
def test_averages_over_the_private_part(activation):
    u = np.linspace(-2, 2, 9)
    found = private_averages(gs.Function(activation), u, 0.8)
    e = np.linspace(-10, 10, 2_000_001)
    weights = np.exp(-0.5 * e * e)
    weights /= weights.sum()
    f = gs.Function(activation)
    for place in (0, 4, 7):
        at = u[place] + 0.8 * e
        s = f(at)
        slope = f.derivative(at)
        x = s - weights @ s
        expected = {
            "S": weights @ s,
            "V": weights @ x**2,
            "D": weights @ slope,
            "De": weights @ (slope * e),
        }
        expected |= {
            "XD": weights @ (x * slope),
            "XXDD": weights @ (x**2 * slope**2),
            "XDe": weights @ (x * slope * e),
        }
        for name, value in expected.items():
            assert getattr(found, name)[place] == pytest.approx(value, abs=2e-6), name


def test_closed_averages_of_relu_are_those_of_quadrature():
    u = np.linspace(-3, 3, 31)
    closed = private_averages(gs.Function("relu"), u, 0.6)
    tabulated = private_averages(gs.Function("relu(z) + 0*tanh(z)"), u, 0.6)
    for name in ("S", "V", "D", "De", "Se", "DD", "XD", "XDe", "XXD", "XDD", "XXDD"):
        np.testing.assert_allclose(
            getattr(closed, name), getattr(tabulated, name), atol=1e-7, err_msg=name
        )


# -- one step: orientations ------------------------------------------------------------


def test_first_gradient_at_order_one():
    s = network("tanh(z1) + z1*z2", noise=0.25)
    found = gs.predict(
        s, what="specialisation", labels="raw", batch_per_dim=[0.25, 1, 4]
    )
    np.testing.assert_allclose(
        np.sqrt(found.alignment), [0.164723, 0.316804, 0.555477], atol=6e-7
    )
    np.testing.assert_allclose(found.spike, [0.229855, 0.427107, 0.686728], atol=6e-7)


def test_first_gradient_at_order_two():
    s = network("z1*z2", batch_exponent=2)
    found = gs.predict(s, what="specialisation", labels="raw", batch_per_dim=[0.5, 2.0])
    np.testing.assert_allclose(found.alignment, [0.207127, 0.450604], atol=6e-7)
    np.testing.assert_allclose(found.specialised, 2.0, atol=1e-9)


def test_lower_parts_dominate_raw_labels_and_are_gone_from_cleaned_ones():
    s = network("z1 + z2*z3", batch_exponent=2, batch_per_dim=1.0)
    raw, cleaned = (
        gs.predict(s, what="specialisation", labels=labels)
        for labels in ("raw", "cleaned")
    )
    np.testing.assert_allclose(raw.alignment_by_direction, [1, 0, 0], atol=1e-9)
    assert (
        float(cleaned.alignment_by_direction[0])
        < 1e-12
        < float(cleaned.alignment_by_direction[1])
    )
    linear = gs.predict(network("z1 + z2*z3"), what="specialisation")
    assert float(linear.specialised) == pytest.approx(1.0)


@pytest.mark.parametrize("labels", ["raw", "cleaned"])
def test_orientation_at_a_dimension_tends_to_the_limit_like_one_over_d(labels):
    s = network(
        "z1*z2 + z3/2",
        activation="relu",
        batch_exponent=2,
        batch_per_dim=1.0,
        noise=0.1,
    )
    asked = {"what": "specialisation", "labels": labels}
    limit = gs.predict(s, **asked).alignment_by_direction.values
    gaps = [
        d * (gs.predict(s, dim=d, **asked).alignment_by_direction.values - limit)
        for d in (1e4, 1e5)
    ]
    np.testing.assert_allclose(*gaps, rtol=0.02, atol=2e-3)
    assert np.all(np.abs(gaps[1]) > 0.05)


def test_a_dimension_too_small_for_its_terms_is_flagged_and_its_neighbours_are_not():
    s = network("z1*z2*z3", activation="tanh", batch_exponent=3, batch_per_dim=1.0)
    with pytest.warns(
        gs.GiantstepWarning, match="too small for the terms of order 1/d"
    ):
        found = gs.predict(s, what="specialisation", labels="raw", dim=[5, 200])
    assert np.isnan(found.alignment[0]) and 0.28 < float(found.alignment[1]) < 0.35
    assert found.converged.values.tolist() == [False, True]


def test_orientation_at_a_dimension_turns_with_the_target_and_ignores_the_size_of_the_activation():
    asked = {"what": "specialisation", "labels": "raw", "dim": 40}
    s = network(
        "z1*z2 + z1", activation="relu", batch_exponent=1, batch_per_dim=2.0, noise=0.1
    )
    turned = s.replace(target="(z1**2 - z2**2)/2 + (z1 + z2)/sqrt(2)")
    large = s.replace(activation="3*relu(z)")
    found, *others = (gs.predict(one, **asked) for one in (s, turned, large))
    for other in others:
        assert float(other.alignment) == pytest.approx(float(found.alignment), rel=1e-9)
        assert float(other.specialised) == pytest.approx(
            float(found.specialised), rel=1e-9
        )
    np.testing.assert_allclose(
        others[1].alignment_by_direction, found.alignment_by_direction, rtol=1e-9
    )


# -- errors and bounds -----------------------------------------------------------------


def test_bounds_have_the_reference_values():
    none = np.zeros((0, 2))
    diagonal = np.array([[1.0, 1.0]]) / math.sqrt(2)
    assert lower_bound(gs.Target(PAIR), none, 1) == pytest.approx(0.2708333, abs=5e-8)
    assert lower_bound(gs.Target(EX2), none, 1) == pytest.approx(1.0, abs=1e-12)
    assert lower_bound(gs.Target(EX2), diagonal, 1) == pytest.approx(0.0, abs=1e-10)
    assert lower_bound(gs.Target("z1 + z2*z3"), np.eye(3)[:1], 1) == pytest.approx(
        1.0, abs=1e-12
    )
    assert lower_bound(gs.Target("z1 + z2*z3"), np.eye(3)[:1], 2) == pytest.approx(
        0.0, abs=1e-10
    )


def test_bounds_of_a_target_with_jumps():
    assert lower_bound(gs.Target("sign(z1*z2)"), np.eye(2)[:1], 1) == pytest.approx(
        1 - 2 / math.pi, abs=1e-9
    )


def test_errors_fall_with_the_steps_and_the_staircase_lifts_the_bound():
    found = gs.predict(
        network(EX2, noise=0.1, rate=1.0, batch_per_dim=8.0, width=20, steps=3),
        what="errors",
    )
    assert np.all(np.diff(found.test_error) < 0)
    np.testing.assert_allclose(found.lower_bound, [1.1, 0.1, 0.1, 0.1], atol=1e-6)
    np.testing.assert_array_equal(found.learned, [0, 1, 2, 2])
    assert float(found.kernel_bound) == pytest.approx(1.1)


# -- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"second_layer": [1.0, -1.0, 1.0], "width": 4}, "width.*3"),
        ({"width": 1}, "width.*at least 2"),
        ({"width": 2.5}, "width.*whole"),
        ({"second_layer": []}, "second_layer"),
        ({"second_layer": [0.0, 0.0]}, "second_layer.*zero"),
        ({"second_layer": "gaussian"}, "second_layer"),
        ({"activation": "sign"}, "activation.*jumps"),
        ({"rate": 0.0}, "rate"),
        ({"batch_per_dim": 0.0}, "batch_per_dim"),
        ({"batch_exponent": 0.5}, "batch_exponent"),
        ({"steps": 0}, "steps"),
        ({"target": "z1*z8"}, "target.*at most 6"),
    ],
)
def test_bad_fields_are_one_sentence(fields, words):
    with pytest.raises(gs.InputError, match=words) as caught:
        network(**fields)
    assert "\n" not in str(caught.value)


def test_grids_are_checked_before_anything_runs():
    with pytest.raises(gs.InputError, match="width"):
        gs.predict(network(second_layer=[1.0, -1.0]), width=[2, 3])
    with pytest.raises(gs.InputError, match="batch_exponent.*whole"):
        gs.predict(network(), what="specialisation", batch_exponent=[1.0, 1.5])
    with pytest.raises(gs.InputError, match="`width` must be finite"):
        gs.simulate(network(), dim=50)
    with pytest.raises(gs.InputError, match="finite `batch_per_dim`"):
        gs.simulate(network(width=4, batch_per_dim=gs.inf), dim=50)
    with pytest.raises(gs.InputError, match="dim"):
        gs.simulate(network(width=4), dim=2)


def test_divergence_is_reported_where_it_happens():
    steep = gs.GiantSteps(
        target="h3(z)", activation="h3", rate=3.0, batch_per_dim=4.0, steps=4, width=4
    )
    with pytest.warns(gs.GiantstepWarning, match="diverged in step 2"):
        found = gs.predict(steep, rate=[0.01, 3.0])
    assert found.converged.values.tolist() == [True, False]
    assert not np.any(np.isnan(found.norm.values[0]))
    assert np.all(np.isnan(found.norm.values[1, 2:])) and not np.any(
        np.isnan(found.norm.values[1, :2])
    )
    with pytest.warns(gs.GiantstepWarning, match="step 2"):
        measured = gs.simulate(steep, dim=50, trials=2)
    assert not bool(measured.converged)
