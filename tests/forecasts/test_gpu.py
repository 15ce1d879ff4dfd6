"""A GPU gives the numbers of the CPU."""

import numpy as np
import pytest

import giantstep as gs


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
@pytest.mark.parametrize("shape", [(500, 40), (200, 300)])
def test_both_devices_agree(shape):
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal(shape), rng.integers(0, 3, shape[0])
    features[:, :3] += np.eye(3)[labels]
    options = {"samples": [50, 100, 2000], "ridge": [50.0, 5000.0]}
    cpu, gpu = (gs.forecast(features, labels, device=device, **options) for device in ("cpu", "cuda"))
    for name in ("mse", "error", "train_mse", "mse_se_total", "loo_over_gcv"):
        np.testing.assert_allclose(gpu[name], cpu[name], rtol=1e-9, err_msg=name)
