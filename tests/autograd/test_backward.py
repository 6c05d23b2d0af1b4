"""backward, .grad and autograd.grad."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import backward, grad
from minitorch_backends.autograd.graph import GradientEdge, get_gradient_edge

from ..support.autograd import leaf, tensor, values, warnings_of


def test_one_element_of_any_shape_is_a_scalar() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"implicitly created only for real scalar outputs.*\[2\].*gradient="):
        (x * 2).backward()
    (x * 2)[:1].backward()
    (x * 2)[:1].view(1, 1, 1).backward()
    assert values(x.grad) == [4.0, 0.0]
    z = leaf([1j], np.complex128)
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        z.sum().backward()
    (z * 2).backward(tensor([1j], np.complex128))
    assert values(z.grad) == [2j]


def test_the_gradient_given_to_backward() -> None:
    x = leaf([1.0, 2.0])
    for shape in ((), (1,), (2, 1), (3,)):
        with pytest.raises(RuntimeError, match=rf"Mismatch in shape.*{list(shape)}.*\[2\]".replace("[]", r"\[\]")):
            (x * 2).backward(mt.ones(shape, dtype=mt.float64))
    (x * 2).backward(mt.ones(2, dtype=mt.float16))
    assert (values(x.grad), x.grad.dtype) == ([2.0, 2.0], mt.float64)
    for bad in (1.0, [1.0, 1.0]):
        with pytest.raises(TypeError, match="gradients must be Tensors or None"):
            (x * 2).backward(bad)  # type: ignore[arg-type]


def test_outputs_without_a_graph() -> None:
    x = leaf([1.0])
    with mt.no_grad():
        unrecorded = x * 2
    for output in (tensor(1.0), mt.tensor(1), x.detach(), unrecorded, x.argmax()):
        for attempt in (lambda output=output: output.backward(), lambda output=output: grad(output, x)):
            with pytest.raises(
                RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
            ):
                attempt()
    x.backward()
    assert values(x.grad) == [1.0]


def test_accumulation() -> None:
    x = leaf([1.0, 2.0])
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert (values(first), first.requires_grad) == ([5.0, 5.0], False)
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert (values(x.grad), x.grad.requires_grad, x.grad.grad_fn is not None) == ([7.0, 9.0], True, True)


def test_accumulating_in_place_counts_as_a_write() -> None:
    x, w = leaf([1.0]), leaf([2.0])
    (x * 2).sum().backward()
    y = (x.grad * w).sum()
    (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_second_backward() -> None:
    x = leaf([1.0, 2.0])
    for saves_nothing in ((x + 2).sum(), x.sum(), x.view(2, 1).sum()):
        saves_nothing.backward()
        saves_nothing.backward()
    for saves in ((x * x).sum(), x.exp().sum(), (x * 3.0).sum()):
        node = saves.grad_fn.next_functions[0][0]
        saves.backward()
        with pytest.raises(RuntimeError, match=r"second time.*retain_graph=True"):
            saves.backward()
        with pytest.raises(RuntimeError, match="second time"):
            node._saved_out if "Exp" in node.name() else node._saved_other
    shared = x * x
    first, second = shared.sum(), (shared + 1).sum()
    first.backward()
    with pytest.raises(RuntimeError, match="second time"):
        second.backward()


def test_reading_what_a_node_saved() -> None:
    x = leaf([1.0, 2.0])
    y = x * tensor([3.0, 4.0])
    node = y.grad_fn
    assert values(node._saved_other) == [3.0, 4.0]
    with pytest.raises(AttributeError, match="has saved no 'input'"):
        node._saved_input
    assert x.sum(0).grad_fn._saved_dim == 0
    with pytest.raises(AttributeError):
        node._saved_nonsense
    square = x.exp()
    (g,) = grad(square.grad_fn._saved_out.sum(), x)
    assert values(g) == values(square)
    assert values((x * x).grad_fn._saved_self) == values(x)
    assert values(x.exp().grad_fn._saved_result) == values(square)


def test_retain_graph_and_create_graph() -> None:
    """create_graph makes no reference cycle, so it does not warn of one; objects are freed without the collector."""
    x = leaf([2.0])
    y = (x * x).sum()
    y.backward(create_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    z = (x * x).sum()
    z.backward(create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()
    gc.collect()
    gc.disable()
    try:
        watched: list[Any] = []

        def work() -> None:
            fresh = leaf([2.0])
            (fresh**3).sum().backward(create_graph=True)
            watched.append(weakref.ref(fresh))

        assert not warnings_of(work)
        assert watched[0]() is None
    finally:
        gc.enable()


def test_inputs_restrict_what_is_filled() -> None:
    x, w, other = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([1.0])
    y = x * w
    y.sum().backward(inputs=x, retain_graph=True)
    assert (values(x.grad), w.grad) == ([3.0, 4.0], None)
    for inputs in ([w, y], (w, y), {"w": w, "y": y}):
        y.sum().backward(inputs=inputs, retain_graph=True)
    assert (values(x.grad), values(w.grad), values(y.grad)) == ([3.0, 4.0], [3.0, 6.0], [3.0, 3.0])
    y.sum().backward(inputs=[x, x, other], retain_graph=True)
    assert (values(x.grad), other.grad) == ([6.0, 8.0], None)
    for bad in ([], {}, [tensor([1.0])], [3.0], [x, None]):
        with pytest.raises(RuntimeError):
            y.sum().backward(inputs=bad)
    assert values(x.grad) == [6.0, 8.0]


def test_gradients_of_results() -> None:
    x = leaf([1.0])
    y = x * 2
    for _ in range(2):
        with pytest.warns(UserWarning, match="not a leaf Tensor"):
            assert y.grad is None
    y.retain_grad()
    assert (y.retains_grad, x.retains_grad) == (True, False)
    x.retain_grad()
    assert not x.retains_grad
    assert not warnings_of(lambda: y.grad)
    (y * 3).sum().backward()
    assert (values(y.grad), values(x.grad)) == ([3.0], [6.0])
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        tensor([1.0]).retain_grad()


def test_assigning_grad() -> None:
    x = leaf([1.0, 2.0])
    x.grad = tensor([5.0, 5.0])
    (x * 2).sum().backward()
    assert values(x.grad) == [7.0, 7.0]
    for bad, says in (
        (mt.ones(3, dtype=mt.float64), r"\[2\].*\[3\]"),
        (mt.ones(2), "float64.*float32"),
        (x, "own grad"),
    ):
        with pytest.raises(RuntimeError, match=says):
            x.grad = bad
    with pytest.raises(TypeError, match="float"):
        x.grad = 3.0
    assert values(x.grad) == [7.0, 7.0]
    del x.grad
    assert x.grad is None
    x.grad = tensor([1.0, 1.0])
    x.grad = None
    assert x.grad is None


def test_several_tensors() -> None:
    x = leaf([1.0, 2.0])
    backward([(x * 2).sum(), x * 3], [None, tensor([1.0, 10.0])])
    assert values(x.grad) == [5.0, 32.0]
    backward([])
    backward([x.sum()], [tensor(1.0), tensor(2.0)])
    assert values(x.grad) == [6.0, 33.0]
    for bad in (3, None):
        with pytest.raises(TypeError):
            backward(bad)
    with pytest.raises(TypeError, match="got int as element 1"):
        backward([(x * 2).sum(), 3])
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        backward([(x * 2).sum(), (x * 2).sum()], [None])
    with pytest.warns(FutureWarning, match="grad_variables is deprecated"):
        backward([x * 1], grad_variables=[tensor([1.0, 1.0])])
    assert values(x.grad) == [7.0, 34.0]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="both"):
        backward([x * 1], [tensor([1.0, 1.0])], grad_variables=[tensor([1.0, 1.0])])


def test_backward_under_no_grad() -> None:
    x = leaf([2.0])
    y = (x * x).sum()
    with mt.no_grad():
        y.backward(create_graph=True)
    assert x.grad.requires_grad
    total = x.grad.sum()
    with mt.no_grad():
        (second,) = grad(total, x)
    assert values(second) == [2.0]


def test_gradients_are_like_their_tensors() -> None:
    x, row = leaf([[1.0, 2.0], [3.0, 4.0]], np.float32), leaf([1.0, 2.0], np.float16)
    (x * row).sum().backward()
    assert (list(row.grad.shape), row.grad.dtype, values(row.grad)) == ([2], mt.float16, [4.0, 6.0])
    transposed = mt.tensor(np.ones((2, 3)).T).requires_grad_()
    (transposed * 2).sum().backward()
    assert transposed.grad.stride() == transposed.stride()
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.sum().backward()
    assert values(x.grad) == [[2.0, 3.0], [2.0, 3.0]]


def test_nodes() -> None:
    x = leaf([1.0, 2.0])
    assert (x.grad_fn, x.output_nr) == (None, 0)
    y = x * 2
    node = y.grad_fn
    assert node.name() == "MulBackward0"
    ((edge, index), none) = node.next_functions
    assert (edge.name(), edge.variable is x, index, none) == ("AccumulateGrad", True, 0, (None, 0))
    first, second = y.unbind()
    assert (first.output_nr, second.output_nr, first.grad_fn is second.grad_fn) == (0, 1, True)
    assert second.sin().grad_fn.next_functions == ((second.grad_fn, 1),)
    z = x * 1
    z[0] = 5.0
    assert "CopySlices" in z.grad_fn.name()
    assert repr(node) == "<MulBackward0>"
    assert node.metadata == {}


# autograd.grad


def test_what_grad_returns() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    result = grad(y.sum(), x, retain_graph=True)
    assert isinstance(result, tuple)
    assert values(result[0]) == [3.0, 4.0]
    mixed = grad(y.sum(), [y, w, w, x], retain_graph=True)
    assert [values(each) for each in mixed] == [[1.0, 1.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]
    total = y.sum()
    assert values(grad(total, total)[0]) == 1.0
    named = grad(y.sum(), {"w": w, "x": x})
    assert {name: values(each) for name, each in named.items()} == {"w": [1.0, 2.0], "x": [3.0, 4.0]}
    assert (x.grad, w.grad) == (None, None)


def test_edges_of_the_graph_as_inputs() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3.0
    edge = get_gradient_edge(y)
    assert edge == GradientEdge(y.grad_fn, 0)
    first, second = y.unbind()
    out = first * second
    y_grad, of_second = grad(out, [edge, get_gradient_edge(second)])
    assert (values(y_grad), values(of_second)) == ([6.0, 3.0], 3.0)
    with pytest.raises(RuntimeError, match="requires grad"):
        get_gradient_edge(tensor([1.0]))


def test_inputs_and_outputs_that_do_not_fit() -> None:
    x, unused = leaf([1.0, 2.0]), leaf([1.0])
    total = (x * 2).sum()
    with pytest.raises(RuntimeError, match=r"input 1 of grad.*allow_unused=True"):
        grad(total, [x, unused], retain_graph=True)
    assert grad(total, [unused], allow_unused=True, retain_graph=True) == (None,)
    assert values(grad(total, [unused], materialize_grads=True, retain_graph=True)[0]) == [0.0]
    with pytest.raises(ValueError, match="materialize_grads"):
        grad(total, x, allow_unused=False, materialize_grads=True)
    with pytest.raises(RuntimeError, match="does not require grad: input 0"):
        grad(total, tensor([1.0]), allow_unused=True)
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        grad(tensor(1.0), x)
    for outputs, inputs in ((total, []), ([], x), (total, [3.0])):
        with pytest.raises(RuntimeError):
            grad(outputs, inputs)
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert values(grad(total, x, only_inputs=False)[0]) == [2.0, 2.0]
    assert x.grad is None


def test_the_graph_of_a_gradient() -> None:
    x = leaf([1.0, 2.0])
    (linear,) = grad((x * 2).sum(), x, create_graph=True)
    assert not linear.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(linear.sum(), x)
    (cubic,) = grad((x**3).sum(), x, create_graph=True)
    (second,) = grad(cubic.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x)
    assert (values(second), values(third)) == ([6.0, 12.0], [6.0, 6.0])


def test_batches_of_gradients() -> None:
    x, w = leaf([1.0, 2.0]), leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = w @ x
    batch = mt.eye(3, dtype=mt.float64)
    rows, other = grad(y, [x, w], batch, is_grads_batched=True, retain_graph=True)
    assert values(rows) == values(w)
    assert list(other.shape) == [3, 3, 2]
    for index in range(3):
        assert values(other[index]) == values(grad(y, w, batch[index], retain_graph=True)[0])
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        grad(y, x, batch, retain_graph=True)
    for bad in (tensor(1.0), [None]):
        with pytest.raises(RuntimeError, match="share a first dimension"):
            grad(y, x, bad, is_grads_batched=True, retain_graph=True)
    (graph,) = grad(y, x, batch, is_grads_batched=True, create_graph=True)
    (second,) = grad((graph * graph).sum(), w)
    assert values(second) == (2 * w._array).tolist()
    unused = leaf([1.0])
    assert grad(y, unused, batch, is_grads_batched=True, allow_unused=True) == (None,)
    grad(y, x, batch, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x, batch, is_grads_batched=True)


def test_grad_releases_the_graph_that_it_went_through_and_no_more() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    z = y.sin()
    grad(z.sum(), y)
    with pytest.raises(RuntimeError, match="second time"):
        grad(z.sum(), y)
    assert values(grad(y.sum(), x)[0]) == values(y)


def test_grad_applies_only_the_rules_that_it_needs() -> None:
    """A gradient that leads to no input of `grad` is not computed, and what it needs may have been overwritten."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = (x * w).sum()
    with mt.no_grad():
        x.zero_()
    assert values(grad(y, x, retain_graph=True)[0]) == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(y, w)


def test_results_of_one_node_reached_by_different_ways() -> None:
    """The second derivative by one of several results counts what the node saved of it, too."""
    x = leaf([3.0, 1.0, 2.0])
    values_, _ = (x * 1).sort()
    (g,) = grad((values_**3).sum(), values_, create_graph=True)
    (second,) = grad(g.sum(), values_)
    assert second.tolist() == [6.0, 12.0, 18.0]


@pytest.mark.parametrize("mode", [mt.no_grad, mt.inference_mode])
def test_one_hundred_unrecorded_steps_take_the_memory_of_one(mode: Any) -> None:
    import tracemalloc

    w = leaf(np.ones((64, 64)))

    def step(x: mt.Tensor) -> mt.Tensor:
        for _ in range(5):
            x = (x @ w).relu().t().contiguous().view(64, 64)[:]
        return x

    def peak(steps: int) -> int:
        tracemalloc.start()
        with mode():
            x = mt.ones(64, 64, dtype=mt.float64)
            for _ in range(steps):
                x = step(x) * 0.001
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    peak(500)  # Python keeps the first 2000 tuples that are freed, which count as used
    assert peak(100) < 1.1 * peak(1)
