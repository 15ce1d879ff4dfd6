"""Resolvents of the features at complex z, after every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.readout.answers import (
    describe_resolvent,
)
from giantstep.problems.network.answers.errors import Table, by_block
from giantstep.problems.network.answers.spectrum import spectra
from giantstep.problems.network.follow import Moment
from giantstep.problems.network.problem import Share


def answer_resolvent(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="resolvent"``: the deterministic equivalent of the resolvent at
    complex z.
    """
    blocks = table.network.blocks
    # as with the sums of a fit: the spike must not depend on the rows
    rows_known = moment.problem.isotropic and moment.problem.target.directions == 1
    for point, spectrum, _, scale in spectra(table, share, moment):
        V1, V2, status, *how = describe_resolvent(spectrum, settings["z"])
        # V1 has a row on both sides: those of the model become initial ones by their
        # scale
        V1 = by_block(scale[:, None] * V1 * scale, blocks)
        V2 = by_block(V2, blocks)
        traces = {
            # the trace over all neurons is the sum over the blocks
            "m": V2.sum(axis=1),
            "V2": V2,
            "V1": V1 if rows_known else np.full_like(V1, np.nan),
        }
        index = np.array([point])
        for name, trace in traces.items():
            table.put(f"{name}_real", index, time, trace.real[None])
            table.put(f"{name}_imag", index, time, trace.imag[None])
        table.note(index, str(status), *how, time=time)
