"""Networks that take two giant steps on the exact population gradient, beside the
limit: the quick agreement test.

It sees gaps of 3%: dropping the spread of the blocks (J) moves such errors by 17%, one
step fewer by more.
"""

from __future__ import annotations

import numpy as np

import giantstep as gs

NETWORK = gs.FewSteps(
    target="z1 + z1*z2",
    activation="relu",
    noise=0.1,
    second_layer=gs.Vocabulary([1, -1]),
    rate=2.0,
    steps=2,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
)


def test_networks_of_dimension_150_agree_after_every_step():
    both = gs.compare(
        NETWORK, dim=150, trials=80, seed=9, test_samples=3000, progress=False
    )
    rows = {row.variable: row for row in gs.agreement(both).rows}
    assert rows["test_error"].smallest_visible < 0.03
    for name in ("test_error", "train_error", "norm"):
        # 2/d: what the limit at this dimension leaves out
        assert rows[name].passes(allow=2 / 150), rows[name]
    seen = both.test_error.sel(source="experiment").values
    error = both.test_error_stderr.sel(source="experiment").values
    assert np.all(np.diff(seen) < -4 * error[1:])  # every step is seen to help
