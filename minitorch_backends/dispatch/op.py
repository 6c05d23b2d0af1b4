"""Declaration of ops: one decorated block gives the forward and the gradient rules.

    @op(input=lambda g, other: g * other, other=lambda g, input: g * input)
    def mul(input: Array, other: Array):
        ...

The forward works on arrays. Gradient rules are written with ops, so that every gradient is differentiable again. A rule
is named after its input, and its parameter names say what to save:

* `g`, the gradient of the result; a tuple for several results;
* an input, `<input>_shape`, `<input>_dtype`, or `<input>_strides` (of several inputs);
* the result `out`, or a field of the NamedTuple that the forward returns;
* any other argument of the op.

Values that no needed rule uses are not kept alive. The engine reduces gradients to the shape and dtype of their inputs,
so rules never handle broadcasting. If one pass computes the gradients of all inputs, a single rule `gradients` returns
them, or None, in order.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..autograd.half_types import rounding_once
from ..autograd.mutation import refuse_unfit
from ..autograd.nodes import show_saved
from ..tensor import instrumentation
from ..tensor.call_errors import (
    NUMBERS,
    SWITCHES,
    argument_errors,
    call_error,
    name_caller,
    numeric_parameters,
    refuse_other_than_tensor,
    scalar,
)
from ..tensor.dtypes import dtype_of, float32, float64, int64
from ..tensor.registry import registry
from ..tensor.tensor import Tensor, not_a_tensor
from .codegen import call, inplace_call
from .dispatch import Array, Arrays, Op
from .out_argument import written_out
from .promotion import EVERY_CATEGORY, EVERY_DTYPE, Overloads, refusal_of_dtype

__all__ = ["Array", "Arrays", "Composite", "Forms", "Op", "composite", "op", "synonyms"]


@dataclass(eq=False, repr=False)
class Composite:
    """A function composed of ops. It is declared so that the suite tests it like an op."""

    name: str
    public: Callable[..., Any]
    takes: str
    product: str | None
    autocast: str | None

    def __repr__(self) -> str:
        return f"<composite {self.name}>"


_USUAL = float32, float64, int64  # of most first arguments: their check costs one look into a set


def composite(  # noqa: PLR0913 (a row says all that is known of it)
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
    autocast: str | None = None,
    batch: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of tensors that is composed of ops. The remaining arguments are those of `op`.

    A tensor as first argument is rejected like an op's input if the function does not take its dtype.

    Arguments:
        also: further dtype categories that pass; the function itself checks them against its other arguments.
        takes_out: the function takes `out=` itself, which saves 0.1 us per call.
        stateful: the function draws random numbers or writes to an argument, so that a wrong `out` is rejected before.
            Its result has the dtype of its first input, or of the argument named here.
        widen: compute half types in float32, and round results once; or the arguments that give the dtype, by name.
        batch: the function's rule under `vmap`, a word of `func.rules`; without one its ops have theirs.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        public_name = name or function.__name__
        _rename(function, public_name)
        if widen:
            function = rounding_once(function, widen if isinstance(widen, tuple) else ())
        parameters = inspect.signature(function).parameters
        overloads = Overloads(parameters.values(), aliases, deprecated)
        public = _with_checks(function, overloads, takes, also, stateful)
        installed = function if takes_out else public
        installed.overloads, installed.batch = overloads, batch  # type: ignore[attr-defined]
        declared = Composite(public_name, installed, takes, product, autocast)
        registry.declare(public_name, declared, function.__module__)
        if method:
            setattr(Tensor, public_name if method is True else method, installed)
        if inplace:
            _install_inplace(public_name, _copying(public_name, public), public)
        return installed

    return declare


def _with_checks(
    function: Callable[..., Any], overloads: Overloads, takes: str, also: str, stateful: bool | str
) -> Callable[..., Any]:
    """The public form of a composite: it resolves overloads, checks the first tensor's dtype, writes into `out`, and
    names the function in errors."""
    name, parameters = function.__name__, inspect.signature(function).parameters
    known, most = overloads.known, overloads.most
    kinds, order = numeric_parameters(parameters.values(), NUMBERS | SWITCHES), list(parameters)
    typed = stateful if isinstance(stateful, str) else next(iter(parameters), "")
    scalars = [(order.index(each), each, kinds[each]) for each in kinds]
    first = _first_tensor(parameters)
    taken = frozenset(each.dtype for each in _USUAL if each.letter in takes + also)

    @functools.wraps(function)
    def public(*args: Any, out: Any = None, **named: Any) -> Any:
        if (batching := instrumentation.batching) is not None:
            result = batching(public, args, named if out is None else {**named, "out": out})
            if result is not NotImplemented:
                return result
        if (autocast := instrumentation.autocast) is not None:
            result = autocast(name, public, args, named if out is None else {**named, "out": out})
            if result is not NotImplemented:
                return result
        if len(args) > most or (named and not named.keys() <= known):
            args, named = overloads.resolve(name, args, named)
        if first is not None and not (args and type(args[0]) is Tensor and args[0]._array.dtype in taken):
            _check_first(name, first, takes, also, args, named)
        try:
            if scalars and (named or len(args) > scalars[0][0]):
                args, named = _with_scalars(name, scalars, args, named)
            if out is None:
                return function(*args, **named)
            like = dict(zip(order, args, strict=False), **named).get(typed)
            dtype = like.dtype if stateful and isinstance(like, Tensor) else None
            return written_out(name, lambda: function(*args, **named), out, (*args, *named.values()), dtype)
        except instrumentation.ValuesNeeded as error:
            return instrumentation.values_needed(error, public, args, named)
        except Exception as error:
            if mistake := call_error(error, name, function, args, named):
                raise mistake from error
            name_caller(error, name, function)
            raise

    return public


def _first_tensor(parameters: Mapping[str, inspect.Parameter]) -> str | None:
    """The name of the first parameter if it is a tensor."""
    first = next(iter(parameters.values()), None)
    return first.name if first is not None and first.annotation in ("Tensor", Tensor) else None


def _check_first(name: str, parameter: str, takes: str, also: str, args: tuple, named: dict[str, Any]) -> None:
    """Raise TypeError if the first argument is not a tensor, NotImplementedError if its dtype is not supported."""
    input = args[0] if args else named.get(parameter)
    if not isinstance(input, Tensor):
        if takes == EVERY_CATEGORY:
            refuse_other_than_tensor(name, parameter, input)
        elif args or parameter in named:
            raise not_a_tensor(name, parameter, input)
    elif takes != EVERY_CATEGORY and (dtype := dtype_of(input._array)).letter not in takes + also:
        raise refusal_of_dtype(name, dtype, takes)


def _with_scalars(
    name: str, scalars: list[tuple[int, str, tuple[type, ...]]], args: tuple, named: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call, with the parameters named in `scalars` as Python numbers and booleans."""
    for index, parameter, kinds in scalars:
        if index < len(args):
            if type(args[index]) not in kinds:
                args = (*args[:index], scalar(name, parameter, args[index], kinds), *args[index + 1 :])
        elif parameter in named and type(named[parameter]) not in kinds:
            named = {**named, parameter: scalar(name, parameter, named[parameter], kinds)}
    return args, named


def _copying(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The in-place form of a composite: it writes the complete result."""

    @functools.wraps(function)
    def write(self: Tensor, *args: Any, **named: Any) -> Tensor:
        if "out" in named:
            raise TypeError(
                f"{name}_(): unexpected keyword argument 'out'; in-place forms write into the tensor itself"
            )
        result = function(self, *args, **named)
        refuse_unfit(name, result._array, self._array)
        return self.copy_(result)

    return argument_errors(write)


def _rename(function: Callable[..., Any], name: str) -> None:
    """Name a function. Its qualified name stays that in its module, by which pickles find it."""
    function.__name__ = name
    if "<locals>" in function.__qualname__:
        function.__qualname__ = name


def _install_inplace(name: str, write: Callable[..., Tensor], public: Callable[..., Any]) -> Callable[..., Tensor]:
    """Install the method `name_` with the signature of `public`."""
    write.__name__ = write.__qualname__ = name + "_"
    write.__wrapped__ = public  # type: ignore[attr-defined]
    write.__doc__ = f"In-place form of `{name}`."
    setattr(Tensor, name + "_", write)
    return write


class Forms(NamedTuple):
    """How an op is called beside its name, with torch's other arguments.

    Attributes:
        operators: the special methods that the op implements; those named `__r...__` swap their operands.
        variadic: the parameter that takes the remaining positional arguments, as in `x.reshape(2, 3)`.
        aliases: keywords of torch's other overloads, mapped to parameters.
        deprecated: longer positional orders that torch deprecates: "input, alpha, other".
    """

    operators: tuple[str, ...] = ()
    variadic: str | None = None
    aliases: dict[str, str] | None = None
    deprecated: tuple[str, ...] = ()


_TRAITS: dict[str, tuple[str, bool]] = {
    "view": ("view", True),
    "mutates": ("mutates", True),
    "uniform": ("uniform", True),
    "row_major": ("row_major", True),
    "silent": ("warns", False),
    "unwidened": ("widen", False),
    "wide_rules": ("widen_rules", True),
    "narrow_rules": ("widen_rules", False),
    "no_booleans": ("booleans", False),
    "rounds": ("rounds", True),
    "inplace": ("inplace", True),
    "function": ("method", False),
}
"""The words of `op(traits=)`, and what each sets."""


def op(  # noqa: PLR0913 (a row says all that is known of it)
    forward: Callable[..., Any] | None = None,
    *,
    name: str | tuple[str, str] | None = None,
    traits: str = "",
    promote: bool | str | tuple[str, ...] = False,
    only_tensors: tuple[str, ...] | None = (),
    takes: str = EVERY_CATEGORY,
    scalar: Callable[..., Any] | None = None,
    ufunc: Callable[..., Any] | None = None,
    method: str | None = None,
    forms: Forms = Forms(),  # noqa: B008 (a tuple)
    product: str | tuple[str, dict[str, str]] | None = None,
    autocast: str | None = None,
    batch: str | None = None,
    **rules: Callable[..., Any],
) -> Any:
    """Declare an op; used as `@op(...)` on its forward.

    Arguments:
        name: the public name, where it differs from the forward's (`sum_` for `sum`); with a second one, the public
            function to name in messages, if the op is a part of it.
        traits: words for what is special about the op, separated by spaces.

            * view: the result may share the memory of the first input.
            * mutates: the forward writes into its first input and returns nothing; it raises before it changes
              anything. It receives a copy, except from the in-place form. That input is neither promoted nor widened.
            * uniform: the forward writes one value to every element, which may therefore share memory.
            * row_major: results lie in row-major order, as in torch, whatever the strides of the inputs. Images may
              have channels last.
            * silent: NumPy does not warn about values outside the forward's domain; silencing it costs 0.2 us. For
              forwards that can only overflow (add, mul), or compute nothing (shapes).
            * unwidened: half types are not computed in float32 with one rounding of the result, nor are their
              gradients; wide_rules and narrow_rules say this, or the contrary, of gradients alone.
            * no_booleans: boolean operands are rejected even if they would be promoted.
            * rounds: a number is rounded to the other operand's half type before computing, as comparisons do. Other
              ops keep it in float32 and compute in float32.
            * inplace: the method `name_` writes into the first input.
            * function: the op is not a method of `Tensor`.
        promote: True casts all inputs to their common dtype and allows Python numbers as inputs; "float" also makes
            integers floating; a tuple names the inputs to promote, and no others.
        only_tensors: the promoted inputs that must be tensors. At least one input must be, unless this is None.
        takes: the dtype categories of the inputs (after promotion), as letters of "bifc"; other dtypes are rejected.
        scalar: makes an array from a Python int that meets integer tensors, or from any number if nothing is promoted.
            Called with the number, their dtype and the index of the input; the default wraps around.
        ufunc: computes the forward on arrays of one floating dtype when every other argument has its default.
        method: the name of the method of `Tensor`, where it differs from the op's.
        forms: operators, and torch's other arguments.
        product: the kind of product ("matmul", "conv", "rnn") whose precision the op uses. `explain.precision_of`
            reports it. If the op has an argument `precision`, its nodes store it while `backends.backward_precision` is
            "recorded". Then a dict may follow: the two inputs that are the operands, each with its role for
            `backends.operands`: "weight", "activation", or "" where the parameter among both is the weight.
        autocast: what `amp.autocast` casts the inputs to, by torch's lists for the CPU: "lower", the half type of the
            block; "float32"; "widest", the widest of their floating dtypes; "unchanged", nothing, in the ops that the
            function is made of either.
        batch: the op's rule under `vmap`, a word of `func.rules` with the names of dimensions that shift; or a call for
            each sample, "loop: why". Elementwise ops, and those of linear algebra of one matrix, need none.
        rules: for each input its gradient rule, or `gradients` for all; see the module's docstring.
    """
    options: dict[str, Any] = dict.fromkeys(("view", "mutates", "uniform", "row_major", "rounds", "inplace"), False)
    options |= {"warns": True, "widen": True, "widen_rules": None, "booleans": True, "method": method or True}
    options |= dict(map(_TRAITS.__getitem__, traits.split()))
    public_name, called = name if isinstance(name, tuple) else (name, None)
    kind, roles = product if isinstance(product, tuple) else (product, None)
    if options["view"] and takes == EVERY_CATEGORY:
        takes = EVERY_DTYPE
    own = {each: options.pop(each) for each in ("mutates", "inplace", "method")}
    options |= {"name": public_name, "called": called, "promote": promote, "only_tensors": only_tensors, "takes": takes}
    options |= {"scalar": scalar, "ufunc": ufunc, "product": kind, "roles": roles, "autocast": autocast, "batch": batch}
    options |= {"variadic": forms.variadic, "aliases": forms.aliases, "deprecated": forms.deprecated}

    def declare(forward: Callable[..., Any]) -> Callable[..., Any]:
        mutates = own["mutates"]
        declared = Op(
            _on_copy(forward) if mutates else forward, rules, {**options, "writer": forward if mutates else None}
        )
        forward.__annotations__ = _of_users(forward.__annotations__, mutates)
        registry.declare(declared.name, declared, forward.__module__)
        show_saved((*declared.inputs, "out", *declared.metadata_names))
        public = functools.wraps(forward)(call(declared))
        _rename(public, declared.name)
        public.op, public.overloads, declared.public = declared, declared.overloads, public  # type: ignore[attr-defined]
        _install(declared, public, own["inplace"], own["method"], forms.operators)
        return public

    return declare if forward is None else declare(forward)


_ANNOTATIONS = {"Array": "Tensor", "Array | None": "Tensor | None", "Arrays": "Sequence[Tensor]"}


def _of_users(annotations: dict[str, Any], mutates: bool) -> dict[str, Any]:
    """A forward's annotations for users: tensors in the place of arrays, and in that of nothing where it writes."""
    seen = {name: _ANNOTATIONS.get(each, each) for name, each in annotations.items()}
    result = "Tensor" if mutates else str(annotations.get("return", "Tensor"))
    return {**seen, "return": re.sub(r"\b(np\.ndarray|Array)\b", "Tensor", result)}


def _on_copy(writer: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that applies `writer` to a copy of its first input, and returns the copy."""
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
        if not hasattr(operator, "__" + special[3:]):  # `__invert__`, `__rshift__` are not such forms
            setattr(Tensor, special, public)
        elif special[2] == "i":
            setattr(Tensor, special, write_into)
        else:
            swapped = lambda self, other: public(other, self)  # noqa: E731  (stubs tell it by its name)
            swapped.__module__ = declared.forward.__module__
            setattr(Tensor, special, swapped)


def synonyms(**functions: Callable[..., Any]) -> None:
    """Install methods under torch's other names, with their in-place forms."""
    for name, function in functions.items():
        setattr(Tensor, name, function)
        if inspect.isfunction(write := vars(Tensor).get(f"{function.__name__}_")):
            setattr(Tensor, f"{name}_", write)
