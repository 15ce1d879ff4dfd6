"""Two networks that differ, on one target: how far their outputs are apart, and what
their average is worth.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from giantstep.core.base.errors import bad_field, field_error
from giantstep.core.base.types import Floats
from giantstep.core.lab import Draws, check_memory, threads_for
from giantstep.core.readout.finite_size import whole_sizes
from giantstep.core.readout.output_law import LayerAt, OutputLaw
from giantstep.core.scenario.checks import check_whole
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.beyond.fresh_inputs import inputs_of
from giantstep.problems.network.beyond.laws import solved_groups
from giantstep.problems.network.beyond.questions import SHARED
from giantstep.problems.network.follow import follow
from giantstep.problems.network.limit import refuse_missing
from giantstep.problems.network.problem import share_points
from giantstep.problems.network.questions import TEST_SAMPLES
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.shift import FreshLaw

if TYPE_CHECKING:
    import xarray

    from giantstep.core.scenario.answer import Answer
    from giantstep.problems.network.beyond.laws import FittedPoint

Shared = Literal["samples", "layer", "both", "nothing"]
OF_THE_FIT = ("samples_per_dim", "readout")
"""Fields in which two networks with the same first layer may differ."""
OF_THE_LABELS = ("target", "noise", "flip", "inputs")
"""Fields that two networks of one target have in common."""
NETWORKS = ("first", "second")


def disagreement(
    first: Network,
    second: Network,
    shared: Shared = "samples",
    *,
    dim: int | None = None,
    trials: int = 0,
    seed: int = 0,
    test_samples: int = TEST_SAMPLES,
) -> xarray.Dataset:
    """Tell how far the outputs of two different networks are apart at a fresh input,
    after all their steps.

    Both have a ridge read-out of the same target. They may differ in ridge, samples,
    width, activation and steps; with the same first layer in ridge and samples only.
    Beside the limit there is the theory at a dimension `dim`.

    Parameters
    ----------
    first, second : the networks.
    shared : ``"samples"``: the fit with fewer samples has part of those of the other,
        layers are drawn anew; ``"layer"``: the same first layer, samples are drawn
        anew; ``"both"``; or ``"nothing"``.
    dim : dimension of the source "theory", which has the terms of order 1/d that
        beyond_the_error (2.12)-(2.14) and the errors of the networks have, and of real
        pairs.
    trials, seed : number and seed of real pairs; none if `trials` is 0.
    test_samples : fresh inputs at which a real pair is measured.

    Returns
    -------
    xarray.Dataset
        ``disagreement`` E(f_a - f_b)^2, ``average_error`` of the mean of both outputs,
        and ``test_error`` of each ``network``, over ``source`` = "limit", "theory"
        (with `dim`), "experiment"; ``_stderr`` is the standard error of an experiment,
        and ``status`` says why a number is NaN.

    Examples
    --------
    >>> import giantstep as gs
    >>> net = gs.Network(
    ...     target="sin(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     readout=gs.Ridge(0.1),
    ...     noise=0.1,
    ... )
    >>> apart = gs.disagreement(net, net.replace(width_per_dim=3.0), shared="samples")
    >>> print(round(float(apart.disagreement[0]), 3))
    0.216
    """
    from giantstep.core.result.text import Result

    _check(first, second, shared)
    check_whole("trials", trials, "a whole number from 0 on", 0)
    check_whole("test_samples", test_samples, "a whole number from 1 on", 1)
    if trials or dim is not None:
        check_whole(
            "dim",
            dim,
            "a whole number from 2 on" + " where there are trials" * (dim is None),
            2,
        )
    # a theory has no standard error
    nothing = np.full(4, np.nan)
    rows = {"limit": (*_theory(first, second, shared, np.inf), nothing)}
    if dim is not None:
        rows["theory"] = (*_theory(first, second, shared, float(dim)), nothing)
    if trials:
        pairs = [
            _trial(first, second, shared, int(dim or 0), t, seed, test_samples)
            for t in range(trials)
        ]
        # one pair does not scatter: its standard error stays NaN
        if trials > 1:
            error = np.std(pairs, axis=0, ddof=1) / np.sqrt(trials)
        else:
            error = nothing
        rows["experiment"] = (np.mean(pairs, axis=0), "", error)
    result = Result(coords={"source": list(rows), "network": list(NETWORKS)})
    means, status, errors = zip(*rows.values())
    # the columns of `_theory` and `_trial`: disagreement, error of the average, the
    # errors of both
    for suffix, table in (("", np.stack(means)), ("_stderr", np.stack(errors))):
        result[f"disagreement{suffix}"] = "source", table[:, 0]
        result[f"average_error{suffix}"] = "source", table[:, 1]
        result[f"test_error{suffix}"] = ("source", "network"), table[:, 2:]
    result["status"] = "source", np.array(status, dtype=object)
    result.attrs |= {
        "title": f"Two networks that share {shared}",
        "shared": shared,
        "trials": trials,
    }
    return result if dim is None else result.assign_attrs(dim=dim)


def _check(first: Network, second: Network, shared: Shared) -> None:
    """Refuse pairs of which no overlap is derived: beyond_the_error section 12."""
    if shared not in get_args(Shared):
        raise bad_field(
            "shared", shared, f"one of {', '.join(map(repr, get_args(Shared)))}"
        )
    for name, network in zip(NETWORKS, (first, second)):
        if not isinstance(network, Network):
            raise bad_field(name, network, "a gs.Network")
        if network.readout.kind != "ridge":
            raise field_error(
                "readout.kind",
                "Field `{field}` must be 'ridge' where two networks differ, but it"
                f" is {network.readout.kind!r}: the overlap of unlike classifiers is"
                ' not derived; what="variance" has that of two classifiers alike.',
            )
        # what one network is missing for its variance, a pair is missing, too
        refuse_missing(network, _point(network), "variance", None)
        if any(place.field("alignment") in _point(network) for place in network.places):
            raise bad_field(
                "steps",
                network.steps,
                "without a planted spike where two networks differ",
            )
        if network.shift is not None:
            raise bad_field(
                "shift", network.shift, "left out where two networks differ"
            )
        # the sample of such a fit belongs to its layer: no other layer can have it
        if network.fit_sample == "same":
            raise bad_field(
                "fit_sample",
                "same",
                '"fresh" where two networks share samples or layers',
            )
    if shared in ("layer", "both"):
        # beyond_the_error (2.3) has one set of features: networks with one layer may
        # differ in their fits only
        own = set(OF_THE_FIT)
    else:
        own = set(Network.model_fields) - set(OF_THE_LABELS)
    # in a fixed order, so that the field that is named does not change from run to run
    for name in sorted(set(Network.model_fields) - set(own)):
        if getattr(first, name) != getattr(second, name):
            if shared in ("layer", "both"):
                why = "they share the first layer"
            else:
                why = "they have one target"
            raise bad_field(
                name,
                getattr(second, name),
                f"{getattr(first, name)!r} in both networks, as {why}",
            )


def _point(network: Network, dim: float = np.inf) -> dict[str, Floats]:
    return whole_sizes({**network.point(), "dim": np.array([dim])})


def _theory(
    first: Network, second: Network, shared: Shared, dim: float
) -> tuple[Floats, str]:
    """Return disagreement, error of the average and both errors at a dimension, and why
    they are NaN.
    """
    from giantstep.core.readout.unlike_pairs import FitAt, Labels, disagreement

    # networks alike have the terms of finite_size_steps (3.7), which contain those of
    # (2.14): beyond_the_error section 2
    if first == second and shared in SHARED:
        answer = _answer_alike(first, dim)
        kind = SHARED.index(shared)
        # the one point, after its last step
        test = float(answer.values["test_error"][0, -1])
        apart, average = (
            answer.values[name][0, -1, kind]
            for name in ("disagreement", "ensemble_error")
        )
        # the members are 1 and 2: the second error is that of the mean of both
        return np.array([float(apart), float(average[1]), test, test]), str(
            answer.status[0]
        )
    fits = []
    law = FreshLaw.of_the_fit(first.target.directions)
    for network in (first, second):
        point, reason = _fitted(network, dim)
        if point is None:
            return np.full(4, np.nan), reason
        fits.append(point)
    frames = [point.layer.frame[point.row] for point in fits]
    # one rule for both networks, as fine as the steeper features need
    inputs = inputs_of(
        first.target, frames[0], law, (min(point.scale(law) for point in fits),)
    )
    # every layer has coordinates of its own: both meet in those along the target, which
    # the frames of the layers translate
    along = inputs.z @ frames[0].T
    sides = []
    for point, frame in zip(fits, frames):
        assert point.fit.first is not None
        sides.append(
            FitAt(
                point.fit.first,
                OutputLaw(LayerAt(point.blocks, along @ frame), point.fitted),
            )
        )
    # E[y^2|z] with the label noise, which both networks have in common
    labels = Labels(inputs.weights, inputs.label, inputs.square + fits[0].noise)
    if shared in ("samples", "both"):
        # the smaller sample is part of the larger one
        common = min(side.samples for side in sides)
    else:
        common = 0.0
    apart = disagreement(
        sides[0], sides[1], labels, common, shared in ("layer", "both"), dim
    )
    tests = [point.test_error for point in fits]
    # for two errors a and b: ((a + b)/2)^2 = (a^2 + b^2)/2 - (a - b)^2/4
    return np.array([apart, 0.5 * sum(tests) - 0.25 * apart, *tests]), ""


def _answer_alike(network: Network, dim: float) -> Answer:
    """Return what ``what="variance"`` says of one network and of the mean of two."""
    points = _point(network, dim)
    return network.limit(
        points,
        "variance",
        network.prepare(points, "variance", {"members": np.array([1.0, 2.0])}),
    )


def _fitted(network: Network, dim: float) -> tuple[FittedPoint | None, str]:
    """Return the fit of a network after its last step, or why there is none."""
    points = _point(network, dim)
    reasons = dict[int, str]()
    table = Table(network, points, 1)
    # one point is one problem
    (share,) = share_points(network, points, np.arange(1))
    # a point that fails is flagged by its status
    with np.errstate(all="ignore"):
        # only the layer after the last step is asked about
        *_, last = follow(share.problem, "exact", reasons)
        found = [
            point
            for fits in solved_groups(table, share, last, {})
            for point in fits.points()
        ]
    # a step gave the point up: there is no fit
    if reasons:
        return (None, reasons[0])
    if found:
        return (found[0], "")
    return (None, str(table.answer.status[0]))


def _trial(
    first: Network,
    second: Network,
    shared: Shared,
    dim: int,
    trial: int,
    seed: int,
    test_samples: int,
) -> Floats:
    """Return disagreement, error of the average and both errors of one real pair."""
    from giantstep.problems.network.beyond.measure import fitted_copy, second_draws
    from giantstep.problems.network.experiment import trained_networks, whiten
    from giantstep.problems.network.trained import outputs_of

    # both networks are in memory at the same time
    needed = sum(
        network.memory(_point(network), "variance", dim, {"device": "cpu"})
        for network in (first, second)
    )
    check_memory(needed)
    # both networks are in the key: every pair has numbers of its own
    draws = Draws(seed, f"{first.digest()} {second.digest()} {shared} dim={dim}", trial)
    own = second_draws(draws)
    pair = []
    with threads_for(needed, "cpu"):
        for network, stream in (
            (first, draws),
            # the same draws make the same first layer
            (second, draws if shared in ("layer", "both") else own),
        ):
            points = network.point()
            inputs = whiten(network, points, dim)
            pair.append(
                [*trained_networks(network, points, inputs, dim, stream.anew(), {})][-1]
            )
        pair = [
            # where the layer is in common, too, the second network has a sample of its
            # own at hand
            dataclasses.replace(real, draws=stream.anew())
            for real, stream in zip(pair, (draws, own))
        ]
        # layer, sample and label noise of each: a shared sample is that of the first
        # network
        copies = ((0, 0, 0), (1, 0 if shared in ("samples", "both") else 1, 0))
        ridges = [np.array([network.readout.ridge]) for network in (first, second)]
        fits = {
            copy: fitted_copy(pair, copy, ridge) for copy, ridge in zip(copies, ridges)
        }
        gram = np.zeros((2, 2))
        for outputs, signal, _ in outputs_of(pair, fits, test_samples):
            # each fit has one ridge
            wrong = outputs[:, :, 0] - np.asarray(first.target(signal))
            gram += wrong @ wrong.T / test_samples
    # fresh labels have no noise here; its variance is part of every product, as both
    # networks see the same label
    gram = gram + first.noise
    return np.array(
        [gram[0, 0] + gram[1, 1] - 2 * gram[0, 1], gram.mean(), gram[0, 0], gram[1, 1]]
    )
