"""The table of flags: one row each. Everything else about a flag is derived from its row.

Rows of a group stand in the order of torch's `flags()` and `set_flags()` of that group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..flags import NO_OPINION, Flag, Names, Order, ReadOnly, State, Whole
from ..kernels.precision import ALIASES, PRECISIONS, ROUNDINGS, SCALED_ROUNDINGS
from .libraries import ATTENTION_KERNELS, BLAS_NAMES, LINALG_NAMES, ROCM_FA_NAMES
from .profiles import PROFILES
from .stacks import STACKS
from .strategies import SLICES, STRATEGIES, checked, checked_slices


class _Names(Sequence[str | None]):
    """Some names, and those of the precisions of the moment, the slowest first, without one."""

    def __init__(self, *first: str, without: str | None = None) -> None:
        self._first, self._without = first, without

    def _listed(self) -> tuple[str, ...]:
        return (*self._first, *(name for name in reversed(PRECISIONS) if name != self._without))

    def __contains__(self, name: object) -> bool:
        return name in self._first or (name in PRECISIONS and name != self._without)

    def __getitem__(self, index: Any) -> Any:
        return self._listed()[index]

    def __len__(self) -> int:
        return len(self._listed())


class _Profiles(Sequence[str | None]):
    """None, and the profiles of the moment."""

    def __getitem__(self, index: Any) -> Any:
        return (None, *PROFILES)[index]

    def __len__(self) -> int:
        return 1 + len(PROFILES)


GENERIC_PRECISIONS = Names(_Names(NO_OPINION))
CUDA_PRECISIONS = Names(_Names(NO_OPINION, without="bf16"))
"""As on a GPU, whose fp32 products never run as one bf16 pass; an inherited "bf16" is no opinion there."""

XLA_PRECISIONS = {"default": "bf16", "high": "bf16x3", "highest": "bf16x6"}
"""What the three names of `torch_xla.backends.set_mat_mul_precision` stand for, as on a TPU."""

MATMUL_PRECISIONS = {
    "highest": {"cuda": "ieee", "mkldnn": "ieee"},
    "high": {"cuda": "tf32", "mkldnn": "tf32"},
    "medium": {"cuda": "tf32", "mkldnn": "bf16"},
}
"""What `set_float32_matmul_precision` writes to the matmul flag of each family, as torch does."""


def _precision(path: str, inherits: str | None, doc: str, default: str = NO_OPINION) -> Flag:
    choices = CUDA_PRECISIONS if path.startswith(("cuda", "cudnn")) else GENERIC_PRECISIONS
    permits = default != NO_OPINION
    return Flag(path, default, choices, doc, inherits=inherits, aliases=ALIASES, permits=permits)


# The package itself


def _matmul_precision(state: State) -> str:
    """The name of `MATMUL_PRECISIONS` that is nearest to the flags; torch keeps a cell of its own, and a read may
    raise.
    """
    if state.read("mkldnn.matmul.fp32_precision") == "bf16":
        return "medium"
    families = (state.read("cuda.matmul.fp32_precision"), state.read("mkldnn.matmul.fp32_precision"))
    return "highest" if set(families) <= {NO_OPINION, "ieee"} else "high"


_precision(
    "fp32_precision", None, "precision that float32 products may use, for every family that has no opinion of its own"
)
Flag(
    "emulate",
    None,
    (None, *STACKS),
    "obey one family of flags only, with the defaults of a stack that uses it; None obeys the fastest that any family "
    "allows",
)
Flag(
    "backward_precision",
    "live",
    Names(_Names("live", "recorded")),
    "precision of float32 products in backward: that of the flags then, that of the forward pass, or this one",
    aliases=ALIASES,
)
for _name, _differentiated in (("input", "what comes in"), ("weight", "parameters")):
    Flag(
        f"{_name}_gradient_precision",
        NO_OPINION,
        GENERIC_PRECISIONS,
        f"precision of the products in the gradients of {_differentiated}, of ops that are recorded while it is set; "
        "none obeys backward_precision",
        aliases=ALIASES,
    )
Flag(
    "float32_matmul_precision",
    "highest",
    tuple(MATMUL_PRECISIONS),
    "torch.set_float32_matmul_precision: writes the matmul flags of the CUDA and the oneDNN family",
    mistyped=RuntimeError,
    of="cuda.matmul.fp32_precision",
    reads=_matmul_precision,
    writes=lambda name: {f"{family}.matmul.fp32_precision": p for family, p in MATMUL_PRECISIONS[name].items()},
)
Flag(
    "tf32_rounding",
    "rna",
    tuple(ROUNDINGS),
    "how operands are rounded to TF32: nearest with ties away from zero or to even, or toward zero",
)
Flag(
    "scaled_rounding",
    "rne",
    SCALED_ROUNDINGS,
    "how operands with scales (e4m3 to nvfp4) are rounded: to nearest with ties to even, or stochastically, "
    "from numbers of the default generator",
)
Flag(
    "profile",
    None,
    Names(_Profiles()),
    "the device whose matrix unit sums products of tf32, bf16, fp16 and 8-bit operands, bit for bit (`mt.profiles`); "
    "exact products are not its",
)
Flag(
    "cross_check",
    False,
    bool,
    "linear algebra is done by a second implementation as well, with a warning where the two disagree",
)
Flag(
    "deterministic_algorithms",
    "default",
    ("default", "warn", "error"),
    "torch.use_deterministic_algorithms: no algorithm is chosen by timing; bits never depend on the number of threads",
)
Flag(
    "workspace_limit",
    None,
    Whole(0, or_none=True),
    "bytes that a convolution may take besides its arguments and its result; None: as many as its algorithm wants",
)
Flag(
    "einsum_memory_limit",
    None,
    Whole(0, or_none=True),
    "bytes that the intermediates of an einsum may take at once, or it raises; None: 80 % of the free memory",
)


# CUDA: matrix products


def _reduced(kind: str) -> None:
    """The flags of reductions of half products: one cell of three values, torch's flag of a bool or a pair as a view
    of it, and torch's read-only second half of the pair.
    """
    cell = f"cuda.matmul.{kind}_reduction"
    path = f"cuda.matmul.allow_{kind}_reduced_precision_reduction"
    values = {(True, True): "reduced", (False, True): "split_k", (False, False): "whole"}

    def accepts(value: Any) -> tuple[bool, bool]:
        given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if len(given) not in (1, 2) or any(each is not True and each is not False for each in given):
            raise TypeError(f"{path} takes True, False, or one or two of them in a tuple, got {value!r}")
        pair = (given[0], given[1] if len(given) == 2 else True)
        if pair not in values:
            raise RuntimeError(
                f"{path} = {value!r} allows reduced sums of parts that are not made; expected (True, True)"
            )
        return pair

    Flag(
        cell,
        "reduced",
        tuple(values.values()),
        f'sums of {kind} products over parts of K: rounded to {kind} ("reduced"), kept in float32, or no parts at all; '
        "permits nothing until it is set",
        permits=True,
    )
    Flag(
        path,
        True,
        bool,
        f'whether `{cell}` is "reduced"; a pair sets whether parts are allowed too',
        mistyped=TypeError,
        of=cell,
        reads=lambda state: state.read(cell) == "reduced",
        writes=lambda pair: {cell: values[pair]},
        accepts=accepts,
    )
    ReadOnly(f"{path}_split_k", lambda state: state.read(cell) != "whole", f'whether `{cell}` is not "whole"')


_precision("cuda.matmul.fp32_precision", "cudnn.fp32_precision", "precision of matrix products, for the CUDA family")
Flag(
    "cuda.matmul.allow_tf32",
    False,
    bool,
    'whether `cuda.matmul.fp32_precision` is "tf32"; setting it writes "tf32" or "ieee" there',
    of="cuda.matmul.fp32_precision",
    reads=lambda state: state.read("cuda.matmul.fp32_precision") == "tf32",
    writes=lambda allow: {"cuda.matmul.fp32_precision": "tf32" if allow else "ieee"},
)
Flag("cuda.matmul.allow_fp16_accumulation", False, bool, "sum products of float16 tensors in float16")
_reduced("fp16")
_reduced("bf16")
Flag(
    "cuda.tf32_veto",
    False,
    bool,
    "NVIDIA_TF32_OVERRIDE=0: the CUDA family permits no TF32, whatever its flags say",
)


# CUDA: libraries, attention, FFT

Flag(
    "cuda.blas_library",
    "default",
    tuple(dict.fromkeys(BLAS_NAMES.values())),
    'preferred_blas_library: "cublaslt" is NumPy\'s BLAS for every product, the others for those it is best at',
    aliases={alias: name for alias, name in BLAS_NAMES.items() if alias != name},
    mistyped=RuntimeError,
)
Flag(
    "cuda.linalg_library",
    "default",
    LINALG_NAMES,
    "preferred_linalg_library: the family of algorithms for factorisations and solvers",
    mistyped=RuntimeError,
)
Flag(
    "cuda.rocm_fa_library",
    "default",
    ROCM_FA_NAMES,
    "preferred_rocm_fa_library: AMD's attention kernels",
    mistyped=ValueError,
    inert="AMD's attention kernels do not exist here",
)
Flag("cuda.flash_sdp", True, bool, "enable_flash_sdp: attention may run by the flash kernel")
Flag("cuda.mem_efficient_sdp", True, bool, "enable_mem_efficient_sdp: attention may run by the memory-efficient kernel")
Flag("cuda.math_sdp", True, bool, "enable_math_sdp: attention may run by the plain kernel")
Flag(
    "cuda.cudnn_sdp",
    True,
    bool,
    "enable_cudnn_sdp: attention may run by cuDNN's kernel",
    inert="cuDNN's attention kernel does not exist here",
)
Flag(
    "cuda.sdp_priority",
    ",".join(ATTENTION_KERNELS),
    Order(ATTENTION_KERNELS),
    "the order in which attention kernels are tried: set by `sdpa_kernel(..., set_priority=True)`",
)
Flag(
    "cuda.fp16_bf16_reduction_math_sdp",
    False,
    bool,
    "allow_fp16_bf16_reduction_math_sdp: the plain attention kernel sums products of half tensors in half precision",
)
Flag(
    "cuda.cufft_plan_cache.max_size",
    4096,
    Whole(0),
    "how many FFT plans are kept, the least recently used being dropped; 0 keeps none",
)


# cuDNN


def _either_tf32(state: State) -> bool:
    return "tf32" in (state.read("cudnn.conv.fp32_precision"), state.read("cudnn.rnn.fp32_precision"))


Flag("cudnn.enabled", True, bool, "convolutions may use special algorithms, and not only the plain one")
Flag("cudnn.benchmark", False, bool, "time the algorithms of a convolution on its first call, and keep the fastest")
Flag(
    "cudnn.benchmark_limit", None, Whole(0, or_none=True), "how many algorithms `cudnn.benchmark` times; 0 or None: all"
)
Flag("cudnn.deterministic", False, bool, "no algorithm is chosen by timing: cudnn.benchmark does not act")
Flag(
    "cudnn.allow_tf32",
    True,
    bool,
    "whether convolutions or recurrences may run in TF32 for the CUDA family; writes both precisions",
    of="cudnn.conv.fp32_precision",
    reads=_either_tf32,
    writes=lambda allow: dict.fromkeys(
        ("cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"), "tf32" if allow else NO_OPINION
    ),
)
_precision("cudnn.fp32_precision", "fp32_precision", "precision of every product, for the CUDA family")
Flag(
    "cudnn.depthwise_kernel",
    "auto",
    ("auto", "cudnn", "native"),
    "the algorithm of depthwise convolutions: by size, the general one, or the special one",
    mistyped=RuntimeError,
)
_precision(
    "cudnn.conv.fp32_precision", "cudnn.fp32_precision", "precision of convolutions, for the CUDA family", "tf32"
)
_precision("cudnn.rnn.fp32_precision", "cudnn.fp32_precision", "precision of recurrences, for the CUDA family", "tf32")


# oneDNN

_MKLDNN_PRECISIONS = tuple(f"mkldnn.{kind}.fp32_precision" for kind in ("matmul", "conv", "rnn"))

Flag(
    "mkldnn.enabled",
    True,
    bool,
    "the oneDNN family has a say in precisions, and convolutions may use special algorithms",
)
Flag(
    "mkldnn.deterministic",
    False,
    bool,
    "the same bits in every run",
    inert="every product gives the same bits in every run and for every number of threads already",
)
Flag(
    "mkldnn.allow_tf32",
    False,
    bool,
    "whether a product may run in TF32 for the oneDNN family; writes its precisions of matmul, conv and rnn",
    of=_MKLDNN_PRECISIONS[0],
    reads=lambda state: any(state.read(path) == "tf32" for path in _MKLDNN_PRECISIONS),
    writes=lambda allow: dict.fromkeys(_MKLDNN_PRECISIONS, "tf32" if allow else "ieee"),
)
_precision("mkldnn.fp32_precision", "fp32_precision", "precision of every product, for the oneDNN family")
for _path, _of in zip(_MKLDNN_PRECISIONS, ("matrix products", "convolutions", "recurrences"), strict=True):
    _precision(_path, "mkldnn.fp32_precision", f"precision of {_of}, for the oneDNN family")


# The others

Flag(
    "xla.mat_mul_precision",
    "default",
    tuple(XLA_PRECISIONS),
    "torch_xla's precision of products: one, three or six bf16 passes; permits nothing until it is set",
    permits=True,
)
Flag("opt_einsum.enabled", True, bool, "einsum of three or more operands contracts in the order of `strategy`")
Flag(
    "opt_einsum.strategy",
    "auto",
    (None, *STRATEGIES),
    'how einsum finds the order of its contractions; None: left to right; also "cotengra" (where it is installed), a '
    "path, and a function that finds one",
    unknown=ValueError,
    mistyped=ValueError,
    accepts=checked,
)
Flag(
    "opt_einsum.slices",
    None,
    (None, *SLICES),
    "what finds indices to slice where an einsum takes more memory than its limit; None: it raises",
    unknown=ValueError,
    accepts=checked_slices,
)
Flag("nnpack.enabled", True, bool, "convolutions may run by Winograd and FFT algorithms")
Flag("mha.fastpath", True, bool, "nn.MultiheadAttention may run as one fused kernel")
Flag("miopen.immediate", False, bool, "MIOpen's immediate mode", inert="MIOpen is not used")
for _dsl in ("cutedsl", "triton"):
    Flag(f"python_native.{_dsl}.enabled", True, bool, f"kernels written in {_dsl}", inert="no kernel is written in it")
_ENGINES = "this engine has no quantised types"
ReadOnly("quantized.engine", lambda state: "none", _ENGINES, RuntimeError)
ReadOnly("quantized.supported_engines", lambda state: ["none"], _ENGINES, RuntimeError)
ReadOnly("xnnpack.enabled", lambda state: False, "XNNPACK is not used", RuntimeError)
