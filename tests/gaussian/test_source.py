"""Expressions as source text: what is written computes what the expression computes,
and its derivative.
"""

import numpy as np
import pytest
from scipy.special import erf, expit, ndtr

from giantstep import Function
from giantstep.core.maths.gaussian.source import expression_source, slope_source

TEXTS = [
    *(
        "relu(z) - 1/sqrt(2*pi)",
        "tanh(2*z)",
        "gelu(z)",
        "swish(z + 1)",
        "h3(z)",
        "h4(z/2) - h2(z)",
        "h0(z) + h1(z)",
    ),
    *(
        "leaky_relu(z, 0.2)",
        "leaky_relu(z)",
        "softplus(z)",
        "erf(z/sqrt(2))",
        "z**3/6 - 1/(1 + z**2)",
        "-z**2",
    ),
    *(
        "maximum(z, 0.5)",
        "min(z, tanh(z))",
        "abs(z)",
        "1",
        "sqrt(1 + z**2)",
        "sin(z)*cos(z)",
        "exp(-z**2)",
    ),
    *("sigmoid(3*z)", "log(2 + cos(z))", "z", "2 - (1 - z)", "(-z)**3", "sign(z)"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_slope_compute_the_expression(text):
    """Catches a bracket that is missing and a wrong rule of differentiation."""
    known = {
        "np": np,
        "erf": erf,
        "expit": expit,
        "ndtr": ndtr,
        "z": np.linspace(-2.1, 2.3, 31),
    }
    function = Function(text)
    z = known["z"]
    h = 1e-6
    np.testing.assert_allclose(
        eval(expression_source(text, "numpy"), known),
        function(z),
        rtol=1e-12,
        atol=1e-12,
    )
    slopes = (function(z + h) - function(z - h)) / (2 * h)
    np.testing.assert_allclose(
        eval(slope_source(text, "numpy"), known), slopes, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_torch_text_computes_the_expression(text):
    torch = pytest.importorskip("torch")
    z = np.linspace(-2.1, 2.3, 31)
    value = eval(
        expression_source(text, "torch"), {"torch": torch, "z": torch.tensor(z)}
    )
    np.testing.assert_allclose(value.numpy(), Function(text)(z), rtol=1e-12, atol=1e-12)
