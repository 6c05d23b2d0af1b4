"""Errors of the functions of nn."""

from typing import Any

import numpy as np
import pytest

from minitorch_backends.nn import functional as F

from ..support.arrays import tensor, zeros

BAD = [
    (ValueError, "more than 1 value per channel", lambda: F.batch_norm(zeros(1, 3), None, None, training=True)),
    (ValueError, "more than 1 value per channel", lambda: F.group_norm(zeros(1, 4, 1), 4)),
    (RuntimeError, "batch_norm(): running_mean must be a Tensor", lambda: F.batch_norm(zeros(2, 3), None, None)),
    (ValueError, "got no running_var", lambda: F.batch_norm(zeros(2, 3), zeros(3), None, training=True)),
    (
        RuntimeError,
        "instance_norm(): running_var must be a Tensor",
        lambda: F.instance_norm(zeros(2, 3, 2), zeros(3), None, use_input_stats=False),
    ),
    (RuntimeError, "weight to be of shape [3]", lambda: F.batch_norm(zeros(2, 3), zeros(3), zeros(3), zeros(4))),
    (RuntimeError, "at least 2 dimensions", lambda: F.group_norm(zeros(3), 1)),
    (RuntimeError, "num_groups=2", lambda: F.group_norm(zeros(2, 3), 2)),
    (ValueError, "spatial", lambda: F.instance_norm(zeros(2, 3, 1))),
    (RuntimeError, "normalized_shape", lambda: F.layer_norm(zeros(2, 3), ())),
    (IndexError, "Target 3", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 3]))),
    (IndexError, "Target -1", lambda: F.nll_loss(zeros(2, 3), tensor([-1, 0]))),
    (ValueError, "shape [2]", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 1, 2]))),
    (RuntimeError, "shape [2, 4]", lambda: F.nll_loss(zeros(2, 3, 4), tensor([[0, 1], [1, 1]]))),
    (RuntimeError, "target.long()", lambda: F.nll_loss(zeros(2, 3), zeros(2))),
    (RuntimeError, "each of the 3 classes", lambda: F.nll_loss(zeros(2, 3), tensor([0, 1]), zeros(2))),
    (RuntimeError, "label_smoothing", lambda: F.cross_entropy(zeros(2, 3), tensor([0, 1]), label_smoothing=1.5)),
    (RuntimeError, "floating point target", lambda: F.cross_entropy(zeros(2, 3), tensor([[0, 1, 0], [1, 0, 0]]))),
    (ValueError, "'avg' is not a valid value for reduction", lambda: F.l1_loss(zeros(2), zeros(2), reduction="avg")),
    (ValueError, "target size [3]", lambda: F.binary_cross_entropy(zeros(2), zeros(3))),
    (RuntimeError, "between 0 and 1", lambda: F.binary_cross_entropy(zeros(2) - 1, zeros(2))),
    (RuntimeError, "beta", lambda: F.smooth_l1_loss(zeros(2), zeros(2), beta=-1)),
    (RuntimeError, "positive delta", lambda: F.huber_loss(zeros(2), zeros(2), delta=0)),
    (ValueError, "variances", lambda: F.gaussian_nll_loss(zeros(2), zeros(2), zeros(2) - 1)),
    (RuntimeError, "'exact'", lambda: F.gelu(zeros(2), "exact")),
    (ValueError, "min_val", lambda: F.hardtanh(zeros(2), 1, -1)),
    (RuntimeError, "lambd", lambda: F.softshrink(zeros(2), -1)),
    (RuntimeError, "size must be even", lambda: F.glu(zeros(2, 3))),
    (RuntimeError, "each of the 3 channels", lambda: F.prelu(zeros(2, 3), zeros(2))),
    (RuntimeError, "non-negative", lambda: F.one_hot(tensor([-1]))),
    (RuntimeError, "num_classes=2", lambda: F.one_hot(tensor([2]), 2)),
    (RuntimeError, "pass num_classes", lambda: F.one_hot(tensor([], np.int64))),
    (TypeError, "must be a Tensor, not list", lambda: F.silu([1.0])),
    (RuntimeError, "linear(): what is added, of shape [5],", lambda: F.linear(zeros(2, 3), zeros(4, 3), zeros(5))),
    (
        RuntimeError,
        "linear(): what is added, of shape [5],",
        lambda: F.linear(zeros(2, 3), zeros(1 << 17, 3), zeros(5)),
    ),
    (RuntimeError, "int64", lambda: F.mse_loss(tensor([1]), tensor([1]))),
    (RuntimeError, "'weight' must be 2-D", lambda: F.embedding(tensor([0]), zeros(3))),
    (RuntimeError, "same number of dimensions", lambda: F.triplet_margin_loss(zeros(2, 3), zeros(2, 3), zeros(3))),
]


@pytest.mark.parametrize(("error", "says", "call"), BAD, ids=[f"{each[0].__name__}: {each[1]}" for each in BAD])
def test_bad_arguments(error: Any, says: str, call: Any) -> None:
    with pytest.raises(error) as raised:
        call()
    assert says in str(raised.value)
