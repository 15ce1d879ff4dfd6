"""What is studied: fields with symbol, meaning and bounds, and the table of variables
both engines fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import ClassVar

from giantstep.core.scenario import Number, Question, Scenario, Variable, field


class Skeleton(Scenario):
    """Ridge regression of a linear target on isotropic Gaussian data, in the limit n, d
    -> inf.
    """

    family: ClassVar[str] = "skeleton"
    title: ClassVar[str] = "Ridge regression on isotropic data"
    update_rule: ClassVar[str] = cleandoc("""
        data   x ~ N(0, I_d),  y = <w*, x> + sqrt(noise) N(0, 1),  |w*| = 1
        fit    w = argmin sum_mu (y_mu - <w, x_mu>)^2 + ridge * d * |w|^2  on n samples
        limit  d -> inf with n/d = samples_per_dim fixed
    """)
    questions: ClassVar[Mapping[str, Question]] = {
        "errors": Question(
            "error of the estimated weights",
            (
                Variable(
                    "test_error",
                    (),
                    "E(y - <w,x>)^2",
                    "mean squared error on fresh samples, noise included",
                ),
                Variable(
                    "overlap", (), "<w,w*>", "overlap of the estimate with the target"
                ),
            ),
            plot=("test_error",),
        )
    }
    papers: ClassVar[tuple[str, ...]] = ("hastie2022surprises",)
    # one draw of the data answers every ridge
    shared_fields: ClassVar[tuple[str, ...]] = ("ridge",)

    samples_per_dim: Number = field(
        "alpha = n/d", "samples per dimension", default=2.0, gt=0
    )
    ridge: Number = field(
        "lambda", "penalty in sum (y - <w,x>)^2 + lambda d |w|^2", default=0.1, gt=0
    )
    noise: Number = field("delta", "variance of the label noise", default=0.1, ge=0)
