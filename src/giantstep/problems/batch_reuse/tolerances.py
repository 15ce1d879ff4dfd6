"""Where batch reuse draws its lines: what is zero, what has diverged, what is known
exactly.
"""

from __future__ import annotations

NOTHING_NEW = 1e-10
"""Length, relative to the vector's, below which a part outside the known directions is
rounding.
"""
HEAVY_TAILS = 0.02
"""Relative spread of E y^2 between scrambles from which the tails of the target are too
heavy for the points.
"""
KNOWN_EXACTLY = 1e-9
"""Relative difference of E g^2 by two rules up to which the target counts as a
polynomial, known exactly.
"""
DIVERGED = 1e8
"""Squared length of a neuron, over d, from which a trajectory has diverged."""
CUT_EARLY = 1e-12
CUT_LATE = 1e-6
LATE = 10
"""Eigenvalues of new noise below the cut are zero: a small cut keeps exact cases exact,
but after `LATE` steps the new noise is so small that the response through it would be
rounding errors, which grow.
"""
PSEUDO_INVERSE = 1e-8
"""Root of new noise, over the largest root, below which the response through it is
taken as none.
"""
NEGATIVE = 1e-10
"""Eigenvalues of Q - M M^T below minus this are refused: no weights have such
overlaps.
"""
