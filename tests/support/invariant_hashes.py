"""Results under `backends.invariant = "isa"` for ops of each kind at each precision, as hashes.

`python -m tests.support.invariant_hashes` writes those of this machine to tests/data/invariant_hashes.json.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.kernels.precisions.products import PRECISIONS

FILE = Path(__file__).parents[1] / "data" / "invariant_hashes.json"
F = mt.nn.functional
DTYPES = (mt.float32, mt.float64, mt.float16, mt.bfloat16)


def numbers(*shape, seed=0):
    """Multiples of 2**-14 from -4 to 4, which every machine draws alike."""
    whole = np.random.default_rng(seed).integers(-(2**16), 2**16, shape)
    return mt.from_numpy((whole / 2.0**14).astype(np.float32))


X, W, BIAS = numbers(7, 300), numbers(300, 20, seed=1), numbers(300, seed=2)
IMAGES, KERNEL = numbers(3, 4, 9, 9, seed=3), numbers(6, 4, 3, 3, seed=4)
PRODUCTS = {
    "matmul": lambda precision: mt.matmul(X, W, precision=precision),
    "conv2d": lambda precision: F.conv2d(IMAGES, KERNEL, padding=1),
    "attention": lambda precision: F.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES, is_causal=True),
}
FUNCTIONS = {
    **{
        name: getattr(mt, name)
        for name in ["exp", "expm1", "sin", "cos", "tanh", "sinh", "atan", "asinh", "sigmoid", "erf"]
    },
    **{f"{name} of |x|": getattr(mt, name) for name in ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "lgamma"]},
    **{name: getattr(F, name) for name in ["gelu", "silu", "softplus", "mish", "elu"]},
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(-1),
    "prod": lambda x: (x / 4).prod(0),
    "cumsum": lambda x: x.cumsum(-1),
    "vector_norm": lambda x: mt.linalg.vector_norm(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (300,), BIAS.to(x.dtype), BIAS.to(x.dtype)),
    "rms_norm": lambda x: F.rms_norm(x, (300,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "matmul": lambda x: x @ W.to(x.dtype),
    "linear": lambda x: F.linear(x, W.to(x.dtype).mT, BIAS.to(x.dtype)[:20]),
}


def digest(tensor):
    """The hash of the bits, half types widened."""
    return hashlib.sha256(np.ascontiguousarray(tensor.double().numpy()).tobytes()).hexdigest()[:16]


def hashes():
    """By op and precision or dtype."""
    found = {}
    for precision in PRECISIONS:
        with backends.flags(invariant="isa", fp32_precision=precision), mt.no_grad():
            for name, product in PRODUCTS.items():
                found[f"{name} at {precision}"] = digest(product(precision))
    with backends.flags(invariant="isa"):
        for name, function in FUNCTIONS.items():
            for dtype in DTYPES:
                x = (X.abs() + 0.01 if "|x|" in name else X).to(dtype)
                found[f"{name} of {dtype!r}"] = digest(function(x))
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(hashes(), indent=1) + "\n", encoding="utf-8")
