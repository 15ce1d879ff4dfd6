"""The directions that giant steps on finite batches single out.

Page: "Several giant steps, each on a finite fresh batch" (finite_batches_several_steps),
section 5. It goes on from `finite_batch_chain`; `finite_batch_readout` uses it.

Problem. Along W* and along the noise of the batches the rows are not like along other
directions. Nor are their norms free: a norm depends on the components of the row. The
read-out needs the covariance P of all these with the weighted sums tau^T.

Order of the argument.

1. Each special direction a has the K fields of the chain, om_a. A direction of batch noise
   has K multipliers et_a, and the norms after step t have y^t and yh^t.
2. `Form`: all of these are one formal Gaussian with the exponent -X.Gm.X/2.
3. `add_directions` has (5.1) and (5.2), `add_norms` has (5.3).
4. `special`: P is a part of the inverse of Gm, (5.4).

An example: without steps P is the covariance R along W*, and norms do not differ.

>>> from giantstep.reference.finite_batches import Layer
>>> chain = Chain(Layer(U=np.zeros((1, 1)), c=np.ones(1)))
>>> print(
...     special(
...         chain, np.zeros((0, 2, 2)), np.array([0.5]), np.zeros((1, 1)), np.eye(1)
...     )
... )
[[0.5 0. ]
 [0.  0. ]]
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from giantstep.reference.finite_batch_chain import Chain, couplings
from giantstep.reference.finite_batches import Step
from giantstep.reference.gaussian import Array


class Form:
    """The quadratic form Gm of section 5, filled block by block.

    K numbers om_a for each of D directions, W* first; K numbers et_a for each direction of
    batch noise; k numbers y^t and yh^t for each step.
    """  # noqa: E501

    def __init__(self, chain: Chain, targets: int, kind: type) -> None:
        self.chain = chain
        self.targets = targets
        self.D = chain.layer.U.shape[1]
        self.norms = (2 * self.D - targets) * chain.K
        size = self.norms + 2 * chain.T * chain.k
        self.Gm = np.zeros((size, size), dtype=kind)

    def om(self, a: int) -> slice:
        """Return the places of om_a."""
        return slice(a * self.chain.K, (a + 1) * self.chain.K)

    def om_of(self, a: int, fields: slice) -> slice:
        """Return the places of some fields of om_a."""
        first = a * self.chain.K
        return slice(first + fields.start, first + fields.stop)

    def et(self, a: int) -> slice:
        """Return the places of et_a."""
        return self.om(self.D + a - self.targets)

    def y(self, t: int) -> slice:
        """Return the places of y^t."""
        first = self.norms + (t - 1) * self.chain.k
        return slice(first, first + self.chain.k)

    def yh(self, t: int) -> slice:
        """Return the places of yh^t."""
        return self.y(self.chain.T + t)

    def add(self, rows: slice, columns: slice, block: Array) -> None:
        """Add a block, and its mirror image."""
        self.Gm[rows, columns] += block
        if rows != columns:
            self.Gm[columns, rows] += block.T


def add_directions(form: Form, t: int, step: Step, C: Array, R: Array) -> None:
    """Add (5.1) and (5.2): all of step t but the norms.

    The step is E[v^T Lt v], v = sum_a zeta_a om_a - C sum_j F_j et_j/sqrt(alpha_t).
    """
    chain = form.chain
    fields = chain.both(t)
    old = len(step.rel)
    Lt = couplings(step, C[fields, fields], R)
    M = np.tensordot(step.weights, Lt, axes=1)
    along_old = step.rel @ step.rel.T
    functions = np.concatenate([step.rel @ step.zeta, step.F])
    # P_t of the page puts the fields of the step among all K.
    P = np.eye(chain.K)[:, fields]
    noise = -np.sqrt(step.inverse) * C @ P
    for a in range(len(functions)):
        for b in range(a + 1):
            weights = step.weights * functions[a] * functions[b]
            mean = np.tensordot(weights, Lt, axes=1)
            if a < old:
                # H has M_t already.
                mean = mean - along_old[a, b] * M
                form.add(form.om(a), form.om(b), P @ mean @ P.T)
            elif b < old:
                form.add(form.et(a), form.om(b), noise @ mean @ P.T)
            else:
                form.add(form.et(a), form.et(b), noise @ mean @ noise.T)
    for a in range(old, len(functions)):
        form.add(form.et(a), form.et(a), -C)
        form.add(form.et(a), form.om(a), -np.eye(chain.K))


def add_norms(form: Form, t: int, step: Step, R: Array) -> None:
    """Add (5.3): the norms of the rows after step t; before the first they are all 1."""  # noqa: E501
    chain = form.chain
    form.add(form.yh(t), form.y(t), -np.eye(chain.k))
    form.add(form.yh(t), form.yh(t), -np.diag(R * step.variance))
    if t > 1:
        form.add(form.yh(t), form.y(t - 1), np.diag(step.gain))
    for a in range(step.fl.shape[1]):
        tau = form.om_of(a, chain.tau(t - 1))
        h = form.om_of(a, chain.h(t))
        form.add(form.yh(t), tau, np.diag(step.fl[:, a]))
        form.add(form.yh(t), h, -np.diag(R * step.fy[:, a]))
        if t > 1:
            form.add(form.y(t - 1), h, np.diag(step.bend[:, a]))


def special(chain: Chain, M: Array, R: Array, Vh1: Array, rel: Array) -> Array:
    """Return P of (5.4): covariances of <rel_a, tau^T_q> and y^T_q, q fastest."""
    H = chain.precision(M, R, Vh1)
    C = np.linalg.inv(H)
    D = chain.layer.U.shape[1]
    targets = D
    for step in chain.steps:
        targets -= len(step.F)
    form = Form(chain, targets, C.dtype)
    for a in range(targets):
        form.add(form.om(a), form.om(a), H)
    for t, step in enumerate(chain.steps, 1):
        add_directions(form, t, step, C, R)
        add_norms(form, t, step, R)
    k = chain.k
    m = rel.shape[1]
    asked = np.zeros((len(form.Gm), (m + 1) * k))
    for q in range(k):
        for a in range(D):
            place = form.om_of(a, chain.tau(chain.T)).start + q
            asked[place, q : m * k : k] = rel[a]
        if chain.T > 0:
            asked[form.y(chain.T).start + q, m * k + q] = 1
    return asked.T @ np.linalg.solve(form.Gm, asked.astype(C.dtype))
