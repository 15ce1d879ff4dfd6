"""First-order equations of the ridge problem: the function V(kappa), real for errors,
complex for the spectrum.

With mu1_q, mu2_q the conditional functions of the blocks, beta_q = pi_q p/d and r =
n/p, V solves (spiked_features)

    Vh1_qq' = r E[mu1_q mu1_q'/(b+V)],  Vh2_q = r E[mu2_q/(b+V)],
    D_q = a + Vh2_q                                                               (3.1)
    (Vh1, D) -> (R, S), the answer of the bulk, `bulk`; isotropic: (3.2)-(3.4)
    V = [mu1^T S mu1 + mu2 . R]/beta                                              (3.4)

Only the product a b matters: a b = lambda (ridge). (a, b) = (lambda, 1) are the
equations of section 3, (1, lambda) the "kernel normalisation" of section 11, in which
V, R and S are lambda times larger; it stays finite for n < p as lambda -> 0. For the
spectrum (a, b) = (-z, 1).

The unknown is V at the nodes of kappa. It lies in the span of the K = k(k+1)/2 + k
functions (mu1_q mu1_q', mu2_q) with q <= q', so for few blocks it is packed into K
coordinates; for many blocks, where K exceeds the number of nodes, Newton's equation is
solved at the nodes themselves with the symmetric kernel of (3.5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.solve import solve_each, solve_fixed_point
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Bulk, Response, Tangents
from giantstep.core.readout.features import MANY_NODES, PACKED_BLOCKS, Features, packing
from giantstep.core.readout.isotropic import IsotropicBulk

KERNEL_CHUNK = 8
"""Points solved together at the nodes, each with a kernel of at most 1000 x 1000
numbers (8 MB).
"""
MAX_STEPS = 60
"""Newton steps after which a point is given up; most need five."""
NEAR_STEPS = 12
"""Steps in which the bulk is solved as accurately as the step itself; a point that
needs more has a hard problem.
"""
ROUNDED = 1e-12
"""Residual below which the error of the inner iteration counts."""
SLACK = 100.0
"""What the error of the bulk's inner iteration may be, in units of the square of its
relative change.
"""


@dataclass
class Equations(Stacked):
    """The first-order equations of B points with k blocks: functions of kappa, sizes,
    the pair (a, b), and the bulk.
    """

    features: Features
    ratio: Floats  # r = n/p, (B,)
    width: Floats  # beta = p/d, (B,)
    a: Array  # (B,)
    b: Floats  # (B,)
    bulk: Bulk = field(default_factory=IsotropicBulk)
    pi: Floats | None = None
    """Fractions of the blocks (B, k), where those of a point are not `Features.pi`:
    whole neurons at a finite d.
    """

    @classmethod
    def of_ridge(
        cls,
        features: Features,
        ratio: Floats,
        width: Floats,
        ridge: Floats,
        bulk: Bulk | None = None,
    ) -> Equations:
        """Return the equations of the ridge fit in the normalisation that stays finite
        as ridge -> 0.
        """
        # n < p: (1, lambda), whose V stays finite as the fit interpolates
        a = np.where(ratio < 1, 1.0, ridge)
        b = np.where(ratio < 1, ridge, 1.0)
        if bulk is None:
            bulk = IsotropicBulk()
        return cls(features=features, ratio=ratio, width=width, a=a, b=b, bulk=bulk)

    @cached_property
    def block_width(self) -> Floats:
        """beta_q = pi_q beta, (B, k)."""
        if self.pi is None:
            return self.width[:, None] * self.features.pi
        return self.width[:, None] * self.pi

    @property
    def packed(self) -> bool:
        """Whether packed coordinates are the better choice: few blocks, or more nodes
        than a kernel can have.
        """
        few_blocks = len(self.features.pi) <= PACKED_BLOCKS
        many_nodes = self.features.weights.shape[1] > MANY_NODES
        return few_blocks or self.bulk.packed_only or many_nodes

    def chunk(self, packed: bool) -> int:
        """Return how many points to solve together."""
        return self.bulk.chunk if packed else KERNEL_CHUNK

    @cached_property
    def rated_weights(self) -> Floats:
        """The weights of the nodes times r, (B, N)."""
        return np.asarray(self.ratio[:, None] * self.features.weights)

    def split_points(self, index: Integers, size: int) -> Iterator[Integers | slice]:
        """Yield `index` in chunks that stay in cache, `size` or fewer where nodes are
        many; neighbours as a slice.
        """
        blocks, nodes = self.features.mu1.shape[1:]
        size = max(1, size * MANY_NODES // max(nodes, MANY_NODES))
        if blocks == 1 or nodes == 1:
            # little to compute for each point: fewer, longer calls
            size *= 4
        for first in range(0, len(index), size):
            check_time()
            chunk = index[first : first + size]
            contiguous = chunk[-1] - chunk[0] == len(chunk) - 1
            # a slice is a view, an array of places would copy all functions
            if len(chunk) == len(self.ratio):
                yield slice(None)
            elif contiguous:
                yield slice(int(chunk[0]), int(chunk[-1]) + 1)
            else:
                yield chunk


@dataclass
class FirstOrder(Stacked):
    """First-order solution of B points: V at the nodes (B, N), the response, residual,
    iterations.
    """

    equations: Equations
    V: Array
    response: Response
    residual: Floats
    iterations: Integers

    @property
    def denominator(self) -> Array:
        """The denominators b + V at the nodes (B, N)."""
        return self.equations.b[:, None] + self.V

    @property
    def node_weights(self) -> Array:
        """The weights r w/(b + V) of the effective least-squares problem (B, N)."""
        return self.equations.rated_weights / self.denominator

    @property
    def squared_weights(self) -> Array:
        """The weights r w/(b + V)^2 (B, N)."""
        return self.node_weights / self.denominator

    def put(self, index: Integers, part: FirstOrder) -> None:
        """Overwrite the solution of the points in `index`; their equations are the
        same.
        """
        self.V[index] = part.V
        self.residual[index] = part.residual
        self.iterations[index] = part.iterations
        self.response.put(index, part.response)


def respond(
    equations: Equations, weights: Array, start: Response, near: bool = False
) -> Response:
    """Return the response of the bulk to V, through the hats of (3.1); `weights` are r
    w/(b + V) at the nodes.
    """
    Vh1, Vh2 = equations.features.moments(weights)
    D = equations.a[:, None] + Vh2
    return equations.bulk.solve(Vh1, D, equations.block_width, start, near)


def variance_function(equations: Equations, response: Response) -> Array:
    """Return V(kappa) = [mu1^T S mu1 + mu2 . R]/beta at the nodes (B, N), equation
    (3.4).
    """
    width = equations.width[:, None]
    V1 = response.S / width[:, :, None]
    V2 = response.R / width
    return equations.features.quadratic(V1, V2)


def begin(equations: Equations, response: Response) -> FirstOrder:
    """Return what an iteration starts from that knows a response nearby, or on another
    rule.
    """
    V = variance_function(equations, response)
    residual = np.zeros(len(V))
    iterations = np.zeros(len(V), dtype=np.int64)
    return FirstOrder(equations, V, response, residual, iterations)


def packed_coupling(equations: Equations, squared_weights: Array) -> Array:
    """Return K_ab = r E[m_a m_b c_b/(b+V)^2] in packed coordinates (B, K, K)."""
    m = equations.features.packed
    multiplicity = packing(len(equations.features.pi)).multiplicity
    if len(m) > 1 or m.shape[2] > MANY_NODES:
        weighted = m * squared_weights[:, None, :]
        return (weighted @ np.swapaxes(m, 1, 2)) * multiplicity
    # one set of functions for all points: their products are tabulated once
    products = equations.features.sums(squared_weights, equations.features.products)
    return packing(m.shape[1]).unpack(products)[0] * multiplicity


def cold_start(equations: Equations) -> tuple[Array, Response]:
    """Return V and the response at Vh = 0, above the solution: R_q = beta_q/a, S =
    diag R.
    """
    response = equations.bulk.start(equations.a, equations.block_width)
    features = equations.features
    # (3.4) with S = diag R
    power = features.mu1**2 + features.mu2
    V = (response.R[:, None, :] @ power)[:, 0, :] / equations.width[:, None]
    return V, response


def solve_first_order(
    equations: Equations,
    start: FirstOrder | None = None,
    *,
    packed: bool | None = None,
    goal: float = 1e-13,
) -> FirstOrder:
    """Solve for V at every point, real or complex by the dtype of `equations.a`, until
    the residual is below `goal`.

    `start`, the solution of as many points, warm-starts; without it Newton starts from
    above (Vh = 0), where it needs no damping. `packed` chooses the coordinates; by
    default they are packed for at most 8 blocks.
    """
    if packed is None:
        packed = equations.packed
    # the other functions of kappa would be copied with every selection of points
    inner = dataclasses.replace(equations, features=equations.features.of_variance)
    every = np.arange(len(equations.ratio))
    parts = []
    for index in equations.split_points(every, equations.chunk(packed)):
        warm = None if start is None else start.take(index)
        parts.append(_solve_chunk(inner.take(index), warm, packed, goal))
    V, responses, residual, iterations = zip(*parts)
    return FirstOrder(
        equations=equations,
        V=np.concatenate(V),
        response=Response.join(responses),
        residual=np.concatenate(residual),
        iterations=np.concatenate(iterations),
    )


def _solve_chunk(
    equations: Equations, start: FirstOrder | None, packed: bool, goal: float
) -> tuple[Array, Response, Floats, Integers]:
    """Return V, the response to it, residual and iterations of points that are solved
    together.
    """
    if start is None:
        V, response = cold_start(equations)
    else:
        V = start.V
        response = start.response
    newton = _Newton(equations, response, packed, goal)
    solution = solve_fixed_point(newton.step, V, goal=goal, max_steps=MAX_STEPS)
    response = newton.last
    unsolved = np.flatnonzero(~(solution.residual < goal))
    if unsolved.size:
        # where it converged, the last response is the one to the solution
        rest = equations.take(unsolved)
        denominator = rest.b[:, None] + solution.x[unsolved]
        weights = rest.rated_weights / denominator
        response.put(unsolved, respond(rest, weights, response.take(unsolved)))
    # a copy without what the bulk keeps of the last step, which a point does not have
    # where its neighbours took more: an answer must not depend on them
    response = response.astype(equations.a.dtype)
    return solution.x, response, solution.residual, solution.iterations


class _Newton:
    """Newton's iteration for V, whose every step solves the bulk from the response of
    the step before.
    """

    def __init__(
        self, equations: Equations, response: Response, packed: bool, goal: float
    ) -> None:
        self.equations = equations  # of all points
        self.packed = packed
        self.goal = goal
        self.real = not np.iscomplexobj(equations.a)
        self.steps = 0
        # of every point, from which its next inner solve starts: a copy, it is written
        self.last = response.astype(equations.a.dtype)
        self.active = equations  # of the points that are not solved yet

    def step(self, V: Array, index: Integers) -> tuple[Array, Array, Array]:
        """Return the plain image of V, Newton's proposal and the residual, at the
        points in `index`.
        """
        self.steps += 1
        if len(index) != len(self.active.ratio):
            # points only ever leave, so that as many points are the same points
            self.active = self.equations.take(index)
        equations = self.active
        if len(index) == len(self.last.R):
            earlier = self.last
        else:
            earlier = self.last.take(index)
        inverse = 1 / (equations.b[:, None] + V)
        weights = equations.rated_weights * inverse
        near = self.steps <= NEAR_STEPS
        response = respond(equations, weights, earlier, near=near)
        plain = variance_function(equations, response)
        relative = np.abs((plain - V) * inverse)
        residual = _with_inner_error(
            _norm_at_nodes(relative, equations.features.weights), response, earlier
        )
        # after the residual: `earlier` may be what is overwritten
        self._keep(response, index, earlier)
        newton = plain.copy()
        left = ~(residual < self.goal)
        if left.any():
            part = slice(None) if left.all() else np.flatnonzero(left)
            self.active = equations.take(part)
            newton[part] = self._proposal(
                V=V[part],
                plain=plain[part],
                squared_weights=(weights * inverse)[part],
                response=response.take(part),
            )
        return plain, newton, residual

    def _keep(self, response: Response, index: Integers, earlier: Response) -> None:
        """Keep the response of the points in `index` for their next inner solve, where
        it is finite.
        """
        finite = np.isfinite(response.R).all(axis=1)
        if not finite.all():
            self.last.put(index[finite], response.take(finite))
        elif earlier is self.last:
            # of all points: no copy
            self.last = response
        else:
            self.last.put(index, response)

    def _proposal(
        self, V: Array, plain: Array, squared_weights: Array, response: Response
    ) -> Array:
        """Return where Newton's step leads, at the points that are not solved; NaN
        refuses it.
        """
        equations = self.active
        tangents = equations.bulk.tangents(response)
        moved = V + spread_through(
            equations, tangents, squared_weights, plain - V, self.packed
        )
        if self.real:
            # b + V has one sign at a solution, that of the plain image: a step across
            # the pole would iterate on another branch
            pole = -equations.b[:, None]
            crossed = ((plain > pole) != (moved > pole)).any(axis=1)
            moved[crossed] = np.nan
        return moved


def _norm_at_nodes(values: Floats, weights: Floats) -> Floats:
    """Return the root mean square of values over kappa (B,)."""
    return np.sqrt(np.einsum("bn,bn->b", weights * values, values))


def _with_inner_error(
    residual: Floats, response: Response, earlier: Response
) -> Floats:
    """Return the residual, at least the error of a bulk that was solved from nearby."""
    small = residual < ROUNDED
    if not small.any():
        return residual
    # one Newton step of the bulk is as good as the square of its change
    shift = np.max(np.abs(response.R / earlier.R - 1), axis=1)
    inner = np.minimum(shift, SLACK * shift**2)
    return np.maximum(residual, np.where(small, inner, 0.0))


def spread_through(
    equations: Equations,
    tangents: Tangents,
    squared: Array,
    source: Array,
    packed: bool,
) -> Array:
    """Solve f = source + Ker (squared f) at the nodes (B, N), in packed coordinates or
    with the kernel itself.
    """
    features = equations.features
    width = equations.width[:, None, None]
    if packed:
        # f = source + c m . y with y the packed change that the source causes
        L = tangents.matrix / width
        driven = L @ features.sums(squared * source, features.packed)[:, :, None]
        system = np.eye(L.shape[1]) - L @ packed_coupling(equations, squared)
        y = solve_each(system, driven)[:, :, 0]
        multiplicity = packing(len(features.pi)).multiplicity
        return np.asarray(source + features.combine(y * multiplicity))
    kernel = tangents.kernel(features.mu1, features.mu2) / width
    system = np.eye(kernel.shape[1]) - kernel * squared[:, None, :]
    return solve_each(system, source[:, :, None])[:, :, 0]
