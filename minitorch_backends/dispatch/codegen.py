"""The fast path: functions generated for every op from one template, at first use.

`Op.apply` defines what a call does: bind the arguments, promote the inputs, run the forward, record a node. The
generated function does the same without loops for tensors that need no promotion, calls that Python can bind directly,
and no active instrumentation. Everything else, and every error, goes to the definition. A property test checks for
every op that both give equal results and nodes. The text that `template` generates for `exp`:

    def exp(input=_absent, *_surplus, **_named):
        if _surplus or _named or (_active := _instrumentation.active) > 1:
            return _definition((input,), _surplus, _named)
        while True:  # left by `break`
            _kind = _type(input)
            if _kind is _Tensor or _kind is _Parameter:
                _0, _n0 = input._array, input._node
                _dtype = _0.dtype
                if _dtype is not _float32 and _dtype not in _allowed: break
            else: break
            _token = _silence()
            try:
                if (_dtype is _float32 or _dtype is _float64): _out = _ufunc(_0)
                else: _out = _forward(_0)
            except _Exception: break
            finally: _restore(_token)
            ...  # `_tensor`, around `_out`
            if _n0 is not None and _mode().records and (_out.dtype is _float32 or _out.dtype.kind not in 'biu'):
                if input._state is not None: _n0 = _history(input)
                if _n0 is not None:
                    ...  # a node, with what the rules ask to save
            return _tensor
        return _definition((input,), _surplus, {})

The in-place twin differs at its end: it writes to the first input if nothing needs recording. The backward step is
generated too, since a loop over inputs would take longer than most rules on small tensors.
"""

from __future__ import annotations

import linecache
import math
import os
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.inference import InferenceCell
from ..autograd.modes import grad_mode
from ..autograd.nodes import (
    SELF,
    Node,
    history,
    like_of,
    next_sequence,
    precision_for,
    record_results,
    save,
    save_operand,
    unpack,
)
from ..autograd.views import View, made_view
from ..backends import precision_policy
from ..kernels.arrays.elementwise import in_rows, is_half, least_of
from ..kernels.runtime import invariance
from ..kernels.runtime.errstate import restore, silence
from ..tensor import instrumentation
from ..tensor.casting import cast_unchecked
from ..tensor.tensor import Parameter, Tensor, adopt
from .promotion import array_of, common
from .template import Template, backward_text

# Overflow in sums and products gives Inf without a warning, as in torch. Silencing NumPy around each call, as ops with
# `op(warns=True)` do, would make such calls half as long again.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"minitorch_backends\.")

_ABSENT: Any = object()
"""The default of an argument that a call leaves out."""

_MOST_EXACT = 1 << 53
"""Integers up to this value are exact in float64. NumPy converts larger ones to float64 before float32: two
roundings."""

_NAMESPACE = {
    "__name__": __name__,
    "_absent": _ABSENT,
    "_exact": _MOST_EXACT,
    "_float32": np.dtype(np.float32),
    "_float64": np.dtype(np.float64),
    "_type": type,
    "_len": len,
    "_list": list,
    "_tuple": tuple,
    "_any": any,
    "_isinstance": isinstance,
    "_Exception": Exception,
    "_sequences": (list, tuple),
    "_numbers": (float, int),
    "_Tensor": Tensor,
    "_Parameter": Parameter,
    "_Node": Node,
    "_View": View,
    "_InferenceCell": InferenceCell,
    "_SELF": SELF,
    "_new": object.__new__,
    "_new_tuple": tuple.__new__,
    "_adopt": adopt,
    "_ndarray": np.ndarray,
    "_asarray": np.asarray,
    "_instrumentation": instrumentation,
    "_mode": grad_mode.get,
    "_silence": silence,
    "_restore": restore,
    "_in_rows": in_rows,
    "_is_half": is_half,
    "_history": history,
    "_save": save,
    "_save_operand": save_operand,
    "_made_view": made_view,
    "_policy": precision_policy,
    "_next_sequence": next_sequence,
    "_record_results": record_results,
    "_rounded": lambda value, dtype: float(cast_unchecked(np.asarray(value), dtype)),
}
"""The names that every generated text refers to."""


def call(op: Any) -> Callable[..., Any]:
    """The function that users call for an op."""

    def compile_call() -> types.FunctionType:
        template = Template(op)
        return _compile_function(template.call(op.name), op.name, _namespace(op, template, in_place=False))

    return _at_first_use(op.name, compile_call)


def inplace_call(op: Any) -> Callable[..., Tensor]:
    """The in-place twin of an op, which writes the result into the first input."""
    name = f"{op.name}_"
    if op.listed or op.view or op.writer is not None or op.order[: len(op.inputs)] != op.inputs:
        return lambda self, *args, **named: op.apply((self, *args), named, self)

    def compile_call() -> types.FunctionType:
        template = Template(op)
        return _compile_function(template.inplace_call(name), name, _namespace(op, template, in_place=True))

    return _at_first_use(name, compile_call)


def backward_step(op: Any) -> Callable[[Any, tuple, Any, Any], None]:
    """The function (node, edges, g, flow) that applies an op's gradient rules to the gradient `g` of its result."""
    name = f"{op.name}_backward"
    rules = [None if rule is None else rule[0] for rule in op.rules]
    names = {"rules": rules, "unpack": unpack, "like_of": like_of, "precision_for": precision_for, "__name__": __name__}
    return _compile_function(backward_text(op, name), name, names | {"recomputed": getattr(op, "recomputed", None)})


def _namespace(op: Any, template: Template, in_place: bool) -> dict[str, Any]:
    return _NAMESPACE | {
        "_op": op,
        "_forward": op.forward,
        "_ufunc": op.ufunc,
        "_large": template.large,
        "_least": math.inf if template.large is None else least_of(op.ufunc),
        "_allowed": template.allowed,
        "_results": op.wrap_view if op.view else op.wrap,
        "_record": op.record,
        "_usual_metadata": {name: op.defaults.get(name) for name in op.metadata_names},
        "_saved_results": op.plans[-1].results,
        "_alone": lambda index, value: array_of(op, index, value, common(op, [value])),
        "_definition": _definition(op, template.keywords, in_place),
        **{f"_default_{name}": default for name, default in op.defaults.items()},
        **{f"_kinds_{name}": kinds for name, kinds in op.scalars.items()},
    }


def _definition(op: Any, keywords: list[str], in_place: bool) -> Callable[[tuple, tuple, dict[str, Any]], Any]:
    """Call `Op.apply` with the arguments as given.

    `keywords` hold those in the op's order. Surplus positional arguments come with them. If there are arguments of
    unknown names, all others are passed by name too, since one may be an alias.
    """
    order = [name for name in op.order if name != op.variadic]

    def apply(values: tuple, surplus: tuple, named: dict[str, Any]) -> Any:
        args: list[Any] = []
        positional = len(order) if surplus or not named else 0
        for index, value in enumerate(values):
            if value is _ABSENT:
                continue
            if index == len(args) < positional:
                args.append(value)
            else:
                named[(*order, *keywords)[index]] = value
        return op.apply((*args, *surplus), named, values[0] if in_place else None)

    return apply


def _compile_function(text: str, name: str, namespace: dict[str, Any]) -> Any:
    """Compile a text and return its function. Tracebacks show its lines; its file counts as part of this package."""
    filename = os.path.join(os.path.dirname(__file__), f"<generated {name}>")
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]


def _before_first_use(*args: Any, **named: Any) -> Any:
    return _compile_and_call(args, named)  # type: ignore[name-defined]  # noqa: F821  (see `_at_first_use`)


def _at_first_use(name: str, compiled: Callable[[], types.FunctionType]) -> Any:
    """A function whose code is compiled at its first call, since compiling every op would take half a second at import.

    The code object is replaced, not the function: other objects hold the function by then, and a wrapper would slow
    down each call. Defaults are set before the code, since another thread may call in between.
    """
    namespace: dict[str, Any] = {}
    function = types.FunctionType(_before_first_use.__code__, namespace, name)

    def compile_and_call(args: tuple, named: dict[str, Any]) -> Any:
        made = compiled()
        namespace.update(made.__globals__)
        if namespace.get("_least", math.inf) < math.inf:  # `_large` then also says what NumPy must not compute
            invariance.on_first_demand(lambda: namespace.update(_least=0))
        function.__kwdefaults__, function.__defaults__ = made.__kwdefaults__, made.__defaults__
        function.__code__ = made.__code__
        return function(*args, **named)

    namespace["_compile_and_call"] = compile_and_call
    return function
