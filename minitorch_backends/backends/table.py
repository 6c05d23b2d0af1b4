"""The table of flags: one row each. Everything else about a flag is derived from its row.

Rows of a group are in the order of torch's `flags()` and `set_flags()` of that group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..flags import NO_OPINION, Flag, Names, Order, ReadOnly, State, Whole
from ..kernels.partial_sums import DTYPES, ORDERS
from ..kernels.partial_sums import start as start_parts
from ..kernels.precisions import FORMATS
from ..kernels.precisions.products import ALIASES, EMULATIONS, PRECISIONS, ROUNDINGS, SCALED_ROUNDINGS
from ..kernels.runtime.invariance import start as start_invariance
from .invariance import INVARIANCES
from .invariance import check_value as checked_invariance
from .libraries import ATTENTION_KERNELS, BLAS_NAMES, LINALG_NAMES, ROCM_FA_NAMES
from .profiles import PROFILES, STACKS
from .recipes import EQUAL, RECIPES, ROLES, formats_to_write, recipe_in_force
from .strategies import SLICES, STRATEGIES, check_strategy, checked_slices


class PrecisionNames(Sequence[str | None]):
    """Fixed names and the names of the registered precisions, slowest first, except one."""

    def __init__(self, *first: str, without: str | None = None) -> None:
        self._first, self._without = first, without

    def _names(self) -> tuple[str, ...]:
        return (*self._first, *(name for name in reversed(PRECISIONS) if name != self._without))

    def __contains__(self, name: object) -> bool:
        return name in self._first or (name in PRECISIONS and name != self._without)

    def __getitem__(self, index: Any) -> Any:
        return self._names()[index]

    def __len__(self) -> int:
        return len(self._names())


class Growing(Sequence[str | None]):
    """One fixed value, and the keys of a table of the moment."""

    def __init__(self, table: Iterable[str], first: str | None) -> None:
        self._table, self._first = table, first

    def __getitem__(self, index: Any) -> Any:
        return (self._first, *self._table)[index]

    def __len__(self) -> int:
        return len((self._first, *self._table))


GENERIC_PRECISIONS = Names(PrecisionNames(NO_OPINION))
CUDA_PRECISIONS = Names(PrecisionNames(NO_OPINION, without="bf16"))
"""A GPU never runs fp32 products as one bf16 pass, so an inherited "bf16" reads as "none" here."""

XLA_PRECISIONS = {"default": "bf16", "high": "bf16x3", "highest": "bf16x6"}
"""The meanings of the three names of `torch_xla.backends.set_mat_mul_precision`, as on a TPU."""

MATMUL_PRECISIONS = {
    "highest": {"cuda": "ieee", "mkldnn": "ieee"},
    "high": {"cuda": "tf32", "mkldnn": "tf32"},
    "medium": {"cuda": "tf32", "mkldnn": "bf16"},
}
"""The values that `set_float32_matmul_precision` writes to the matmul flag of each family, as torch does."""


def _precision(path: str, inherits: str | None, doc: str, default: str = NO_OPINION) -> Flag:
    choices = CUDA_PRECISIONS if path.startswith(("cuda", "cudnn")) else GENERIC_PRECISIONS
    permits = default != NO_OPINION
    return Flag(path, default, choices, doc, inherits=inherits, aliases=ALIASES, permits=permits)


# Package-wide flags


def start_demands() -> None:
    start_invariance()
    start_parts()


def _matmul_precision(state: State) -> str:
    """The name in `MATMUL_PRECISIONS` nearest to the flags. torch keeps a separate value for it, and its getter may
    raise."""
    if state.read("mkldnn.matmul.fp32_precision") == "bf16":
        return "medium"
    families = (state.read("cuda.matmul.fp32_precision"), state.read("mkldnn.matmul.fp32_precision"))
    return "highest" if set(families) <= {NO_OPINION, "ieee"} else "high"


_precision(
    "fp32_precision",
    None,
    "the fastest precision allowed for float32 products, in every family that does not set its own",
)
Flag(
    "fp64_precision",
    "ieee",
    ("ieee", *EMULATIONS),
    "how matrix products of float64 and complex128 are made, also in linear algebra: in float64, or of products of "
    "8-bit integers by slices (int8x7) or moduli (int8mod14), whose number int8 and int8mod choose",
)
Flag("fp64_bits", 53, Whole(1), "the number of bits of each result that int8 and int8mod keep")
Flag(
    "emulate",
    None,
    (None, *STACKS),
    "use one family of flags only, with the defaults of a stack that uses it; None uses the fastest precision "
    "that any family allows",
)
Flag(
    "backward_precision",
    "live",
    Names(PrecisionNames("live", "recorded")),
    "precision of float32 products in backward: from the flags at that time, from the forward pass, or a fixed one",
    aliases=ALIASES,
)
for _name, _differentiated in (("input", "what comes in"), ("weight", "parameters")):
    Flag(
        f"{_name}_gradient_precision",
        NO_OPINION,
        GENERIC_PRECISIONS,
        f"precision of the products in the gradients of {_differentiated}, for ops recorded while it is set; "
        "none uses backward_precision",
        aliases=ALIASES,
    )
Flag(
    "float32_matmul_precision",
    "highest",
    tuple(MATMUL_PRECISIONS),
    "torch.set_float32_matmul_precision: writes the matmul flags of the CUDA and oneDNN families",
    mistyped=RuntimeError,
    of="cuda.matmul.fp32_precision",
    reads=_matmul_precision,
    writes=lambda name: {f"{family}.matmul.fp32_precision": p for family, p in MATMUL_PRECISIONS[name].items()},
)
Flag(
    "tf32_rounding",
    "rna",
    tuple(ROUNDINGS),
    "how operands are rounded to TF32: to nearest with ties away from zero or to even, or toward zero",
)
Flag(
    "scaled_rounding",
    "rne",
    SCALED_ROUNDINGS,
    "how operands with scales (e4m3 to nvfp4) are rounded: to nearest with ties to even, or stochastically with "
    "the default generator",
)
OPERAND_PATHS = tuple(f"operands.{role}" for role in ROLES)
"""The flags of formats by role. Those of one product of the backward pass inherit from the role's own."""

for _path, _of in zip(OPERAND_PATHS, ROLES.values(), strict=True):
    _doc = f"the format (`kernels.precisions`) of {_of}; ieee leaves them as they are"
    _parent = f"operands.{_path.rpartition('.')[2]}" if _path.count(".") > 1 else None
    Flag(_path, NO_OPINION, Names(Growing(FORMATS, NO_OPINION)), _doc, inherits=_parent)
Flag(
    "operands.recipe",
    NO_OPINION,
    Names(Growing([name for name in RECIPES if name not in EQUAL], NO_OPINION)),
    "the recipe (`backends.recipes`) whose formats are in force; setting it writes those of every role",
    aliases=EQUAL,
    of=OPERAND_PATHS[0],
    reads=recipe_in_force,
    writes=formats_to_write,
)
Flag(
    "profile",
    None,
    Names(Growing(PROFILES, None), any_case=True),
    "the device whose matrix unit sums products of tf32, bf16, fp16 and 8-bit operands, bit for bit "
    "(`mt.profiles`); exact products are unaffected",
)
Flag("cross_check", False, bool, "run linear algebra by a second implementation too, and warn where the two disagree")
Flag(
    "deterministic_algorithms",
    "default",
    ("default", "warn", "error"),
    "torch.use_deterministic_algorithms: choose no algorithm by timing; bits never depend on the number of threads",
)
Flag(
    "invariant",
    "none",
    INVARIANCES,
    'what the bits of results do not depend on: "batch", the rest of the batch and the place in it; "isa", the CPU\'s '
    'instructions; "shards", `partial_sums.parts`; or several, as "batch,isa". What cannot keep it is refused',
    mistyped=TypeError,
    accepts=checked_invariance,
    wakes=start_demands,
)
Flag(
    "partial_sums.parts",
    1,
    Whole(1),
    "into how many parts matrix products split K, and `sum` and `mean` the first of their dimensions, as tensor "
    "parallelism and split-K do",
    wakes=start_parts,
)
Flag(
    "partial_sums.order",
    "pairwise",
    tuple(ORDERS),
    "in which order parts are added: one after the other, neighbours first, partners half of the parts apart first, or "
    "around a ring, where it depends on the place in the result",
)
Flag(
    "partial_sums.dtype",
    "unrounded",
    DTYPES,
    "the dtype in which parts are added: that of their sums (float32 of half types), that of the result, or another",
)
Flag(
    "workspace_limit",
    None,
    Whole(0, or_none=True),
    "limit in bytes for the workspace of a convolution, besides its arguments and result; None: no limit",
)
Flag(
    "einsum_memory_limit",
    None,
    Whole(0, or_none=True),
    "limit in bytes for the live intermediates of an einsum, which raises beyond it; None: 80 % of the free memory",
)


# CUDA: matrix products


def _reduction_flags(kind: str) -> None:
    """The flags of reduced sums of half products: one value of three, and torch's flag (a bool or a pair) and its
    read-only second half as views of it."""
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
        f'sums of {kind} products over parts of K: rounded to {kind} ("reduced"), kept in float32, or not split '
        '("whole"); permits nothing until it is set',
        permits=True,
    )
    Flag(
        path,
        True,
        bool,
        f'whether `{cell}` is "reduced"; a pair also sets whether sums may be split',
        mistyped=TypeError,
        of=cell,
        reads=lambda state: state.read(cell) == "reduced",
        writes=lambda pair: {cell: values[pair]},
        accepts=accepts,
    )
    ReadOnly(f"{path}_split_k", lambda state: state.read(cell) != "whole", f'whether `{cell}` differs from "whole"')


_precision("cuda.matmul.fp32_precision", "cudnn.fp32_precision", "precision of matrix products in the CUDA family")
Flag(
    "cuda.matmul.allow_tf32",
    False,
    bool,
    'whether `cuda.matmul.fp32_precision` is "tf32"; setting it writes "tf32" or "ieee"',
    of="cuda.matmul.fp32_precision",
    reads=lambda state: state.read("cuda.matmul.fp32_precision") == "tf32",
    writes=lambda allow: {"cuda.matmul.fp32_precision": "tf32" if allow else "ieee"},
)
Flag("cuda.matmul.allow_fp16_accumulation", False, bool, "sum products of float16 tensors in float16")
_reduction_flags("fp16")
_reduction_flags("bf16")
Flag("cuda.tf32_veto", False, bool, "NVIDIA_TF32_OVERRIDE=0: the CUDA family permits no TF32, whatever its other flags")


# CUDA: libraries, attention, FFT

Flag(
    "cuda.blas_library",
    "default",
    tuple(dict.fromkeys(BLAS_NAMES.values())),
    'preferred_blas_library: "cublaslt" uses NumPy\'s BLAS for every product, the others where it is fastest',
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
Flag("cuda.flash_sdp", True, bool, "enable_flash_sdp: allow the flash attention kernel")
Flag("cuda.mem_efficient_sdp", True, bool, "enable_mem_efficient_sdp: allow the memory-efficient attention kernel")
Flag("cuda.math_sdp", True, bool, "enable_math_sdp: allow the math attention kernel")
Flag(
    "cuda.cudnn_sdp",
    True,
    bool,
    "enable_cudnn_sdp: allow cuDNN's attention kernel",
    inert="cuDNN's attention kernel does not exist here",
)
Flag(
    "cuda.sdp_priority",
    ",".join(ATTENTION_KERNELS),
    Order(ATTENTION_KERNELS),
    "the order of preference of attention kernels: set by `sdpa_kernel(..., set_priority=True)`",
)
Flag(
    "cuda.fp16_bf16_reduction_math_sdp",
    False,
    bool,
    "allow_fp16_bf16_reduction_math_sdp: the math attention kernel accumulates half tensors in half precision",
)
Flag(
    "cuda.cufft_plan_cache.max_size",
    4096,
    Whole(0),
    "maximum number of cached FFT plans, dropped by least recent use; 0 disables the cache",
)


# cuDNN


def _either_tf32(state: State) -> bool:
    return "tf32" in (state.read("cudnn.conv.fp32_precision"), state.read("cudnn.rnn.fp32_precision"))


Flag("cudnn.enabled", True, bool, "allow special convolution algorithms besides the general one")
Flag(
    "cudnn.benchmark",
    False,
    bool,
    "time the algorithms of a convolution on its first call, and use the fastest from then on",
)
Flag(
    "cudnn.benchmark_limit",
    None,
    Whole(0, or_none=True),
    "number of algorithms that `cudnn.benchmark` times; 0 or None: all",
)
Flag("cudnn.deterministic", False, bool, "choose no algorithm by timing: cudnn.benchmark has no effect")
Flag(
    "cudnn.allow_tf32",
    True,
    bool,
    "whether convolutions or recurrences may run in TF32 in the CUDA family; writes both precisions",
    of="cudnn.conv.fp32_precision",
    reads=_either_tf32,
    writes=lambda allow: dict.fromkeys(
        ("cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"), "tf32" if allow else NO_OPINION
    ),
)
_precision("cudnn.fp32_precision", "fp32_precision", "precision of every product in the CUDA family")
Flag(
    "cudnn.depthwise_kernel",
    "auto",
    ("auto", "cudnn", "native"),
    "the algorithm of depthwise convolutions: by size, the general one, or the special one",
    mistyped=RuntimeError,
)
_precision("cudnn.conv.fp32_precision", "cudnn.fp32_precision", "precision of convolutions in the CUDA family", "tf32")
_precision("cudnn.rnn.fp32_precision", "cudnn.fp32_precision", "precision of recurrences in the CUDA family", "tf32")


# oneDNN

_MKLDNN_PRECISIONS = tuple(f"mkldnn.{kind}.fp32_precision" for kind in ("matmul", "conv", "rnn"))

Flag(
    "mkldnn.enabled",
    True,
    bool,
    "the oneDNN family takes part in choosing precisions, and convolutions may use special algorithms",
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
    "whether a product may run in TF32 in the oneDNN family; writes its precisions of matmul, conv and rnn",
    of=_MKLDNN_PRECISIONS[0],
    reads=lambda state: any(state.read(path) == "tf32" for path in _MKLDNN_PRECISIONS),
    writes=lambda allow: dict.fromkeys(_MKLDNN_PRECISIONS, "tf32" if allow else "ieee"),
)
_precision("mkldnn.fp32_precision", "fp32_precision", "precision of every product in the oneDNN family")
for _path, _of in zip(_MKLDNN_PRECISIONS, ("matrix products", "convolutions", "recurrences"), strict=True):
    _precision(_path, "mkldnn.fp32_precision", f"precision of {_of} in the oneDNN family")


# The others

Flag(
    "xla.mat_mul_precision",
    "default",
    tuple(XLA_PRECISIONS),
    "torch_xla's precision of products: one, three or six bf16 passes; permits nothing until it is set",
    permits=True,
)
Flag("opt_einsum.enabled", True, bool, "contract einsums of three or more operands in the order found by `strategy`")
Flag(
    "opt_einsum.strategy",
    "auto",
    (None, *STRATEGIES),
    'how einsum finds its contraction order; None: left to right; also "cotengra" (if installed), a path, or a '
    "function that finds one",
    unknown=ValueError,
    mistyped=ValueError,
    accepts=check_strategy,
)
Flag(
    "opt_einsum.slices",
    None,
    (None, *SLICES),
    "how to find indices to slice where an einsum exceeds its memory limit; None: raise",
    unknown=ValueError,
    accepts=checked_slices,
)
Flag(
    "opt_einsum.slicing_overhead",
    100,
    Whole(1),
    "FLOPs of all slices of an einsum over those of the whole, beyond which it is not sliced and raises",
)
Flag("nnpack.enabled", True, bool, "allow Winograd and FFT algorithms for convolutions")
Flag("mha.fastpath", True, bool, "allow one fused kernel for nn.MultiheadAttention")
Flag("miopen.immediate", False, bool, "MIOpen's immediate mode", inert="MIOpen is not used")
for _dsl in ("cutedsl", "triton"):
    Flag(f"python_native.{_dsl}.enabled", True, bool, f"kernels written in {_dsl}", inert="no kernel is written in it")
_ENGINES = "this engine has no quantised types"
ReadOnly("quantized.engine", lambda state: "none", _ENGINES, RuntimeError)
ReadOnly("quantized.supported_engines", lambda state: ["none"], _ENGINES, RuntimeError)
ReadOnly("xnnpack.enabled", lambda state: False, "XNNPACK is not used", RuntimeError)
