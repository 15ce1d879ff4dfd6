"""
When is one Gaussian enough?
============================

Logistic regression on two clusters, labels given by a teacher that leans towards their
means: the exact test error, and that of the two single Gaussians one might put in the
place of the mixture.
"""

# %%
# `what="universality"` gives the gaps to both.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

mixture = gs.MixtureGLM(
    weights=[0.5, 0.5],
    mean_gram=[[4.0, -4.0], [-4.0, 4.0]],
    teacher_means=[3**0.5, -(3**0.5)],
    labels="sign",
    loss="logistic",
    ridge=0.1,
    samples_per_dim=2.0,
)
sizes = np.linspace(0.5, 5, 25)
errors = gs.predict(mixture, samples_per_dim=sizes).test_error
gaps = gs.predict(mixture, what="universality", samples_per_dim=sizes).test_error

# %%
# Lines: the limit. Dots: logistic regression on real samples.
real = gs.simulate(
    mixture, dim=200, trials=10, samples_per_dim=[0.5, 1.0, 2.0, 3.5, 5.0]
)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.plot(sizes, errors, label="mixture")
axis.plot(
    sizes,
    errors - gaps.sel(reference="matched"),
    "--",
    label="one Gaussian, same covariance",
)
axis.plot(
    sizes,
    errors - gaps.sel(reference="within"),
    ":",
    label="one Gaussian, clusters forgotten",
)
axis.errorbar(
    real.samples_per_dim,
    real.test_error,
    real.test_error_stderr,
    fmt="o",
    color="C0",
    mfc="white",
)
axis.set(xlabel="samples per dimension", ylabel="misclassified", ylim=(0, None))
axis.legend()
