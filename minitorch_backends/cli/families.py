"""First calls of each kernel family, as models make them; running them fills the code store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import minitorch_backends
from minitorch_backends.kernels.gemm.warm import warmup
from minitorch_backends.nn import functional as F

mt: Any = minitorch_backends  # op names come from declarations, invisible to mypy

_CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 32, 32), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 32, 28, 28), (32, 32, 3, 3), {"padding": 1}),
    ((2, 64, 14, 14), (64, 64, 3, 3), {"padding": 1, "stride": 2}),
    ((2, 64, 28, 28), (32, 64, 1, 1), {}),
    ((2, 32, 28, 28), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
)
"""Shapes of inputs and weights, and options: the layers of common networks."""


class Family(NamedTuple):
    """The calls of a family, and whether precisions act on them."""

    run: Callable[[], None]
    precisions: bool


def products(dtypes: Any = ("float32",)) -> None:
    warmup([mt.explain.precision_of("matmul").precision], None, dtypes=dtypes)


def _convolutions() -> None:
    for of_input, of_weight, options in _CONVOLUTIONS:
        x, weight = mt.randn(*of_input, requires_grad=True), mt.randn(*of_weight, requires_grad=True)
        bias = mt.zeros(of_weight[0], requires_grad=True)
        F.conv2d(x, weight, bias, **options).sum().backward()
        with mt.no_grad():
            F.conv2d(x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), weight, bias, **options)


def _attention() -> None:
    for length in (16, 128):
        for causal in (False, True):
            q, k, v = (mt.randn(2, 4, length, 64, requires_grad=True) for _ in range(3))
            F.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()


def _recurrences() -> None:
    for layer in (mt.nn.LSTM, mt.nn.GRU, mt.nn.RNN):
        result, _ = layer(16, 32)(mt.randn(6, 4, 16))
        result.sum().backward()


def _transforms() -> None:
    for length in (8, 64, 1000, 1009, 4096):
        x = mt.randn(8, length)
        mt.fft.ifft(mt.fft.fft(x))
        mt.fft.irfft(mt.fft.rfft(x), n=length)
    mt.fft.fft2(mt.randn(4, 64, 64))


def _factorizations() -> None:
    for shape in ((32, 8, 8), (64, 64), (400, 400)):
        a = mt.randn(*shape) + shape[-1] * mt.eye(shape[-1])
        for sides in (2, shape[-1]):
            b = mt.randn(*shape[:-1], sides)
            mt.linalg.solve(a, b)
            mt.linalg.lu_solve(*mt.linalg.lu_factor(a), b)
        mt.linalg.cholesky(a @ a.mT)
        mt.linalg.qr(a)
        mt.linalg.inv(a)
        mt.linalg.svdvals(a)
        mt.linalg.eigvalsh(a + a.mT)


def _rows() -> None:
    x = mt.randn(32, 256, requires_grad=True)
    F.layer_norm(x.softmax(-1) + x.log_softmax(-1), (256,)).sum().backward()
    F.cross_entropy(x, mt.zeros(32, dtype=mt.int64)).backward()
    F.gelu(x).sum().backward()


FAMILIES = {
    "matmul": Family(products, True),
    "conv": Family(_convolutions, True),
    "attention": Family(_attention, True),
    "recurrent": Family(_recurrences, True),
    "fft": Family(_transforms, False),
    "linalg": Family(_factorizations, False),
    "rows": Family(_rows, False),
}


def _compile(family: str, precision: str) -> None:
    with mt.backends.flags(fp32_precision=precision):
        FAMILIES[family].run()


if __name__ == "__main__":
    _compile(*sys.argv[1:])
