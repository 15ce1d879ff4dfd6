"""Convex losses with proximal maps, penalties, label laws and channel integrals: what convex estimators share."""

from giantstep.risk.channel import (
    MarginLaws,
    Margins,
    both_labels,
    channel_moments,
    moments_at,
    panel_nodes,
    quadrature,
    sum_rows,
)
from giantstep.risk.labels import BinaryLabels, GivenLabels, LogitLabels, SignLabels, logistic_normal
from giantstep.risk.losses import (
    LOSSES,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    MaxMarginLoss,
    Pull,
    SquareLoss,
    huber,
)
from giantstep.risk.mean_step import implicit_mean_step, stiffness

__all__ = [
    "LOSSES",
    "BinaryLabels",
    "GivenLabels",
    "HingeLoss",
    "HuberLoss",
    "LogitLabels",
    "LogisticLoss",
    "Loss",
    "Margins",
    "MaxMarginLoss",
    "Pull",
    "MarginLaws",
    "SignLabels",
    "SquareLoss",
    "both_labels",
    "channel_moments",
    "huber",
    "implicit_mean_step",
    "logistic_normal",
    "moments_at",
    "panel_nodes",
    "quadrature",
    "stiffness",
    "sum_rows",
]
