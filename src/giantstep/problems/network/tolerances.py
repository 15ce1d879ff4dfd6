"""The thresholds of the family, each with its unit and what it leaves."""

DIVERGED = 1e8
"""Squared length of a row above which its weights count as growing without bound."""
CANCELLED = 1e-6
"""Length of the bulk of a row below which the step has cancelled it."""
MOST_LEARNT = 6
"""Learnt directions: product rules over three, sampled points beyond."""
RANK = 1e-13
"""Eigenvalues of a covariance, relative to its size, that are rounding."""
SOLVED = 1e-10
"""Residual of the equations, relative to their size, that counts as solved unless the
caller says otherwise.
"""
RULES = (1.0, 0.7)
"""Fineness of the rule for kappa, and of a second one by which its error is
measured.
"""
LINE_RULE = 1.3
"""Fineness of errors along one direction, in units of the rules above: 1e-9 down to
ridges of 1e-4 with n < p.
"""
LOOSE_RULE = 0.45
"""Fineness where the tolerance is loose, for a first picture; its error is not
measured.
"""
SPECTRUM_RULE = 4.0
"""Fineness for spectra along one direction: where features are small, the bulks of
single nodes must overlap.
"""
WEAKEST = 1e-10
"""Strength of a spike, relative to the bulk of its rows or to the strongest one, below
which it is rounding.
"""
BESIDE_MEANS = 0.1
"""What steps may add to the squared length of the mean of a block, in units of its
rows, to be counted among these rows too: three times what it is in any setting that is
printed in finite_size_steps section 11.
"""
LARGE_MEANS = 0.3
"""What steps may add to the squared length of the mean of a block, in units of its
rows, for first order in it.
"""
KNOWN_WELL = 1e-6
"""Error of the averages of a target up to which a fit along one direction needs no
second rule to measure its own.
"""
ORDINARY = 2.0
STEEP = 4.0
"""d times the relative variance, from input to input, of the noise of the features: up
to which it is not counted, and from which it is counted in full. Of the named
activations softplus has most without a step, 1.1. There the term is .2% of the test
error at d = 50, less than other terms of order 1/d that are left out.
"""
