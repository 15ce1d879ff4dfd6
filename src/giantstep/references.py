"""The papers behind what is computed, as BibTeX, and `cite`, which picks those of one result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from giantstep.errors import InputError

if TYPE_CHECKING:
    import xarray

    from giantstep.scenario import Scenario

BIBTEX = {
    "dandi2025random": r"""@inproceedings{dandi2025random,
  title     = {A Random Matrix Theory Perspective on the Spectrum of Learned Features and Asymptotic
               Generalization Capabilities},
  author    = {Dandi, Yatin and Pesce, Luca and Cui, Hugo and Krzakala, Florent and Lu, Yue M. and
               Loureiro, Bruno},
  booktitle = {International Conference on Artificial Intelligence and Statistics},
  year      = {2025},
  eprint    = {2410.18938},
  archivePrefix = {arXiv},
}""",
    "cui2024asymptotics": r"""@inproceedings{cui2024asymptotics,
  title     = {Asymptotics of feature learning in two-layer networks after one gradient-step},
  author    = {Cui, Hugo and Pesce, Luca and Dandi, Yatin and Krzakala, Florent and Lu, Yue M. and
               Zdeborov{\'a}, Lenka and Loureiro, Bruno},
  booktitle = {International Conference on Machine Learning},
  year      = {2024},
  eprint    = {2402.04980},
  archivePrefix = {arXiv},
}""",
    "mei2022generalization": r"""@article{mei2022generalization,
  title     = {The generalization error of random features regression: precise asymptotics and the double
               descent curve},
  author    = {Mei, Song and Montanari, Andrea},
  journal   = {Communications on Pure and Applied Mathematics},
  year      = {2022},
  eprint    = {1908.05355},
  archivePrefix = {arXiv},
}""",
    "ba2022high": r"""@inproceedings{ba2022high,
  title     = {High-dimensional Asymptotics of Feature Learning: How One Gradient Step Improves the Representation},
  author    = {Ba, Jimmy and Erdogdu, Murat A. and Suzuki, Taiji and Wang, Zhichao and Wu, Denny and Yang, Greg},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2022},
  eprint    = {2205.01445},
  archivePrefix = {arXiv},
}""",
    "moniri2024theory": r"""@inproceedings{moniri2024theory,
  title     = {A Theory of Non-Linear Feature Learning with One Gradient Step in Two-Layer Neural Networks},
  author    = {Moniri, Behrad and Lee, Donghwan and Hassani, Hamed and Dobriban, Edgar},
  booktitle = {International Conference on Machine Learning},
  year      = {2024},
  eprint    = {2310.07891},
  archivePrefix = {arXiv},
}""",
    "hastie2022surprises": r"""@article{hastie2022surprises,
  title     = {Surprises in high-dimensional ridgeless least squares interpolation},
  author    = {Hastie, Trevor and Montanari, Andrea and Rosset, Saharon and Tibshirani, Ryan J.},
  journal   = {The Annals of Statistics},
  year      = {2022},
  eprint    = {1903.08560},
  archivePrefix = {arXiv},
}""",
    "pesce2022subspace": r"""@inproceedings{pesce2022subspace,
  title     = {Subspace clustering in high-dimensions: Phase transitions \& Statistical-to-Computational gap},
  author    = {Pesce, Luca and Loureiro, Bruno and Krzakala, Florent and Zdeborov{\'a}, Lenka},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  year      = {2022},
  eprint    = {2205.13527},
  archivePrefix = {arXiv},
}""",
    "lesieur2016phase": r"""@inproceedings{lesieur2016phase,
  title     = {Phase transitions and optimal algorithms in high-dimensional {Gaussian} mixture clustering},
  author    = {Lesieur, Thibault and De Bacco, Caterina and Banks, Jess and Krzakala, Florent and Moore, Cris and
               Zdeborov{\'a}, Lenka},
  booktitle = {Allerton Conference on Communication, Control, and Computing},
  year      = {2016},
  eprint    = {1610.02918},
  archivePrefix = {arXiv},
}""",
}
"""BibTeX key -> entry; the keys are those of `Scenario.papers`."""


def cite(source: xarray.Dataset | Scenario) -> str:
    """Return the BibTeX entries of the papers behind a result or a scenario, and of giantstep itself."""
    keys, version = _papers(source)
    unknown = [key for key in keys if key not in BIBTEX]
    if unknown:
        raise InputError(f"There is no BibTeX entry for {', '.join(unknown)}.")
    return "\n\n".join([*(BIBTEX[key] for key in keys), software(version)]) + "\n"


def software(version: str) -> str:
    """Return the BibTeX entry of giantstep at a version."""
    return (
        "@software{giantstep,\n"
        "  title   = {giantstep: exact high-dimensional theory of feature learning, with the experiment\n"
        "             beside it},\n"
        "  author  = {{The giantstep developers}},\n"
        f"  version = {{{version}}},\n"
        "}"
    )


def _papers(source: Any) -> tuple[list[str], str]:
    from giantstep import __version__

    attrs = getattr(source, "attrs", None)
    if isinstance(attrs, dict) and "papers" in attrs:
        return [key for key in attrs["papers"].split(", ") if key], str(attrs["giantstep_version"])
    if isinstance(getattr(source, "papers", None), tuple):
        return list(source.papers), __version__
    raise InputError(f"cite takes a result or a scenario, not a {type(source).__name__}.")
