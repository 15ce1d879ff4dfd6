"""
The learning curve of your own table
====================================

Even against odd digits: from the 1797 rows of one dataset the theory predicts the error
of ridge regression with fewer rows; random subsets of the rows confirm it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import giantstep as gs

pixels, numbers = load_digits(return_X_y=True)
pixels = pixels[:, pixels.std(axis=0) > 0]
parity = np.where(numbers % 2 == 0, 1, -1)
ridge = gs.MixtureGLM.from_data(pixels, parity, ridge=1.0, scale="global")

# %%
# Lines: predicted. Dots: fits to random rows, tested on the others.
rows = np.array([50, 91, 183, 366, 732])
line = gs.predict(ridge, samples_per_dim=np.linspace(40, 900, 60) / 61)
real = gs.simulate(ridge, samples_per_dim=rows / 61, trials=10)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.plot(line.samples_per_dim * 61, line.test_mse, label="predicted")
axis.errorbar(
    rows,
    real.test_mse,
    real.test_mse_stderr,
    fmt="o",
    mfc="white",
    color="C0",
    label="measured",
)
axis.set(xlabel="rows used for training", ylabel="mean squared error", ylim=(0, None))
axis.legend()
