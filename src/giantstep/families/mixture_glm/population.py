"""The population an experiment draws from: vectors with the prescribed overlaps, samples, teacher fields, labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.mixture_glm.overlaps import Labels
from giantstep.families.mixture_glm.parts import Blocks, Dense, Spiked
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.gaussian import Function
from giantstep.types import Floats, Indices


@dataclass
class Population:
    """Clusters at a finite dimension; vectors are NumPy arrays, samples live on the device of the draws.

    Attributes
    ----------
    p : (K,) probabilities of the clusters.
    means : (K, d) vectors mu_c.
    variances : (K, d) variances along the coordinates, or None where `matrices` are given.
    matrices : (K, d, d) covariances, or None.
    spikes : (J, d) vectors; each adds its outer product to every covariance.
    teacher : theta0, or None where `cross` says how teacher field and inputs go together.
    cross : (K, d) vectors s_c = sqrt(d) Cov_c(nu, x).
    rho, tau : (K,) variance and mean of the teacher field.
    """

    p: Floats
    means: Floats
    variances: Floats | None
    matrices: Floats | None
    spikes: Floats
    teacher: Floats | None
    cross: Floats
    rho: Floats
    tau: Floats

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return int(self.means.shape[1])

    def covariance_times(self, c: int, vector: Floats) -> Floats:
        """Return Sigma_c v."""
        own = self.matrices[c] @ vector if self.matrices is not None else _rows(self.variances)[c] * vector
        return own + self.spikes.T @ (self.spikes @ vector)

    def overlaps(self, w: Floats) -> dict[str, Floats]:
        """Return q_c, m_c, h_c of weights, each (K,)."""
        d, clusters = self.dim, range(len(self.p))
        return {
            "q": np.array([w @ self.covariance_times(c, w) / d for c in clusters]),
            "m": self.cross @ w / d,
            "h": self.means @ w / np.sqrt(d),
        }

    def dense(self) -> Floats:
        """Return the covariances as (K, d, d) matrices."""
        own = self.matrices if self.matrices is not None else np.stack([np.diag(row) for row in _rows(self.variances)])
        return own + self.spikes.T @ self.spikes

    # -- the two single Gaussians --------------------------------------------------------------------

    def matched(self) -> Population:
        """Return one Gaussian with the mean and covariance of (nu, x) over all clusters."""
        mean, tau = self.p @ self.means, float(self.p @ self.tau)
        away, off = self.means - mean, self.tau - tau
        cross = self.p @ self.cross + np.sqrt(self.dim) * (self.p * off) @ away
        rho = float(self.p @ self.rho + self.p @ off**2)
        spikes = np.vstack([self.spikes, np.sqrt(self.p)[:, None] * away])
        return self._single(mean, spikes, cross, rho, tau)

    def within(self) -> Population:
        """Return the centred Gaussian with the mean covariance of the clusters."""
        return self._single(np.zeros(self.dim), self.spikes, self.p @ self.cross, float(self.p @ self.rho), 0.0)

    def _single(self, mean: Floats, spikes: Floats, cross: Floats, rho: float, tau: float) -> Population:
        def averaged(stack: Floats | None) -> Floats | None:
            return None if stack is None else np.tensordot(self.p, stack, axes=1)[None]

        return replace(
            self, p=np.ones(1), means=mean[None], variances=averaged(self.variances), matrices=averaged(self.matrices),
            spikes=spikes, cross=cross[None], rho=np.array([rho]), tau=np.array([tau]),
        )  # fmt: skip

    # -- samples -------------------------------------------------------------------------------------

    def sample(self, count: int, draws: Any, stream: str = "") -> tuple[Any, Indices, Any]:
        """Draw inputs (n, d), their clusters and their teacher fields; the first rows do not depend on `count`."""
        xp = draws.xp
        places = np.cumsum(self.p)[:-1]
        clusters = np.searchsorted(places, _vector(draws, f"{stream}clusters", count, draws.uniform), side="right")
        inputs = xp.empty((count, self.dim))
        for start, stop, rows in draws.chunks(f"{stream}inputs", count, self.dim):
            inputs[start:stop] = rows
        if self.matrices is not None:
            for c, root in enumerate(map(_root, self.matrices)):
                chosen = xp.asarray(clusters == c)
                inputs[chosen] = inputs[chosen] @ xp.asarray(root)
        else:
            inputs *= xp.sqrt(xp.asarray(_rows(self.variances)))[xp.asarray(clusters)]
        if len(self.spikes):
            for start, stop, rows in draws.chunks(f"{stream}spikes", count, len(self.spikes)):
                inputs[start:stop] += rows @ xp.asarray(self.spikes)
        inputs += xp.asarray(self.means)[xp.asarray(clusters)]
        return inputs, clusters, self._fields(inputs, clusters, draws, stream)

    def _fields(self, inputs: Any, clusters: Indices, draws: Any, stream: str) -> Any:
        """Return nu: <theta0, x>/sqrt(d), or, where only covariances are known, its Gaussian law given x."""
        xp, root = draws.xp, np.sqrt(self.dim)
        if self.teacher is not None:
            return inputs @ xp.asarray(self.teacher / root)
        fields = xp.asarray(_vector(draws, f"{stream}fields", len(clusters), draws.normal))
        for c, matrix in enumerate(self.dense()):
            solution = np.linalg.lstsq(matrix, self.cross[c], rcond=1e-10)[0]
            rest = max(float(self.rho[c] - self.cross[c] @ solution / self.dim), 0.0)
            chosen = xp.asarray(clusters == c)
            linear = (inputs[chosen] - xp.asarray(self.means[c])) @ xp.asarray(solution / root)
            fields[chosen] = self.tau[c] + linear + np.sqrt(rest) * fields[chosen]
        return fields


def labels_of(scenario: MixtureGLM, *, clean: bool = False) -> list[Labels]:
    """Return how the labels of each cluster are made; clean ones without noise and flips."""
    noise, flip = (0.0, 0.0) if clean else (scenario.noise, scenario.flip)
    if scenario.labels == "cluster":
        return [Labels("cluster", flip=flip, sign=float(sign)) for sign in scenario.signs]
    if isinstance(scenario.labels, str) and scenario.binary:
        return [Labels(scenario.labels, noise=noise, flip=flip)] * scenario.clusters
    function, kinks = _real(scenario.labels)
    return [Labels("real", function, kinks, noise)] * scenario.clusters


def _real(labels: str | Function) -> tuple[Callable[[Any], Any], tuple[float, ...]]:
    if labels == "linear":
        return (lambda z: z), ()
    if labels == "phase":
        return abs, (0.0,)
    if labels == "square":
        return (lambda z: z**2), ()
    assert isinstance(labels, Function)
    return labels, tuple(float(kink) for kink in labels.kinks)


def draw_labels(labels: list[Labels], fields: Any, clusters: Indices, draws: Any, stream: str = "") -> Any:
    """Draw the label of each sample given its teacher field and cluster."""
    xp, law, count = draws.xp, labels[0], len(clusters)
    if law.kind == "real":
        assert law.function is not None
        values = xp.asarray(law.function(fields))
        if law.noise:
            values = values + law.noise**0.5 * xp.asarray(_vector(draws, f"{stream}noise", count, draws.normal))
        return values
    if law.kind == "sign":
        noisy = fields
        if law.noise:
            noisy = fields + law.noise**0.5 * xp.asarray(_vector(draws, f"{stream}noise", count, draws.normal))
        values = xp.where(noisy >= 0, 1.0, -1.0)
    elif law.kind == "cluster":
        values = xp.asarray(np.array([one.sign for one in labels])[clusters])
    else:
        chance = 0.5 * (1 + xp.tanh(fields / 2)) if law.kind == "logit" else 0.5
        values = xp.where(xp.asarray(_vector(draws, f"{stream}coin", count, draws.uniform)) < chance, 1.0, -1.0)
    if law.flip:
        turned = xp.asarray(_vector(draws, f"{stream}flips", count, draws.uniform)) < law.flip
        values = xp.where(turned, -values, values)
    return values


def _vector(draws: Any, stream: str, count: int, draw: Callable[[str, int], Any]) -> Floats:
    """Draw numbers a chunk at a time, so that the first ones do not depend on how many are wanted."""
    from giantstep.lab import to_numpy

    pieces = [to_numpy(draw(stream, draws.chunk)) for _ in range(-(-count // draws.chunk))]
    return np.concatenate(pieces)[:count]


# -- vectors with prescribed overlaps --------------------------------------------------------------------------


def populate(scenario: MixtureGLM, dim: int, draws: Any) -> Population:
    """Draw the vectors of one trial: teacher, means and spikes with exactly the overlaps of the scenario."""
    parts = scenario.covariances
    if isinstance(parts, Dense):
        return _dense(scenario, parts, dim, draws)
    if isinstance(parts, Blocks):
        return _blocks(scenario, parts, dim, draws)
    if isinstance(parts, Spiked):
        return _spiked(scenario, parts, dim, draws)
    gram = joint_gram(scenario)
    vectors = with_gram(gram, _normals(draws, dim, len(gram)))
    variances = np.tile(np.array(parts.values)[:, None], dim)
    return _plain(scenario, vectors[0] * np.sqrt(dim), vectors[1:], variances, None)


def joint_gram(scenario: MixtureGLM) -> Floats:
    """Return the Gram matrix of (theta0/sqrt(d), mu_1..mu_K)."""
    tau = scenario.tau[None, :]
    return np.block([[np.array([[scenario.teacher_norm]]), tau], [tau.T, scenario.gram]])


def with_gram(gram: Floats, normals: Floats) -> Floats:
    """Return vectors (r, d) with exactly this Gram matrix, in directions given by normals (d, r).

    With fewer dimensions than the matrix has rank, it is met on average only.
    """
    values, axes = np.linalg.eigh(gram)
    rank = int(np.sum(values > 1e-12 * max(values.max(initial=0.0), 1e-300)))
    root = axes[:, len(values) - rank :] * np.sqrt(values[len(values) - rank :])
    chosen = normals[:, :rank]
    frame = np.linalg.qr(chosen)[0] if rank <= len(normals) else chosen / np.sqrt(len(normals))
    return root @ frame.T


def block_sizes(weights: Floats, dim: int) -> Indices:
    """Return how many of d coordinates each block has: shares rounded so that they add up."""
    wanted = weights / weights.sum() * dim
    sizes = np.floor(wanted + 1e-9).astype(np.intp)
    short = dim - int(sizes.sum())
    sizes[np.argsort(sizes - wanted, kind="stable")[:short]] += 1
    return sizes


def _normals(draws: Any, dim: int, count: int) -> Floats:
    from giantstep.lab import to_numpy

    return to_numpy(draws.normal("vectors", (dim, count)))


def _plain(
    scenario: MixtureGLM,
    teacher: Floats,
    means: Floats,
    variances: Floats | None,
    matrices: Floats | None,
    spikes: Any = None,
) -> Population:
    dim = len(teacher)
    spikes = np.zeros((0, dim)) if spikes is None else spikes
    found = Population(
        scenario.p, means, variances, matrices, spikes, teacher, np.zeros_like(means), np.zeros(len(means)),
        means @ teacher / np.sqrt(dim),
    )  # fmt: skip
    found.cross = np.stack([found.covariance_times(c, teacher) for c in range(len(means))])
    found.rho = found.cross @ teacher / dim
    return found


def _blocks(scenario: MixtureGLM, parts: Blocks, dim: int, draws: Any) -> Population:
    weights, count = np.array(parts.weights), scenario.clusters
    sizes = block_sizes(weights, dim)
    variances = np.repeat(np.asarray(parts.values), sizes, axis=1)
    moments = (
        [np.asarray(one) for one in np.asarray(parts.moments)] if parts.moments.size else _moments(scenario, parts)
    )
    pieces = []
    for moment, size in zip(moments, sizes):
        normals = _normals(draws, int(size), len(moment))
        if parts.law == "fixed":
            values, axes = np.linalg.eigh(moment)
            pieces.append(np.tile((axes[:, -1] * np.sqrt(max(values[-1], 0.0)))[:, None], int(size)))
        else:
            pieces.append(with_gram(moment, normals) * np.sqrt(size) if size else np.zeros((len(moment), 0)))
    vectors = np.concatenate(pieces, axis=1)
    if not parts.moments.size:
        return _plain(scenario, vectors[0], vectors[1:] / np.sqrt(dim), variances, None)
    return Population(
        scenario.p, vectors[count:] / np.sqrt(dim), variances, None, np.zeros((0, dim)), None, vectors[:count],
        np.array(parts.teacher_variance), scenario.tau,
    )  # fmt: skip


def _moments(scenario: MixtureGLM, parts: Blocks) -> list[Floats]:
    """Return, for each block, the second moment of a coordinate of (theta0, sqrt(d) mu_1..mu_K)."""
    blocks, count = len(parts.weights), scenario.clusters
    teacher = np.array(parts.teacher) if parts.teacher else np.full(blocks, scenario.teacher_norm)
    means = np.asarray(parts.means) if parts.means.size else np.broadcast_to(scenario.gram, (blocks, count, count))
    along = np.asarray(parts.teacher_means) if parts.teacher_means.size else np.tile(scenario.tau, (blocks, 1))
    return [
        np.block([[np.array([[teacher[k]]]), along[k][None, :]], [along[k][:, None], means[k]]]) for k in range(blocks)
    ]


def _dense(scenario: MixtureGLM, parts: Dense, dim: int, draws: Any) -> Population:
    if dim != parts.dim:
        raise bad_field("dim", dim, f"{parts.dim}, the size of the covariance matrices")
    matrices, root = np.asarray(parts.matrices), np.sqrt(dim)
    gram = joint_gram(scenario)
    normals = _normals(draws, dim, len(gram))
    known = {i: vector for i, vector in enumerate([np.asarray(parts.teacher) / root, *np.asarray(parts.means)])} if (
        parts.teacher.size and parts.means.size
    ) else {}  # fmt: skip
    if not known and parts.teacher.size:
        known = {0: np.asarray(parts.teacher) / root}
    elif not known and parts.means.size:
        known = {i + 1: vector for i, vector in enumerate(np.asarray(parts.means))}
    vectors = _completed(gram, known, normals)
    if parts.cross.size:
        return Population(
            scenario.p, vectors[1:], None, matrices, np.zeros((0, dim)), None, np.asarray(parts.cross),
            np.array(parts.teacher_variance), scenario.tau,
        )  # fmt: skip
    return _plain(scenario, vectors[0] * root, vectors[1:], None, matrices)


def _completed(gram: Floats, known: dict[int, Floats], normals: Floats) -> Floats:
    """Return vectors with this Gram matrix of which some are known: the others lean on them as it says."""
    if not known:
        return with_gram(gram, normals)
    have, miss = sorted(known), [i for i in range(len(gram)) if i not in known]
    given = np.stack([known[i] for i in have])
    vectors = np.zeros((len(gram), len(normals)))
    vectors[have] = given
    if miss:
        lean = np.linalg.lstsq(given @ given.T, gram[np.ix_(have, miss)], rcond=1e-10)[0].T
        rest = gram[np.ix_(miss, miss)] - lean @ gram[np.ix_(have, miss)]
        frame = np.linalg.qr(np.concatenate([given.T, normals[:, : len(miss)]], axis=1))[0][:, len(have) :]
        vectors[miss] = lean @ given + with_gram(rest, frame)
    return vectors


def _spiked(scenario: MixtureGLM, parts: Spiked, dim: int, draws: Any) -> Population:
    count = len(parts.strengths)
    towards = np.zeros((2, count))
    for row, name in enumerate(("teacher_alignment", "mean_alignment")):
        if getattr(parts, name):
            towards[row] = getattr(parts, name)
    gram = np.block([[joint_gram(scenario), towards], [towards.T, np.eye(count)]])
    sizes = block_sizes(np.array(parts.weights), dim)
    pieces = [with_gram(gram, _normals(draws, int(size), len(gram))) * np.sqrt(size) for size in sizes]
    vectors = np.concatenate(pieces, axis=1)
    variances = np.repeat(np.array(parts.values)[None], sizes, axis=1)
    unit = vectors[1:] / np.sqrt(dim)
    spikes = np.sqrt(np.array(parts.strengths))[:, None] * unit[1:]
    return _plain(scenario, vectors[0], unit[:1], variances, None, spikes)


def _rows(variances: Floats | None) -> Floats:
    assert variances is not None
    return variances


def _root(matrix: Floats) -> Floats:
    """Return R with R^T R = Sigma, so that z R has covariance Sigma."""
    values, axes = np.linalg.eigh(matrix)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T
