"""What an experiment measures beyond the mean error: several networks alike, other test
inputs, gradients, calibration.

Two first layers, two samples and two label noises make eight fits. All are held against
the same fresh inputs, and pairs of one kind are averaged, so that every part of the
variance is estimated without bias: the errors of two networks that share nothing have
the product `bias` in the mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import entr, expit

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, DeviceArray, Floats, Integers
from giantstep.core.lab import Draws, to_numpy
from giantstep.core.lab.algebra import multiply
from giantstep.core.lab.feature_spectra import cell_edges
from giantstep.core.readout.calibration import NAIVE, WANTED, coverage, honest_width
from giantstep.core.readout.sensitivity import folded_mean
from giantstep.problems.network.beyond.tested import OF_CLASSES
from giantstep.problems.network.beyond.variance import averaged
from giantstep.problems.network.measurements.errors import wrong_signs
from giantstep.problems.network.questions import TEST_SAMPLES
from giantstep.problems.network.trained import ONLY, Copy, Trained, outputs_of
from giantstep.problems.network.weights import Moved, apply_by_rows

PAIRED = ("variance", "shift")
"""Questions for which two networks are trained."""
NOISES = ("train", "train_again")
"""Streams of the two label noises on one sample."""
PARTS = (
    "bias",
    "from_layer",
    "from_samples",
    "from_noise",
    "from_layer_samples",
    "from_layer_noise",
)
KINDS = ((True, False), (False, True), (False, False))
"""What pairs of fits share: the layer alone, the sample alone, nothing."""

CELLS = 40
"""Cells of logits of equal counts: their calibration error is biased by chance, and not
compared.
"""
LEAST_COUNT = 25
"""Fresh samples in a cell of logits from which its share is shown."""
SHARPEST = 1e3
"""Largest 1/T that is looked for, where every label has the sign of its output."""


def fitting_memory(what: str, p: int, dim: int, samples: Integers, chunk: int) -> int:
    """Return how many numbers a measurement needs beside the weights and the stream."""
    of_fits = 2 * int(samples.max()) * p + 2 * p * p
    # a second network, and the outputs of eight fits
    if what in PAIRED:
        return p * dim + 9 * p * len(samples) + 8 * chunk * len(samples) + of_fits
    return 3 * chunk * p + 2 * chunk * dim + of_fits


def second_draws(draws: Draws) -> Draws:
    """Return the draws of everything that a second network has of its own."""
    # another key, and so none of the numbers of the first
    return Draws(draws.seed, f"{draws.key} second", draws.trial, draws.device)


def fitted_copies(
    pair: Sequence[Trained], ridges: Floats, noises: int = 1
) -> dict[Copy, DeviceArray]:
    """Return the fits (p, B) of both layers on both samples, with so many label
    noises.
    """
    # the sample of such a fit belongs to its layer: no other layer can have it
    if pair[0].network_of.fit_sample == "same":
        raise bad_field(
            "fit_sample", "same", '"fresh" where two networks share samples or layers'
        )
    if pair[0].inputs.rows is not None:
        raise bad_field(
            "inputs", "rows of a table", "a law of inputs where two samples are drawn"
        )
    copies = itertools.product((0, 1), (0, 1), range(noises))
    return {copy: fitted_copy(pair, copy, ridges) for copy in copies}


def fitted_copy(pair: Sequence[Trained], copy: Copy, ridges: Floats) -> DeviceArray:
    """Return the fits b = a/sqrt(p) (p, B) of one copy."""
    # streams from their start, so that all copies of a sample are the same; the label
    # noise has streams of its own
    layer, sample, noise = copy
    readout = pair[layer].network_of.readout
    return readout.fit(
        pair[layer], ridges, pair[sample].draws.anew(), NOISES[noise]
    ).weights


def measure_variance(
    one: Trained, other: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure the parts of the variance, disagreements, and the errors of averages:
    beyond_the_error (2.6)-(2.8).
    """
    network = one.network_of
    classes = one.network_of.readout.classes
    noise = one.network.noise
    # a second label noise tells `from_noise` apart; for classes that part is not
    # derived
    fits = fitted_copies((one, other), ridges, 2 if noise > 0 and not classes else 1)
    copies = list(fits)
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    # products of the errors of every two fits
    gram = np.zeros((len(ridges), len(fits), len(fits)))
    alone = np.zeros(len(ridges))
    opposite, wrong, square = (np.zeros((len(ridges), 3)) for _ in range(3))
    for outputs, signal, _ in outputs_of((one, other), fits, rows):
        labels = np.asarray(network.target(signal))[None, :, None]
        residuals = outputs - labels
        # negative where the sign is wrong
        margins = outputs * labels
        gram += np.einsum("amb,cmb->bac", residuals, residuals) / rows
        # all fits are alike
        alone += np.mean(margins < 0, axis=0).sum(axis=0) / rows
        opposite += _over_pairs(lambda a, b: a * b < 0, outputs, copies) / rows
        # the mean of two outputs has the sign of the sum of their margins
        wrong += _over_pairs(lambda a, b: a + b < 0, margins, copies) / rows
        square += _over_pairs(lambda a, b: (a - b) ** 2, outputs, copies) / rows
    if not classes:
        # signs mean something where the target is one
        if network.sign_direction is not None:
            signs = opposite
        else:
            signs = np.full_like(opposite, np.nan)
        return {**_parts(gram, copies, noise, settings), "sign_disagreement": signs}
    members = np.asarray(settings["members"])
    # fresh labels are not flipped: a flip turns a right answer into a wrong one, and a
    # wrong one into a right one
    kept = 1 - 2 * one.flip
    errors = np.full((*wrong.shape, len(members)), np.nan)
    # two layers and two samples have no averages of more than two networks
    errors[:, :, members == 1] = alone[:, None, None]
    errors[:, :, members == 2] = wrong[:, :, None]
    values = {
        **dict.fromkeys(PARTS, np.full(len(ridges), np.nan)),
        "test_error": kept * alone + one.flip,
        "disagreement": square,
        "sign_disagreement": opposite,
        "ensemble_error": kept * errors + one.flip,
    }
    # outputs of a fit that failed are NaN, which have no sign: rates would count them
    # as right
    known = np.isfinite(square[:, 0])
    return {
        name: np.where(known.reshape(-1, *(1,) * (a.ndim - 1)), a, np.nan)
        for name, a in values.items()
    }


def _parts(
    gram: Floats, copies: list[Copy], noise: float, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the parts of the variance from the products of errors (B, copies,
    copies).
    """
    kinds: dict[tuple[bool, bool, bool], list[Floats]] = {}
    for first, second in itertools.product(range(len(copies)), repeat=2):
        # a label noise belongs to its sample: fits on two samples never have it in
        # common
        shares = tuple(a == b for a, b in zip(copies[first], copies[second]))
        kinds.setdefault((shares[0], shares[1], shares[1] and shares[2]), []).append(
            gram[:, first, second]
        )
    means = {kind: np.mean(values, axis=0) for kind, values in kinds.items()}
    everything = means[True, True, True]
    samples = means[False, True, True]
    layer = means[True, False, False]
    # beyond_the_error (2.7): what errors of networks have in common that share nothing
    bias = means[False, False, False]
    # without label noise there is one copy of it, which makes no difference
    but_noise = means.get((True, True, False), everything)
    inputs = means.get((False, True, False), samples)
    # by inclusion and exclusion: a pair has the parts of all that it shares, and the
    # bias
    parts = (
        *(bias, layer - bias, inputs - bias, samples - inputs),
        *(but_noise - layer - inputs + bias, everything - but_noise - samples + inputs),
    )
    # the fresh labels are without noise: its variance is added, not sampled
    test = everything + noise
    # E(f_a - f_b)^2/2 is the square of one error less the product of both
    apart = everything[:, None] - np.stack([layer, samples, bias], axis=1)
    rest = {
        "test_error": test,
        "disagreement": 2 * apart,
        "ensemble_error": averaged(test, apart, settings),
    }
    return {**dict(zip(PARTS, parts)), **rest}


def _over_pairs(
    of: Callable[[Floats, Floats], Array], outputs: Floats, copies: Sequence[Copy]
) -> Floats:
    """Return the sum over inputs of a function of two outputs, averaged over the pairs
    of each kind (B, 3).
    """
    found: dict[tuple[bool, bool], list[Array]] = {kind: [] for kind in KINDS}
    # the functions are symmetric: each pair once
    for a, b in itertools.combinations(range(len(copies)), 2):
        shares_layer = copies[a][0] == copies[b][0]
        shares_inputs = copies[a][1] == copies[b][1]
        shares_noise = copies[a][2] == copies[b][2]
        # a sample is its inputs and its labels: the same inputs with other noise are
        # neither one sample nor two
        if shares_inputs and not shares_noise:
            continue
        kind = (shares_layer, shares_inputs)
        if kind in found:
            found[kind].append(np.sum(of(outputs[a], outputs[b]), axis=0))
    return np.stack([np.mean(sums, axis=0) for sums in found.values()], axis=1)


def measure_shift(
    one: Trained, other: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure errors and disagreements at inputs of another law: beyond_the_error
    section 4.
    """
    network = one.network_of
    fits = fitted_copies((one, other), ridges)
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    squares = np.zeros(len(ridges))
    wrong = np.zeros(len(ridges))
    apart = np.zeros((len(ridges), 3))
    for outputs, signal, _ in outputs_of(
        (one, other), fits, rows, mover(one, settings)
    ):
        labels = np.asarray(network.target(signal))[None, :, None]
        # the mean over the copies, which are alike, and over the inputs
        squares += np.mean((outputs - labels) ** 2, axis=0).sum(axis=0) / rows
        wrong += wrong_signs(network, outputs, signal) / rows
        apart += _over_pairs(lambda a, b: (a - b) ** 2, outputs, list(fits)) / rows
    # the fresh labels are without noise
    test = squares + settings["shifted_noise"]
    if network.readout.classes:
        test = (1 - 2 * one.flip) * wrong + one.flip
    return {"test_error": test, "test_misclassified": wrong, "disagreement": apart}


def mover(trained: Trained, settings: Mapping[str, Any]) -> Moved | None:
    """Return what makes test inputs of those of the fit; None where they are the
    same.
    """
    if trained.network_of.shift is None:
        return None
    xp = trained.draws.xp
    law = settings["law"]

    def moved(inputs: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        plain = trained.inputs.signal(inputs, xp)
        signal = plain @ xp.asarray(law.root.T) + xp.asarray(law.mean)
        # all directions get the factor of the bulk, those of the target what is missing
        # to their own law
        elsewhere = law.bulk * inputs
        trained.inputs.add_along(elsewhere, signal - law.bulk * plain, xp)
        # the label turns, not the input, which is made already; the last axis is one
        # that no step and no target knows
        if law.angle:
            signal[:, 0] = (
                np.cos(law.angle) * signal[:, 0] + np.sin(law.angle) * elsewhere[:, -1]
            )
        return elsewhere, signal

    return moved


# -- beyond the mean error of one network: gradients, perturbed inputs, calibration ----


def measure_sensitivity(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure the gradient of every fit at fresh inputs, and its errors to first order
    in the perturbation.
    """
    if trained.network_of.inputs is not None:
        raise bad_field(
            "inputs",
            type(trained.network_of.inputs).__name__,
            'left out where what="sensitivity"',
        )
    network = trained.network
    xp = trained.draws.xp
    eps = np.asarray(settings["eps"])
    fitted = trained.fitted(ridges).weights
    rows = int(settings.get("test_samples") or 1)
    norm = np.zeros(len(ridges))
    along = np.zeros(len(ridges))
    attacked = np.zeros((len(ridges), len(eps)))
    for outputs, signal, inputs in outputs_of(
        (trained,), {ONLY: fitted}, rows, mover(trained, settings)
    ):
        labels = np.asarray(network.target(signal))
        slopes = multiply(inputs, network.weights.T, xp)
        # in place of <w_i,x>
        apply_by_rows(network.activation.derivative, slopes, slopes, xp)
        for point, output in enumerate(outputs[0].T):
            # grad f = sum_i b_i sigma'(<w_i,x>) w_i: beyond_the_error section 5
            gradient = multiply(slopes * fitted[:, point], network.weights, xp)
            squares = to_numpy(xp.sum(gradient**2, axis=1))
            norm[point] += squares.sum() / rows
            along[point] += (
                # the directions of the target are orthonormal: their overlaps are its
                # part there
                float(xp.sum(trained.inputs.signal(gradient, xp) ** 2)) / rows
            )
            perturbed = _attacked(
                trained, settings["shifted_noise"], output, labels, squares, eps
            )
            attacked[point] += perturbed / rows
    return {
        "gradient_norm2": norm,
        "gradient_learnt": along,
        "gradient_rest": norm - along,
        "attacked_error": attacked,
    }


def _attacked(
    trained: Trained,
    noise: float,
    outputs: Floats,
    labels: Floats,
    squares: Floats,
    eps: Floats,
) -> Floats:
    """Return the sum over inputs of their perturbed errors (E,), averaged over the
    noise of fresh labels.
    """
    size = np.sqrt(squares)
    if trained.network_of.readout.classes:
        # beyond_the_error (5.7): to first order a perturbation takes eps |grad f| off
        # the margin
        pushed = eps[:, None] * size
        # labels that are kept, and those that are flipped
        right = labels * outputs < pushed
        turned = -labels * outputs < pushed
        return np.asarray(
            (1 - trained.flip) * right.sum(axis=1) + trained.flip * turned.sum(axis=1)
        )
    gap = labels - outputs
    # beyond_the_error (5.6), in the mean over label noise: E|y - f| and E(y - f)^2
    far = folded_mean(gap, np.sqrt(noise)) if noise else np.abs(gap)
    alone = np.sum(gap**2 + noise)
    return np.asarray(alone + 2 * eps * np.sum(far * size) + eps**2 * np.sum(squares))


def measure_calibration(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure probabilities of classes, or intervals of regression, at fresh inputs."""
    network = trained.network_of
    rows = int(settings.get("test_samples") or 1)
    fit = trained.fitted(ridges)
    moved = mover(trained, settings)
    # quantiles and cells need all outputs at once
    seen = [
        (part[0], signal)
        for part, signal, _ in outputs_of((trained,), {ONLY: fit.weights}, rows, moved)
    ]
    outputs, signals = (np.concatenate(parts) for parts in zip(*seen))
    labels = np.asarray(network.target(signals))
    nothing = np.full(len(ridges), np.nan)
    logits = np.asarray(settings["logit"])
    if network.sign_direction is None:
        noise = settings["shifted_noise"]
        values = [
            # f - y in place of y - f: intervals are symmetric
            _intervals(noise, fit.train[b], gap)
            for b, gap in enumerate(outputs.T - labels)
        ]
        none = {
            **dict.fromkeys(OF_CLASSES, nothing),
            "reliability": np.full((len(ridges), len(logits)), np.nan),
        }
        return {
            **none,
            "coverage": np.array(values)[:, 0],
            "honest_width": np.array(values)[:, 1],
        }
    # P(y = 1): every input has both labels, with their probabilities
    positive = 0.5 * (1 + (1 - 2 * trained.flip) * labels)
    found = [_scores(output, positive, logits) for output in outputs.T]
    scores = {name: np.array([one[name] for one in found]) for name in found[0]}
    return {**scores, "coverage": nothing, "honest_width": nothing}


def _intervals(noise: float, train: float, gaps: Floats) -> tuple[float, float]:
    """Return the coverage of the naive interval and the honest half width, averaged
    over fresh label noise.
    """
    # a distribution of steps, whose quantile lies between two of them
    if not noise:
        sizes = np.abs(gaps)
        return float(np.mean(sizes <= NAIVE * np.sqrt(train))), float(
            np.quantile(sizes, WANTED)
        )
    # with noise every input is a Gaussian, as at a node of a rule
    even = np.full(len(gaps), 1 / len(gaps))
    variance = np.full(len(gaps), noise)
    return coverage(NAIVE * np.sqrt(train), gaps, variance, even), honest_width(
        gaps, variance, even
    )


def _scores(outputs: Floats, positive: Floats, logits: Floats) -> dict[str, Any]:
    """Return what outputs (m,) are worth as logits; what needs a density is counted in
    cells of equal numbers.
    """
    cells = np.array_split(np.argsort(outputs), CELLS)
    # what the output is in a cell, and how often the label is 1 there
    said, share = (
        np.array([values[cell].mean() for cell in cells])
        for values in (outputs, positive)
    )

    def log_loss(b: float) -> float:
        # label -1 costs log(1 + e^l) = log(1 + e^-l) + l: beyond_the_error (3.6)
        return float(
            np.mean(np.logaddexp(0.0, -b * outputs) + (1 - positive) * b * outputs)
        )

    def slope(b: float) -> float:
        # the derivative of the loss, which is convex in b: beyond_the_error (3.7)
        return float(np.mean((expit(b * outputs) - positive) * outputs))

    # no root at b > 0, T infinite: beyond_the_error section 3
    sharpness = 0.0
    if slope(0.0) < 0:
        if slope(SHARPEST) > 0:
            sharpness = float(brentq(slope, 0.0, SHARPEST))
        else:
            sharpness = SHARPEST
    if len(logits) > 1:
        edges = cell_edges(logits)
    else:
        # one logit alone has a cell as wide as those of the list that is the default
        edges = logits[0] + np.array([-0.25, 0.25])
    place = np.searchsorted(edges, outputs) - 1
    # outputs beyond the first and the last edge belong to no cell
    inside = (place >= 0) & (place < len(logits))
    counts, hits = (
        np.bincount(place[inside], w, len(logits)) for w in (None, positive[inside])
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        reliability = np.where(counts >= LEAST_COUNT, hits / counts, np.nan)
    # in the order of `OF_CLASSES`
    values = (
        *(
            log_loss(1.0),
            float(
                # y^2 = y for y = 0 or 1
                np.mean(positive + expit(outputs) ** 2 - 2 * positive * expit(outputs))
            ),
        ),
        *(
            float(np.mean(np.abs(share - expit(said)))),
            1 / sharpness if sharpness else np.inf,
            log_loss(sharpness),
        ),
        *(
            float(np.mean(np.abs(share - expit(sharpness * said)))),
            # the best function of the output says the share of its cell, and loses the
            # entropy of the label there
            float(np.mean(entr(share) + entr(1 - share))),
        ),
    )
    return {**dict(zip(OF_CLASSES, values)), "reliability": reliability}
