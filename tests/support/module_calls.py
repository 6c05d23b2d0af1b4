"""Calls of modules without weights: what they are made of, and arrays to call them with."""

from typing import Any

import numpy as np

CALLS: list[tuple[str, tuple, dict[str, Any]]] = [
    *((name, (), {}) for name in (
        "BCELoss", "BCEWithLogitsLoss", "CELU", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "ELU",
        "GELU", "GLU", "GaussianNLLLoss", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss",
        "CTCLoss", "HuberLoss", "L1Loss", "LeakyReLU", "LogSigmoid", "MSELoss", "MarginRankingLoss", "Mish",
        "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
        "NLLLoss", "PReLU", "PairwiseDistance", "PoissonNLLLoss", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
        "SmoothL1Loss", "SoftMarginLoss", "Softmax2d", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
        "TripletMarginLoss",
    )),
    ("ChannelShuffle", (2,), {}),
    ("CosineSimilarity", (), {"dim": 0}),
    ("ELU", (0.5,), {}),
    ("Flatten", (), {"end_dim": 2}),
    ("GELU", (), {"approximate": "tanh"}),
    ("GLU", (0,), {}),
    ("GaussianNLLLoss", (), {"full": True}),
    ("Hardtanh", (-0.5,), {"max_val": 0.25}),
    ("HuberLoss", (), {"delta": 0.5, "reduction": "sum"}),
    ("CTCLoss", (1,), {"reduction": "sum"}),
    ("KLDivLoss", (), {"reduction": "sum"}),
    ("KLDivLoss", (), {"reduction": "batchmean", "log_target": True}),
    ("LPPool1d", (2.0, 2), {}),
    ("LPPool2d", (2, (2, 3)), {"stride": 2, "ceil_mode": True}),
    ("LPPool3d", (1.0, 2), {}),
    ("LeakyReLU", (), {"negative_slope": 0.5}),
    ("LocalResponseNorm", (3,), {"alpha": 0.5, "k": 2.0}),
    ("LogSoftmax", (1,), {}),
    ("MSELoss", (), {"reduction": "none"}),
    ("MultiMarginLoss", (2, 0.5), {"reduction": "none"}),
    ("PairwiseDistance", (1.0,), {"keepdim": True}),
    ("PixelShuffle", (2,), {}),
    ("PixelUnshuffle", (2,), {}),
    ("RReLU", (0.25, 0.25), {}),
    ("Softmax", (), {"dim": -1}),
    ("Softmin", (0,), {}),
    ("Softplus", (2.0,), {"threshold": 1.0}),
    ("Threshold", (0.1, 20.0), {}),
    ("TripletMarginLoss", (0.5,), {"p": 1.0, "swap": True}),
    ("TripletMarginWithDistanceLoss", (), {"margin": 0.5, "swap": True}),
    ("Unflatten", (1, (2, 2)), {}),
]  # fmt: skip

_rng = np.random.default_rng(0)
_image = _rng.standard_normal((2, 4, 4, 6)).astype(np.float32)
_rows, _others, _third = (_rng.standard_normal((4, 5)).astype(np.float32) for _ in range(3))
_signs = np.array([1, -1, -1, 1], np.float32)
_labels = np.array([0, 2, 4, 1])
_label_sets = np.array([[0, 3, -1, 1, 2], [4, -1, 0, 0, 0], [-1, 0, 0, 0, 0], [0, 1, 2, 3, 4]])
_words = np.array([[3, 2], [2, 2], [4, 0], [5, 3]]), np.array([4, 3, 4, 2]), np.array([2, 2, 1, 2])

_INPUTS: dict[str, tuple[np.ndarray, ...]] = {
    "BCELoss": (1 / (1 + np.exp(-_rows)), (_others > 0).astype(np.float32)),
    "BCEWithLogitsLoss": (_rows, (_others > 0).astype(np.float32)),
    "CTCLoss": (_image[0] - np.log(np.exp(_image[0]).sum(-1, keepdims=True)), *_words),
    "CosineEmbeddingLoss": (_rows, _others, _signs),
    "CosineSimilarity": (_rows, _others),
    "CrossEntropyLoss": (_rows, _labels),
    "GaussianNLLLoss": (_rows, _others, np.exp(_third)),
    "HingeEmbeddingLoss": (_rows[:, 0], _signs),
    "HuberLoss": (_rows, _others),
    "KLDivLoss": (_rows, np.exp(-np.abs(_others))),
    "L1Loss": (_rows, _others),
    "LPPool1d": (_image[0],),
    "LPPool3d": (_image,),
    "MSELoss": (_rows, _others),
    "MarginRankingLoss": (_rows[:, 0], _others[:, 0], _signs),
    "MultiLabelMarginLoss": (_rows, _label_sets),
    "MultiLabelSoftMarginLoss": (_rows, (_others > 0).astype(np.float32)),
    "MultiMarginLoss": (_rows, _labels),
    "NLLLoss": (_rows, _labels),
    "PairwiseDistance": (_rows, _others),
    "PoissonNLLLoss": (_rows, np.abs(_others)),
    "SmoothL1Loss": (_rows, _others),
    "SoftMarginLoss": (_rows, np.sign(_others)),
    "TripletMarginLoss": (_rows, _others, _third),
    "TripletMarginWithDistanceLoss": (_rows, _others, _third),
}


def inputs_of(name: str) -> tuple[np.ndarray, ...]:
    return _INPUTS.get(name, (_image,))
