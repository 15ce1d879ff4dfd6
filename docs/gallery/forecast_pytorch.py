"""
The learning curve of a PyTorch network's features
==================================================

Train a network on some rows, take what its last linear layer sees on others, and
forecast how much more labelled data would help a new read-out of these features.

.. image:: /figures/pytorch-digits.png
   :alt: Forecast and measured errors of read-outs of a PyTorch network's features against the number of training rows

The picture was made by this program. It is not run where the documentation is built,
since giantstep does not need PyTorch; a test runs it where PyTorch is.
"""

# sphinx_gallery_thumbnail_path = 'figures/pytorch-digits.png'

# %%
import numpy as np
import torch
from sklearn.datasets import load_digits

import giantstep as gs

pixels, digit = load_digits(return_X_y=True)
pixels = (pixels / 16).astype(np.float32)
order = np.random.default_rng(0).permutation(len(pixels))
train = order[:600]
rest = order[600:]

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(64, 256),
    torch.nn.ReLU(),
    torch.nn.Linear(256, 256),
    torch.nn.ReLU(),
    torch.nn.Linear(256, 10),
)
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
for _ in range(300):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(
        network(torch.tensor(pixels[train])), torch.tensor(digit[train])
    ).backward()
    optimiser.step()

# %% Features of rows that did not train the network; ``layer="2"`` would take another
# layer by its name.
features = gs.features(network, pixels[rest])
# without neurons that are silent on all rows
features = features[:, np.ptp(features, axis=0) > 0]
table = gs.forecast(features, digit[rest], ridge=[1.0, 100.0])
print(table.attrs["trust"])
print(table.samples_needed(error=0.03))
table.plot("pytorch_digits.png")
