"""
A sweep that can be interrupted
===============================

A phase diagram of real networks, point by point into a store. Started again it computes
what is missing only.
"""

# %%
# A first, coarse sweep.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import giantstep as gs

store = Path(tempfile.mkdtemp()) / "runs.db"
scenario = gs.OneStep(
    activation="relu",
    target="tanh(z)",
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.01,
    second_layer=gs.Vocabulary([1, -1]),
    step=gs.PlantedSpike(strength=1.0, alignment=0.5),
)
grid = {"step.alignment": [0.0, 0.5, 0.9], "samples_per_dim": [0.5, 1.0, 2.0, 4.0]}
coarse = gs.sweep(
    scenario, grid, dim=100, trials=2, store=store, engine="local", progress=False
)

# %%
# More trials cost only themselves; the limit goes into the same store.
fine = gs.sweep(
    scenario, grid, dim=100, trials=4, store=store, engine="local", progress=False
)
print(fine.trials_done.values)
limit = gs.sweep(
    scenario, grid, source="limit", store=store, engine="local", progress=False
)

# %%
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(fine, variables="test_error", x="samples_per_dim", axes=axis)
