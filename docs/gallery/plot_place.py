"""
Clusters in your own matrix
===========================

Two clusters that differ on 12 of 300 features: k-means does not see them, message
passing does, and `place` says where the data lies in the phase diagram.
"""

# %%
# Data as it comes: features with units and offsets of their own.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import giantstep as gs
from giantstep.estimators import AMPClustering

rng = np.random.default_rng(0)
truth = np.arange(600) % 2
X = rng.standard_normal((600, 300))
X[:, :12] += np.where(truth, 0.32, -0.32)[:, None]
X = X * rng.uniform(0.5, 20, 300) + rng.uniform(-5, 5, 300)

# %%
# A scikit-learn estimator; `found_` comes with a bound on false alarms.
model = AMPClustering(n_clusters=2, random_state=0).fit(X)
scaled = (X - X.mean(axis=0)) / X.std(axis=0)
print(
    "AMP    ",
    round(adjusted_rand_score(truth, model.labels_), 2),
    "found:",
    model.found_,
)
print(
    "k-means",
    round(
        adjusted_rand_score(
            truth, KMeans(2, n_init=10, random_state=0).fit_predict(scaled)
        ),
        2,
    ),
)
print("features:", np.flatnonzero(model.support_))

# %% Along the first principal component of all features the clusters overlap; along
# that of the features found they part.
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for panel, columns, name in (
    (axes[0], slice(None), "all features"),
    (axes[1], model.support_, "features found"),
):
    chosen = scaled[:, columns]
    along = chosen @ np.linalg.svd(chosen, full_matrices=False)[2][0]
    for label in (0, 1):
        panel.hist(along[truth == label], bins=25, alpha=0.6)
    panel.set(title=name, xlabel="first principal component")

# %%
# Where does this dataset lie?
place = gs.place(X, 2)
print(place.report())
