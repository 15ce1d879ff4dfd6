"""Where convex learning on mixtures draws its lines: what is zero, what is solved, how
long is tried.
"""

from __future__ import annotations

PSD_TOLERANCE = 1e-9
"""Asymmetry of a matrix, or size of a negative eigenvalue, over its largest entry, that
is taken for rounding.
"""
LARGEST = 1e100
"""Numbers above this are refused: their squares leave the range of floating point."""
ON_MARGIN = 1e-6
"""Training margins this close to 1 are on the margin: more than fits leave, less than
neighbours differ by.
"""
NO_MARGIN = 1e-6
"""Margin, in units of the input's, below which the classes are not separable: the
solution runs away.
"""
VANISHING = 1e-8
"""Variance of the prediction below which an unsolved point is one where penalty or
labels leave nothing to learn.
"""
LEAST_STATE = 1e-40
"""Least V and q, whose logarithms are solved for: weights of this size are none."""
SOLVED = 1e-9
"""Residual, in scale-free coordinates, below which a point counts as solved."""
PATH_START = 0.4
FIRST_STEP = 0.2
LEAST_STEP = 1e-3
"""A path of sample sizes: where it begins, its first step and the least one, as
fractions of the size wanted.
"""
MOST_PATH_STEPS = 40
"""Steps along a path at most: three reach its end where none fails."""
THRESHOLD_PATH_START = 0.37
"""Where the path towards the threshold begins, as a fraction of the threshold of
isotropic clusters.
"""
THRESHOLD_NEAR = 3e-4
"""Relative distance from the zero of the margin at which it is extrapolated: the
polynomial leaves 1e-8.
"""
MOST_THRESHOLD_STEPS = 80
"""Steps towards the threshold at most: each leaves a fifth of the way, or 8% more
samples.
"""
