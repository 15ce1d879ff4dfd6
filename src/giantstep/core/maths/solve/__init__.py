"""Solvers over a batch of independent points: fixed points, linear systems, roots."""

from giantstep.core.maths.solve.accelerated import Mixing as Mixing
from giantstep.core.maths.solve.accelerated import (
    solve_accelerated as solve_accelerated,
)
from giantstep.core.maths.solve.fixed_point import FixedPoint as FixedPoint
from giantstep.core.maths.solve.fixed_point import (
    solve_fixed_point as solve_fixed_point,
)
from giantstep.core.maths.solve.linear import solve_each as solve_each
from giantstep.core.maths.solve.open_points import OpenPoints as OpenPoints
from giantstep.core.maths.solve.roots import crossing as crossing
from giantstep.core.maths.solve.roots import falling_root as falling_root
