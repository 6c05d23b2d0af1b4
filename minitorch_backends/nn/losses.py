"""Losses as modules."""

from __future__ import annotations

from . import functional as F
from .functional_modules import OfFunction

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class L1Loss(OfFunction, function=F.l1_loss, operands=2, shown=False, weight=None):
    """Absolute differences."""


class MSELoss(OfFunction, function=F.mse_loss, operands=2, shown=False, weight=None):
    """Squared differences."""


class SmoothL1Loss(OfFunction, function=F.smooth_l1_loss, operands=2, shown=False):
    """Squared differences up to `beta`, absolute differences beyond."""


class HuberLoss(OfFunction, function=F.huber_loss, operands=2, shown=False, weight=None):
    """Squared differences up to `delta`, absolute differences beyond."""


class NLLLoss(OfFunction, function=F.nll_loss, operands=2, buffers=("weight",), shown=False):
    """The negative logarithms of probabilities at the labels."""


class CrossEntropyLoss(OfFunction, function=F.cross_entropy, operands=2, buffers=("weight",), shown=False):
    """`NLLLoss` of `LogSoftmax`."""


class BCELoss(OfFunction, function=F.binary_cross_entropy, operands=2, buffers=("weight",), shown=False):
    """The cross entropy of probabilities of two outcomes."""


class BCEWithLogitsLoss(
    OfFunction, function=F.binary_cross_entropy_with_logits, operands=2, buffers=("weight", "pos_weight"), shown=False
):
    """`BCELoss` of `Sigmoid`."""


class KLDivLoss(OfFunction, function=F.kl_div, operands=2, shown=False):
    """The Kullback-Leibler divergence."""


class PoissonNLLLoss(OfFunction, function=F.poisson_nll_loss, operands=2, shown=False):
    """The negative log likelihood of counts under Poisson distributions with the predicted means."""


class GaussianNLLLoss(OfFunction, function=F.gaussian_nll_loss, operands=3, shown=False):
    """The negative log likelihood of values under normal distributions with the predicted means and variances."""


class SoftMarginLoss(OfFunction, function=F.soft_margin_loss, operands=2, shown=False):
    """log(1 + exp(-target * input))."""


class MarginRankingLoss(OfFunction, function=F.margin_ranking_loss, operands=3, shown=False):
    """max(0, -target * (input1 - input2) + margin)."""


class HingeEmbeddingLoss(OfFunction, function=F.hinge_embedding_loss, operands=2, shown=False):
    """input where the label is 1, max(0, margin - input) where it is -1."""


class CosineEmbeddingLoss(OfFunction, function=F.cosine_embedding_loss, operands=3, shown=False):
    """1 - cosine where the label is 1, max(0, cosine - margin) else."""


class MultiMarginLoss(OfFunction, function=F.multi_margin_loss, operands=2, buffers=("weight",), shown=False):
    """Hinge losses of the other classes' scores against the label's."""


class MultiLabelMarginLoss(OfFunction, function=F.multilabel_margin_loss, operands=2, shown=False):
    """`MultiMarginLoss` of several labels."""


class MultiLabelSoftMarginLoss(
    OfFunction, function=F.multilabel_soft_margin_loss, operands=2, buffers=("weight",), shown=False
):
    """The mean of `BCEWithLogitsLoss` over the labels."""


class CTCLoss(OfFunction, function=F.ctc_loss, operands=4, shown=False):
    """The negative log likelihood of labels whose alignment with the frames is unknown."""


class TripletMarginLoss(OfFunction, function=F.triplet_margin_loss, operands=3, shown=False):
    """max(0, distance to the positive - to the negative + margin)."""


class TripletMarginWithDistanceLoss(OfFunction, function=F.triplet_margin_with_distance_loss, operands=3, shown=False):
    """`TripletMarginLoss` of any distance."""


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, under a name that torch deprecates."""
