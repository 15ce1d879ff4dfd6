"""First-order equations of the ridge problem: the function V(kappa), real for the
errors, complex for the spectrum.

With mu1_q, mu2_q the conditional functions of the blocks, beta_q = pi_q p/d and r =
n/p, V solves (spiked_features)

    Vh1_qq' = r E[mu1_q mu1_q'/(b+V)],  Vh2_q = r E[mu2_q/(b+V)],  D_q = a + Vh2_q                      (3.1)
    (Vh1, D) -> (R, S), the answer of the bulk: (3.2)-(3.4) where it is isotropic, see `bulk`
    V = [mu1^T S mu1 + mu2 . R]/beta                                                                    (3.4)

Only the product a b matters: a b = lambda (ridge). (a, b) = (lambda, 1) are the
equations of section 3, (1, lambda) the "kernel normalisation" of section 11, in which
V, R and S are lambda times larger; it stays finite for n < p as lambda -> 0. For the
spectrum (a, b) = (-z, 1).

The unknown is V at the nodes of kappa. It lies in the span of the K = k(k+1)/2 + k
functions (mu1_q mu1_q', mu2_q) with q <= q', so for few blocks it is packed into K
coordinates; for many blocks, where K exceeds the number of nodes, Newton's equation is
solved at the nodes themselves with the symmetric kernel of (3.5).
"""  # noqa: E501

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
from giantstep.core.readout.common_rows import IsotropicBulk
from giantstep.core.readout.features import MANY_NODES, PACKED_BLOCKS, Features, packing

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
        a = np.where(ratio < 1, 1.0, ridge)
        b = np.where(ratio < 1, ridge, 1.0)
        return cls(
            features, ratio, width, a, b, IsotropicBulk() if bulk is None else bulk
        )

    @cached_property
    def block_width(self) -> Floats:
        """beta_q = pi_q beta, (B, k)."""
        return self.width[:, None] * (self.features.pi if self.pi is None else self.pi)

    @property
    def packed(self) -> bool:
        """Whether packed coordinates are the better choice: few blocks, or more nodes
        than a kernel can have.
        """
        few = len(self.features.pi) <= PACKED_BLOCKS
        return (
            few or self.bulk.packed_only or self.features.weights.shape[1] > MANY_NODES
        )

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
            size *= 4  # little to compute for each point
        for first in range(0, len(index), size):
            check_time()
            chunk = index[first : first + size]
            together = chunk[-1] - chunk[0] == len(chunk) - 1
            whole = len(chunk) == len(self.ratio)
            yield (
                slice(None)
                if whole
                else slice(int(chunk[0]), int(chunk[-1]) + 1)
                if together
                else chunk
            )


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
        """B + V at the nodes."""
        return self.equations.b[:, None] + self.V

    @property
    def node_weights(self) -> Array:
        """R w/(b + V): the weights of the effective least-squares problem (B, N)."""
        return self.equations.rated_weights / self.denominator

    @property
    def squared_weights(self) -> Array:
        """R w/(b + V)^2 (B, N)."""
        return self.node_weights / self.denominator

    def put(self, index: Integers, part: FirstOrder) -> None:
        """Overwrite the solution of the points in `index`; their equations are the
        same.
        """
        self.V[index], self.residual[index], self.iterations[index] = (
            part.V,
            part.residual,
            part.iterations,
        )
        self.response.put(index, part.response)


def respond(
    equations: Equations, weights: Array, start: Response, near: bool = False
) -> Response:
    """Return the response of the bulk to V, through the hats of (3.1); `weights` are r
    w/(b + V) at the nodes.
    """
    Vh1, Vh2 = equations.features.moments(weights)
    return equations.bulk.solve(
        Vh1, equations.a[:, None] + Vh2, equations.block_width, start, near
    )


def variance_function(equations: Equations, response: Response) -> Array:
    """Return V(kappa) = [mu1^T S mu1 + mu2 . R]/beta at the nodes (B, N), equation
    (3.4).
    """
    width = equations.width[:, None]
    return equations.features.quadratic(
        response.S / width[:, :, None], response.R / width
    )


def begin(equations: Equations, response: Response) -> FirstOrder:
    """Return what an iteration starts from that knows a response nearby, or on another
    rule.
    """
    V = variance_function(equations, response)
    return FirstOrder(
        equations, V, response, np.zeros(len(V)), np.zeros(len(V), dtype=np.int64)
    )


def packed_coupling(equations: Equations, squared_weights: Array) -> Array:
    """Return K_ab = r E[m_a m_b c_b/(b+V)^2] in packed coordinates (B, K, K)."""
    m = equations.features.packed
    multiplicity = packing(len(equations.features.pi)).multiplicity
    if len(m) > 1 or m.shape[2] > MANY_NODES:
        return ((m * squared_weights[:, None, :]) @ np.swapaxes(m, 1, 2)) * multiplicity
    products = equations.features.sums(squared_weights, equations.features.products)
    return packing(m.shape[1]).unpack(products)[0] * multiplicity


def cold_start(equations: Equations) -> tuple[Array, Response]:
    """Return V and the response at Vh = 0, above the solution: R_q = beta_q/a, S =
    diag R.
    """
    response = equations.bulk.start(equations.a, equations.block_width)
    features = equations.features
    V = (response.R[:, None, :] @ (features.mu1**2 + features.mu2))[
        :, 0, :
    ] / equations.width[:, None]
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
    packed = equations.packed if packed is None else packed
    parts = []
    inner = dataclasses.replace(equations, features=equations.features.of_variance)
    for index in equations.split_points(
        np.arange(len(equations.ratio)), equations.chunk(packed)
    ):
        warm = None if start is None else start.take(index)
        parts.append(_solve_chunk(inner.take(index), warm, packed, goal))
    V, responses, residual, iterations = zip(*parts)
    return FirstOrder(
        equations,
        np.concatenate(V),
        Response.join(responses),
        np.concatenate(residual),
        np.concatenate(iterations),
    )


def _solve_chunk(
    equations: Equations, start: FirstOrder | None, packed: bool, goal: float
) -> tuple[Array, Response, Floats, Integers]:
    if start is None:
        V, last = cold_start(equations)
    else:
        V, last = (start.V, start.response)
    # of every point, from which its next inner solve starts
    last = last.astype(equations.a.dtype)
    real = not np.iscomplexobj(equations.a)
    steps = 0
    taken = equations

    def step(V: Array, active: Integers) -> tuple[Array, Array, Array]:
        nonlocal steps, taken, last
        steps += 1
        if len(active) != len(taken.ratio):  # points only ever leave
            taken = equations.take(active)
        part = taken
        earlier = last if len(active) == len(last.R) else last.take(active)
        inverse = 1 / (part.b[:, None] + V)
        weights = part.rated_weights * inverse
        response = respond(part, weights, earlier, near=steps <= NEAR_STEPS)
        plain = variance_function(part, response)
        relative = np.abs((plain - V) * inverse)
        residual = np.sqrt(
            np.einsum("bn,bn->b", part.features.weights * relative, relative)
        )
        small = residual < 1e-12
        if (
            small.any()
        ):  # the inner solve of a near start is as good as the square of its change
            shift = np.max(np.abs(response.R / earlier.R - 1), axis=1)
            residual = np.maximum(
                residual, np.where(small, np.minimum(shift, SLACK * shift**2), 0.0)
            )
        kept = np.isfinite(response.R).all(axis=1)
        if kept.all() and earlier is last:
            last = response
        else:
            last.put(active[kept], response if kept.all() else response.take(kept))
        newton = plain.copy()
        left = ~(residual < goal)
        if left.any():
            some = slice(None) if left.all() else np.flatnonzero(left)
            taken, own, x, image = (
                part.take(some),
                response.take(some),
                V[some],
                plain[some],
            )
            moved = x + spread_through(
                taken,
                taken.bulk.tangents(own),
                (weights * inverse)[some],
                image - x,
                packed,
            )
            if real:
                below = -taken.b[:, None]
                moved[((image > below) != (moved > below)).any(axis=1)] = np.nan
            newton[some] = moved
        return plain, newton, residual

    solution = solve_fixed_point(step, V, goal=goal, max_steps=MAX_STEPS)
    # elsewhere `last` is the response to the solution
    left = np.flatnonzero(~(solution.residual < goal))
    if left.size:
        rest = equations.take(left)
        last.put(
            left,
            respond(
                rest,
                rest.rated_weights / (rest.b[:, None] + solution.x[left]),
                last.take(left),
            ),
        )
    # without what the bulk keeps of the last step, which a point does not have where
    # its neighbours took more
    return (
        solution.x,
        last.astype(equations.a.dtype),
        solution.residual,
        solution.iterations,
    )


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
    if packed:  # f = source + c m . y with y the packed change that the source causes
        L = tangents.matrix / width
        driven = L @ features.sums(squared * source, features.packed)[:, :, None]
        y = solve_each(
            np.eye(L.shape[1]) - L @ packed_coupling(equations, squared), driven
        )[:, :, 0]
        return np.asarray(
            source + features.combine(y * packing(len(features.pi)).multiplicity)
        )
    kernel = tangents.kernel(features.mu1, features.mu2) / width
    return solve_each(
        np.eye(kernel.shape[1]) - kernel * squared[:, None, :], source[:, :, None]
    )[:, :, 0]
