"""One-pass SGD of a two-layer network: batches, losses, repetition of samples; one
update rule with a per-sample F.

An algorithm is its per-sample force F (`giantstep.problems.learnability.algorithms`);
nothing else knows losses. A state is the rows of the first layer in orthonormal
coordinates of the space that students and targets span. In these coordinates map, ODE
and exact-law simulator are the same three lines. No covariance is ever inverted, and a
perfect fit or equal neurons need no special care.

What differs between networks is how three moments are integrated (`integrators`):
closed forms, exact polynomials, pieces between kinks, product rules, Sobol points.
"""
