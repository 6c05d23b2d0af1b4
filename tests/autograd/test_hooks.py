"""Hooks on gradients and nodes."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import backward, grad
from minitorch_backends.autograd.graph import register_multi_grad_hook

from ..support.autograd import leaf, make_function, tensor, values


def test_hooks_run_in_order_and_replace() -> None:
    x = leaf([1.0, 2.0])
    seen: list[Any] = []

    def note(g: mt.Tensor) -> None:
        seen.append(("note", values(g)))

    def double(g: mt.Tensor) -> mt.Tensor:
        seen.append(("double", values(g)))
        return g * 2

    handles = [x.register_hook(hook) for hook in (note, double, note)]
    (x * 3).sum().backward()
    assert seen == [("note", [3.0, 3.0]), ("double", [3.0, 3.0]), ("note", [6.0, 6.0])]
    assert values(x.grad) == [6.0, 6.0]
    handles[1].remove()
    handles[1].remove()
    with handles[0]:
        pass
    seen.clear()
    (x * 3).sum().backward()
    assert (seen, values(x.grad)) == ([("note", [3.0, 3.0])], [9.0, 9.0])
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        tensor([1.0]).register_hook(note)


@pytest.mark.parametrize("result", [False, True])
def test_what_a_hook_may_return(result: bool) -> None:
    wrong: list[tuple[type[Exception], Any]] = [
        (TypeError, lambda g: 3.0),
        (RuntimeError, lambda g: g[:1]),
        (RuntimeError, lambda g: g.float()),
        (KeyError, lambda g: {}[0]),
    ]
    for error, hook in [*wrong, (TypeError, "no function")]:
        x = leaf([1.0, 2.0])
        y = x * 2 if result else x
        y.register_hook(hook)
        with pytest.raises(error):
            (y * 1).sum().backward()
        assert x.grad is None
        assert mt.is_grad_enabled()


def test_a_leafs_hook_sees_the_whole_gradient_before_it_is_accumulated() -> None:
    x = leaf([1.0])
    x.grad = tensor([100.0])
    seen = []
    x.register_hook(lambda g: seen.append((values(g), values(x.grad))))
    (x * 2 + x * 3 + x).sum().backward()
    assert seen == [([6.0], [100.0])]
    assert values(x.grad) == [106.0]
    seen.clear()
    grad((x * 2 + x * 3).sum(), x)
    assert seen == [([5.0], [106.0])]


def test_a_hook_changes_what_grad_returns() -> None:
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g * 100)
    out = (y * 3).sum()
    assert [values(g) for g in grad(out, [y, x])] == [[30.0], [6000.0]]


def test_a_results_hook_and_retain_grad() -> None:
    for retain_first in (True, False):
        x = leaf([1.0])
        y = x * 2
        if retain_first:
            y.retain_grad()
        y.register_hook(lambda g: g * 10)
        if not retain_first:
            y.retain_grad()
        loss = (y * 3).sum()
        for passes in (1, 2):
            loss.backward(retain_graph=True)
            assert (values(y.grad), values(x.grad)) == ([30.0 * passes], [60.0 * passes])


def test_retained_gradients_are_memory_of_their_own() -> None:
    x, weight = leaf([1.0, 2.0]), tensor([3.0, 4.0])
    y = x * 2
    z = y * 1
    for each in (y, z):
        each.retain_grad()
    z.backward(weight)
    z.grad.zero_()
    assert (values(weight), values(y.grad), values(x.grad)) == ([3.0, 4.0], [3.0, 4.0], [6.0, 8.0])


def test_the_gradient_of_a_loss_is_nobody_elses() -> None:
    """Whoever gets it may write to it."""
    for dtype in (np.float32, np.float64):
        x = leaf([1.0, 2.0], dtype)
        loss = x.sum()
        loss.retain_grad()
        loss.register_hook(lambda g: g.mul_(1))
        loss.backward(retain_graph=True)
        loss.grad.zero_()
        (own,) = grad(loss, loss)
        own.mul_(5)
        x.grad = None
        x.sum().backward()
        assert values(x.grad) == [1.0, 1.0]


@pytest.mark.parametrize("through_view", [False, True])
def test_retain_grad_after_a_write_is_of_the_new_value(through_view: bool) -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    y.retain_grad()
    (y[:] if through_view else y).mul_(5)
    assert y.retains_grad
    (y * 3).sum().backward()
    assert (values(y.grad), values(x.grad)) == ([3.0, 3.0], [15.0, 15.0])


def test_retain_grad_of_a_view_that_is_written_to_before_it_is_used() -> None:
    y = leaf([1.0, 2.0]) * 2
    view = y[:1]
    view.retain_grad()
    view.mul_(3)
    (y * y).sum().backward(retain_graph=True)
    assert view.grad is None  # nothing came from the new value by way of this view
    view.sum().backward()
    assert values(view.grad) == [1.0]


def test_retain_grad_of_views_and_of_one_of_several_results() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    view = y[:1]
    view.retain_grad()
    y.mul_(2)
    first, second = (y * 1).unbind()
    second.retain_grad()
    (view.sum() * 3 + first + second * 7).backward()
    assert (values(view.grad), values(second.grad), values(x.grad)) == ([3.0], 7.0, [8.0, 14.0])
    with pytest.warns(UserWarning, match="not a leaf"):
        assert first.grad is None


def test_hooks_belong_to_the_value_at_registration() -> None:
    x = leaf([1.0])
    y = x * 1
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(("old", values(g))))
    y.mul_(2)
    y.register_hook(lambda g: seen.append(("new", values(g))))
    (y * 3).sum().backward()
    assert seen == [("new", [3.0]), ("old", [6.0])]


def test_hooks_after_accumulation() -> None:
    x = leaf([1.0])
    seen: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, values(t.grad))))
    (x * 2 + x).sum().backward()
    (x * 2).sum().backward()
    assert seen == [(True, [3.0]), (True, [5.0])]
    grad((x * 2).sum(), x)
    (x * 2).sum().backward(inputs=[x])
    assert seen[2:] == [(True, [7.0])]
    handle.remove()

    def clear(t: mt.Tensor) -> None:
        t.grad = None

    x.register_post_accumulate_grad_hook(clear)
    (x * 2).sum().backward()
    assert x.grad is None
    x.register_post_accumulate_grad_hook(lambda t: t)
    with pytest.raises(TypeError, match="should return None"):
        (x * 2).sum().backward()
    for bad in (x * 2, tensor([1.0])):
        with pytest.raises(RuntimeError):
            bad.register_post_accumulate_grad_hook(clear)


def test_leaves_accumulate_as_soon_as_their_gradients_are_whole() -> None:
    """So that an optimiser in a hook can let go of a gradient before the next one is computed."""
    weights = [leaf([1.0]) for _ in range(4)]
    events: list[Any] = []
    value = tensor([1.0])
    for index, w in enumerate(weights):
        w.register_post_accumulate_grad_hook(lambda t, index=index: events.append(("leaf", index)))
        value = value * w
        value = value + w
        value.register_hook(lambda g, index=index: events.append(("layer", index)))
    value.sum().backward()
    assert events == [event for index in (3, 2, 1, 0) for event in (("layer", index), ("leaf", index))]


def test_a_hooked_leaf_behind_a_part_that_gets_no_gradient() -> None:
    x = leaf([1.0, 2.0])
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(values(t.grad)))
    blocks = make_function(lambda ctx, x: x * 1, lambda ctx, g: None)
    (blocks.apply(x.exp()) + x * 2).sum().backward()
    assert seen == [[2.0, 2.0]]


def test_hooks_of_nodes() -> None:
    x, w = leaf([1.0, 2.0]), tensor([3.0, 4.0])
    y = x * w
    seen: list[Any] = []

    def before(outputs: Any) -> Any:
        seen.append(("pre", [values(each) for each in outputs]))
        return (outputs[0] * 2,)

    def after(inputs: Any, outputs: Any) -> Any:
        seen.append(("post", [values(each) for each in inputs], [values(each) for each in outputs]))
        return (inputs[0] * 10, None)

    handles = [y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)]
    y.sum().backward(retain_graph=True)
    assert seen == [("pre", [[1.0, 1.0]]), ("post", [[6.0, 8.0], None], [[2.0, 2.0]])]
    assert values(x.grad) == [60.0, 80.0]
    for handle in handles:
        handle.remove()
    y.sum().backward()
    assert values(x.grad) == [63.0, 84.0]


def test_hooks_of_the_nodes_of_leaves_and_of_several_results() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    seen: list[Any] = []
    accumulate.register_prehook(lambda outputs: (outputs[0] * 5,))
    accumulate.register_hook(lambda inputs, outputs: seen.append((inputs, values(outputs[0]))))
    first, _ = y.unbind()
    first.grad_fn.register_prehook(lambda outputs: seen.append([values(each) for each in outputs]))
    first.backward()
    assert values(x.grad) == [10.0, 0.0]
    assert seen == [[1.0, 0.0], ((), [10.0, 0.0])]
    y = x * 2
    y.grad_fn.register_prehook(lambda outputs: ())
    with pytest.raises(RuntimeError, match="returned 0 values"):
        y.sum().backward()


def test_hooks_of_a_leafs_node_come_after_those_of_its_gradient() -> None:
    x, seen = leaf([1.0]), []
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: seen.append("node"))
    x.register_post_accumulate_grad_hook(lambda x: seen.append("gradient"))
    (x * 2).sum().backward()
    assert seen == ["gradient", "node"]


def test_one_hook_for_several_tensors() -> None:
    x, w, unused = leaf([1.0]), leaf([2.0]), leaf([3.0])
    y = x * w
    for mode in ("all", "any"):
        calls: list[Any] = []
        handle = register_multi_grad_hook([x, unused, y], calls.append, mode=mode)
        for _ in range(2):
            (y * 1).sum().backward(retain_graph=True)
        if mode == "all":
            assert [[values(g) for g in call] for call in calls] == [[[2.0], None, [1.0]]] * 2
        else:
            assert [values(call) for call in calls] == [[1.0]] * 2
        calls.clear()
        grad((y * 1).sum(), w, retain_graph=True)
        assert len(calls) == 1
        grad(w.sum(), w)
        assert len(calls) == 1
        with handle:
            pass
        y.sum().backward(retain_graph=True)
        assert len(calls) == 1
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook([x], calls.append, mode="some")


def test_the_mode_inside_hooks() -> None:
    x = leaf([1.0])
    for create_graph in (False, True):
        seen = []
        y = x * x
        y.register_hook(lambda g, seen=seen: seen.append(mt.is_grad_enabled()))
        y.grad_fn.register_hook(lambda i, o, seen=seen: seen.append(mt.is_grad_enabled()))
        x.register_post_accumulate_grad_hook(lambda t, seen=seen: seen.append(mt.is_grad_enabled()))
        y.sum().backward(create_graph=create_graph)
        assert seen == [create_graph] * 3


def test_hooks_are_differentiable() -> None:
    x = leaf([3.0])
    y = x * 1
    y.register_hook(lambda g: g * y)
    (g,) = grad((y * y).sum(), x, create_graph=True)
    assert values(g) == [18.0]
    assert values(grad(g.sum(), x)[0]) == [36.0]  # the derivative of 2 x^2, and the hook again


def test_a_hook_that_starts_a_pass_of_its_own() -> None:
    x, other = leaf([1.0]), leaf([2.0])

    def hook(g: mt.Tensor) -> None:
        with mt.enable_grad():
            (other * g).sum().backward()

    x.register_hook(hook)
    register_multi_grad_hook([x], lambda grads: backward(other))
    (x * 3).sum().backward()
    assert (values(x.grad), values(other.grad)) == ([3.0], [4.0])


def test_hooks_make_no_cycles_and_go_with_the_graph() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        y = x * 2
        y.retain_grad()
        handle = y.register_hook(lambda g: None)
        watched = [weakref.ref(y), weakref.ref(y.grad_fn)]
        del y
        assert [ref() for ref in watched] == [None, None]
        handle.remove()
        x.register_hook(lambda g: None)
        leaf_node = weakref.ref((x * 1).grad_fn.next_functions[0][0])
        del x
        assert leaf_node() is None
    finally:
        gc.enable()


def test_hooks_outlast_a_time_without_gradients() -> None:
    x = leaf([1.0])
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(values(g)))
    x.requires_grad_(False)
    assert not (x * 2).requires_grad
    x.requires_grad_()
    (x * 3).sum().backward()
    assert (seen, values(x.grad)) == ([[3.0]], [3.0])
