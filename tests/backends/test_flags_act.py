"""Every flag acts: flipped, it changes a kernel, a bit or a trace; or it is on a list that says why it does not."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.flags import Snapshot, rows

pytestmark = pytest.mark.usefixtures("default_flags")


Observation = tuple[bytes, list[tuple]]
"""The bits of a result, and what each kernel was asked for and which implementation ran."""


def observe(compute: Callable[[], Any]) -> Observation:
    with explain.record() as log:
        result = compute()
    return result.float().numpy().tobytes(), [(e.kernel, e.precision, e.options, e.implementation) for e in log]


def factors(dtype: Any = mt.float32) -> tuple[Any, Any]:
    mt.manual_seed(0)
    return mt.randn(20, 2100).to(dtype), mt.randn(2100, 10).to(dtype)


def product(dtype: Any = mt.float32) -> Observation:
    a, b = factors(dtype)
    return observe(lambda: a @ b)


def gradient(of: Any = mt.Tensor.requires_grad_) -> Observation:
    a, b = factors()
    b = of(b)
    with backends.flags(fp32_precision="bf16"):
        loss = (a @ b).sum()

    def backward() -> Any:
        loss.backward()
        return b.grad

    return observe(backward)


class Flip(NamedTuple):
    """Two values of a flag, the flags that are set meanwhile, and what is observed under each."""

    first: Any
    second: Any
    others: Mapping[str, Any] = MappingProxyType({})
    observe: Callable[[], Observation] = product


def half() -> Observation:
    return product(mt.float16)


def bfloat() -> Observation:
    return product(mt.bfloat16)


def double() -> Observation:
    return product(mt.float64)


def chain() -> Observation:
    """Matrices whose best order begins in the middle; every order rounds differently."""
    mt.manual_seed(0)
    matrices = [mt.randn(*shape) for shape in ((40, 50), (50, 3), (3, 60), (60, 40))]
    return observe(lambda: mt.einsum("ab,bc,cd,de->ae", *matrices))


def chain_within_limits() -> Observation:
    try:
        return chain()
    except RuntimeError as refusal:
        return b"", [(str(refusal),)]


def attend(dtype: Any = mt.float32) -> Observation:
    mt.manual_seed(0)
    q, k, v = (mt.randn(1, 2, 20, 8).to(dtype) for _ in range(3))
    return observe(lambda: mt.nn.functional.scaled_dot_product_attention(q, k, v))


def layer() -> Observation:
    """A layer, and the gradients of its input and weight."""
    mt.manual_seed(0)
    x, weight, g = mt.randn(8, 64).requires_grad_(), mt.nn.Parameter(mt.randn(32, 64)), mt.randn(8, 32)

    def run() -> Any:
        out = mt.nn.functional.linear(x, weight)
        out.backward(g)
        found = mt.cat([each.detach().flatten() for each in (out, x.grad, weight.grad)])
        x.grad = weight.grad = None
        return found

    return observe(run)


def attended_halves() -> Observation:
    return attend(mt.bfloat16)


def heads() -> Observation:
    mt.manual_seed(0)
    module, x = mt.nn.MultiheadAttention(8, 2), mt.randn(5, 1, 8)

    def attend() -> Any:
        with mt.no_grad():
            return module(x, x, x, need_weights=False)[0]

    return observe(attend)


def eigenvalues() -> Observation:
    mt.manual_seed(0)
    a = mt.randn(3, 8, 8)
    return observe(lambda: mt.linalg.eigvalsh(a))


def images(groups: int = 1) -> tuple[Any, Any]:
    mt.manual_seed(0)
    return mt.randn(1, 16, 9, 8), mt.randn(16, 16 // groups, 3, 3)


def convolution(groups: int = 1) -> Observation:
    x, weight = images(groups)
    return observe(lambda: mt.conv2d(x, weight, padding=1, groups=groups))


def depthwise() -> Observation:
    return convolution(16)


def benchmark() -> Observation:
    """The algorithms that are timed on a first call; the fastest may vary."""
    backends.cudnn.benchmark_cache.clear()
    _, (*_, record) = convolution()
    timed = dict(record[2]).get("timed", "")
    return b"", [("timed", *sorted(timed.split(",")))]


def wide_convolution() -> Observation:
    """A kernel so large that its usual algorithm has a workspace."""
    mt.manual_seed(0)
    x, weight = mt.randn(1, 2, 150, 150), mt.randn(2, 2, 61, 61)
    return observe(lambda: mt.conv2d(x, weight))


def recurrence() -> Observation:
    mt.manual_seed(0)
    module, x = mt.nn.GRU(16, 24), mt.randn(5, 3, 16)
    with mt.no_grad():
        return observe(lambda: module(x)[0])


def transforms() -> Observation:
    """Two of one kind: the second has the plan of the first where plans are kept."""
    backends.cuda.cufft_plan_cache.clear()
    x = mt.ones(128, 64, dtype=mt.complex64)
    _, trace = observe(lambda: mt.fft.fft(mt.fft.fft(x)).real)
    cache = backends.cuda.cufft_plan_cache
    return b"", [("plans", cache.size, cache.hits, cache.misses, *(each[3] for each in trace if each[0] == "fft"))]


FLIPS: dict[str, list[Flip]] = {
    "cuda.cufft_plan_cache.max_size": [Flip(4096, 0, observe=transforms)],
    "fp32_precision": [
        Flip("ieee", value) for value in ("tf32", "bf16", "bf16x3", "bf16x6", "bf16x9", "tf32x3", "fp16")
    ],
    "emulate": [
        Flip(None, "xla"),
        Flip("cuda", "mkldnn", {"cuda.matmul.fp32_precision": "tf32"}),
        Flip(None, "cuda", {"mkldnn.matmul.fp32_precision": "bf16"}),
        *(Flip("cuda", stack) for stack in ("ort-cuda", "mlx", "jax-tpu")),
        Flip("cuda", "rocm", {"cuda.matmul.fp32_precision": "tf32"}),
    ],
    "backward_precision": [
        Flip("live", "recorded", observe=gradient),
        Flip("live", "tf32", observe=gradient),
        Flip("recorded", "tf32", observe=gradient),
    ],
    "fp64_precision": [Flip("ieee", name, observe=double) for name in ("int8", "int8x3", "int8mod8")],
    "fp64_bits": [Flip(53, 20, {"fp64_precision": name}, double) for name in ("int8", "int8mod")],
    "profile": [Flip(None, "a100", {"fp32_precision": "tf32"}), Flip("a100", "h100", {"fp32_precision": "tf32"})],
    "input_gradient_precision": [Flip("ieee", "tf32", observe=gradient)],
    "weight_gradient_precision": [Flip("ieee", "tf32", observe=lambda: gradient(mt.nn.Parameter))],
    "float32_matmul_precision": [Flip("highest", "high"), Flip("highest", "medium"), Flip("high", "medium")],
    "tf32_rounding": [
        Flip(*pair, {"fp32_precision": "tf32"}) for pair in (("rna", "rz"), ("rna", "rne"), ("rne", "rz"))
    ],
    "scaled_rounding": [Flip("rne", "stochastic", {"fp32_precision": "mxfp8"})],
    "cuda.matmul.fp32_precision": [Flip("ieee", "tf32")],
    "cuda.matmul.allow_tf32": [Flip(False, True)],
    "cuda.matmul.allow_fp16_accumulation": [Flip(False, True, observe=half)],
    "cuda.matmul.fp16_reduction": [Flip("split_k", "reduced", observe=half), Flip("whole", "reduced", observe=half)],
    "cuda.matmul.allow_fp16_reduced_precision_reduction": [
        Flip(False, True, observe=half),
        Flip(False, True, {"emulate": "cuda"}, half),
    ],
    "cuda.matmul.bf16_reduction": [Flip("whole", "reduced", observe=bfloat)],
    "cuda.matmul.allow_bf16_reduced_precision_reduction": [Flip((False, False), True, observe=bfloat)],
    "cuda.tf32_veto": [Flip(False, True, {"cuda.matmul.allow_tf32": True})],
    "cuda.blas_library": [Flip("default", "cublaslt"), Flip("cublas", "cublaslt", {"fp32_precision": "bf16"})],
    "cuda.flash_sdp": [Flip(True, False, observe=attend)],
    "cuda.mem_efficient_sdp": [Flip(True, False, {"cuda.flash_sdp": False}, attend)],
    "cuda.math_sdp": [Flip(True, False, {"cuda.sdp_priority": "math,flash,efficient,cudnn"}, attend)],
    "cuda.sdp_priority": [Flip("flash,efficient,math,cudnn", "efficient,flash,math,cudnn", observe=attend)],
    "cuda.fp16_bf16_reduction_math_sdp": [
        Flip(True, False, {"cuda.sdp_priority": "math,flash,efficient,cudnn"}, attended_halves)
    ],
    "mha.fastpath": [Flip(True, False, observe=heads)],
    "cuda.linalg_library": [Flip(*pair, observe=eigenvalues) for pair in (("magma", "cusolver"), ("magma", "default"))],
    "cross_check": [Flip(False, True, observe=eigenvalues)],
    "cudnn.fp32_precision": [Flip("ieee", "tf32"), Flip("none", "tf32")],
    "cudnn.enabled": [Flip(False, True, observe=wide_convolution)],
    "cudnn.benchmark": [Flip(False, True, observe=benchmark)],
    "cudnn.benchmark_limit": [Flip(1, 0, {"cudnn.benchmark": True}, benchmark)],
    "cudnn.deterministic": [Flip(False, True, {"cudnn.benchmark": True}, benchmark)],
    "cudnn.allow_tf32": [Flip(False, True, observe=convolution)],
    "cudnn.conv.fp32_precision": [Flip("ieee", "tf32", observe=convolution)],
    "cudnn.rnn.fp32_precision": [Flip("ieee", "tf32", observe=recurrence)],
    "cudnn.depthwise_kernel": [Flip("cudnn", "native", observe=depthwise)],
    "deterministic_algorithms": [
        Flip("default", value, {"cudnn.benchmark": True}, benchmark) for value in ("warn", "error")
    ],
    "nnpack.enabled": [
        Flip(False, True, {"cudnn.benchmark": True}, benchmark),
        Flip(False, True, observe=wide_convolution),
    ],
    "invariant": [Flip("none", "batch"), Flip("batch", "isa"), Flip("none", "shards")],
    "partial_sums.parts": [
        Flip(1, 8),
        Flip(2, 3),
        Flip(1, 8, {"partial_sums.dtype": "float16"}, lambda: observe(factors()[0].sum)),
    ],
    "partial_sums.order": [
        Flip("pairwise", each, {"partial_sums.parts": 8}) for each in ("sequential", "tree", "ring")
    ],
    "partial_sums.dtype": [
        Flip("unrounded", each, {"partial_sums.parts": 8}, bfloat) for each in ("result", "float16", "bfloat16")
    ],
    "workspace_limit": [Flip(None, 1000, observe=wide_convolution)],
    "mkldnn.enabled": [
        Flip(False, True, {"mkldnn.fp32_precision": "bf16"}),
        Flip(False, True, observe=wide_convolution),
    ],
    "mkldnn.conv.fp32_precision": [Flip("ieee", "bf16", observe=convolution)],
    "mkldnn.rnn.fp32_precision": [Flip("ieee", "bf16", observe=recurrence)],
    "mkldnn.allow_tf32": [Flip(False, True)],
    "mkldnn.fp32_precision": [Flip("ieee", "bf16")],
    "mkldnn.matmul.fp32_precision": [Flip("ieee", "bf16")],
    "einsum_memory_limit": [Flip(None, 1000, observe=chain_within_limits)],
    "opt_einsum.slices": [Flip(None, "auto", {"einsum_memory_limit": 7300}, observe=chain_within_limits)],
    "opt_einsum.slicing_overhead": [
        Flip(100, 1, {"einsum_memory_limit": 7300, "opt_einsum.slices": "auto"}, observe=chain_within_limits)
    ],
    "opt_einsum.enabled": [Flip(False, True, observe=chain)],
    "opt_einsum.strategy": [Flip(None, "auto", observe=chain), Flip(None, "greedy", observe=chain)],
    "operands.weight": [Flip("none", "mxfp4", observe=layer), Flip("mxfp8", "q4_0", observe=layer)],
    "operands.recipe": [Flip("none", "te-mxfp8", observe=layer)],
    "operands.activation": [Flip("none", "e4m3-row", observe=layer)],
    "operands.gradient": [Flip("none", "mxfp8", observe=layer)],
    **{
        f"operands.{role}": [Flip("none", "mxfp8", observe=attend)] for role in ("query", "key", "value", "probability")
    },
    **{
        f"operands.{of}_gradient.{role}": [Flip("ieee", "mxfp4", observe=layer)]
        for of, role in (("input", "gradient"), ("input", "weight"), ("weight", "activation"), ("weight", "gradient"))
    },
    "xla.mat_mul_precision": [Flip("default", "high"), Flip("high", "highest")],
}
"""For each flag that acts, flips that show it."""


def scope(path: str, value: Any) -> Any:
    group: Any = backends
    *groups, name = path.split(".")
    for each in groups:
        group = getattr(group, each)
    return group.flags(**{name: value})


@pytest.mark.parametrize(("path", "flip"), [(path, flip) for path, flips in FLIPS.items() for flip in flips])
def test_a_flip_is_seen(path: str, flip: Flip) -> None:
    with Snapshot(flip.others.items()):
        with scope(path, flip.first):
            first, again = flip.observe(), flip.observe()
        with scope(path, flip.second):
            second = flip.observe()
    assert first == again, "what is observed does not vary by itself"
    assert first != second


def test_every_flag_acts_or_says_why_not() -> None:
    assert FLIPS.keys() == {path for path, row in rows.items() if row.inert is None}


@pytest.mark.parametrize("path", [path for path, row in rows.items() if row.inert])
def test_an_inert_flag_does_not_act_on_products(path: str) -> None:
    value, *others = rows[path].choices.examples
    everything = [product, gradient, half, bfloat, convolution]
    with scope(path, value):
        before = [observe() for observe in everything]
    for other in others:
        with scope(path, other):
            assert [observe() for observe in everything] == before
