"""
When is one Gaussian enough?
============================

Logistic regression on two clusters, labels given by a teacher that is correlated with their means: the exact test error
and the two single Gaussians one might put in its place.
"""

# %%
import numpy as np

import giantstep as gs

mixture = gs.MixtureGLM(
    weights=[0.5, 0.5],
    covariances=gs.Isotropic([1.0, 1.0]),
    mean_gram=[[4.0, -4.0], [-4.0, 4.0]],
    teacher_means=[3**0.5, -(3**0.5)],
    labels="sign",
    loss="logistic",
    ridge=0.1,
    samples_per_dim=2.0,
)
gaps = gs.predict(mixture, what="universality", samples_per_dim=np.linspace(0.5, 4, 8))
print(gaps)

# %%
both = gs.compare(mixture, dim=200, trials=10, samples_per_dim=[0.5, 1.0, 2.0, 4.0])
print(gs.agreement(both))
figure = gs.plot(both)
