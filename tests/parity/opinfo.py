"""torch's own samples (OpInfo): each call made in torch and here, and what differs between the two.

A function or method is found here by torch's name. The functions that OpInfo wraps are lambdas over `torch`: they run
with this package in that place.
"""

import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

import minitorch_backends as mt
from minitorch_backends.tensor.dtypes import dtypes
from minitorch_backends.tensor.tensor import Tensor, adopt

from .peer import array_of, name_of, torch_tensors, widen

OPS = tuple(op_db)
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool, torch.bfloat16)
MOST_SAMPLES = 20
"""Of one op and dtype; of more, every second, third ... is taken."""

TOLERANCE = {
    "bfloat16": 2.0**-6, "float16": 2.0**-9, "float32": 5e-5, "complex64": 5e-5, "float64": 1e-9, "complex128": 1e-9,
}  # fmt: skip
"""Relative to the largest value, by the least precise floating type among operands and result."""

UNPROMISED = """empty empty_like new_empty empty_strided new_empty_strided empty_permuted
    rand rand_like randn randn_like randint randint_like normal uniform exponential cauchy geometric log_normal
    bernoulli multinomial nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.alpha_dropout nn.functional.feature_alpha_dropout nn.functional.rrelu
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.multi_head_attention_forward
    pca_lowrank svd_lowrank svd linalg.svd linalg.eig linalg.eigh linalg.qr qr geqrf"""
SHAPES_ONLY = frozenset(UNPROMISED.split())
"""Functions with unspecified values: uninitialised memory, random numbers, and bases that are not unique."""

TIES = frozenset({"sort", "msort", "argsort", "topk", "kthvalue", "mode"})
"""Whose indices are any of those of equal values."""


class Difference(NamedTuple):
    """What a call does otherwise than in torch. `kind` is a dtype, or "gradient", "error"."""

    kind: str
    what: str
    call: str


class _Functions:
    """The functions of `mt`, and methods in place as functions, which torch has too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Tensor if name.endswith("_") and not hasattr(mt, name) else mt, name)


def name_of_op(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def found_here(op: OpInfo) -> list[Callable[..., Any]]:
    """The function of torch's name, and the method, as far as they exist."""
    home: Any = mt
    for part in op.name.split("."):
        home = getattr(home, part, None)
    method = getattr(Tensor, getattr(op.method_variant, "__name__", ""), None)
    if isinstance(op.op, types.FunctionType) and op.op.__name__ == "<lambda>":
        spaces = {**op.op.__globals__, "torch": _Functions()}
        first = types.FunctionType(op.op.__code__, spaces, "wrapped", op.op.__defaults__, op.op.__closure__)
        return [first] if method is None else [first, method]
    if not callable(home) or op.op is getattr(torch.Tensor, op.name, None):
        home = getattr(Tensor, op.name, None)
    return [each for each in (home, method) if callable(each)]


def here(value: Any, leaves: list[Tensor] | None = None) -> Any:
    """An argument of torch's as ours, with a memory of its own; notes tensors that require gradients.

    Raises NotImplementedError for layouts, dtypes and generators that do not exist here.
    """
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or name_of(value.dtype) not in dtypes or value.is_quantized:
            raise NotImplementedError(f"{value.layout}, {value.dtype}")
        made = adopt(in_own_memory(array_of(value).astype(getattr(mt, name_of(value.dtype)).dtype, copy=False)))
        if value.requires_grad and leaves is not None:
            leaves.append(made.requires_grad_())
        return made
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        name = str(value).removeprefix("torch.")
        if not hasattr(mt, name):
            raise NotImplementedError(name)
        return getattr(mt, name)
    if isinstance(value, (list, tuple)):
        items = [here(each, leaves) for each in value]
        return tuple(items) if type(value) not in (list, tuple) else type(value)(items)
    if isinstance(value, dict):
        return {key: here(each, leaves) for key, each in value.items()}
    if isinstance(value, torch.Generator) or callable(value):
        raise NotImplementedError(repr(value))
    return str(value) if isinstance(value, torch.device) else value


def in_own_memory(array: np.ndarray) -> np.ndarray:
    """A copy of the same layout; expanded dimensions stay expanded."""
    once = np.asarray(array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]).copy("K")
    strides = [0 if step == 0 else own for step, own in zip(array.strides, once.strides, strict=True)]
    return once if once.shape == array.shape else np.lib.stride_tricks.as_strided(once, array.shape, strides)


def copy_argument(value: Any) -> Any:
    """An argument of torch's that may be written to."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(map(copy_argument, value))
    return {key: copy_argument(each) for key, each in value.items()} if isinstance(value, dict) else value


def show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{name_of(value.dtype)}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(show, value))})"
    return ", ".join(f"{key}={show(each)}" for key, each in value.items()) if isinstance(value, dict) else repr(value)


def difference(
    ours: Any, theirs: Any, tolerance: float, name: str, floor: float = 0.0, random: Any = False
) -> str | None:
    """The difference of two results in words, or None. Random values are compared by type and shape."""
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return f"{type(ours).__name__} for {type(theirs).__name__} of {len(theirs)}"
        pairs = zip(ours, theirs, strict=True)
        found = (difference(one, other, tolerance, name, floor, random) for one, other in pairs)
        return next((each for each in found if each), None)
    if not isinstance(theirs, torch.Tensor):
        same = (isinstance(theirs, float) and np.isclose(ours, theirs, tolerance)) or str(ours) == str(theirs)
        return None if same or isinstance(theirs, torch.dtype) else f"{ours!r} for {theirs!r}"
    if not isinstance(ours, Tensor):
        return f"{type(ours).__name__} for a tensor"
    if ours.dtype.name != name_of(theirs.dtype) or ours.shape != tuple(theirs.shape):
        return f"{ours.dtype.name}{list(ours.shape)} for {show(theirs)}"
    got, wanted = widen(ours), array_of(theirs)
    if random or (name in TIES and wanted.dtype == np.int64):
        return None
    scale = max(np.abs(wanted[np.isfinite(wanted)]).max(initial=0), floor) if wanted.dtype.kind in "fc" else 0
    with np.errstate(all="ignore"):
        close = np.isclose(got, wanted, tolerance, tolerance * scale, True) if scale else got == wanted
    if np.all(close | ((got != got) & (wanted != wanted))):
        return None
    return f"{got[~close][:2].tolist()} for {wanted[~close][:2].tolist()}"


def is_missing(error: Exception) -> bool:
    """Whether a wrapped function asked for a name that does not exist here."""
    return isinstance(error, AttributeError) and "has no attribute" in str(error)


def tolerance_of(*values: Any) -> float:
    kinds = {name_of(each.dtype) for value in values for each in torch_tensors(value)}
    return max((TOLERANCE[kind] for kind in kinds if kind in TOLERANCE), default=1e-9)


def compare(
    name: str, function: Any, theirs: Any, sample: Any, dtype: Any, counts: Counter[str]
) -> Iterator[Difference]:
    """One call, and where its input requires them its gradients."""
    kind, where = name_of(dtype), show([sample.input, *sample.args, sample.kwargs])
    random = name in SHAPES_ONLY or sample.kwargs.get("dropout_p")
    leaves: list[Tensor] = []
    given = [sample.input, *sample.args, sample.kwargs]
    first = copy_argument(given)
    try:
        *args, kwargs = here(given, leaves)
        wanted = theirs(*first[:-1], **first[-1])
    except Exception:  # what torch itself refuses, or does not exist here
        counts["not compared"] += 1
        return
    tolerance = tolerance_of(wanted, first, [*first[-1].values()])
    try:
        result = function(*args, **kwargs)
        what = difference(result, wanted, tolerance, name, random=random)
    except Exception as error:
        if is_missing(error):
            counts["missing"] += 1
            return
        what = f"{type(error).__name__}: {error}"
    counts["compared"] += 1
    if what:
        yield Difference(kind, what, where)
        return
    peers = [each for each in torch_tensors([*first[:-1], *first[-1].values()]) if each.requires_grad]
    outputs = [each for each in torch_tensors(wanted) if each.requires_grad]
    if random or not outputs or len(peers) != len(leaves):
        return
    made = [each for each in (result if isinstance(result, (list, tuple)) else [result]) if each.requires_grad]
    cotangents = [torch.linspace(0.1, 1, each.numel(), dtype=each.dtype).reshape(each.shape) for each in outputs]
    try:
        expected = torch.autograd.grad(outputs, peers, cotangents, allow_unused=True, materialize_grads=True)
    except RuntimeError:  # no derivative in torch
        return
    counts["gradients"] += 1
    try:
        found = mt.autograd.grad(made, leaves, here(cotangents), allow_unused=True, materialize_grads=True)
        what = difference(found, expected, max(tolerance, 1e-7), name, 1.0)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
    if what:
        yield Difference("gradient", what, where)


def count_refusals(op: OpInfo, function: Any, counts: Counter[str]) -> Iterator[Difference]:
    """Calls that torch refuses, and the types of exceptions."""
    for bad in op.error_inputs("cpu"):
        sample = bad.sample_input
        given = [sample.input, *sample.args, sample.kwargs]
        try:
            *args, kwargs = here(given)
        except Exception:  # what does not exist here
            continue
        try:
            op.op(*given[:-1], **given[-1])
        except Exception as error:
            theirs = error
        else:
            continue
        counts["refusals"] += 1
        try:
            what = f"returned {function(*args, **kwargs)!r}"
        except Exception as error:
            if isinstance(error, type(theirs)) or isinstance(theirs, type(error)) or is_missing(error):
                continue
            what = f"{type(error).__name__}: {error}"
        yield Difference("error", f"{what}; torch: {type(theirs).__name__}: {theirs}", show(given))


def differences(op: OpInfo, counts: Counter[str]) -> Iterator[Difference]:
    """All that an op does otherwise."""
    functions = found_here(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if not functions or dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(1234)
            samples = list(op.sample_inputs("cpu", dtype, dtype is torch.float64 and op.supports_autograd))
            for sample in samples[:: len(samples) // MOST_SAMPLES + 1]:
                for function, theirs in zip(functions, (op.op, op.method_variant), strict=False):
                    yield from compare(op.name, function, theirs or op.op, sample, dtype, counts)
        if functions and op.error_inputs_func is not None:
            yield from count_refusals(op, functions[0], counts)
