"""The idiom of an op: one decorated block declares its forward, its gradients, its reference and its samples.

    @op(input=lambda g, other: g * other, other=lambda g, input: g * input, reference=np.multiply, samples=pairs)
    def mul(input: Array, other: Array):
        ...

The forward is written on arrays; gradients are written with ops, so that every gradient can be differentiated again.
A rule is named after its input, and its parameter names say what is saved: `g` (the gradient of the result; a tuple
for several results), an input, `<input>_shape`, `<input>_dtype`, `<input>_strides` (of several inputs), the result
`out`, a field of the NamedTuple that the forward says it returns, or any other argument of the op. What no needed rule
asks for is not kept alive. The engine brings gradients to the shape and dtype of their inputs; no rule mentions
broadcasting. Where one pass makes the gradients of all inputs, one rule `gradients` returns them, or None, in order.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..autograd.half_types import rounding_once
from ..tensor.dtypes import dtype_of
from ..tensor.tensor import Tensor, not_a_tensor
from . import instrumentation
from .call_errors import argument_errors, call_error, name_caller, scalar
from .codegen import call, inplace_call
from .dispatch import Array, Arrays, Op
from .mutation import refuse_unfit
from .out_argument import written_out
from .overloads import Overloads
from .parameter_types import numeric_parameters
from .promotion import EVERY_CATEGORY, EVERY_DTYPE, refusal_of_dtype
from .registry import registry

__all__ = ["Array", "Arrays", "Composite", "Op", "composite", "op"]


class Composite:
    """A function made of ops, declared so that the suite tests it as it does an op."""

    def __init__(
        self,
        name: str,
        public: Callable[..., Any],
        reference: Any,
        samples: Any,
        takes: str,
        tested_as: Any,
        product: str | None,
    ) -> None:
        self.name, self.public, self.reference, self.samples, self.takes = name, public, reference, samples, takes
        self.tested_as, self.product = tested_as, product

    def __repr__(self) -> str:
        return f"<composite {self.name}>"


def composite(
    *,
    name: str | None = None,
    method: bool | str = True,
    takes: str = EVERY_CATEGORY,
    also: str = "",
    inplace: bool = False,
    takes_out: bool = False,
    stateful: bool | str = False,
    aliases: dict[str, str] | None = None,
    deprecated: tuple[str, ...] = (),
    widen: bool | tuple[str, ...] = False,
    product: str | None = None,
    reference: Callable[..., Any] | None = None,
    samples: Callable[..., Any] | None = None,
    tested_as: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of tensors that is made of ops; the arguments are those of `op`.

    The first argument, where that is a tensor, is refused as ops refuse theirs when the function does not take its
    dtype. The categories `also` pass too: the function itself checks whether they go with its other arguments.

    `takes_out` says that the function takes `out=` itself: to take it for the function costs 0.1 us a call. `stateful`
    says that the function draws random numbers or writes to an argument, and returns one tensor of the dtype of its
    first input, or of the argument that it names; so a wrong `out` is refused before the call. `widen` says to compute
    half types in float32 and round the results once, or names the arguments that give the type of these.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        public_name = name or function.__name__
        function.__name__ = function.__qualname__ = public_name
        if widen:
            function = rounding_once(function, widen if isinstance(widen, tuple) else ())
        parameters = inspect.signature(function).parameters
        overloads = Overloads(parameters.values(), aliases, deprecated)
        known, most = overloads.known, overloads.most
        kinds, order = numeric_parameters(parameters.values()), list(parameters)
        typed = stateful if isinstance(stateful, str) else next(iter(parameters), "")
        scalars = [(order.index(each), each, kinds[each]) for each in kinds]
        first = _first_tensor(parameters) if takes != EVERY_CATEGORY else None

        @functools.wraps(function)
        def public(*args: Any, out: Any = None, **named: Any) -> Any:
            if (batching := instrumentation.batching) is not None:
                result = batching(public, args, named if out is None else {**named, "out": out})
                if result is not NotImplemented:
                    return result
            if (autocast := instrumentation.autocast) is not None:
                result = autocast(public_name, public, args, named if out is None else {**named, "out": out})
                if result is not NotImplemented:
                    return result
            if len(args) > most or (named and not named.keys() <= known):
                args, named = overloads.resolve(public_name, args, named)
            if first is not None:
                _check_first(public_name, first, takes, also, args, named)
            try:
                if scalars:
                    args, named = _with_scalars(public_name, scalars, args, named)
                if out is None:
                    return function(*args, **named)
                like = dict(zip(order, args, strict=False), **named).get(typed)
                dtype = like.dtype if stateful and isinstance(like, Tensor) else None
                return written_out(public_name, lambda: function(*args, **named), out, (*args, *named.values()), dtype)
            except instrumentation.ValuesNeeded as error:
                return instrumentation.values_needed(error, public, args, named)
            except Exception as error:
                if mistake := call_error(error, public_name, function, args, named):
                    raise mistake from error
                name_caller(error, public_name, function)
                raise

        installed = function if takes_out else public
        installed.overloads = overloads  # type: ignore[attr-defined]
        registry[public_name] = Composite(public_name, installed, reference, samples, takes, tested_as, product)
        if method:
            setattr(Tensor, public_name if method is True else method, installed)
        if inplace:
            _install_inplace(public_name, _copying(public_name, public), public)
        return installed

    return declare


def _first_tensor(parameters: Mapping[str, inspect.Parameter]) -> str | None:
    """The name of the first parameter, where it is a tensor."""
    first = next(iter(parameters.values()), None)
    return first.name if first is not None and first.annotation in ("Tensor", Tensor) else None


def _check_first(name: str, parameter: str, takes: str, also: str, args: tuple, named: dict[str, Any]) -> None:
    """Raise TypeError for a first argument that is not a tensor, NotImplementedError for one of a refused dtype."""
    input = args[0] if args else named.get(parameter)
    if not isinstance(input, Tensor):
        if args or parameter in named:
            raise not_a_tensor(name, parameter, input)
    elif (dtype := dtype_of(input._array)).letter not in takes and dtype.letter not in also:
        raise refusal_of_dtype(name, dtype, takes)


def _with_scalars(
    name: str, scalars: list[tuple[int, str, tuple[type, ...]]], args: tuple, named: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with the Python numbers of those at the places of `scalars`."""
    for index, parameter, kinds in scalars:
        if index < len(args):
            if type(args[index]) not in kinds:
                args = (*args[:index], scalar(name, parameter, args[index], kinds), *args[index + 1 :])
        elif parameter in named and type(named[parameter]) not in kinds:
            named = {**named, parameter: scalar(name, parameter, named[parameter], kinds)}
    return args, named


def _copying(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The in-place form of a composite, which writes its result when it is complete."""

    @functools.wraps(function)
    def write(self: Tensor, *args: Any, **named: Any) -> Tensor:
        if "out" in named:
            raise TypeError(f"{name}_() got an unexpected keyword argument 'out'; it writes into the tensor itself")
        result = function(self, *args, **named)
        refuse_unfit(name, result._array, self._array)
        return self.copy_(result)

    return argument_errors(write)


def _install_inplace(name: str, write: Callable[..., Tensor], public: Callable[..., Any]) -> Callable[..., Tensor]:
    """Make the method `name_`, of the signature of `public`."""
    write.__name__ = write.__qualname__ = name + "_"
    write.__wrapped__ = public  # type: ignore[attr-defined]
    write.__doc__ = f"`{name}`, written into this tensor."
    setattr(Tensor, name + "_", write)
    return write


def op(
    forward: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    called: str | None = None,
    promote: bool | str | tuple[str, ...] = False,
    only_tensors: tuple[str, ...] | None = (),
    widen: bool = True,
    widen_rules: bool | None = None,
    view: bool = False,
    mutates: bool = False,
    variadic: str | None = None,
    ufunc: Callable[..., Any] | None = None,
    takes: str = EVERY_CATEGORY,
    booleans: bool = True,
    scalar: Callable[..., Any] | None = None,
    row_major: bool = False,
    warns: bool = True,
    inplace: bool = False,
    method: bool | str = True,
    operators: tuple[str, ...] = (),
    product: str | None = None,
    reference: Callable[..., Any] | None = None,
    samples: Callable[..., Any] | None = None,
    tested_as: Callable[..., Any] | None = None,
    aliases: dict[str, str] | None = None,
    deprecated: tuple[str, ...] = (),
    **rules: Callable[..., Any],
) -> Any:
    """Declare an op; used as `@op(...)` on its forward.

    Arguments:
        name: the public name, where it differs from the forward's (`sum_` for `sum`).
        called: the function that users call, for the messages of an op that is a part of it.
        promote: True brings all inputs to their common type (and lets Python numbers be inputs), "float" also makes
            integers floating; a tuple names the only inputs that are promoted.
        only_tensors: the promoted inputs that must be tensors. At least one input must be, unless this is None.
        widen: compute half types in float32 and round the result once.
        widen_rules: compute the gradients of half types so, which is done where `widen` is unless this says otherwise.
        view: the result may share the memory of the first input.
        mutates: the forward writes into its first input and returns nothing, raising before it changes anything; it is
            given a copy, except by the in-place form. Such ops neither promote nor widen that input.
        variadic: the argument that takes the rest of the positional ones, `x.reshape(2, 3)`.
        ufunc: what computes the forward on arrays of one floating type, when every other argument has its default.
        takes: the dtype categories of the inputs (after promotion), as letters of "bifc"; others are refused.
        booleans: False refuses boolean operands also where they would be promoted.
        scalar: what makes an array of a Python int that meets integer tensors, or of any number where nothing else is
            promoted: of it, their dtype and the index of the input; by default it wraps around.
        row_major: results lie in row-major order, as torch's do, however inputs lie; but images may have channels last.
        warns: NumPy may warn of values out of the forward's domain, which costs 0.2 us to silence; False where it can
            only overflow (add, mul), or where the forward computes nothing (shapes).
        inplace: also make the method `name_`, which writes into the first input.
        method: make a method of `Tensor`, under the op's name or this one.
        operators: the special methods that the op stands for; those named `__r...__` swap their operands.
        product: the kind of product ("matmul", "conv", "rnn") whose precision acts in the op: what
            `explain.precision_of` answers for its name. Of an op with an argument `precision`, a node of the graph
            keeps it while `backends.backward_precision` is "recorded".
        reference: the float64 definition, from arrays to an array; `samples`: a function that yields calls for the
            tests.
        tested_as: makes of the op, of its reference, and of torch's function what the tests compare and differentiate,
            where that is not the function itself: one of Hermitian matrices only, or up to the signs of vectors.
        aliases: keywords of torch's other overloads, and the parameters that they stand for.
        deprecated: positional orders of more arguments than the op has by position, which torch deprecates:
            "input, alpha, other".
        rules: for each input, the gradient, or `gradients` of all, as the module's docstring explains.
    """

    def declare(forward: Callable[..., Any]) -> Callable[..., Any]:
        options = {
            "name": name,
            "called": called,
            "promote": promote,
            "only_tensors": only_tensors,
            "widen": widen,
            "widen_rules": widen_rules,
            "view": view,
            "writer": forward if mutates else None,
            "variadic": variadic,
            "ufunc": ufunc,
            "takes": EVERY_DTYPE if view and takes == EVERY_CATEGORY else takes,
            "booleans": booleans,
            "scalar": scalar,
            "row_major": row_major,
            "warns": warns,
            "product": product,
            "samples": samples,
            "reference": reference,
            "tested_as": tested_as,
            "aliases": aliases,
            "deprecated": deprecated,
        }
        declared = Op(_on_copy(forward) if mutates else forward, rules, options)
        forward.__annotations__ = _of_users(forward.__annotations__)
        registry[declared.name] = declared
        public = functools.wraps(forward)(call(declared))
        public.__name__ = public.__qualname__ = declared.name
        public.op, public.overloads, declared.public = declared, declared.overloads, public  # type: ignore[attr-defined]
        _install(declared, public, inplace, method, operators)
        return public

    return declare if forward is None else declare(forward)


_ANNOTATIONS = {"Array": "Tensor", "Array | None": "Tensor | None", "Arrays": "Sequence[Tensor]"}


def _of_users(annotations: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a forward, which takes and returns arrays, for users, who see tensors."""
    seen = {name: _ANNOTATIONS.get(each, each) for name, each in annotations.items()}
    result = str(annotations.get("return", "Tensor"))
    return {**seen, "return": re.sub(r"\b(np\.ndarray|Array)\b", "Tensor", result)}


def _on_copy(writer: Callable[..., Any]) -> Callable[..., Any]:
    """The forward that does to a copy of its first input what `writer` does to the input itself, and returns it."""
    first = next(iter(inspect.signature(writer).parameters))

    @functools.wraps(writer)
    def forward(**bound: Any) -> Any:
        bound[first] = out = bound[first].copy()
        writer(**bound)
        return out

    return forward


def _install(declared: Op, public: Any, inplace: bool, method: bool | str, operators: tuple[str, ...]) -> None:
    if method:
        setattr(Tensor, declared.name if method is True else method, public)
    if inplace:
        write_into = _install_inplace(declared.name, inplace_call(declared), public)
    for special in operators:
        if not hasattr(operator, "__" + special[3:]):  # `__invert__` and `__rshift__` are not forms of another operator
            setattr(Tensor, special, public)
        elif special[2] == "i":
            setattr(Tensor, special, write_into)
        else:
            setattr(Tensor, special, lambda self, other: public(other, self))
