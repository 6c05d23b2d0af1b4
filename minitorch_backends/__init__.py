"""minitorch_backends: a tensor engine with autograd on NumPy arrays that obeys live backend flags, under torch's names.

    import minitorch_backends as mt

Nothing is defined here: this module is the list of public names.
"""

# ruff: noqa: E402, F403, I001  (the first statement must run before NumPy is loaded, and the order of the rest is the
# layering)

from math import e, inf, nan, pi

from .kernels.blas_environment import stop_spinning

stop_spinning()

from . import autograd, backends, explain, fft, func, interop, linalg, nn, optim, profiles, special, testing, utils
from .autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .namespaces import serve as _serve
from .compile_ahead import warmup
from .interop.program.notebook import load_ipython_extension
from .backends import get_float32_matmul_precision, set_float32_matmul_precision
from .backends.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
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
from .ops.limits import finfo, iinfo
from .func import vmap
from .kernels.threading import get_num_threads, set_num_threads
from .ops import *
from .ops.matmul.scaled import _scaled_mm
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
from .utils.printing import set_printoptions
from .ops.predicates import *
from .random import *
from .serialization import load, save
from .tensor.size import Size
from .tensor.tensor import Tensor

float, double, half = float32, float64, float16
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

__version__ = "1.0.0"

for _path in ("", "autograd", "fft", "func", "linalg", "nn", "nn.functional", "nn.init", "nn.utils", "optim",
              "optim.lr_scheduler", "special", "utils"):  # fmt: skip
    _serve(_path)
