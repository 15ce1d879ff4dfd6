"""
Do I need more data or more features?
=====================================

One table of 900 digits, and random ReLU features of it in four sizes. The forecast
shows for each size what more rows would still give: where a curve is flat the features
are exhausted, and more data does not help.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import giantstep as gs

pixels, digit = load_digits(return_X_y=True)
pixels = pixels[:900] / 16
digit = digit[:900]
weights = np.random.default_rng(0).standard_normal((64, 600)) / 4
sizes = np.unique(np.geomspace(60, 20000, 30).astype(int))
labels = np.eye(10)[digit]
tables = {}
for p in (30, 100, 300, 600):
    features = np.maximum(pixels @ weights[:, :p], 0)
    # without neurons that are silent on all rows
    features = features[:, np.ptp(features, axis=0) > 0]
    tables[p] = gs.forecast(
        features,
        labels,
        samples=sizes,
        ridge=np.geomspace(0.1, 300, 12),
        task="regression",
        trials=4,
    )

# %% Lines: the best ridge at every number of rows. Dotted: E(0), what no number of rows
# takes away from these features.
figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
for colour, (p, t) in zip(("C0", "C1", "C2", "C3"), tables.items()):
    axis.plot(
        sizes,
        t.mse.sel(source="limit").min("ridge"),
        color=colour,
        label=f"{p} features",
    )
    axis.plot(
        sizes,
        t.mse.sel(source="experiment").min("ridge"),
        "o",
        color=colour,
        mfc="white",
        ms=4,
    )
    axis.axhline(t.attrs["noise_floor"], color=colour, ls=":", lw=0.9)
axis.axvline(900, color="0.4", ls="--", lw=0.8)
axis.annotate(
    " N = 900", (900, 0.02), xycoords=("data", "axes fraction"), color="0.4", fontsize=8
)
axis.set(
    xscale="log",
    yscale="log",
    xlabel="training rows n",
    ylabel="mean squared error, best ridge",
)
axis.set_yticks([0.1, 0.2, 0.5], ["0.1", "0.2", "0.5"])
axis.set_yticks([], minor=True)
axis.legend(fontsize=8)

# %%
# With 900 rows, doubling the rows or the features: which gains more?
for p in (30, 100, 300):
    now, more_rows = (
        tables[p].mse.sel(source="limit").min("ridge").interp(samples=n).item()
        for n in (900, 1800)
    )
    more_features = (
        tables[{30: 100, 100: 300, 300: 600}[p]]
        .mse.sel(source="limit")
        .min("ridge")
        .interp(samples=900)
        .item()
    )
    print(
        f"{p:4d} features: now {now:.3f}, twice the rows {more_rows:.3f}, more features"
        f" {more_features:.3f}"
    )
