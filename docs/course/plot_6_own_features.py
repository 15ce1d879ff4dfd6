"""
6. Your own features
====================

*You have a network and some labelled rows. What would more rows give you?*

Nothing here is Gaussian any more. The features are those of a network that somebody
trained; the theory takes their covariance from the rows themselves.
"""

# %%
# Features of a trained network
# -----------------------------
#
# A network is trained on 300 images of digits. Its hidden layer gives the features of
# other images. The rows that trained it must not be used again: on them its features
# look too good.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier

import giantstep as gs

pixels, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(pixels))
train = order[:300]
rest = order[300:]
network = MLPClassifier(hidden_layer_sizes=(100,), random_state=0, max_iter=400).fit(
    pixels[train] / 16, digit[train]
)
features = gs.features(network, pixels[rest] / 16)
labels = digit[rest]

# %%
# A forecast from 200 rows
# ------------------------
#
# The forecast sees 200 labelled rows. It says what a ridge fit to more of them would
# reach. Neurons that are silent on all of these rows say nothing and are left out.
N, sizes = 200, np.array([50, 75, 100, 150, 200, 300, 400, 600, 900, 1300])
active = np.ptp(features[:N], axis=0) > 0
forecast = gs.forecast(features[:N][:, active], labels[:N], ridge=10.0, samples=sizes)
print(forecast.attrs["trust"])


# %% Here the truth is known, because we kept the other rows: fits to n random rows,
# tested on all others. The dots lie about one standard error below the line.
def measured_error(n, repeats=8):
    """Return the mean squared error of fits to n random rows."""
    errors = []
    for repeat in range(repeats):
        rows = np.random.default_rng([n, repeat]).permutation(len(features))
        fit = Ridge(alpha=10.0).fit(features[rows[:n]], np.eye(10)[labels[rows[:n]]])
        errors.append(
            np.sum(
                (fit.predict(features[rows[n:]]) - np.eye(10)[labels[rows[n:]]]) ** 2,
                axis=1,
            ).mean()
        )
    return np.mean(errors)


line = forecast.mse.sel(source="limit").squeeze()
band = forecast.mse_se_total.sel(source="limit").squeeze()
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.plot(sizes, line, color="C0", label="forecast from 200 rows")
axis.fill_between(
    sizes,
    line - band,
    line + band,
    color="C0",
    alpha=0.15,
    lw=0,
    label="one standard error",
)
axis.plot(
    sizes,
    [measured_error(n) for n in sizes],
    "o",
    color="C0",
    mfc="white",
    label="measured",
)
axis.axvline(N, color="0.4", ls="--", lw=0.8)
axis.set(
    xscale="log",
    xlabel="rows used for the fit",
    ylabel="mean squared error",
    ylim=(0, None),
)
axis.set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
_ = axis.legend()

# %%
# Exercise
# --------
#
# How many rows does a misclassified share of 8% take? Is the answer to be trusted?
#
# **Solution.** The table answers with a range, and with the verdict of its own probes:
# fits to fewer rows, whose truth it knows.
print(forecast.samples_needed(error=0.08))
