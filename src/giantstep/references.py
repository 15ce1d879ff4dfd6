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
    "dandi2024benefits": r"""@inproceedings{dandi2024benefits,
  title         = {The Benefits of Reusing Batches for Gradient Descent in Two-Layer Networks: Breaking the Curse of
                   Information and Leap Exponents},
  author        = {Dandi, Yatin and Troiani, Emanuele and Arnaboldi, Luca and Pesce, Luca and Zdeborov{\'a}, Lenka and
                   Krzakala, Florent},
  booktitle     = {International Conference on Machine Learning},
  year          = {2024},
  eprint        = {2402.03220},
  archiveprefix = {arXiv},
}""",
    "arnaboldi2024online": r"""@misc{arnaboldi2024online,
  title         = {Online Learning and Information Exponents: On The Importance of Batch size, and Time/Complexity
                   Tradeoffs},
  author        = {Arnaboldi, Luca and Dandi, Yatin and Krzakala, Florent and Loureiro, Bruno and Pesce, Luca and
                   Stephan, Ludovic},
  year          = {2024},
  eprint        = {2406.02157},
  archivePrefix = {arXiv},
}""",
    "arnaboldi2024repetita": r"""@misc{arnaboldi2024repetita,
  title         = {Repetita Iuvant: Data Repetition Allows {SGD} to Learn High-Dimensional Multi-Index Functions},
  author        = {Arnaboldi, Luca and Dandi, Yatin and Krzakala, Florent and Pesce, Luca and Stephan, Ludovic},
  year          = {2024},
  eprint        = {2405.15459},
  archivePrefix = {arXiv},
}""",
    "saad1995online": r"""@article{saad1995online,
  title     = {On-line learning in soft committee machines},
  author    = {Saad, David and Solla, Sara A.},
  journal   = {Physical Review E},
  volume    = {52},
  year      = {1995},
}""",
    "dandi2023giant": r"""@misc{dandi2023giant,
  title     = {How Two-Layer Neural Networks Learn, One (Giant) Step at a Time},
  author    = {Dandi, Yatin and Krzakala, Florent and Loureiro, Bruno and Pesce, Luca and Stephan, Ludovic},
  year      = {2023},
  eprint    = {2305.18270},
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
    "pesce2023gaussian": r"""@inproceedings{pesce2023gaussian,
  title     = {Are {Gaussian} data all you need? {The} extents and limits of universality in high-dimensional
               generalized linear estimation},
  author    = {Pesce, Luca and Krzakala, Florent and Loureiro, Bruno and Stephan, Ludovic},
  booktitle = {International Conference on Machine Learning},
  year      = {2023},
  eprint    = {2302.08923},
  archivePrefix = {arXiv},
}""",
    "loureiro2021learning": r"""@inproceedings{loureiro2021learning,
  title     = {Learning curves of generic features maps for realistic datasets with a teacher-student model},
  author    = {Loureiro, Bruno and Gerbelot, C{\'e}dric and Cui, Hugo and Goldt, Sebastian and Krzakala, Florent and
               M{\'e}zard, Marc and Zdeborov{\'a}, Lenka},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {34},
  year      = {2021},
  eprint    = {2102.08127},
  archivePrefix = {arXiv},
}""",
    "loureiro2021mixtures": r"""@inproceedings{loureiro2021mixtures,
  title     = {Learning {Gaussian} mixtures with generalised linear models: Precise asymptotics in high-dimensions},
  author    = {Loureiro, Bruno and Sicuro, Gabriele and Gerbelot, C{\'e}dric and Pacco, Alessandro and Krzakala, Florent
               and Zdeborov{\'a}, Lenka},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {34},
  year      = {2021},
  eprint    = {2106.03791},
  archivePrefix = {arXiv},
}""",
    "gerace2024gaussian": r"""@article{gerace2024gaussian,
  title     = {Gaussian universality of perceptrons with random labels},
  author    = {Gerace, Federica and Krzakala, Florent and Loureiro, Bruno and Stephan, Ludovic and
               Zdeborov{\'a}, Lenka},
  journal   = {Physical Review E},
  volume    = {109},
  year      = {2024},
  eprint    = {2205.13303},
  archivePrefix = {arXiv},
}""",
}
"""BibTeX key -> entry; the keys are those of `Scenario.papers`."""


def cite(source: xarray.Dataset | Scenario) -> str:
    """Return the BibTeX entries of the papers behind a result or a scenario, and of giantstep itself.

    Examples
    --------
    >>> import giantstep as gs
    >>> text = gs.cite(gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1))
    >>> text.splitlines()[0], "@software{giantstep," in text
    ('@inproceedings{dandi2025random,', True)
    """
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
