"""
Will more data help? Forecast your learning curve
=================================================

From 180 rows of digits the error of a linear read-out is forecast up to 1440 rows,
eight times as many, for three kinds of features: the pixels, random ReLU features of
them, and the hidden layer of a network that was trained on other rows. Dots are the
truth: real fits to so many rows.
"""

# %% The 300 rows that train the network are never used again: on them its features
# would look too good.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier

import giantstep as gs

pixels, digit = load_digits(return_X_y=True)
pixels = pixels / 16
order = np.random.default_rng(0).permutation(len(pixels))
others = order[:300]
rows = order[300:]
network = MLPClassifier(hidden_layer_sizes=(100,), random_state=0, max_iter=400).fit(
    pixels[others], digit[others]
)
weights = np.random.default_rng(1).standard_normal((64, 300)) / 4
kinds = {
    "pixels": pixels[rows],
    "300 random ReLU features": np.maximum(pixels[rows] @ weights, 0),
    "hidden layer, trained on other rows": gs.features(network, pixels[rows]),
}
digit = digit[rows]


# %% The forecast sees the first 180 rows only. Pixels and neurons that are silent on
# all of them are left out.
def varying(table):
    """Return the columns that vary."""
    return table[:, np.ptp(table, axis=0) > 0]


N, sizes = 180, np.unique(np.geomspace(40, 1440, 25).astype(int))
ridges = {
    "pixels": 3.0,
    "300 random ReLU features": 30.0,
    "hidden layer, trained on other rows": 10.0,
}
forecasts = {
    name: gs.forecast(varying(table[:N]), digit[:N], ridge=ridges[name], samples=sizes)
    for name, table in kinds.items()
}
for name, t in forecasts.items():
    print(name, "-", t.attrs["trust"].splitlines()[0])


# %%
# The truth: fits to random rows of all 1497, tested on the others.
def measure(table, ridge, n, repeats=16):
    """Return the mean squared error and the misclassified share of fits to n random
    rows.
    """
    errors = []
    for repeat in range(repeats):
        order = np.random.default_rng([n, repeat]).permutation(len(table))
        train = order[:n]
        test = order[n:]
        fitted = (
            Ridge(alpha=ridge)
            .fit(table[train], np.eye(10)[digit[train]])
            .predict(table[test])
        )
        wrong = np.mean(fitted.argmax(axis=1) != digit[test])
        errors.append(
            (np.mean(np.sum((fitted - np.eye(10)[digit[test]]) ** 2, axis=1)), wrong)
        )
    return np.mean(errors, axis=0)


figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.9), layout="constrained")
dots = np.array([45, 90, 180, 360, 720, 1440])
for colour, (name, t) in zip(("C0", "C1", "C2"), forecasts.items()):
    truth = np.array([measure(kinds[name], ridges[name], int(n)) for n in dots])
    for axis, variable, column in zip(axes, ("mse", "error"), (0, 1)):
        line = t[variable].sel(source="limit").squeeze()
        band = t[f"{variable}_se_total"].sel(source="limit").squeeze()
        axis.plot(sizes, line, color=colour, label=name)
        axis.fill_between(
            sizes, line - band, line + band, color=colour, alpha=0.15, linewidth=0
        )
        axis.plot(dots, truth[:, column], "o", color=colour, mfc="white")
for axis, label in zip(axes, ("mean squared error", "misclassified share")):
    axis.axvline(N, color="0.4", ls="--", lw=0.8)
    axis.set(xscale="log", yscale="log", xlabel="training rows n", ylabel=label)
axes[0].annotate(
    " forecast from here",
    (N, 0.97),
    xycoords=("data", "axes fraction"),
    va="top",
    color="0.4",
    fontsize=8,
)
axes[0].set_ylim(0.17, 0.62)
axes[1].set_ylim(0.015, 0.5)
for axis, ticks in zip(axes, ([0.2, 0.3, 0.4, 0.5], [0.02, 0.05, 0.1, 0.2])):
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
axes[1].legend(fontsize=8)

# %%
# How many rows would one need for 10 % errors?
for name, t in forecasts.items():
    print(f"{name:40s}", t.samples_needed(error=0.10))
