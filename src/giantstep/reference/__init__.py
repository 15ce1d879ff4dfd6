"""Each theory once, as a plain file beside its page in `docs/theory`.

A file here computes one point in plain loops, in the letters of its page and with the
page's equation numbers. Read the page and the file side by side: the docstring of a file
says what the problem is and in which order the argument goes. The example at its end runs
as it stands, from any Python prompt.

Nothing in giantstep imports these files. The engines compute the same in other ways, for
many points at once, and the tests hold each engine to its file here.

Networks of two layers, whose first layer takes giant steps:

- `ridge_readout`: a ridge read-out of features that are Gaussian given a few numbers.
- `one_step`: one step on the population, or rows planted by hand. Begin here.
- `small_step`: random features, and a step that learns nothing but a line.
- `several_steps`: several steps on a target of several directions.
- `finite_size`: what a finite dimension adds to them.
- `classes`: logistic and hinge read-outs.
- `variance`: pairs of networks, and where the variance of a ridge read-out comes from.
- `spectrum`: density, edge and outliers of the features.
- `finite_batches`, `finite_batch_neuron`: where steps on finite batches leave the rows.
- `finite_batch_chain`, `finite_batch_directions`, `finite_batch_readout`: and the read-out.
- `structured_inputs`, `structured_readout`: inputs with a covariance.
- `sign_step`, `sign_readout`: Adam's first step, the sign of the gradient.

Other problems:

- `exponents`: how hard a target is to find, and its staircase.
- `online_sgd`, `escape`: one-pass SGD, its flow, and the time at its saddle.
- `giant_steps`: giant steps of a wide network without a read-out.
- `batch_reuse`, `single_pass`: gradient descent that reuses its batch, or does not.
- `mixture`, `mixture_channels`: linear estimators on Gaussian mixtures.
- `clustering`: sparse clusters.
- `best_possible`, `best_channels`: the best possible error of a multi-index target.
- `forecast`: the learning curve of a ridge read-out from one data set.

What they share is in `gaussian` and `averages` (integrals) and `solving` (derivatives and
fixed points).
"""  # noqa: E501
