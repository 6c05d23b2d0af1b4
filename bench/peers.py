"""The libraries that the laboratory compares with, each only where it is installed."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from minitorch_backends.lab.race import OPENBLAS_REST, OPENMP_REST, Contestant


def torch_is_installed() -> bool:
    return importlib.util.find_spec("torch") is not None


def torch_if_installed() -> ModuleType | None:
    """torch, imported by the first call; None where it is not installed."""
    if not torch_is_installed():
        return None
    import torch

    return torch


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


def by_numpy(name: str, call: Callable[..., Any], *arguments: Any, wakes_threads: bool = True) -> Contestant:
    """A call of NumPy's or SciPy's; where it wakes the threads of a BLAS, they are given time to rest."""
    return Contestant(name, functools.partial(call, *arguments), blas_rest() if wakes_threads else 0.0)


def by_torch(make: Callable[[Any], Any], name: str = "torch", wakes_threads: bool = True) -> list[Contestant]:
    """One contestant, which `make` gets torch for; none where torch is not installed."""
    torch = torch_if_installed()
    return [] if torch is None else [Contestant(name, make(torch), OPENMP_REST if wakes_threads else 0.0)]


def torch_products(a: np.ndarray, b: np.ndarray) -> Iterator[Contestant]:
    """torch's fp32 product, that of bfloat16 tensors where it has a kernel for it, and the fp32 product that oneDNN may
    run in bfloat16, from torch 2.9 on, which has its flag."""
    torch = torch_if_installed()
    if torch is None:
        return
    left, right = (torch.from_numpy(np.ascontiguousarray(each)) for each in (a, b))
    flag = getattr(torch.backends.mkldnn, "matmul", None)
    has_flag = hasattr(flag, "fp32_precision")

    def product(name: str, x: Any, y: Any, precision: str) -> Contestant:
        def allow() -> None:
            if has_flag:
                flag.fp32_precision = precision

        return Contestant(name, functools.partial(torch.matmul, x, y), OPENMP_REST, allow)

    yield product("torch fp32", left, right, "ieee")
    if torch_multiplies_bf16():
        yield product("torch bf16 tensors", left.bfloat16(), right.bfloat16(), "ieee")
    if has_flag:
        yield product("torch mkldnn bf16", left, right, "bf16")
