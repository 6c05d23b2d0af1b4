"""The adaptive softmax: classes in clusters by frequency. Each cluster but the first is one output of the head (E.
Grave et al., arXiv 1609.04309)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ops.creation.factories import zeros_like
from ..ops.views.join import cat
from ..tensor.tensor import Tensor
from . import functional as F
from .container import ModuleList, Sequential
from .layers import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class Likelihood(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` returns: the log probability of each target, and minus their mean."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log probabilities of labels among `n_classes`, most frequent first, and their loss.

    `cutoffs` are the first labels of the clusters, ascending and below n_classes. Cluster i uses in_features /
    div_value**(i + 1) features. Raises ValueError for other cutoffs, RuntimeError for labels out of range.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        ends = list(cutoffs)
        if not ends or any(int(each) != each for each in ends) or not 0 < ends[0] <= ends[-1] < n_classes:
            raise ValueError(f"cutoffs must be integers from 1 to n_classes - 1 = {n_classes - 1}, got {ends}")
        if any(low >= high for low, high in itertools.pairwise(ends)):
            raise ValueError(f"cutoffs must ascend, each once, got {ends}")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*ends, n_classes]
        self.div_value, self.head_bias, self.shortlist_size = div_value, head_bias, ends[0]
        self.n_clusters = len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number, (start, stop) in enumerate(itertools.pairwise(self.cutoffs)):
            features = int(in_features // div_value ** (number + 1))
            first = Linear(in_features, features, bias=False, device=device, dtype=dtype)
            self.tail.append(Sequential(first, Linear(features, stop - start, bias=False, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Reinitialise all weights."""
        for each in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            each.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Likelihood:
        if target.ndim > 1 or input.ndim != target.ndim + 1:
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: input must have 2 dimensions and target 1, or one less each, got "
                f"{input.ndim} and {target.ndim}"
            )
        if input.shape[:-1] != target.shape:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        batch, labels = (input, target) if target.ndim else (input.unsqueeze(0), target.unsqueeze(0))
        if labels.numel() and not 0 <= labels.min().item() <= labels.max().item() < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{labels.min().item()}, {labels.max().item()}] were found."
            )
        of_head = F.log_softmax(self.head(batch), 1)
        places, within = labels.clone(), zeros_like(of_head[:, 0])
        for number, (start, stop) in enumerate(itertools.pairwise(self.cutoffs)):
            rows = ((labels >= start) & (labels < stop)).nonzero().squeeze(1)
            if rows.numel():
                of_cluster = F.log_softmax(self.tail[number](batch.index_select(0, rows)), 1)
                chosen = of_cluster.gather(1, (labels[rows] - start).unsqueeze(1)).squeeze(1)
                within = within.index_copy(0, rows, chosen)
                places = places.index_fill(0, rows, self.shortlist_size + number)
        output = within + of_head.gather(1, places.unsqueeze(1)).squeeze(1)
        return Likelihood(output if target.ndim else output.squeeze(0), -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes, (N, n_classes)."""
        of_head = F.log_softmax(self.head(input), 1)
        parts = [of_head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1) + of_head[:, self.shortlist_size + number].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        found = self.head(input).argmax(1)
        beyond = found >= self.shortlist_size
        return self.log_prob(input).argmax(1).where(beyond, found) if beyond.any().item() else found
