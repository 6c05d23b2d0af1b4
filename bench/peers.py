"""The libraries that the laboratory compares with, each only where it is installed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from timeit import Timer
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from minitorch_backends.lab.race import OPENBLAS_REST

from .timing import OPENMP_REST

__all__ = [
    "Product",
    "blas_name",
    "blas_pool",
    "blas_rest",
    "numpy_product",
    "torch_if_imported",
    "torch_if_installed",
    "torch_is_installed",
    "torch_multiplies_bf16",
    "torch_products",
]


class Product(NamedTuple):
    """One way to multiply two float32 matrices.

    Attributes:
        name: what tables and plots call it.
        run: returns the product as a float32 array.
        timer: times the product alone, without conversions of the result.
        rest: seconds for which its threads spin on when it is done.
    """

    name: str
    run: Callable[[], np.ndarray]
    timer: Timer
    rest: float = 0.0


def torch_is_installed() -> bool:
    return importlib.util.find_spec("torch") is not None


def torch_if_installed() -> ModuleType | None:
    """torch, imported by the first call; None where it is not installed."""
    if not torch_is_installed():
        return None
    import torch

    return torch


def torch_if_imported() -> ModuleType | None:
    """torch where this run has used it."""
    return sys.modules.get("torch")


@functools.cache
def torch_multiplies_bf16() -> bool:
    """Whether torch has a kernel for products of bfloat16 tensors here. Without AVX-512 it has none, and sums one
    number after the other on one thread: minutes for what takes milliseconds."""
    torch = torch_if_installed()
    return torch is not None and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@functools.cache
def blas_pool() -> dict[str, Any] | None:
    """threadpoolctl's description of NumPy's BLAS; None if it does not recognise it."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return next((pool for pool in pools if "numpy" in pool["filepath"]), pools[0] if pools else None)


def blas_name() -> str:
    """That BLAS, such as "OpenBLAS"."""
    pool = blas_pool()
    names = {"openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS"}
    return names.get(pool["internal_api"], pool["internal_api"]) if pool else "BLAS"


def blas_rest() -> float:
    """Seconds for which the threads of NumPy's BLAS spin on after a product."""
    return OPENBLAS_REST if blas_name() == "OpenBLAS" else OPENMP_REST


def numpy_product(a: np.ndarray, b: np.ndarray) -> Product:
    """NumPy's fp32 product."""
    run = functools.partial(np.matmul, a, b)
    return Product("NumPy fp32", run, Timer(run), blas_rest())


def torch_products(a: np.ndarray, b: np.ndarray) -> list[Product]:
    """torch's fp32 product, that of bfloat16 tensors, and the fp32 product that oneDNN may run in bfloat16; none of
    them where torch is not installed, the second only where it has a kernel for it, and the last only from torch 2.9
    on, which has its flag."""
    torch = torch_if_installed()
    if torch is None:
        return []
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    flag = getattr(torch.backends.mkldnn, "matmul", None)
    has_flag = hasattr(flag, "fp32_precision")

    def allow(precision: str) -> None:
        if has_flag:
            flag.fp32_precision = precision

    def product(name: str, x: object, y: object, flag_value: str) -> Product:
        def run() -> np.ndarray:
            allow(flag_value)
            return torch.mm(x, y).float().numpy()

        names = {"mm": torch.mm, "x": x, "y": y, "allow": allow, "value": flag_value}
        return Product(name, run, Timer("mm(x, y)", "allow(value)", globals=names), OPENMP_REST)

    products = [product("torch fp32", left, right, "ieee")]
    if torch_multiplies_bf16():
        products.append(product("torch bf16 tensors", left.bfloat16(), right.bfloat16(), "ieee"))
    if has_flag:
        products.append(product("torch mkldnn bf16", left, right, "bf16"))
    return products
