"""Every declared op over its samples: values in every dtype, gradients of both orders, in-place forms, memory."""

import contextlib
import gc
import re
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.dispatch.op import Op
from minitorch_backends.tensor.dtypes import FLOATING, DType, dtypes
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Tensor, adopt

from ..declared.samples import Sample
from ..support.calls import (
    ARITHMETIC,
    HALVES,
    OPS,
    TABLE,
    UNDERIVABLE,
    arrays_in,
    dtypes_of,
    is_composite,
    leaves_of,
    map_arrays,
    reference_result,
    replace_tensors,
    results,
    run,
    samples_of,
    takes,
    tensors,
)

every_op = pytest.mark.parametrize("name", OPS)
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError, UserWarning)

FLOAT_ERROR = {"float32": 2e-6, "complex64": 4e-6, "float64": 1e-11, "complex128": 1e-11}
"""Allowed of the full types, relative to the largest value: a few roundings, and series in special functions."""

UNLIKE_REALS = {
    ("interpolate", "uint8"): "rounds to the nearest",
    **{
        (name, unsigned): "differences below 0 wrap around"
        for name in ("l1_loss", "margin_ranking_loss", "pairwise_distance", "triplet_margin_loss")
        for unsigned in ("uint8", "uint16", "uint32", "uint64")
    },
}
"""Where integers do otherwise than the reals of the reference."""

INTEGER_REFUSALS = (
    "negative integer powers", "without overflow", r"median\(\) of no elements", "could not infer output dtype",
    "for boolean", "floating or uint8", "must have a common type, got mt.*int64",
)  # fmt: skip
"""What an op may say of integers, of a type that it takes: no power, no room for one, no mean without dtype=, no
sums of products of booleans, no common type of uint64 and a sample's int64."""

DOUBLE = {"float_power"}
"""Functions whose result is of float64 or complex128 whatever the dtype of their inputs."""

HALF_STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the relative distance between neighbours: what one rounding costs."""


# Declarations


@every_op
def test_declares_samples_and_a_reference(name: str) -> None:
    assert name in TABLE, f"{name} has no samples; declare them in tests/declared, in the file of the op's own"
    assert samples_of(name), f"the samples of {name} are empty"


def test_only_ops_have_samples() -> None:
    assert not TABLE.keys() - registry.keys()


@every_op
@pytest.mark.parametrize("kind", ["0-dim", "empty"])
def test_samples_have_tensors_without_dimensions_or_elements(name: str, kind: str) -> None:
    """One is among the samples, or else the op refuses them."""
    calls = [call for call in samples_of(name) if arrays_in(call)]
    found = [array.ndim == 0 if kind == "0-dim" else array.size == 0 for call in calls for array in arrays_in(call)]
    if any(found) or not calls:
        return

    def change(array: np.ndarray) -> np.ndarray:
        return (
            array
            if array.dtype != np.float64
            else np.array(0.7)
            if kind == "0-dim"
            else np.empty((0, *array.shape[1:]))
        )

    dtype = mt.float64 if takes(name, mt.float64) else dtypes_of(name)[0]
    made = tensors(Sample(map_arrays(calls[0].args, change), calls[0].kwargs), dtype)
    accepted = False
    with contextlib.suppress(*REFUSALS):
        run(name, made)
        accepted = True
    assert not accepted, f"{name}: no sample is {kind}, and the op accepts it"


@every_op
def test_samples_have_a_broadcast(name: str) -> None:
    declared = registry[name]
    if is_composite(name) or declared.listed or sum(declared.promoted) < 2:
        return
    shapes = [[array.shape for array in arrays_in(call)] for call in samples_of(name)]
    assert any(len(set(each)) > 1 for each in shapes), f"{name}: no sample broadcasts one input against another"


# Values


@every_op
def test_forward_agrees_with_the_reference(name: str) -> None:
    for number, call in enumerate(samples_of(name)):
        for dtype in dtypes_of(name) if arrays_in(call) else [mt.float32]:
            where = f"{name}, sample {number}, {dtype!r}"
            out = None if (name, dtype.name) in UNLIKE_REALS else accept(name, tensors(call, dtype), dtype)
            if out is None:
                continue
            # An op made of ops rounds in each, attention its weights, and a number beside half types is rounded to
            # them. A neighbour in the dtype is one of its steps away from the float64 reference.
            several = is_composite(name) or name in ("attend", "nextafter")
            roundings = 8 if several or any(type(each) is float for each in call.args) else 1
            wanted = reference_result(name, call, dtype)
            if name == "attend":  # the sums of its weights stay wide
                out = tuple(each.to(dtype) for each in out)
            assert_equal_nested(out, wanted, where, roundings)
            assert_likely_dtypes(name, call, out, wanted, dtype, where)


def accept(name: str, call: Sample, dtype: DType) -> Any:
    """The result of the op, or None where it may refuse these integers."""
    try:
        return run(name, call)
    except RuntimeError as error:
        if dtype.category < FLOATING and any(re.search(refusal, str(error)) for refusal in INTEGER_REFUSALS):
            return None
        raise


def assert_equal_nested(out: Any, wanted: Any, where: str, roundings: int) -> None:
    if isinstance(wanted, (tuple, list)) and isinstance(out, (tuple, list)):
        assert len(out) == len(wanted), f"{where}: {len(out)} results, and the reference has {len(wanted)}"
        for index, (one, other) in enumerate(zip(out, wanted, strict=True)):
            assert_equal_nested(one, other, f"{where}, result {index}", roundings)
    elif isinstance(out, Tensor):
        assert_values(out, np.asarray(wanted), where, roundings)
    else:
        assert out == wanted, f"{where}: got {out!r}, and the reference {wanted!r}"


def assert_values(out: Tensor, wanted: np.ndarray, where: str, roundings: int) -> None:
    array, dtype = out._array, out.dtype
    assert array.shape == wanted.shape, f"{where}: shape {array.shape}, and that of the reference is {wanted.shape}"
    if dtype.category < FLOATING:
        assert np.array_equal(array, wanted.astype(array.dtype)), (
            f"{where}: {array.tolist()}, expected {wanted.tolist()}"
        )
        return
    assert dtype.is_complex or wanted.dtype.kind != "c", f"{where}: {dtype!r}, and the reference is complex"
    wide = np.complex128 if dtype.is_complex else np.float64
    with np.errstate(over="ignore"):
        rounded = wanted.astype(array.dtype).astype(wide)
    got, wanted = array.astype(wide), wanted.astype(wide)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
    if dtype in HALVES:
        step = HALF_STEP[dtype.name]
        smallest = 2.0**-25 if dtype is mt.float16 else 2.0**-133
        allowed = 1.01 * step * np.abs(wanted) + smallest + 4e-6 * scale + (roundings - 1) * step * scale
    else:
        allowed = FLOAT_ERROR[dtype.name] * scale
    with np.errstate(invalid="ignore"):
        wrong = ~(same | (np.abs(got - wanted) <= allowed))
    assert not wrong.any(), f"{where}: {got[wrong]}, expected {wanted[wrong]}"


def flatten(out: Any) -> list[Any]:
    return [part for each in out for part in flatten(each)] if isinstance(out, (tuple, list)) else [out]


def assert_likely_dtypes(name: str, call: Sample, out: Any, wanted: Any, dtype: DType, where: str) -> None:
    """The result is real, complex, integer or boolean where the reference is, in the dtype of the inputs."""
    named = any(isinstance(value, (DType, str)) for value in (*call.args, *call.kwargs.values()))
    if dtype.category < FLOATING or name in DOUBLE or named or not arrays_in(call):
        return
    for index, (one, other) in enumerate(zip(results(out), flatten(wanted), strict=False)):
        kind = np.asarray(other).dtype.kind
        integer = mt.int32 if np.asarray(other).dtype == np.int32 else mt.int64
        likely = {"b": mt.bool, "i": integer, "f": dtype.to_real(), "c": dtype.to_complex()}[kind]
        assert one.dtype is likely, f"{where}, result {index}: {one.dtype!r}, expected {likely!r}"


@every_op
def test_refuses_other_dtypes(name: str) -> None:
    calls = [call for call in samples_of(name) if arrays_in(call)]
    kinds = dtypes.values() if isinstance(registry[name], Op) else ARITHMETIC
    for dtype in [each for each in kinds if not takes(name, each)] if calls else []:
        accepted = False
        made = tensors(calls[0], dtype)
        with contextlib.suppress(RuntimeError, TypeError):
            registry[name].public(*made.args, **made.kwargs)
            accepted = True
        assert not accepted, f"{name} accepts {dtype!r}, which its declaration does not take"


# Gradients


def differentiable_calls(name: str) -> Iterator[tuple[str, Any, list[Tensor]]]:
    """The samples in float64 and complex128 as functions of leaves, where results are finite and need gradients."""
    for dtype in (mt.float64, mt.complex128):
        for number, call in enumerate(samples_of(name) if takes(name, dtype) else []):
            made = tensors(call, dtype, requires_grad=True)
            leaves, outputs = leaves_of(made), results(run(name, made))
            if name in UNDERIVABLE:
                continue
            needing = [out for out in outputs if out.requires_grad]
            if not leaves or not needing or any(out.dtype.to_real() is not mt.float64 for out in needing):
                continue
            if not all(np.isfinite(out._array).all() for out in needing):
                continue

            def function(*inputs: Tensor, made: Sample = made, leaves: list[Tensor] = leaves) -> tuple[Tensor, ...]:
                return tuple(results(run(name, replace_tensors(made, dict(zip(map(id, leaves), inputs, strict=True))))))

            yield f"{name}, sample {number}, {dtype!r}", function, leaves


@pytest.mark.parametrize("name", sorted(UNDERIVABLE))
def test_what_has_no_derivative_says_so(name: str) -> None:
    """The error is raised beside a path with a gradient too, where it would be missing in silence."""
    made = tensors(samples_of(name)[-1], mt.float64, requires_grad=True)
    leaves = leaves_of(made)
    total = sum(out.sum() for out in results(run(name, made)) if out.requires_grad)
    with pytest.raises(NotImplementedError, match=r"the derivative of .* is not implemented; detach"):
        (total + sum(leaf.sum() for leaf in leaves)).backward()


MOST_ELEMENTS = 64
"""Numbers of leaves whose Jacobians are compared element by element; beyond it by a random projection."""


@every_op
def test_gradients(name: str) -> None:
    checked = 0
    for where, function, leaves in differentiable_calls(name):
        try:
            gradcheck(function, leaves, fast_mode=sum(leaf.numel() for leaf in leaves) > MOST_ELEMENTS)
        except RuntimeError as error:
            raise AssertionError(f"{where}: {error}") from error
        checked += 1
    if not is_composite(name) and any(registry[name].rules) and name not in UNDERIVABLE:
        assert checked, f"{name} has gradient rules, and no sample whose result needs gradients"


@every_op
def test_second_gradients(name: str) -> None:
    """By random projections, since elements by differences would take a third of the suite's time."""
    for where, function, leaves in differentiable_calls(name):
        try:
            gradgradcheck(function, leaves, atol=1e-4, fast_mode=True)
        except RuntimeError as error:
            raise AssertionError(f"{where}: {error}") from error


@every_op
def test_forward_mode(name: str) -> None:
    for where, function, leaves in differentiable_calls(name):
        try:
            gradcheck(function, leaves, check_forward_ad=True, check_backward_ad=False, fast_mode=True)
        except RuntimeError as error:
            raise AssertionError(f"{where}: {error}") from error


@every_op
def test_gradients_have_the_dtypes_and_shapes_of_their_inputs(name: str) -> None:
    for dtype in (each for each in dtypes_of(name) if each.category >= FLOATING):
        for call in samples_of(name):
            made = tensors(call, dtype, requires_grad=True)
            leaves = leaves_of(made)
            outputs = [out for out in results(run(name, made)) if out.requires_grad]
            if not leaves or not outputs or name in UNDERIVABLE:
                continue
            weights = [adopt(np.ones_like(out._array)) for out in outputs]
            for leaf, g in zip(leaves, mt.autograd.grad(outputs, leaves, weights, allow_unused=True), strict=True):
                assert g is None or (g.dtype is leaf.dtype and g.shape == leaf.shape), f"{name}: {g!r} for {leaf!r}"


# In-place forms


def with_inplace_form() -> list[str]:
    """The ops whose in-place form writes values; that of a view op gives the tensor another shape."""
    ops = [name for name in OPS if not is_composite(name) and not registry[name].view]
    return [name for name in ops if name + "_" in vars(Tensor) and name != "polygamma"]  # the tensor comes second


def writable_calls(name: str, dtype: DType) -> Iterator[tuple[Sample, Tensor]]:
    """The samples whose first argument can take the result, and the result."""
    for call in samples_of(name):
        if call.args and isinstance(call.args[0], np.ndarray) and call.args[0].dtype == np.float64:
            made = tensors(call, dtype)
            out = accept(name, made, dtype)
            if out is not None and out.shape == made.args[0].shape and out.dtype is made.args[0].dtype:
                yield made, out


@pytest.mark.parametrize("name", with_inplace_form())
def test_inplace_form_equals_the_op(name: str) -> None:
    checked = 0
    for dtype in dtypes_of(name):
        for call, out in writable_calls(name, dtype):
            target, *rest = call.args
            version = target._version
            written = getattr(target, name + "_")(*rest, **call.kwargs)
            assert written is target
            assert target._version == version + 1
            assert np.array_equal(target._array, out._array, equal_nan=dtype.category >= FLOATING), (name, dtype)
            checked += 1
    assert checked, f"no sample of {name} can be written in place"


@pytest.mark.parametrize("name", [name for name in with_inplace_form() if name not in UNDERIVABLE])
def test_inplace_form_has_the_gradient_of_the_op(name: str) -> None:
    for call, out in writable_calls(name, mt.float64) if takes(name, mt.float64) else ():
        if not run(
            name, Sample((call.args[0].detach().clone().requires_grad_(), *call.args[1:]), call.kwargs)
        ).requires_grad:
            continue
        leaf = call.args[0].detach().clone().requires_grad_()
        others = [mapped_tensor(value) for value in call.args[1:]]
        weight = adopt(np.cos(np.arange(out.numel(), dtype=float)).reshape(out.shape))
        run(name, Sample((leaf * 1, *others), call.kwargs)).backward(weight)
        wanted, leaf.grad = leaf.grad, None
        getattr(leaf * 1, name + "_")(*others, **call.kwargs).backward(weight)
        assert np.array_equal(leaf.grad._array, wanted._array), name


def mapped_tensor(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("name", with_inplace_form())
def test_inplace_form_refuses_leaves(name: str) -> None:
    calls = writable_calls(name, mt.float64) if takes(name, mt.float64) else iter(())
    for call, _ in calls:
        leaf = call.args[0].requires_grad_()
        before, version = leaf._array.copy(), leaf._version
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            getattr(leaf, name + "_")(*call.args[1:], **call.kwargs)
        assert np.array_equal(leaf._array, before)
        assert leaf._version == version
        return


# Memory


@every_op
def test_keeps_no_input_alive_without_gradients(name: str) -> None:
    """Under no_grad no tensor, and no array that the result does not share, outlives the call's arguments.

    A first call is made before: compilers raise errors inside, whose frames live until the collector runs.
    """
    dtype, floating = mt.float64 if takes(name, mt.float64) else dtypes_of(name)[0], takes(name, mt.float64)
    for call in samples_of(name):
        with mt.no_grad():
            run(name, tensors(call, dtype))
        made = tensors(call, dtype, requires_grad=floating)
        leaves = leaves_of(made)
        gc.disable()
        try:
            with mt.no_grad():
                outputs = results(run(name, made))
            owners = [leaf for leaf in leaves if not any(out is leaf or out._base is leaf for out in outputs)]
            watched = [weakref.ref(each) for leaf in owners for each in (leaf, leaf._array)]
            assert not any(out.requires_grad for out in outputs if len(owners) == len(leaves))
            del made, leaves, owners
            assert all(ref() is None for ref in watched), f"{name} keeps an input alive under no_grad"
        finally:
            gc.enable()


@every_op
def test_makes_no_reference_cycles(name: str) -> None:
    if not takes(name, mt.float64):
        return
    for call in samples_of(name):
        made = tensors(call, mt.float64, requires_grad=True)
        gc.disable()
        try:
            outputs = [out for out in results(run(name, made)) if out.grad_fn is not None]
            watched = [weakref.ref(each) for out in outputs for each in (out, out.grad_fn)]
            weights = [adopt(np.ones_like(out._array)) for out in outputs]
            if name not in UNDERIVABLE:
                mt.autograd.backward(outputs, weights)
            del outputs, made, weights
            assert all(ref() is None for ref in watched), f"{name} makes a reference cycle"
        finally:
            gc.enable()
