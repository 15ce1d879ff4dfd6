"""Many atoms of a spectrum as few: Gauss rules of groups of neighbours, for integrals of functions smooth in lambda."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.gaussian.grids import gauss_rule
from giantstep.readout.input_bulk import InputBulk
from giantstep.types import Floats

FEW = 64
"""Spectra with at most this many atoms are returned unchanged."""
_RATIO, _NODES, _DEGREE = 1.35, 6, 9
"""Factor of lambda that a group spans, nodes of its rule, degree of the interpolation on it: 1e-11 of a resolvent."""


def condense(bulk: InputBulk, eigenvalues: Floats, gram: Floats | None = None) -> tuple[InputBulk, Floats | None]:
    """Return the bulk with the atoms of similar eigenvalues (J,) replaced by the nodes of a Gauss rule of their masses.

    A group spans a factor 1.35 of lambda and keeps 12 moments; groups of up to six atoms stay as they are. The same is
    done to `gram` (B, J, k, k), the means of the blocks at the atoms.
    """
    if len(eigenvalues) <= FEW or eigenvalues.min() <= 0:
        return bulk, gram
    order = np.argsort(eigenvalues)
    group = np.floor(np.log(eigenvalues[order] / eigenvalues[order[0]]) / np.log(_RATIO) + 1e-9)
    at_atoms = bulk.product[None] if gram is None else np.concatenate([bulk.product[None], gram])  # (1 + B, J, k, k)
    at_atoms = np.moveaxis(at_atoms, 1, 0)
    product, masses = [], []
    for members in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        if len(members) <= _NODES:
            product.append(at_atoms[members])
            masses.append(bulk.masses[members])
            continue
        nodes, weights = gauss_rule(eigenvalues[members], bulk.masses[members], _NODES)
        values = at_atoms[members].reshape(len(members), -1)
        domain = [float(eigenvalues[members].min()), float(eigenvalues[members].max())]
        degree = min(_DEGREE, len(members) - 1)
        fits = [np.polynomial.Chebyshev.fit(eigenvalues[members], column, degree, domain=domain) for column in values.T]
        product.append(np.stack([fit(nodes) for fit in fits], axis=1).reshape(-1, *at_atoms.shape[1:]))
        masses.append(weights)
    condensed = np.moveaxis(np.concatenate(product), 0, 1)
    smaller = dataclasses.replace(bulk, product=condensed[0], masses=np.concatenate(masses))
    return smaller, None if gram is None else condensed[1:]
