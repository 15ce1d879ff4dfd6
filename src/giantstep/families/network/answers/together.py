"""Descriptions of one shape, whose fits are solved together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from giantstep.families.network.describe import Description
from giantstep.readout import BatchBulk, Bulk, Features, InputBulk
from giantstep.readout.features import MANY_NODES


def merge(descriptions: Sequence[tuple[Description, Description | None]]) -> list[list[int]]:
    """Return which descriptions can be solved together: those of one shape, where nodes are few."""
    groups: dict[object, list[int]] = {}
    for number, (fine, coarse) in enumerate(descriptions):
        f, bulk = fine.features, fine.bulks[0]
        alone = f.weights.shape[1] > MANY_NODES or (isinstance(bulk, InputBulk) and bool(bulk.spread.quadratic))
        law = bulk.masses.tobytes() if isinstance(bulk, InputBulk) else type(bulk).__name__
        nodes = None if coarse is None else coarse.features.weights.shape[1]
        key = number if alone else (f.mu1.shape[1:], f.T0.shape[1:], f.Jp.shape[1:], fine.learnt, nodes, law)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def joined_features(parts: Sequence[Features]) -> Features:
    """Return the sets of several features of one shape, one after the other."""
    if len(parts) == 1:
        return parts[0]
    stacks = {name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0]._stacks()}
    return dataclasses.replace(parts[0], **stacks)


def joined_bulks(parts: Sequence[tuple[Bulk, ...]]) -> tuple[Bulk, ...]:
    """Return the laws of the sets of several descriptions of one shape."""
    first = parts[0][0]
    if isinstance(first, InputBulk):
        return tuple(bulk for part in parts for bulk in part)
    if isinstance(first, BatchBulk) and len(parts) > 1:
        batches = [part[0] for part in parts]
        stacks: dict[str, Any] = {
            name: np.concatenate([getattr(one, name) for one in batches]) for name in first._stacks()
        }
        return (dataclasses.replace(first, **stacks),)
    return parts[0]
