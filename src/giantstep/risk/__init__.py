"""Convex losses with proximal maps, penalties, label laws and channel integrals: what convex estimators share."""

from giantstep.risk.channel import MarginLaws as MarginLaws
from giantstep.risk.channel import Margins as Margins
from giantstep.risk.channel import both_labels as both_labels
from giantstep.risk.channel import channel_moments as channel_moments
from giantstep.risk.channel import moments_at as moments_at
from giantstep.risk.channel import panel_nodes as panel_nodes
from giantstep.risk.channel import quadrature as quadrature
from giantstep.risk.channel import sum_rows as sum_rows
from giantstep.risk.labels import BinaryLabels as BinaryLabels
from giantstep.risk.labels import GivenLabels as GivenLabels
from giantstep.risk.labels import LogitLabels as LogitLabels
from giantstep.risk.labels import SignLabels as SignLabels
from giantstep.risk.labels import logistic_normal as logistic_normal
from giantstep.risk.losses import LOSSES as LOSSES
from giantstep.risk.losses import HingeLoss as HingeLoss
from giantstep.risk.losses import HuberLoss as HuberLoss
from giantstep.risk.losses import LogisticLoss as LogisticLoss
from giantstep.risk.losses import Loss as Loss
from giantstep.risk.losses import MaxMarginLoss as MaxMarginLoss
from giantstep.risk.losses import Pull as Pull
from giantstep.risk.losses import SquareLoss as SquareLoss
from giantstep.risk.losses import huber as huber
from giantstep.risk.mean_step import implicit_mean_step as implicit_mean_step
from giantstep.risk.mean_step import stiffness as stiffness
