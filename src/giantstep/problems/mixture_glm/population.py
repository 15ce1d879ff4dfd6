"""The population an experiment draws from: vectors with the prescribed overlaps,
samples, teacher fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import DeviceArray, Floats, Indices
from giantstep.core.lab import Draws, to_numpy
from giantstep.problems.mixture_glm.parts import (
    Blocks,
    Dense,
    Isotropic,
    Spiked,
    joint_gram,
)
from giantstep.problems.mixture_glm.scenario import MixtureGLM


@dataclass
class Population:
    """Clusters at a finite dimension; vectors are NumPy arrays, samples live on the
    device of the draws.
    """

    p: Floats  # (K,) probabilities of the clusters
    means: Floats  # (K, d) vectors mu_c
    covariances: Floats  # (K, d) variances along the coordinates, or (K, d, d) matrices
    spikes: Floats  # (J, d) vectors; each adds its outer product to every covariance
    # theta0, or None where `cross` says how teacher field and inputs go together
    teacher: Floats | None
    cross: Floats  # (K, d) vectors s_c = sqrt(d) Cov_c(nu, x)
    rho: Floats  # (K,) variance of the teacher field
    tau: Floats  # (K,) its mean

    @classmethod
    def with_teacher(
        cls,
        p: Floats,
        teacher: Floats,
        means: Floats,
        covariances: Floats,
        spikes: Floats,
    ) -> Population:
        """Return clusters whose teacher field is <theta0, x>/sqrt(d)."""
        tau = means @ teacher / np.sqrt(len(teacher))
        # cross and rho follow
        population = cls(p, means, covariances, spikes, teacher, means, tau, tau)
        population.cross = np.stack(
            [population.covariance_times(c, teacher) for c in range(len(p))]
        )
        population.rho = population.cross @ teacher / len(teacher)
        return population

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return int(self.means.shape[1])

    def covariance_times(self, c: int, vector: Floats) -> Floats:
        """Return Sigma_c v."""
        if self.covariances.ndim == 3:
            own = self.covariances[c] @ vector
        else:
            own = self.covariances[c] * vector
        return own + self.spikes.T @ (self.spikes @ vector)

    def overlaps(self, w: Floats) -> dict[str, Floats]:
        """Return q_c, m_c, h_c of weights, each (K,)."""
        d = self.dim
        q = np.array([w @ self.covariance_times(c, w) / d for c in range(len(self.p))])
        return {"q": q, "m": self.cross @ w / d, "h": self.means @ w / np.sqrt(d)}

    def dense(self) -> Floats:
        """Return the covariances as (K, d, d) matrices."""
        own = self.covariances
        return (
            own if own.ndim == 3 else np.stack([np.diag(row) for row in own])
        ) + self.spikes.T @ self.spikes

    # -- the two single Gaussians ------------------------------------------------------

    def matched(self) -> Population:
        """Return one Gaussian with the mean and covariance of (nu, x) over all
        clusters.
        """
        mean = self.p @ self.means
        tau = float(self.p @ self.tau)
        away = self.means - mean
        off = self.tau - tau
        cross = self.p @ self.cross + np.sqrt(self.dim) * (self.p * off) @ away
        rho = float(self.p @ self.rho + self.p @ off**2)
        spikes = np.vstack([self.spikes, np.sqrt(self.p)[:, None] * away])
        return self._with_one_cluster(mean, spikes, cross, rho, tau)

    def within(self) -> Population:
        """Return the centred Gaussian with the mean covariance of the clusters."""
        zero = np.zeros(self.dim)
        return self._with_one_cluster(
            zero, self.spikes, self.p @ self.cross, float(self.p @ self.rho), 0.0
        )

    def _with_one_cluster(
        self, mean: Floats, spikes: Floats, cross: Floats, rho: float, tau: float
    ) -> Population:
        covariance = np.tensordot(self.p, self.covariances, axes=1)
        return replace(
            self,
            p=np.ones(1),
            means=mean[None],
            covariances=covariance[None],
            spikes=spikes,
            cross=cross[None],
            rho=np.array([rho]),
            tau=np.array([tau]),
        )

    # -- samples -----------------------------------------------------------------------

    def sample(
        self, count: int, draws: Draws, stream: str = ""
    ) -> tuple[DeviceArray, Indices, DeviceArray]:
        """Draw inputs (n, d), their clusters and their teacher fields; the first rows
        do not depend on `count`.
        """
        xp = draws.xp
        uniform = draw_vector(draws, f"{stream}clusters", count, draws.uniform)
        clusters = np.searchsorted(np.cumsum(self.p)[:-1], uniform, side="right")
        inputs = xp.empty((count, self.dim))
        for start, stop, rows in draws.chunks(f"{stream}inputs", count, self.dim):
            inputs[start:stop] = rows
        if self.covariances.ndim == 3:
            for c, root in enumerate(map(_root, self.covariances)):
                chosen = xp.asarray(clusters == c)
                inputs[chosen] = inputs[chosen] @ xp.asarray(root)
        else:
            inputs *= xp.sqrt(xp.asarray(self.covariances))[xp.asarray(clusters)]
        if len(self.spikes):
            for start, stop, rows in draws.chunks(
                f"{stream}spikes", count, len(self.spikes)
            ):
                inputs[start:stop] += rows @ xp.asarray(self.spikes)
        inputs += xp.asarray(self.means)[xp.asarray(clusters)]
        return inputs, clusters, self._fields(inputs, clusters, draws, stream)

    def _fields(
        self, inputs: DeviceArray, clusters: Indices, draws: Draws, stream: str
    ) -> DeviceArray:
        """Return nu: <theta0, x>/sqrt(d), or, where only covariances are known, its
        Gaussian law given x.
        """
        xp = draws.xp
        root = np.sqrt(self.dim)
        if self.teacher is not None:
            return inputs @ xp.asarray(self.teacher / root)
        fields = xp.asarray(
            draw_vector(draws, f"{stream}fields", len(clusters), draws.normal)
        )
        for c, matrix in enumerate(self.dense()):
            solution = np.linalg.lstsq(matrix, self.cross[c], rcond=1e-10)[0]
            rest = max(float(self.rho[c] - self.cross[c] @ solution / self.dim), 0.0)
            chosen = xp.asarray(clusters == c)
            linear = (inputs[chosen] - xp.asarray(self.means[c])) @ xp.asarray(
                solution / root
            )
            fields[chosen] = self.tau[c] + linear + np.sqrt(rest) * fields[chosen]
        return fields


def draw_vector(
    draws: Draws, stream: str, count: int, draw: Callable[[str, int], DeviceArray]
) -> Floats:
    """Draw numbers a chunk at a time, so that the first ones do not depend on how many
    are wanted.
    """
    pieces = [
        to_numpy(draw(stream, draws.chunk)) for _ in range(-(-count // draws.chunk))
    ]
    return np.concatenate(pieces)[:count]


def _root(matrix: Floats) -> Floats:
    """Return R with R^T R = Sigma, so that z R has covariance Sigma."""
    values, axes = np.linalg.eigh(matrix)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T


# -- vectors with prescribed overlaps --------------------------------------------------


def populate(scenario: MixtureGLM, dim: int, draws: Draws) -> Population:
    """Draw the vectors of one trial: teacher, means and spikes with exactly the
    overlaps of the scenario.
    """
    parts = scenario.covariances
    if isinstance(parts, Dense):
        return _dense(scenario, parts, dim, draws)
    return _blocks(
        scenario,
        parts.as_blocks() if isinstance(parts, Isotropic) else parts,
        dim,
        draws,
    )


def with_gram(gram: Floats, normals: Floats) -> Floats:
    """Return vectors (r, d) with this Gram matrix (if d is below its rank, on average),
    along normals (d, r).
    """
    values, axes = np.linalg.eigh(gram)
    rank = int(np.sum(values > 1e-12 * max(values.max(initial=0.0), 1e-300)))
    root = axes[:, len(values) - rank :] * np.sqrt(values[len(values) - rank :])
    chosen = normals[:, :rank]
    if rank <= len(normals):
        frame = np.linalg.qr(chosen)[0]
    else:
        frame = chosen / np.sqrt(len(normals))
    return root @ frame.T


def _blocks(
    scenario: MixtureGLM, parts: Blocks | Spiked, dim: int, draws: Draws
) -> Population:
    p = scenario.p
    count = scenario.clusters
    known = (scenario.teacher_norm, scenario.tau, scenario.gram)
    wanted = np.array(parts.weights) / np.sum(parts.weights) * dim
    strengths = np.zeros(0)
    # of the blocks: shares rounded so that they add up
    sizes = np.floor(wanted + 1e-9).astype(np.intp)
    sizes[np.argsort(sizes - wanted, kind="stable")[: dim - int(sizes.sum())]] += 1
    if isinstance(
        parts, Spiked
    ):  # their directions lean on teacher and mean in every block alike
        along = parts.along
        strengths = np.array(parts.strengths)
        grams = [
            np.block([[joint_gram(*known), along], [along.T, np.eye(len(strengths))]])
        ] * len(sizes)
    elif parts.moments.size:
        grams = list(np.asarray(parts.moments))
    else:
        grams = [joint_gram(*block) for block in parts.overlaps(*known)]
    pieces = []
    for gram, size in zip(grams, sizes):
        normals = to_numpy(draws.normal("vectors", (int(size), len(gram))))
        if isinstance(parts, Blocks) and parts.law == "fixed":
            values, axes = np.linalg.eigh(gram)
            pieces.append(
                np.tile(
                    (axes[:, -1] * np.sqrt(max(values[-1], 0.0)))[:, None], int(size)
                )
            )
        else:
            pieces.append(
                with_gram(gram, normals) * np.sqrt(size)
                if size
                else np.zeros((len(gram), 0))
            )
    vectors = np.concatenate(pieces, axis=1)
    unit = vectors / np.sqrt(dim)
    variances = np.repeat(np.atleast_2d(parts.values), sizes, axis=1)
    if isinstance(parts, Blocks) and parts.moments.size:
        rho = np.array(parts.teacher_variance)
        no_spikes = np.zeros((0, dim))
        return Population(
            p,
            unit[count:],
            variances,
            no_spikes,
            None,
            vectors[:count],
            rho,
            scenario.tau,
        )
    spikes = np.sqrt(strengths)[:, None] * unit[1 + count :]
    return Population.with_teacher(
        p, vectors[0], unit[1 : 1 + count], variances, spikes
    )


def _dense(scenario: MixtureGLM, parts: Dense, dim: int, draws: Draws) -> Population:
    if dim != parts.dim:
        raise bad_field("dim", dim, f"{parts.dim}, the size of the covariance matrices")
    # of theta0/sqrt(d) and mu_1..mu_K
    gram = joint_gram(scenario.teacher_norm, scenario.tau, scenario.gram)
    matrices = np.asarray(parts.matrices)
    root = np.sqrt(dim)
    no_spikes = np.zeros((0, dim))
    normals = to_numpy(draws.normal("vectors", (dim, len(gram))))
    if parts.teacher.size:
        known = {0: np.asarray(parts.teacher) / root}
    else:
        known = {}
    if parts.means.size:
        known |= {i + 1: mean for i, mean in enumerate(np.asarray(parts.means))}
    if known:
        vectors = _complete(gram, known, normals)
    else:
        vectors = with_gram(gram, normals)
    if not parts.cross.size:
        return Population.with_teacher(
            scenario.p, vectors[0] * root, vectors[1:], matrices, no_spikes
        )
    cross = np.asarray(parts.cross)
    rho = np.array(parts.teacher_variance)
    return Population(
        scenario.p, vectors[1:], matrices, no_spikes, None, cross, rho, scenario.tau
    )


def _complete(gram: Floats, known: dict[int, Floats], normals: Floats) -> Floats:
    """Return vectors with this Gram matrix of which some are known: the others lean on
    them as it says.
    """
    have = sorted(known)
    miss = [i for i in range(len(gram)) if i not in known]
    given = np.stack([known[i] for i in have])
    vectors = np.zeros((len(gram), len(normals)))
    vectors[have] = given
    if miss:
        lean = np.linalg.lstsq(given @ given.T, gram[np.ix_(have, miss)], rcond=1e-10)[
            0
        ].T
        rest = gram[np.ix_(miss, miss)] - lean @ gram[np.ix_(have, miss)]
        frame = np.linalg.qr(
            np.concatenate([given.T, normals[:, : len(miss)]], axis=1)
        )[0][:, len(have) :]
        vectors[miss] = lean @ given + with_gram(rest, frame)
    return vectors
