"""minitorch_backends: a tensor engine with autograd on NumPy arrays that obeys live backend flags, under torch's names.

    import minitorch_backends as mt

Nothing is defined here: this module is the list of public names. Those under `TYPE_CHECKING` are loaded at their first
use (`namespaces`).
"""

# ruff: noqa: E402, F403, I001  (the first statement must run before NumPy is loaded, and the order of the rest is the
# layering)

from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from .kernels.runtime.idle_threads import stop_spinning

stop_spinning()

from . import autograd, backends
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .backends import get_float32_matmul_precision, set_float32_matmul_precision
from .tensor.dtypes import (
    DType as dtype,
    bfloat16,
    bool_ as bool,
    complex64,
    complex128,
    float16,
    float32,
    float4_e2m1fn_x2,
    float64,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .kernels.runtime.threading import get_num_threads, set_num_threads
from .ops.creation.factories import *
from .tensor.memory import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .tensor.size import Size
from .tensor.tensor import Tensor
from .ops import names as _names
from . import namespaces as _namespaces

if TYPE_CHECKING:
    from . import explain, fft, func, lab, linalg, nn, optim, profiles, special, testing, utils
    from .amp import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
    from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
    from .backends.determinism import (
        are_deterministic_algorithms_enabled,
        get_deterministic_debug_mode,
        is_deterministic_algorithms_warn_only_enabled,
        set_deterministic_debug_mode,
        use_deterministic_algorithms,
    )
    from .compile_ahead import warmup
    from .func.vmap import vmap
    from .interop.program.process import load_ipython_extension
    from .ops.names import *
    from .ops.limits import finfo, iinfo
    from .ops.matmul.scaled import _scaled_mm
    from .ops.predicates import *
    from .random import *
    from .serialization import load, save
    from .utils.printing import set_printoptions

float, double, half = float32, float64, float16
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

__version__ = "1.0.0"

_namespaces.declare()
for _path in ("", ".autograd", ".autograd.extras", ".backends", ".ops", ".ops.names"):
    _namespaces.serve(__name__ + _path)

from . import interop  # last: it registers at once with libraries that were imported before
