"""The op: how a call is bound, promoted, run and recorded, and how its gradient rules are applied."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..autograd.anomaly_mode import note_call
from ..autograd.half_types import with_wide_rules
from ..autograd.modes import grad_mode
from ..autograd.mutation import refuse_unwritable, write
from ..autograd.nodes import (
    SELF,
    Node,
    attach,
    fields_of_result,
    history,
    make_node,
    reads,
    record_results,
    rule_of,
    save,
    save_operand,
    save_results,
)
from ..autograd.views import is_parameter, made_view
from ..backends import precision_policy
from ..backends.operands import Roles, recorded_state
from ..backends.precision_policy import node_metadata
from ..kernels.arrays.elementwise import in_rows, is_half
from ..kernels.runtime.errstate import restore, silence
from ..tensor import instrumentation
from ..tensor.call_errors import broadcast_error, explain, numeric_parameters, scalar
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import FLOATING, DType, dtype_of
from ..tensor.tensor import Tensor, adopt
from .codegen import backward_step
from .out_argument import written_out
from .promotion import Overloads, arrays_of

Array = Annotated[np.ndarray, "input"]
"""Annotates an input: a tensor, or a Python number if the op promotes."""

Arrays = Annotated[Sequence[np.ndarray], "inputs"]
"""Annotates an input that is a sequence of tensors."""


_grad_mode = grad_mode.get
_new = object.__new__
_ndarray = np.ndarray
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Plan(NamedTuple):
    """What a node keeps, for a set of inputs that need gradients.

    Attributes:
        saved: the inputs to save.
        results: whether to save the result; which of several results.
        likes: the inputs whose shape and dtype to store.
    """

    saved: tuple[int, ...]
    results: bool | frozenset[int]
    likes: frozenset[int]


class Op:
    """A declared op. Calling it runs the general path, the readable definition of the generated function.

    An op has tensors as inputs, or one input that is a sequence of tensors (`listed`).

    Attributes:
        numbers: the second of two inputs may be a Python number, which gradient rules receive as a number.
        joint: one rule returns the gradients of all inputs.
        half_variant: the op that records calls on half types; the op itself until the first such call.
    """

    promote: Any
    only_tensors: tuple[str, ...] | None
    widen: bool
    widen_rules: bool | None
    view: bool
    writer: Callable[..., Any] | None
    uniform: bool
    variadic: str | None
    ufunc: Callable[..., Any] | None
    takes: str
    booleans: bool
    rounds: bool
    scalar: Callable[..., Any] | None
    row_major: bool
    warns: bool
    product: str | None
    roles: dict[str, str] | None
    autocast: str | None
    batch: str | None
    public: Callable[..., Any]
    called: str

    def __init__(
        self, forward: Callable[..., Any], rules: dict[str, Callable[..., Any]], options: dict[str, Any]
    ) -> None:
        self.forward, self.name = forward, options.pop("name") or forward.__name__
        aliases, deprecated = options.pop("aliases"), options.pop("deprecated")
        self.__dict__.update(options | {"called": options["called"] or self.name})
        parameters = inspect.signature(forward).parameters.values()
        lists = [p.name for p in parameters if _marks(p.annotation, Arrays)]
        self.inputs = tuple(lists or [p.name for p in parameters if _marks(p.annotation, Array)])
        self.listed, self.results = bool(lists), fields_of_result(forward)
        self.order = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.overloads = Overloads(parameters, aliases, deprecated)
        self.known = self.overloads.known
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        switches = {name: (bool,) for name, default in self.defaults.items() if type(default) is bool}
        self.scalars = switches | numeric_parameters(parameters)
        self.metadata_names = tuple(p.name for p in parameters if p.name not in self.inputs)
        self.promoted = self._promoted_inputs()
        either = len(self.inputs) == 2 and self.promote in (True, "float") and not self.must_be_tensor(1)
        self.numbers = either and self.ufunc is not None
        self.first_operand = self.inputs.index(next(iter(self.roles))) if self.roles else 0
        self.compares = isinstance(self.ufunc, np.ufunc) and "ff->?" in self.ufunc.types
        self.rounds = self.rounds or self.compares
        self.joint = "gradients" in rules
        if self.joint:
            self.rules = (rule_of(self, rules.pop("gradients")),) * len(self.inputs)
        else:
            self.rules = tuple(rule_of(self, rules.pop(name, None)) for name in self.inputs)
        self.strided = any(source == "strides" for rule in self.rules if rule for _, source, _ in rule[1])
        self.make_plans()
        wide = self.widen if self.widen_rules is None else self.widen_rules
        self.half_variant = self if wide and any(self.rules) else None
        if rules:
            raise TypeError(f"{self.name}: gradient rules for {sorted(rules)} do not match the inputs {self.inputs}")

    # Declaration

    def _promoted_inputs(self) -> tuple[bool, ...]:
        names = self.promote if isinstance(self.promote, tuple) else self.inputs if self.promote else ()
        return tuple(name in names for name in self.inputs)

    def make_plans(self) -> None:
        """Determine what to save, for every set of inputs that need gradients."""
        self.plans = [self._plan(mask) for mask in range(1 << len(self.inputs))]

    def must_be_tensor(self, index: int) -> bool:
        """Whether an input may not be a Python number."""
        return self.listed or not self.promoted[index] or self.inputs[index] in (self.only_tensors or ())

    def _plan(self, mask: int) -> Plan:
        """What to save, for a bit mask of the inputs that need gradients."""
        rules = [rule for index, rule in enumerate(self.rules) if rule is not None and mask >> index & 1]
        wanted = {name for _, arguments in rules for name, source, _ in arguments if source == "saved"}
        if any(source == "recomputed" for _, arguments in rules for _, source, _ in arguments):
            wanted |= {*self.inputs, "out"}
        results = frozenset(index for _, arguments in rules for _, source, index in arguments if source == "result")
        saved = tuple(i for i, name in enumerate(self.inputs) if name in wanted)
        by_array = {i for i in saved if mask >> i & 1 and self.like_is_saved(i)}
        likes = frozenset(i for i in range(len(self.inputs)) if mask & self.like_needed_by(i)) - by_array
        return Plan(saved, "out" in wanted or results, likes)

    def like_needed_by(self, index: int) -> int:
        """A bit mask of the inputs whose gradients need the like of one: itself, and those whose rules use its shape,
        dtype or strides."""
        if self.joint or self.listed:
            return (1 << len(self.inputs)) - 1
        readers = [i for i, rule in enumerate(self.rules) if rule is not None and (i == index or reads(rule, index))]
        return sum(1 << i for i in readers)

    def like_is_saved(self, index: int) -> bool:
        """Whether an input that needs a gradient has its like by its saved array, if that is saved.

        Only its own rule may need the like, and must use saved values: it fails once they are released.
        """
        rule = self.rules[index]
        uses = rule is not None and any(source in ("saved", "recomputed") for _, source, _ in rule[1])
        return uses and self.like_needed_by(index) == 1 << index

    def propagate(self, node: Node, edges: tuple, g: Any, flow: Any) -> None:
        """Apply the gradient rules and deliver the results. The generated step replaces this method at first use."""
        self.propagate = backward_step(self)  # type: ignore[assignment, method-assign]
        self.propagate(node, edges, g, flow)

    # Calling

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.apply(args, named, None)

    def apply(self, args: tuple, named: dict[str, Any], into: Tensor | None) -> Any:
        """Bind, promote, run the forward, record. With `into`, write the result into that tensor."""
        if (batching := instrumentation.batching) is not None:
            result = batching(self, args, named, into)
            if result is not NotImplemented:
                return result
        if into is None and (autocast := instrumentation.autocast) is not None:
            result = autocast(self.name, self, args, named)
            if result is not NotImplemented:
                return result
        if into is None and "out" in named and "out" not in self.known:
            out = named.pop("out")
            return written_out(self.name, lambda: self.apply(args, named, None), out, (*args, *named.values()))
        bound = self.bind(args, named)
        values = self._values(bound)
        if into is not None:
            refuse_unwritable(self.name, into, self.uniform)
        arrays, half = self.arrays(values)
        if self.roles and precision_policy.by_role and bound["precision"] is None:
            bound["precision"] = self.operand_roles(values)
        given = {self.inputs[0]: arrays} if self.listed else dict(zip(self.inputs, arrays, strict=True))
        metadata = {name: bound[name] for name in self.metadata_names}
        token = silence()
        try:
            if into is not None and self.writer is not None:
                return write(self, values, arrays, metadata, functools.partial(self.writer, **bound | given), into)
            out = self.forward(**bound | given)
            if half is not None and bound.get("dtype") is None:
                out = _map(out, lambda each: _round_to(each, half))
        except Exception as error:
            if (refusal := self.refusal(error, arrays, metadata.items())) is error:
                raise
            raise refusal from error
        finally:
            restore(token)
        if into is not None:
            return write(self, values, arrays, metadata, out, into)
        return (self.wrap_view if self.view else self.wrap)(values, arrays, metadata, out)

    def wrap_view(self, values: list[Any], arrays: list[Any], metadata: dict[str, Any], out: Any) -> Any:
        """Wrap views of the first input as tensors that share its memory, and record them."""
        source = values[0] if isinstance(values[0], Tensor) else adopt(values[0])
        if isinstance(out, tuple):
            views: Any = tuple(made_view(self, metadata, source, each, index) for index, each in enumerate(out))
        else:
            views = made_view(self, metadata, source, out, None)
        return self._record(values, arrays, metadata, views)

    def wrap(self, values: list[Any], arrays: list[Any], metadata: dict[str, Any], out: Any) -> Any:
        """Wrap the forward's results as new tensors, and record them."""
        if self.row_major:
            out = _map(out, in_rows)
        return self._record(values, arrays, metadata, _map(out, _tensor))

    def _record(self, values: list[Any], arrays: list[Any], metadata: dict[str, Any], results: Any) -> Any:
        """Report the results to forward mode and to the graph."""
        if instrumentation.duals is not None:
            instrumentation.duals.attach_tangents(self, values, arrays, metadata, results)
        if _grad_mode().records:
            self.record(values, arrays, metadata, results)
        return results

    def bind(self, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
        """Bind the arguments by name, with defaults. Raises TypeError as Python would, naming the op."""
        order = self.order
        if self.variadic is not None:
            args = self._gather_variadic(args)
        if len(args) > len(order) or (named and not named.keys() <= self.known):
            args, named = self.overloads.resolve(self.name, args, named)
        if len(args) > len(order):
            raise TypeError(f"{self.name}() takes {len(order)} positional arguments {order}, got {len(args)}")
        bound = self.defaults | dict(zip(order, args, strict=False))
        for name, value in named.items():
            if name not in self.known:
                raise TypeError(
                    f"{self.name}() got an unexpected keyword argument {name!r}; it takes {sorted(self.known)}"
                )
            if name in order[: len(args)]:
                raise TypeError(f"{self.name}() got multiple values for argument {name!r}")
            bound[name] = value
        if len(bound) != len(self.known):
            missing = [name for name in order if name not in bound] or sorted(self.known - bound.keys())
            raise TypeError(f"{self.name}() is missing the required argument {missing[0]!r}")
        for name, kinds in self.scalars.items():
            if type(bound[name]) not in kinds:
                bound[name] = scalar(self.called, name, bound[name], kinds)
        return bound

    def _gather_variadic(self, args: tuple) -> tuple:
        """Collect the positional arguments from the variadic one on in a tuple: `x.reshape(2, 3)` equals `x.reshape((2,
        3))`."""
        start = self.order.index(self.variadic)
        rest = args[start:]
        if not rest:
            return args
        if len(rest) == 1 and (rest[0] is None or isinstance(rest[0], (tuple, list))):
            return (*args[:start], rest[0] if rest[0] is None else tuple(rest[0]))
        return (*args[:start], rest)

    def _values(self, bound: dict[str, Any]) -> list[Any]:
        """The inputs: tensors, numbers, or None for an optional input that is absent."""
        if not self.listed:
            return [bound[name] for name in self.inputs]
        value = bound[self.inputs[0]]
        if not isinstance(value, (list, tuple)):
            expected = "a sequence of Tensors"
            raise TypeError(
                f"{self.called}(): argument {self.inputs[0]!r} must be {expected}, not {type(value).__name__}"
            )
        return list(value)

    arrays = arrays_of

    def operand_roles(self, values: list[Any]) -> Roles | None:
        """The roles of the operands of a call; None for a product without a parameter."""
        return self.roles_of(lambda place: is_parameter(values[place]))

    def roles_of(self, is_weight: Callable[[int], bool]) -> Roles | None:
        """The same where `is_weight` says whether the input at a place is a parameter."""
        assert self.roles is not None
        roles = list(self.roles.values())
        if "" in roles:
            places = self.first_operand, self.first_operand + 1
            roles = ["weight" if is_weight(place) else "activation" for place in places]
            if "weight" not in roles:
                return None
        recorded = precision_policy.precision_to_record(self.product or "", precision_policy.in_backward())
        return Roles(roles[0], roles[1], "", recorded, recorded_state())

    def refusal(self, error: Exception, arrays: Sequence[Any], given: Iterable[tuple[str, Any]]) -> Exception:
        """The exception to raise for an error of the forward.

        In order: the sentence about an invalid argument; torch's error with the sizes if NumPy could not broadcast;
        otherwise the error itself.
        """
        if mistake := explain(error, self.called, self.forward, given):
            return mistake
        broadcasts = self.promote or self.ufunc or "broadcast" in str(error)
        if isinstance(error, ValueError) and broadcasts and (mistake := broadcast_error(self.called, arrays)):
            return mistake
        return error

    # Recording

    def record(self, values: list[Any], arrays: list[Any], metadata: dict[str, Any], results: Any) -> None:
        """Attach a node to the results of a call if an input with a rule needs a gradient."""
        node = self.node(values, arrays, metadata)
        if node is None:
            return
        if isinstance(results, tuple):
            record_results(node, results, node.op.plans[self.mask(node)].results)
        elif dtype_of(results._array).category >= FLOATING:
            attach(results, node)
            self.save_out(node, results)

    def node(self, values: list[Any], arrays: list[Any], metadata: dict[str, Any]) -> Node | None:
        """The node of a call, or None if no input needs a gradient."""
        rules = self.rules * len(values) if self.listed else self.rules
        edges = [None if rule is None else _edge(value) for value, rule in zip(values, rules, strict=True)]
        if not any(edges):
            return None
        if self.half_variant is not None and any(map(_is_half, values)):
            if self.half_variant is self:
                self.half_variant = with_wide_rules(self)
            return self.half_variant.node(values, arrays, metadata)
        if self.product is not None and "precision" in metadata:
            metadata = node_metadata(metadata, self.product)
        node = make_node(self, tuple(edges), (), metadata)
        if instrumentation.is_observed():
            note_call(node)
        plan = self.plans[self.mask(node)]
        if self.listed:
            if plan.saved:
                node.saved[self.inputs[0]] = list(map(save_operand, values, edges, arrays))
            node.likes = tuple(map(self._like, values))
            return node
        for index in plan.saved:
            number = index == 1 and self.numbers and type(values[1]) in (float, int)
            kept = values[1] if number else save_operand(values[index], edges[index], arrays[index])
            node.saved[self.inputs[index]] = kept
        node.likes = tuple(self._like(value) if index in plan.likes else None for index, value in enumerate(values))
        return node

    def _like(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return None
        array = value._array
        return (array.shape, array.dtype, array.strides) if self.strided else (array.shape, array.dtype)

    def mask(self, node: Node) -> int:
        """The inputs that need gradients, as a bit mask."""
        if self.listed:
            return 1
        mask = 0
        for index, edge in enumerate(node.edges):
            if edge is not None:
                mask |= 1 << index
        return mask

    def save_out(self, node: Node, results: Any) -> None:
        """Save the result, or those of several results, that a needed rule uses."""
        kept = node.op.plans[self.mask(node)].results
        if isinstance(results, tuple):
            save_results(node, results, kept)
        elif kept:
            node.saved["out"] = save(results, SELF)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _marks(annotation: Any, mark: Any) -> bool:
    """Whether a parameter's annotation is `mark`, as an object or as text, alone or as `mark | None`."""
    name = "Array" if mark is Array else "Arrays"
    return annotation is mark or (isinstance(annotation, str) and annotation.split(" ")[0] == name)


def _is_half(value: Any) -> bool:
    return isinstance(value, Tensor) and is_half(value._array.dtype)


def _edge(value: Any) -> Node | None:
    return history(value) if isinstance(value, Tensor) else None


def _map(out: Any, function: Callable[[Any], Any]) -> Any:
    """Map `function` over the arrays of the forward's result: one array, or a (named) tuple."""
    if isinstance(out, tuple):
        return type(out)(*map(function, out)) if hasattr(out, "_fields") else tuple(map(function, out))
    return function(out)


def _tensor(out: Any) -> Tensor:
    return adopt(out if type(out) is _ndarray else np.asarray(out))


def _round_to(out: Any, dtype: DType) -> Any:
    out = np.asarray(out)
    return cast_unchecked(out, dtype.dtype) if out.dtype == np.float32 else out
