"""The CUDA family: matrix products, solvers, attention and FFT as on a GPU. The flags act on the CPU; `is_built()` is
False."""

from __future__ import annotations

import sys
from typing import Any, NoReturn, TypeVar

from ..flags import Group, ReadOnly, State, assign, current
from ..kernels.runtime.plan_cache import PlanCache, fft_plans
from . import table as _table  # noqa: F401  (declares the flags)
from .attention import SDPAParams, can_use, has_kernel, sdp_kernel, switch
from .libraries import BlasBackend, LinalgBackend, ROCmFABackend, SDPBackend, member_of

__all__ = [
    "SDPAParams", "SDPBackend", "allow_fp16_bf16_reduction_math_sdp", "blas_workspace_size", "can_use_cudnn_attention",
    "can_use_efficient_attention", "can_use_flash_attention", "cuFFTPlanCache", "cuFFTPlanCacheManager",
    "cublas_workspace_size", "cublaslt_workspace_size", "cudnn_sdp_enabled", "cufft_plan_cache", "enable_cudnn_sdp",
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_ck_sdpa_available", "is_flash_attention_available",
    "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library", "preferred_linalg_library",
    "preferred_rocm_fa_library", "sdp_kernel",
]  # fmt: skip

matmul = Group("cuda.matmul")


def is_built() -> bool:
    """Whether this engine can run on CUDA: False. The flags take effect nevertheless."""
    return False


# Libraries

_Library = TypeVar("_Library", LinalgBackend, BlasBackend, ROCmFABackend)


def _prefer(path: str, enumeration: type[_Library], backend: Any) -> _Library:
    """Set the preference, unless `backend` is None, and return the current one."""
    if isinstance(backend, enumeration):
        backend = backend.name.lower()
    if backend is not None:
        assign({path: backend}, "cuda")
    return member_of(enumeration, current().read(path))


def preferred_linalg_library(backend: str | LinalgBackend | None = None) -> LinalgBackend:
    """The family of algorithms for factorisations and solvers: "default" (by size), "cusolver" or "magma".

    Without an argument it returns the current preference. Raises RuntimeError for another name.
    """
    return _prefer("cuda.linalg_library", LinalgBackend, backend)


def preferred_blas_library(backend: str | BlasBackend | None = None) -> BlasBackend:
    """The library for matrix products: "cublaslt" is NumPy's BLAS for every product; the others are this engine's own
    kernels, which leave products to BLAS where BLAS is faster.

    Without an argument it returns the current preference; "default" is Cublas, as in torch. Raises RuntimeError for
    another name.
    """
    found = _prefer("cuda.blas_library", BlasBackend, backend)
    return BlasBackend.Cublas if found is BlasBackend.Default else found


def preferred_rocm_fa_library(backend: str | ROCmFABackend | None = None) -> ROCmFABackend:
    """The library of AMD's attention kernels. The value is stored without any effect."""
    return _prefer("cuda.rocm_fa_library", ROCmFABackend, backend)


def cublas_workspace_size(size: int | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace belongs to cuBLAS, which is not used."""
    raise _no_workspace("cublas_workspace_size")


def cublaslt_workspace_size(size: int | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace belongs to cuBLASLt, which is not used."""
    raise _no_workspace("cublaslt_workspace_size")


def blas_workspace_size(size: int | None = None, backend: str | BlasBackend | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace belongs to cuBLAS, which is not used."""
    raise _no_workspace("blas_workspace_size")


def _no_workspace(function: str) -> RuntimeError:
    return RuntimeError(f"cuda.{function}() concerns a workspace on a GPU, which this engine does not use")


# Attention


def flash_sdp_enabled() -> bool:
    """Whether the flash attention kernel is allowed."""
    return current().read("cuda.flash_sdp")


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid the flash attention kernel."""
    switch("flash", enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether the memory-efficient attention kernel is allowed."""
    return current().read("cuda.mem_efficient_sdp")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid the memory-efficient attention kernel."""
    switch("efficient", enabled)


def math_sdp_enabled() -> bool:
    """Whether the math attention kernel is allowed."""
    return current().read("cuda.math_sdp")


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid the math attention kernel."""
    switch("math", enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention kernel is allowed. It does not exist here."""
    return current().read("cuda.cudnn_sdp")


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's attention kernel, which does not exist here."""
    switch("cudnn", enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether the math attention kernel may accumulate products of half tensors in half precision."""
    return current().read("cuda.fp16_bf16_reduction_math_sdp")


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow the math attention kernel to accumulate products of half tensors in half precision, or forbid it."""
    assign({"cuda.fp16_bf16_reduction_math_sdp": enabled}, "cuda")


def is_flash_attention_available() -> bool:
    """Whether this engine has a flash attention kernel."""
    return has_kernel("flash")


def is_ck_sdpa_available() -> bool:
    """Whether AMD's composable kernels are used: False."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether the flash kernel would take the call; with `debug`, a warning gives the reason against it."""
    return can_use("flash", params, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether the memory-efficient kernel would take the call; with `debug`, a warning gives the reason against it."""
    return can_use("efficient", params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's kernel would take the call: always False; with `debug`, a warning gives the reason."""
    return can_use("cudnn", params, debug)


# FFT


def _kept_plans(state: State) -> PlanCache:
    """The plan cache, trimmed to the current `max_size`."""
    return fft_plans.trim(state.read("cuda.cufft_plan_cache.max_size"))


ReadOnly(
    "cuda.cufft_plan_cache.size",
    lambda state: _kept_plans(state).size,
    "it is the number of cached plans; see max_size",
    RuntimeError,
)


class cuFFTPlanCache(Group):
    """The cache of FFT plans: `size`, `max_size`, `clear()`, and the statistics `hits`, `misses` and `bytes`.

    Transforms that run by SciPy (see `explain.record`) use SciPy's own plan cache.
    """

    __slots__ = ()

    @property
    def hits(self) -> int:
        """The number of plans found in the cache since it was cleared."""
        return fft_plans.hits

    @property
    def misses(self) -> int:
        """The number of plans created since the cache was cleared."""
        return fft_plans.misses

    @property
    def bytes(self) -> int:
        """The memory of the cached plans in bytes."""
        return _kept_plans(current()).nbytes

    def clear(self) -> None:
        """Drop every plan."""
        fft_plans.clear()


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """The same cache, indexable by device. The only device is `cufft_plan_cache[0]`."""

    __slots__ = ()

    def __getitem__(self, device: Any) -> Any:
        if device in ("cpu", "cpu:0", "cuda", "cuda:0") or (type(device) is int and device == 0):
            return _plan_cache
        if isinstance(device, (int, str)):
            raise RuntimeError(f"cufft_plan_cache[{device!r}]: the only device is 0")
        raise ValueError(f"cufft_plan_cache[]: index must be the index of a device, got {device!r}")


_plan_cache = cuFFTPlanCache("cuda.cufft_plan_cache")
cufft_plan_cache = cuFFTPlanCacheManager("cuda.cufft_plan_cache")

Group.install(sys.modules[__name__], "cuda")
