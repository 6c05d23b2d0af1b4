"""autograd.Function."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import Function, grad, gradcheck, gradgradcheck
from minitorch_backends.autograd.function import once_differentiable

from ..support.autograd import leaf, made_in_inference, make_function, tensor, values


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Product(Function):
    """In the other style."""

    @staticmethod
    def forward(x: mt.Tensor, y: Any, scale: float = 1.0) -> mt.Tensor:
        return x * y * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: mt.Tensor) -> None:
        x, y, ctx.scale = inputs if len(inputs) == 3 else (*inputs, 1.0)
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx: Any, g: mt.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return (g * y * ctx.scale, g * x * ctx.scale, None)[: len(ctx.needs_input_grad)]


def test_both_styles() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    Cube.apply(x).sum().backward()
    assert values(x.grad) == [3.0, 12.0]
    Product.apply(x, y, 2.0).sum().backward()
    assert (values(x.grad), values(y.grad)) == ([9.0, 20.0], [2.0, 4.0])
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))
    assert gradcheck(Product.apply, (x, y))
    assert gradgradcheck(Product.apply, (x, y))


def test_keywords_count_as_inputs_in_order() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    Product.apply(x, scale=2.0, y=y).sum().backward()
    assert (values(x.grad), values(y.grad)) == ([6.0, 8.0], [2.0, 4.0])


def test_functions_are_applied() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Cube()
    with pytest.raises(RuntimeError, match=r"Cube\.apply"):
        instance(leaf([1.0]))

    class Plain(Function):
        def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
            return x * 2

        def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
            return g * 2

    x = leaf([1.0])
    Plain.apply(x).sum().backward()
    assert values(x.grad) == [2.0]


def test_modes_and_needs_input_grad() -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: mt.Tensor, number: int, y: mt.Tensor) -> mt.Tensor:
        seen.append((mt.is_grad_enabled(), x.requires_grad, ctx.needs_input_grad))
        return x * y

    def backward(ctx: Any, g: mt.Tensor) -> Any:
        seen.append((mt.is_grad_enabled(), ctx.needs_input_grad))
        return g, None, g

    x, y = leaf([1.0]), tensor([2.0])
    out = make_function(forward, backward).apply(x, 3, y)
    grad(out.sum(), x, create_graph=True)
    out.sum().backward()
    assert seen == [(False, True, (True, False, False)), (True, (True, False, False)), (False, (True, False, False))]
    assert mt.is_grad_enabled()


def test_results() -> None:
    x = leaf([1.0])
    out = Cube.apply(x)
    assert (out.grad_fn.name(), out.is_leaf) == ("CubeBackward", False)
    assert out.grad_fn.next_functions[0][0].variable is x
    with mt.no_grad():
        unrecorded = Cube.apply(x)
    for plain in (unrecorded, Cube.apply(tensor([1.0]))):
        assert (plain.requires_grad, plain.grad_fn) == (False, None)


def test_what_backward_returns() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])

    def check(returned: Any, error: type[Exception] | None, match: str = "") -> None:
        x.grad = y.grad = None
        function = make_function(lambda ctx, x, number, y: x * y, lambda ctx, g: returned(g))
        out = function.apply(x, 3, y).sum()
        if error is None:
            out.backward()
        else:
            with pytest.raises(error, match=match):
                out.backward()

    check(lambda g: (g, None), RuntimeError, "incorrect number of gradients")
    check(lambda g: g, RuntimeError, "incorrect number of gradients")
    check(lambda g: (g, None, g, None), None)
    check(lambda g: (g, None, g, g), RuntimeError, "incorrect number of gradients")
    check(lambda g: (g, g, g), RuntimeError, "not a Variable")
    check(lambda g: (g, None, 3.0), RuntimeError, "expected Variable or None")
    check(lambda g: (None, None, g), None)
    assert (x.grad, values(y.grad)) == (None, [1.0, 1.0])
    check(lambda g: (g[None], None, mt.stack([g, g, g])), None)
    assert (values(x.grad), values(y.grad)) == ([1.0, 1.0], [3.0, 3.0])
    check(lambda g: (mt.ones(3, dtype=mt.float64), None, None), RuntimeError, "invalid gradient at index 0")
    check(lambda g: (g.float(), None, g.half()), None)
    assert (x.grad.dtype, y.grad.dtype) == (mt.float64, mt.float64)


def test_what_is_missing() -> None:
    class Empty(Function):
        pass

    class Forward(Function):
        forward = staticmethod(lambda ctx, x: x * 2)

    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(leaf([1.0]))
    out = Forward.apply(leaf([1.0])).sum()
    with pytest.raises(NotImplementedError, match="backward"):
        out.backward()


def test_vjp_is_another_name_of_backward() -> None:
    class Named(Function):
        forward = vjp = staticmethod(lambda ctx, x: x * 2)

    x = leaf([1.0])
    Named.apply(x).sum().backward()
    assert values(x.grad) == [2.0]


def test_saved_tensors() -> None:
    for bad in (3, [tensor(1.0)], np.ones(1)):
        with pytest.raises(TypeError, match="save_for_backward can only save variables"):
            make_function(lambda ctx, x, bad=bad: ctx.save_for_backward(x, bad)).apply(leaf([1.0]))
    x = leaf([1.0, 2.0])
    y = x * 1
    out = Cube.apply(y).sum()
    with mt.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"CubeBackward|modified by an inplace"):
        out.backward()
    out = Cube.apply(x)
    out.sum().backward()
    for again in (lambda: out.sum().backward(), lambda: out.grad_fn.saved_tensors):
        with pytest.raises(RuntimeError, match="second time"):
            again()
    seen: list[Any] = []
    function = make_function(
        lambda ctx, x: (setattr(ctx, "free", [x]), ctx.save_for_backward(None, x), x * 2)[-1],
        lambda ctx, g: seen.append((ctx.free[0] is x, ctx.saved_tensors[0])) or g,
    )
    function.apply(x).sum().backward()
    assert seen == [(True, None)]
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        Product.apply(x, made_in_inference([1.0, 2.0]))


def test_saved_outputs_have_their_history_in_double_backward() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: mt.Tensor) -> Any:
            out = x.exp()
            ctx.save_for_backward(out)
            return x * 1, out

        @staticmethod
        def backward(ctx: Any, g: mt.Tensor, h: mt.Tensor) -> mt.Tensor:
            return g + h * ctx.saved_tensors[0]

    x = leaf([0.5, 1.0])
    assert gradcheck(Exp.apply, (x,))
    assert gradgradcheck(Exp.apply, (x,))


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
        return g * 2


def test_writing_to_inputs() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    out = Doubled.apply(y)
    assert (out is y, y._version, y.grad_fn.name()) == (True, 2, "DoubledBackward")
    y.sum().backward()
    assert values(x.grad) == [2.0, 2.0]
    z = x * 1
    view = z[:1]
    assert Doubled.apply(view) is view
    (z * 1).sum().backward()
    assert (values(z), values(x.grad)) == ([2.0, 2.0], [4.0, 3.0])
    with pytest.raises(RuntimeError, match="leaf Variable"):
        Doubled.apply(x)
    with mt.no_grad():
        Doubled.apply(x)
    with pytest.raises(RuntimeError, match="marked as dirty"):
        make_function(lambda ctx, x: (ctx.mark_dirty(x), x * 2)[1]).apply(y)


def test_returning_an_input() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    out = make_function(lambda ctx, x: x, lambda ctx, g: g * 5).apply(y)
    assert (out is y, out._base is y, out._version) == (False, True, 0)
    assert np.shares_memory(out._array, y._array)
    out.sum().backward(retain_graph=True)
    assert values(x.grad) == [5.0, 5.0]
    with pytest.raises(RuntimeError, match=r"returned by an autograd.Function and is being modified"):
        out.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="base or another view of its base has been modified"):
        out * 2
    part = make_function(lambda ctx, x: x[0], lambda ctx, g: g.expand(2) * 1).apply(x * 1)
    with pytest.raises(RuntimeError, match=r"returned by an autograd.Function"):
        part.mul_(2)
    make_function(lambda ctx, x: (x * 1)[0], lambda ctx, g: g.expand(2) * 1).apply(x).mul_(2)


def test_outputs_without_a_gradient() -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: mt.Tensor) -> Any:
        constant = x * 3
        ctx.mark_non_differentiable(constant)
        return x * 2, constant, x.argmax(), x * 4

    def backward(ctx: Any, *g: Any) -> Any:
        seen.append([values(each) for each in g])
        return g[0] * 2

    x = leaf([1.0, 2.0])
    outputs = make_function(forward, backward).apply(x)
    assert [each.requires_grad for each in outputs] == [True, False, False, True]
    outputs[0].sum().backward()
    assert seen == [[[1.0, 1.0], [0.0, 0.0], 0, [0.0, 0.0]]]

    def lazy(ctx: Any, x: mt.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return forward(ctx, x)

    make_function(lazy, backward).apply(x)[0].sum().backward()
    assert seen[1] == [[1.0, 1.0], None, None, None]


def test_outputs_that_are_no_tensors() -> None:
    x = leaf([1.0])
    double = make_function(lambda ctx, x: (x * 2, "text", None, [x]), lambda ctx, g, *others: g * 2)
    out, text, none, others = double.apply(x)
    assert (text, none, others[0] is x) == ("text", None, True)
    out.sum().backward()
    assert values(x.grad) == [2.0]
    listed = make_function(lambda ctx, x: [x * 2, x * 3], lambda ctx, g, h: g + h).apply(x)
    assert type(listed) is list
    assert type(make_function(lambda ctx, x: (x * 2,)).apply(x)) is tuple
    assert make_function(lambda ctx, x: "text").apply(x) == "text"


def test_once_differentiable() -> None:
    function = make_function(lambda ctx, x: x * 2, once_differentiable(lambda ctx, g: g * 2))
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    function.apply(x).sum().backward()
    assert values(x.grad) == [2.0, 2.0]
    (g,) = grad((function.apply(x) * w).sum(), x, create_graph=True)
    for again in (lambda: g.sum().backward(), lambda: grad(g.sum(), w)):
        with pytest.raises(RuntimeError, match=r"once_differentiable.*MadeBackward"):
            again()
    (independent,) = grad(function.apply(x).sum(), x, create_graph=True)
    assert not independent.requires_grad


def test_the_whole_context() -> None:
    names = ["save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable", "mark_shared_storage"]
    x = leaf([1.0])

    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        assert all(hasattr(ctx, name) for name in [*names, "set_materialize_grads", "needs_input_grad"])
        ctx.save_for_forward(x)
        assert ctx.saved_tensors == (x,)
        with pytest.warns(FutureWarning, match="mark_shared_storage"):
            ctx.mark_shared_storage((x, x))
        return x * 2

    make_function(forward).apply(x)


def test_nested_and_second_derivatives_through_views_and_writes() -> None:
    def function(x: mt.Tensor) -> mt.Tensor:
        y = Cube.apply(x) * 1
        y[0].mul_(Cube.apply(x[1]))
        return Product.apply(y, y.clone(), 0.5)

    x = leaf([0.5, 1.5])
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_hooks_of_a_functions_node() -> None:
    x = leaf([1.0])
    out = Cube.apply(x)
    seen: list[Any] = []
    out.register_hook(lambda g: g * 2)
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append((values(inputs[0]), values(outputs[0]))))
    out.retain_grad()
    out.sum().backward()
    assert (seen, values(out.grad), values(x.grad)) == ([([6.0], [2.0])], [2.0], [6.0])


def test_functions_make_no_cycles() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        out = Cube.apply(x) + make_function(lambda ctx, x: (ctx.save_for_backward(x, out := x * 2), out)[1]).apply(x)
        watched = [weakref.ref(out), weakref.ref(out.grad_fn), weakref.ref(out.grad_fn.next_functions[0][0])]
        del out
        assert [ref() for ref in watched] == [None] * 3
    finally:
        gc.enable()


def test_a_function_of_a_view_that_is_made_anew_comes_after_it() -> None:
    """The order of nodes is that of creation, and a view of a rewritten base gets its node when it is asked for."""
    x, double = leaf([1.0, 2.0]), make_function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    y = x * 1
    view = y[:1]
    y.mul_(2)
    out = double.apply(view)
    seen: list[Any] = []
    view.register_hook(lambda g: seen.append(values(g)))
    (g,) = grad((out * view).sum(), x, retain_graph=True)
    (out * view).sum().backward(inputs=[x])
    assert values(g) == values(x.grad) == [16.0, 0.0]
    assert seen == [[8.0], [8.0]]


def test_backward_may_record_what_it_makes_of_saved_tensors() -> None:
    def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
        (x,) = ctx.saved_tensors
        with mt.enable_grad():
            return grad(x**3, x, g)[0]

    cube = make_function(lambda ctx, x: (ctx.save_for_backward(x), x**3)[1], backward)
    x = leaf([1.0, 2.0])
    (cube.apply(x).sum() + cube.apply(x * 2).sum()).backward()
    assert values(x.grad) == [27.0, 108.0]


def test_a_saved_output_without_a_gradient_is_a_constant() -> None:
    def forward(ctx: Any, x: mt.Tensor) -> Any:
        cube = x**3
        ctx.save_for_backward(cube)
        ctx.mark_non_differentiable(cube)
        return x**2, cube

    x = leaf([2.0])
    square, _ = make_function(forward, lambda ctx, g, _: g * 2 * ctx.saved_tensors[0]).apply(x)
    (g,) = grad(square.sum(), x, create_graph=True)
    assert values(g) == [16.0]
    assert not g.requires_grad


def test_an_input_that_is_written_and_has_no_gradient() -> None:
    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x.mul_(2)

    y = leaf([1.0]) * 1
    out = make_function(forward).apply(y)
    assert (out.requires_grad, y.requires_grad, values(out), values(y)) == (False, True, [2.0], [2.0])


def test_gradients_that_a_backward_may_not_return() -> None:
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="complex128, but expected a real one"):
        make_function(lambda ctx, x: x * 1, lambda ctx, g: g * 2j).apply(x).sum().backward()


def test_hooks_see_which_argument_a_gradient_is_of() -> None:
    x, seen = leaf([1.0]), []
    out = make_function(lambda ctx, x, y: x * y, lambda ctx, g: (None, g)).apply(x, x)
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append([g is None for g in inputs]))
    out.sum().backward()
    assert seen == [[True, False]]


def test_tangents_of_functions() -> None:
    """Tangents are read before forward, which runs without them; a missing one is zeros."""
    import minitorch_backends.autograd.forward_ad as forward_ad

    def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
        assert forward_ad.unpack_dual(x).tangent is None
        ctx.mark_dirty(x)
        return x.mul_(2)

    def product(ctx: Any, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        ctx.save_for_forward(x, y)
        return x * y

    def of_product(ctx: Any, a: mt.Tensor, b: mt.Tensor) -> mt.Tensor:
        x, y = ctx.saved_tensors
        return a * y + x * b

    doubled, multiplied = make_function(forward, jvp=lambda ctx, t: t.mul_(2)), make_function(product, jvp=of_product)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(tensor([1.0, 2.0]), tensor([1.0, 5.0]))
        y = x * 1
        doubled.apply(y)
        assert values(forward_ad.unpack_dual(y).tangent) == [2.0, 10.0]
        whole = x * 1
        doubled.apply(whole[:1])
        assert values(forward_ad.unpack_dual(whole).tangent) == [2.0, 5.0]
        out = multiplied.apply(x, tensor([3.0, 4.0]))
        assert values(forward_ad.unpack_dual(out).tangent) == [3.0, 20.0]
        for wrong in (None, 3, tensor([1.0])):
            with pytest.raises(RuntimeError, match=r"jvp returned .* expected a Tensor of the shape"):
                make_function(lambda ctx, x: x * 1, jvp=lambda ctx, t, wrong=wrong: wrong).apply(x)
        with pytest.raises(RuntimeError, match="expected a tuple of 2 tangents"):
            make_function(lambda ctx, x: (x * 1, x * 2), jvp=lambda ctx, t: (t, t, t)).apply(x)
