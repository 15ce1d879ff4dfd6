"""The table of learning rates: PyTorch networks that make one step as it says are those
of the theory.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs

PAGE = Path(__file__).parents[2] / "docs" / "learning_rates.md"
LENGTHS = {
    "mean field": 1.0,
    "mup": 1.0,
    "default": 3**-0.5,
    "kaiming": 2**0.5,
    "ntk": 1.0,
}
"""rho of every line of the table: length of the rows at the start, in <w, x>."""
D = 100
P = 400
BATCH = 40
RATE = 1.5
"""Dimension, neurons, samples per dimension of the step, rate."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning"),
]


@pytest.fixture(scope="module")
def page():
    """The functions of the page's program."""
    pytest.importorskip("torch")
    space = {}
    exec(
        re.search(
            r"^```text\n(import torch.*?)^```", PAGE.read_text(), flags=re.M | re.S
        )[1],
        space,
    )
    return space


def moved(page, line, optimiser, seed):
    """Return the second layer, and how far rows moved along the target, in units of
    their length at the start.
    """
    import torch

    torch.manual_seed(seed)
    x = torch.randn(BATCH * D, D)
    target = torch.nn.functional.normalize(torch.randn(D), dim=0)
    y = torch.tanh(2 * x @ target)
    first, second = page["one_step"](
        line, getattr(torch.optim, optimiser), RATE, x, y, P
    )
    scale = D**-0.5 if line == "ntk" else 1.0
    along = (
        scale * (first.weight @ target).detach().numpy().astype(float) / LENGTHS[line]
    )
    return second.weight.detach().numpy()[0].astype(float), along


def theory(line, optimiser):
    """Return how far rows of the block with zeta = 1 move along the target."""
    kind = gs.MaximalStep if optimiser == "SGD" else gs.SignStep
    net = gs.Network(
        target="tanh(2*z)",
        activation=f"relu({LENGTHS[line]!r}*z)",
        width_per_dim=P / D,
        samples_per_dim=2.0,
        second_layer=gs.Vocabulary([1, -1]),
        steps=[kind(RATE, batch_per_dim=BATCH)],
    )
    return float(gs.predict(net, what="steps").U.sel(time=1).max())


@pytest.mark.parametrize("line", LENGTHS)
def test_sgd_moves_rows_as_the_table_says(page, line):
    """Catches a wrong factor in the line: of 2, of p, of d, of the length of the
    rows.
    """
    slopes = []
    for seed in range(12):
        b, along = moved(page, line, "SGD", seed)
        zeta = b * (P if line in ("mean field", "mup") else P**0.5)
        slopes.append(along @ zeta / (zeta @ zeta))
    mean = np.mean(slopes)
    error = np.std(slopes, ddof=1) / len(slopes) ** 0.5
    assert error < 0.02 * mean
    assert abs(mean - theory(line, "SGD")) < 4 * error + 0.01 * mean


@pytest.mark.parametrize("line", LENGTHS)
def test_adam_moves_rows_as_the_table_says(page, line):
    """Catches a wrong root of d, or a length of the rows left out."""
    slopes = []
    for seed in range(12):
        b, along = moved(page, line, "Adam", seed)
        slopes.append(np.mean(along * np.sign(b)))
    mean = np.mean(slopes)
    error = np.std(slopes, ddof=1) / len(slopes) ** 0.5
    assert error < 0.02 * mean
    assert abs(mean - theory(line, "Adam")) < 4 * error + 0.01 * mean
