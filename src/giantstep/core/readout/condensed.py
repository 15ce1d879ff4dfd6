"""Many atoms of a spectrum as few: Gauss rules of groups of neighbours."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.grids import gauss_rule
from giantstep.core.readout.input_bulk import InputBulk

FEW = 64
"""Spectra with at most this many atoms are returned unchanged."""
_RATIO = 1.35
_NODES = 6
_DEGREE = 9
"""Factor of lambda that a group spans, nodes of its rule, degree of the interpolation
on it: 1e-11 of a resolvent.
"""


def condense(
    bulk: InputBulk, eigenvalues: Floats, gram: Floats | None = None
) -> tuple[InputBulk, Floats | None]:
    """Return the bulk with the atoms of similar eigenvalues (J,) replaced by the nodes
    of a Gauss rule of their masses.

    A group spans a factor 1.35 of lambda and keeps 12 moments; groups of up to six
    atoms stay as they are. The same is done to `gram` (B, J, k, k), the means of the
    blocks at the atoms.
    """
    # groups go by ratios, which an eigenvalue 0 does not have
    if len(eigenvalues) <= FEW or eigenvalues.min() <= 0:
        return bulk, gram
    at_atoms = bulk.product[None]
    if gram is not None:
        at_atoms = np.concatenate([at_atoms, gram])
    # atoms go first: groups of them are taken
    at_atoms = np.moveaxis(at_atoms, 1, 0)  # (J, 1 + B, k, k)
    product = []
    masses = []
    for members in _groups(eigenvalues):
        # a rule would have as many nodes as these are
        if len(members) <= _NODES:
            product.append(at_atoms[members])
            masses.append(bulk.masses[members])
            continue
        nodes, weights = gauss_rule(eigenvalues[members], bulk.masses[members], _NODES)
        product.append(_interpolated(eigenvalues[members], at_atoms[members], nodes))
        masses.append(weights)
    few_atoms = np.moveaxis(np.concatenate(product), 0, 1)
    smaller = dataclasses.replace(
        bulk, product=few_atoms[0], masses=np.concatenate(masses)
    )
    if gram is None:
        return smaller, None
    return smaller, few_atoms[1:]


def _groups(eigenvalues: Floats) -> list[Integers]:
    """Return the atoms whose eigenvalues lie within one factor, group after group."""
    order = np.argsort(eigenvalues)
    ratios = eigenvalues[order] / eigenvalues[order[0]]
    # an eigenvalue at the edge of a group must not move by rounding
    group = np.floor(np.log(ratios) / np.log(_RATIO) + 1e-9)
    return np.split(order, np.flatnonzero(np.diff(group)) + 1)


def _interpolated(eigenvalues: Floats, values: Floats, nodes: Floats) -> Floats:
    """Return values at eigenvalues (J, ...) at the nodes of a rule, by least squares of
    polynomials on Chebyshev's basis.
    """
    columns = values.reshape(len(eigenvalues), -1).T
    # a common domain, so that all columns are scaled alike
    domain = [float(eigenvalues.min()), float(eigenvalues.max())]
    degree = min(_DEGREE, len(eigenvalues) - 1)
    at_nodes = []
    for column in columns:
        fit = np.polynomial.Chebyshev.fit(eigenvalues, column, degree, domain=domain)
        at_nodes.append(fit(nodes))
    return np.stack(at_nodes, axis=1).reshape(-1, *values.shape[1:])
