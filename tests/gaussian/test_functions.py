import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from giantstep.core.base.errors import GiantstepWarning, InputError
from giantstep.core.maths.gaussian import (
    Function,
    Moments,
    as_function,
    expectation,
    normal_density,
)
from giantstep.core.maths.gaussian.hermite import root_factorials
from giantstep.core.maths.gaussian.quadrature import trapezoid_rule

NAMED = [
    "relu",
    "tanh",
    "linear",
    "leaky_relu",
    "erf",
    "sign",
    "sigmoid",
    "gelu",
    "softplus",
    "swish",
    "sin",
    "cos",
    "abs",
    "exp",
    "h2",
    "h3",
]
WRAPPED = [
    "relu(z) - 1/sqrt(2*pi)",
    "tanh(2*(z - 2))",
    "erf(z/sqrt(2))",
    "sin(3*z)",
    "2 - 3*sign(1 - 2*z)",
    "abs(0.5 - z)/2 + z",
    "2*leaky_relu(1 - 3*z, 0.3) - z",
    "softplus(-2*z)",
    "cos(z - 1)",
    "exp(-z/2)",
    "h1(z) + h2(z)/sqrt(2)",
    "(z - 1)**3 - z**4/10",
]
GENERAL = [
    "tanh(z)*relu(z - 0.5)",
    "relu(z)**2",
    "max(z, 0.3)*sin(z)",
    "z*tanh(10*z)",
    "sqrt(abs(z))",
    "log(abs(z) + 0.1)",
    "sign(z**3 - z)",
    "exp(-z**2)",
    "z**6*tanh(z)",
    "relu(z) - relu(z - 1)",
]
POINTS = [(0.0, 1.0), (0.8, -0.6), (-1.4, 2.3), (3.0, 0.1)]


def integral(f, A, s, power):
    """Adaptive quadrature by scipy, split at the kinks."""
    breaks = [(k - A) / s for k in f.kinks]
    edges = sorted({*np.linspace(-13, 13, 14), *(b for b in breaks if abs(b) < 13)})
    pieces = (
        quad(
            lambda z: (
                float(power(f(A + s * z), z)) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
            ),
            a,
            b,
            epsabs=1e-13,
            epsrel=1e-12,
            limit=200,
        )
        for a, b in zip(edges, edges[1:])
    )
    return sum(piece[0] for piece in pieces)


@pytest.mark.parametrize("text", NAMED + WRAPPED + GENERAL)
def test_moments_agree_with_adaptive_quadrature(text):
    f = Function(text)
    for A, s in POINTS:
        mean = integral(f, A, s, lambda v, z: v)
        slope = integral(f, A, s, lambda v, z: v * z)
        noise = integral(f, A, s, lambda v, z, m=mean, c=slope: (v - m - c * z) ** 2)
        curvature = (
            integral(
                f, A, s, lambda v, z, m=mean, c=slope: (v - m - c * z) * (z * z - 1)
            )
            / s
        )
        size = np.sqrt(noise + mean**2 + slope**2)
        found = f.moments(A, s)
        np.testing.assert_allclose(found.mean, mean, atol=2e-12 * size)
        np.testing.assert_allclose(found.slope, slope, atol=2e-12 * size)
        np.testing.assert_allclose(found.noise, noise, atol=2e-12 * size**2)
        np.testing.assert_allclose(
            found.curvature, curvature, atol=5e-12 * size / abs(s)
        )
        np.testing.assert_allclose(f.second_moment(A, s), size**2, rtol=1e-11)


@pytest.mark.parametrize("text", NAMED + WRAPPED + GENERAL)
def test_curvature_is_the_derivative_of_the_mean_in_s(text):
    f = Function(text)
    A = np.linspace(-2, 2, 5)
    s = np.array([[0.7], [-1.6]])
    h = 1e-4
    numerical = (f.moments(A, s + h).mean - f.moments(A, s - h).mean) / (2 * h)
    size = np.sqrt(f.second_moment(A, s))
    assert np.all(np.abs(f.moments(A, s).curvature - numerical) <= 2e-6 * size)


@pytest.mark.parametrize(
    "text", [t for t in NAMED + WRAPPED if "sign" not in t] + ["max(z, 0.3)*sin(z)"]
)
def test_stein(text):
    """E z f(A + s z) = s E f'(A + s z)."""
    f = Function(text)
    for A, s in POINTS:
        breaks = [(k - A) / s for k in f.kinks]
        value, error = expectation(lambda z, A=A, s=s: f.derivative(A + s * z), breaks)
        assert (
            abs(f.moments(A, s).slope - s * value)
            <= 1e-12 * np.sqrt(f.second_moment(A, s)) + abs(s) * error
        )


def test_sign_of_s_and_zero():
    A = np.array([-1.0, 0.0, 0.4])
    for text in NAMED + WRAPPED + GENERAL:
        f = Function(text)
        plus = f.moments(A, 0.9)
        minus = f.moments(A, -0.9)
        none = f.moments(A, 0.0)
        np.testing.assert_allclose(minus.mean, plus.mean, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(minus.slope, -plus.slope, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(minus.noise, plus.noise, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            minus.curvature, -plus.curvature, rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(none.mean, f(A), rtol=1e-15, atol=1e-15)
        assert (
            not np.any(none.slope)
            and not np.any(none.noise)
            and not np.any(none.curvature)
        )


def test_broadcasting_and_mixed_signs():
    f = Function("tanh")
    s = np.array([[0.0], [0.5], [-3.0], [40.0]])
    A = np.linspace(-1, 1, 3)
    found = f.moments(A, s)
    assert isinstance(found, Moments) and found.mean.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            np.testing.assert_allclose(
                f.moments(A[j], s[i, 0]),
                [m[i, j] for m in found],
                rtol=1e-13,
                atol=1e-15,
            )
    assert f.moments([], 1.0).mean.shape == (0,)
    assert isinstance(f.moments(0.0, 1.0).mean, float)


def test_noise_does_not_cancel():
    assert not np.any(
        Function("linear").moments(np.linspace(-9, 9, 5) * 1e6, 3.0).noise
    )
    assert not np.any(Function("3 - 2*z").moments(7.0, -3.0).noise)
    np.testing.assert_allclose(
        Function("h2").moments(1e3, 1e-3).noise, 2e-12, rtol=1e-12
    )
    for text in ("tanh", "sin", "erf", "exp", "softplus", "z**3", "1e6 + cos(z)"):
        f = Function(text)
        s = 1e-3
        h = 1e-3
        bend = (f.derivative(0.7 + h) - f.derivative(0.7 - h)) / (2 * h)
        np.testing.assert_allclose(
            f.moments(0.7, s).noise,
            bend**2 * s**4 / 2,
            rtol=1e-4 if text[0] != "1" else 1e-3,
        )
    relu = Function("relu").moments([8.0, -8.0], 1.0)
    assert relu.noise[0] == relu.noise[1] > 0


def test_large_scale():
    """tanh(s z) tends to sign(z): E z tanh(s z) -> sqrt(2/pi)."""
    found = Function("tanh").moments(0.0, 500.0)
    np.testing.assert_allclose(found.slope, np.sqrt(2 / np.pi), rtol=1e-5)
    with pytest.raises(InputError, match="scale s"):
        Function("tanh").moments(0.0, 1e9)


def test_large_scales_of_the_exponential():
    f = Function("exp")
    s = np.array([4.0, 6.0, 8.0, 10.0])
    found = f.moments(np.zeros(4), s)
    np.testing.assert_allclose(found.mean, np.exp(s**2 / 2), rtol=1e-14)
    np.testing.assert_allclose(f.second_moment(0.0, s), np.exp(2 * s**2), rtol=1e-14)
    np.testing.assert_allclose(
        f.smoothed(0.0, s), np.tile(found.mean, (5, 1)), rtol=1e-14
    )


def test_growth_beyond_the_scale_that_can_be_integrated():
    f = Function("exp(0.1*z**2)")
    assert f.second_moment(0.0, 1.0) == pytest.approx(1 / np.sqrt(1 - 0.4), rel=1e-12)
    with pytest.raises(InputError, match="square integrable"):
        f.moments(0.0, 2.5)
    with pytest.raises(InputError, match="finite"):
        Function("tanh").moments(np.nan, 1.0)


RELU_HERMITE = {0: 1 / np.sqrt(2 * np.pi), 1: 0.5, 2: 1 / np.sqrt(2 * np.pi)}


def test_hermite_coefficients_of_relu_to_order_60():
    exact = np.zeros(61)
    for j, value in RELU_HERMITE.items():
        exact[j] = value
    double = 1.0
    for j in range(4, 61, 2):
        double *= -(j - 3)
        exact[j] = double / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(
        Function("relu").hermite(60) * 1.0, exact / root_factorials(60), atol=2e-15
    )


def test_hermite_coefficients_of_exp_and_sign():
    np.testing.assert_allclose(
        Function("exp").hermite(60), np.exp(0.5) / root_factorials(60), atol=2e-14
    )
    odd = Function("sign").hermite(9)
    np.testing.assert_allclose(
        odd[[1, 3]] * [1, np.sqrt(6)],
        np.sqrt(2 / np.pi) * np.array([1, -1]),
        atol=1e-14,
    )
    assert np.all(np.abs(odd[::2]) < 1e-15)


@pytest.mark.parametrize(
    "text", ["tanh", "gelu", "sin(2*z)", "relu(z)**3", "exp(-z**2)", "h5(z) + z", "0.5"]
)
def test_parseval(text):
    f = Function(text)
    np.testing.assert_allclose(
        np.sum(f.hermite(60) ** 2), f.second_moment(0.0, 1.0), rtol=1e-6
    )
    first = f.moments(0.0, 1.0)
    np.testing.assert_allclose(f.hermite(2)[:2], [first.mean, first.slope], atol=1e-14)
    np.testing.assert_allclose(
        f.hermite(2)[2] * np.sqrt(2), first.curvature, atol=1e-13
    )


def test_hermite_of_polynomials_is_exact():
    np.testing.assert_array_equal(Function("h3").hermite(2), [0, 0, 0])
    np.testing.assert_allclose(
        Function("h3").hermite(5), [0, 0, 0, np.sqrt(6), 0, 0], atol=1e-15
    )


@pytest.mark.parametrize("text", NAMED + WRAPPED + GENERAL)
def test_derivatives(text):
    f = Function(text)
    z = np.array([-2.1, -0.67, 0.21, 0.77, 1.9])
    if f.jumps:
        with pytest.raises(InputError, match="jumps at z = "):
            f.derivative(z)
        return
    h = 1e-6
    np.testing.assert_allclose(
        f.derivative(z), (f(z + h) - f(z - h)) / (2 * h), rtol=1e-6, atol=1e-8
    )
    out = np.empty_like(z)
    assert f.derivative(z, out) is out
    np.testing.assert_array_equal(out, f.derivative(z))


@pytest.mark.parametrize("text", NAMED + WRAPPED + GENERAL)
def test_call_in_place(text):
    f = Function(text)
    z = np.random.default_rng(0).normal(size=(3, 4))
    expected = f(z.copy())
    assert f(z, out=z) is z
    np.testing.assert_array_equal(z, expected)
    assert f(np.float32(0.5)).dtype == np.float32
    assert f(2).dtype == np.float64 and f([1, 2]).shape == (2,)


@pytest.mark.parametrize(
    ("text", "parity"),
    [
        ("linear", "odd"),
        ("tanh", "odd"),
        ("erf", "odd"),
        ("sign", "odd"),
        ("sin", "odd"),
        ("h3", "odd"),
        ("cos", "even"),
        ("abs", "even"),
        ("h2", "even"),
        ("3", "even"),
        ("relu", "linear+even"),
        ("leaky_relu", "linear+even"),
        ("gelu", "linear+even"),
        ("softplus", "linear+even"),
        ("swish", "linear+even"),
        ("relu(z) - 1/sqrt(2*pi)", "linear+even"),
        ("z + 2", "linear+even"),
        ("h1(z) + h2(z)/sqrt(2)", "linear+even"),
        ("sigmoid", None),
        ("relu(z - 1)", None),
        ("z**3 + z**2", None),
        ("exp", None),
        ("sign(z - 0.01)", None),  # its values away from zero are odd
    ],
)
def test_parity(text, parity):
    assert Function(text).parity == parity
    f = Function(text)
    assert Function(lambda z: f(z), kinks=f.kinks, name="f").parity == parity


def test_equality_hash_fingerprint():
    assert (
        Function("tanh")
        == Function("tanh(z)")
        == Function(" tanh( z )")
        == as_function("tanh")
    )
    assert hash(Function("linear")) == hash(Function("z")) == hash(Function("identity"))
    assert Function("silu") == Function("swish")
    assert Function("tanh") != Function("erf") and Function("tanh") != "tanh"
    assert len({Function("relu"), Function("relu(z)"), Function("abs")}) == 2
    assert (
        Function("relu").fingerprint()
        == Function("relu(z)").fingerprint()
        != Function("abs").fingerprint()
    )
    assert len(Function("relu").fingerprint()) == 64
    one = Function(lambda z: np.tanh(z))
    two = Function(np.tanh, name="other")
    assert one == two and hash(one) == hash(two) and one != Function("tanh")
    assert one != Function(lambda z: np.tanh(1.0001 * z))
    assert one != Function(np.tanh, kinks=[0.0])


def test_names_and_copies():
    assert Function("relu").name == "relu" and Function("relu").expression == "relu(z)"
    assert repr(Function("relu")) == "Function('relu')"
    assert Function("relu(z) - 1/2").name == "relu(z) - 1/2"
    assert Function("relu", name="rectifier").name == "rectifier"
    f = Function(np.sin)
    assert f.name == "sin" and f.expression is None
    assert (
        as_function(f) is f and Function(f) == f and Function(f, name="g").name == "g"
    )
    np.testing.assert_array_equal(Function("h2").polynomial, [-1, 0, 1])
    assert Function("tanh").polynomial is None
    with pytest.raises(AttributeError, match="immutable"):
        f.name = "g"
    with pytest.raises(AttributeError, match="immutable"):
        del f.name


@pytest.mark.parametrize("source", ["relu(z) - 1/sqrt(2*pi)", "z*tanh(z)", np.tanh])
def test_pickle(source):
    f = Function(source, name="given")
    copy = pickle.loads(pickle.dumps(f))
    assert copy == f and copy.name == "given"
    np.testing.assert_array_equal(copy.moments(0.3, 1.0), f.moments(0.3, 1.0))


def test_callables():
    f = Function(
        lambda z: np.maximum(z - 0.3, 0),
        kinks=[0.3],
        derivative=lambda z: (z > 0.3) * 1.0,
    )
    reference = Function("relu(z - 0.3)")
    z = np.array([-1.0, 0.1, 2.0])
    np.testing.assert_array_equal(f(z), reference(z))
    np.testing.assert_array_equal(f.derivative(z), reference.derivative(z))
    for A, s in POINTS:
        np.testing.assert_allclose(
            f.moments(A, s), reference.moments(A, s), rtol=1e-12, atol=1e-13
        )
    assert f.kinks == (0.3,) and f.jumps == () and f.quadrature_error < 1e-12
    np.testing.assert_allclose(
        Function(np.tanh).derivative(z), 1 - np.tanh(z) ** 2, rtol=1e-8
    )
    step = Function(lambda z: (z > 1) * 2.0, kinks=[1.0])
    assert step.jumps == (1.0,)
    with pytest.raises(InputError, match="jumps at z = 1"):
        step.derivative(z)


def test_undeclared_kinks_are_found_and_too_many_are_noticed():
    assert Function(lambda z: np.maximum(z - 0.3, 0)) == Function(
        lambda z: np.maximum(z - 0.3, 0), kinks=[0.3]
    )
    assert Function(np.sign).jumps == (0.0,)
    with pytest.warns(GiantstepWarning, match=r"accurate only to about .*kinks="):
        f = Function(lambda z: np.round(z, 2))
    assert (
        0
        < abs(float(f.second_moment(0.0, 1.0)) - 1)
        < 0.01**2 / 12 + f.quadrature_error
    )


def test_expression_that_cannot_be_integrated_accurately_says_so():
    with pytest.warns(GiantstepWarning, match="accurate only to about"):
        f = Function("sin(1/z)")
    assert (
        abs(
            f.moments(0.37, 1.0).mean
            - expectation(lambda z: f(0.37 + z), (-0.37,), 1e-6)[0]
        )
        < 1e-2
    )
    assert f.quadrature_error > 1e-7


def test_smooth_callables_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            np.tanh,
            np.sin,
            lambda z: z**5,
            lambda z: np.tanh(20 * z),
            lambda z: 0 * z,
            np.exp,
        ):
            assert Function(call).quadrature_error < 1e-10


@pytest.mark.parametrize(
    "source",
    [
        "exp(z**2)",
        "exp(z**2/4)",
        "1/z",
        "abs(z)**-0.5",
        "sqrt(z)",
        "log(z)",
        "z**0.5",
        "1/tanh(z)",
        "1/(z - 1)**2",
    ],
)
def test_functions_that_are_not_square_integrable_are_refused(source):
    with pytest.raises(
        InputError, match=r"square integrable under the Gaussian measure"
    ):
        Function(source)


def test_callables_that_are_not_square_integrable_are_refused():
    for call in (
        lambda z: np.exp(z**2),
        lambda z: 1 / z,
        lambda z: 1 / (z - 0.01234),
        np.log,
    ):
        with pytest.raises(InputError, match=r"square integrable"):
            Function(call)


def test_integrable_singularities_are_accepted():
    log = Function("log(abs(z))")
    assert log.moments(0.0, 1.0).mean == pytest.approx(
        -(np.euler_gamma + np.log(2)) / 2, abs=1e-13
    )
    assert log.second_moment(0.0, 1.0) == pytest.approx(
        np.pi**2 / 8 + ((np.euler_gamma + np.log(2)) / 2) ** 2, abs=1e-12
    )
    assert Function("tanh(z)/z").moments(0.0, 1.0).mean > 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda z: 1.0 if z > 0 else 0.0, "raised ValueError"),
        (lambda z: 1.0, "returned shape"),
        (lambda z: z[..., :1], "returned shape"),
        (lambda z: z.sum(), "returned shape"),
        (lambda z: z * 1j, "complex"),
        (lambda: 0, "raised TypeError"),
        (lambda z: np.add(z, 1, out=z), "in place"),
        ("z1*z2", "in z alone"),
        ("z1", "in z alone"),
        ("rellu", "`relu`"),
        ("maximum", "argument"),
        (3.0, "must be a name"),
        (None, "must be a name"),
    ],
)
def test_refused_sources(source, message):
    with pytest.raises(InputError, match=message):
        Function(source)


def test_refused_options():
    with pytest.raises(InputError, match="derivative"):
        Function("tanh", derivative="1")
    for kinks in ([np.inf], "ab", 3, [[0.0]]):
        with pytest.raises(InputError, match="kinks"):
            Function(np.tanh, kinks=kinks)


texts = st.builds(
    lambda a, f, b, c, g, d: f"{a}*{f}({b}*z + {c}) + {g}(z)*{d}",
    st.sampled_from(["1", "2", "-0.5"]),
    st.sampled_from(
        [
            "relu",
            "tanh",
            "erf",
            "sign",
            "abs",
            "sin",
            "sigmoid",
            "h2",
            "exp",
            "leaky_relu",
        ]
    ),
    st.sampled_from(["1", "-2", "0.3"]),
    st.sampled_from(["0", "1", "-0.7"]),
    st.sampled_from(["relu", "tanh", "h1", "sin", "softplus"]),
    st.sampled_from(["0.5", "-1"]),
)


@settings(max_examples=40, deadline=None)
@given(texts, st.floats(-3, 3), st.floats(0.01, 3))
def test_moments_of_random_expressions(text, A, s):
    f = Function(text)
    breaks = [(k - A) / s for k in f.kinks]
    value, error = expectation(
        lambda z: np.stack([f(A + s * z), z * f(A + s * z), f(A + s * z) ** 2]), breaks
    )
    found = f.moments(A, s)
    allowed = error + 1e-11 * np.array([np.sqrt(value[2]), np.sqrt(value[2]), value[2]])
    assert np.all(
        np.abs(np.array([found.mean, found.slope, f.second_moment(A, s)]) - value)
        <= allowed
    )
    assert found.noise >= 0


def test_relu_closed_form_by_hand():
    A = 0.4
    s = 1.3
    found = Function("relu").moments(A, s)
    probability = expectation(lambda z: (A + s * z > 0) * 1.0, [-A / s])[0]
    assert found.mean == pytest.approx(
        A * probability + s * normal_density(A / s), abs=1e-13
    )
    assert found.slope == pytest.approx(s * probability, abs=1e-13)
    assert found.curvature == pytest.approx(normal_density(A / s), abs=1e-15)


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "leaky_relu(z, 0.2)",
        "abs(0.3 - z)",
        "erf(1 - 2*z)",
        "sin(2*z)",
        "cos",
        "exp(z/3)",
        "sign(z)",
        "h3(z) + z**4",
        "tanh(2*z + 0.3) - z",
        "gelu",
        "elu",
        "relu(z)**2",
        "tanh(0*z) + z",
    ],
)
def test_derivatives_of_the_smoothed_function(name):
    """Smoothing by s is smoothing by s/sqrt(2) twice, and derivatives may be shared
    between the two.
    """
    f = Function(name)
    A = np.linspace(-3, 3, 25)
    s = 0.8
    eta, weights = trapezoid_rule(0.25, 8.5)
    weights = weights / weights.sum()
    half = s / np.sqrt(2)
    curvature = f.moments(A[:, None] + half * eta, half).curvature / half
    moments = f.moments(A, s)
    third = curvature @ (weights * eta) / half
    fourth = curvature @ (weights * (eta**2 - 1)) / half**2
    expected = [moments.mean, moments.slope / s, moments.curvature / s, third, fourth]
    np.testing.assert_allclose(f.smoothed(A, s), expected, rtol=0, atol=2e-12)
