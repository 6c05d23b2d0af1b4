"""The CUDA family: how a GPU's products, solvers, attention and FFT would run. The flags act here, on the CPU;
`is_built()` says that there is no GPU.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn, TypeVar

from ..flags import Group, ReadOnly, State, assign, current
from ..kernels.plans import PlanCache, fft_plans
from . import table as _table  # noqa: F401  (declares the flags)
from .attention import SDPAParams, can_use, has_kernel, sdp_kernel, switch
from .libraries import BlasBackend, LinalgBackend, ROCmFABackend, SDPBackend, named

__all__ = [
    "SDPAParams",
    "SDPBackend",
    "allow_fp16_bf16_reduction_math_sdp",
    "blas_workspace_size",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuFFTPlanCache",
    "cuFFTPlanCacheManager",
    "cublas_workspace_size",
    "cublaslt_workspace_size",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "preferred_rocm_fa_library",
    "sdp_kernel",
]

matmul = Group("cuda.matmul")


def is_built() -> bool:
    """Whether this engine can run on CUDA: False. The flags act all the same."""
    return False


# Libraries

_Library = TypeVar("_Library", LinalgBackend, BlasBackend, ROCmFABackend)


def _prefer(path: str, enumeration: type[_Library], backend: Any) -> _Library:
    """Set the preference, unless `backend` is None, and return the one in force."""
    if isinstance(backend, enumeration):
        backend = backend.name.lower()
    if backend is not None:
        assign({path: backend}, "cuda")
    return named(enumeration, current().read(path))


def preferred_linalg_library(backend: str | LinalgBackend | None = None) -> LinalgBackend:
    """The family of algorithms for factorisations and solvers: "default" (by size), "cusolver" or "magma".

    Without an argument it only answers. Raises RuntimeError for another name.
    """
    return _prefer("cuda.linalg_library", LinalgBackend, backend)


def preferred_blas_library(backend: str | BlasBackend | None = None) -> BlasBackend:
    """What multiplies matrices: "cublaslt" is NumPy's BLAS; "cublas" and the others are this engine's own kernels,
    which leave to BLAS the products that it is faster at.

    Without an argument it only answers, with Cublas for "default" as in torch. Raises RuntimeError for another name.
    """
    found = _prefer("cuda.blas_library", BlasBackend, backend)
    return BlasBackend.Cublas if found is BlasBackend.Default else found


def preferred_rocm_fa_library(backend: str | ROCmFABackend | None = None) -> ROCmFABackend:
    """The library of attention kernels of AMD's devices. It is stored, and changes nothing."""
    return _prefer("cuda.rocm_fa_library", ROCmFABackend, backend)


def cublas_workspace_size(size: int | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace is cuBLAS's, which is not used."""
    raise _no_workspace("cublas_workspace_size")


def cublaslt_workspace_size(size: int | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace is cuBLASLt's, which is not used."""
    raise _no_workspace("cublaslt_workspace_size")


def blas_workspace_size(size: int | None = None, backend: str | BlasBackend | None = None) -> NoReturn:
    """Raises RuntimeError: the workspace is cuBLAS's, which is not used."""
    raise _no_workspace("blas_workspace_size")


def _no_workspace(function: str) -> RuntimeError:
    return RuntimeError(f"cuda.{function}() is about a workspace on a GPU, which this engine does not use")


# Attention


def flash_sdp_enabled() -> bool:
    """Whether attention may run by the flash kernel."""
    return current().read("cuda.flash_sdp")


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid the flash kernel of attention."""
    switch("flash", enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may run by the memory-efficient kernel."""
    return current().read("cuda.mem_efficient_sdp")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid the memory-efficient kernel of attention."""
    switch("efficient", enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may run by the plain kernel."""
    return current().read("cuda.math_sdp")


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid the plain kernel of attention."""
    switch("math", enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may run by cuDNN's kernel, which does not exist here."""
    return current().read("cuda.cudnn_sdp")


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's kernel of attention, which does not exist here."""
    switch("cudnn", enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether the plain attention kernel may sum products of half tensors in half precision."""
    return current().read("cuda.fp16_bf16_reduction_math_sdp")


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Let the plain attention kernel sum products of half tensors in half precision, or not."""
    assign({"cuda.fp16_bf16_reduction_math_sdp": enabled}, "cuda")


def is_flash_attention_available() -> bool:
    """Whether this engine has a flash kernel of attention."""
    return has_kernel("flash")


def is_ck_sdpa_available() -> bool:
    """Whether AMD's composable kernels are used: False."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether the flash kernel would take the call; with `debug`, a warning says why not."""
    return can_use("flash", params, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether the memory-efficient kernel would take the call; with `debug`, a warning says why not."""
    return can_use("efficient", params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's kernel would take the call: it does not exist; with `debug`, a warning says so."""
    return can_use("cudnn", params, debug)


# FFT


def _kept_plans(state: State) -> PlanCache:
    """The cache, without what a smaller `max_size` has left over since the last transform."""
    return fft_plans.trim(state.read("cuda.cufft_plan_cache.max_size"))


ReadOnly(
    "cuda.cufft_plan_cache.size",
    lambda state: _kept_plans(state).size,
    "it is how many plans are kept; see max_size",
    RuntimeError,
)


class cuFFTPlanCache(Group):
    """The cache of FFT plans: `size`, `max_size` and `clear()`; also how often a plan was there or was not (`hits`,
    `misses`), and the memory of what is kept (`bytes`). Transforms by SciPy, which `explain.record` names, have plans
    of SciPy's own, out of the reach of these."""

    __slots__ = ()

    @property
    def hits(self) -> int:
        """How often a plan was found since the cache was cleared."""
        return fft_plans.hits

    @property
    def misses(self) -> int:
        """How often a plan had to be made since the cache was cleared."""
        return fft_plans.misses

    @property
    def bytes(self) -> int:
        """Memory of the plans that are kept."""
        return _kept_plans(current()).nbytes

    def clear(self) -> None:
        """Drop every plan."""
        fft_plans.clear()


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """The same cache, which is also that of each device: there is one, `cufft_plan_cache[0]`."""

    __slots__ = ()

    def __getitem__(self, device: Any) -> Any:
        if device in ("cpu", "cpu:0", "cuda", "cuda:0") or (type(device) is int and device == 0):
            return _plan_cache
        if isinstance(device, (int, str)):
            raise RuntimeError(f"cufft_plan_cache[{device!r}]: there is one device, expected 0")
        raise ValueError(f"cufft_plan_cache takes the index of a device, got {device!r}")


_plan_cache = cuFFTPlanCache("cuda.cufft_plan_cache")
cufft_plan_cache = cuFFTPlanCacheManager("cuda.cufft_plan_cache")

Group.install(sys.modules[__name__], "cuda")
