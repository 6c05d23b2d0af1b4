"""The source text of an op's generated functions, compiled by `codegen`. Names that begin with `_` are in its
namespace.

Each piece of text has the indentation of its place in the function. Inputs are arrays `_0`, `_1` ... with nodes `_n0`,
`_n1` ...; `break` hands a call over to the definition, `Op.apply`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kernels.arrays.elementwise import is_half, threaded_function
from ..tensor.dtypes import FLOATING, INTEGER, dtypes

_FLOAT32 = np.dtype(np.float32)
_REAL = "(_dtype is _float32 or _dtype is _float64)"


class Template:
    """The text of an op's call and of its in-place twin.

    Attributes:
        keywords: the keyword-only parameters.
        allowed: the dtypes that the forward takes directly; the definition widens the others.
        ufunc: computes the forward in float32 and float64 when the arguments in `usual` are left out.
        large: computes large arrays on several threads, also for half types.
        recorded: the inputs with a gradient rule.
        tensors: the inputs that are tensors in every call of the fast path.
        several: whether the result is a tuple, whose parts are saved in the same way whatever input needs a gradient.
    """

    def __init__(self, op: Any) -> None:
        self.op, self.inputs, indices = op, op.inputs, range(len(op.inputs))
        self.keywords = [name for name in (*op.inputs, *op.metadata_names) if name not in op.order]
        self.arrays = ["_arrays"] if op.listed else [f"_{index}" for index in indices]
        self.recorded = [index for index in indices if op.rules[index] is not None]
        self.leading = op.promoted.index(True) if True in op.promoted else None
        self.tensors = [i for i in indices if self.inputs[i] not in op.defaults and not self._may_be_number(i)]
        self.metadata = f"{{{', '.join(f'{name!r}: {name}' for name in op.metadata_names)}}}"
        self.allowed = _allowed_lines(op)
        optional = [name for name in op.metadata_names if name in op.defaults]
        one_dtype = all(op.promoted) or len(op.inputs) == 1
        takes_ufunc = one_dtype and len(optional) == len(op.metadata_names) and "f" in op.takes
        self.ufunc = op.ufunc if takes_ufunc else None
        self.usual = " and ".join(f"{name} is _absent" for name in optional)
        self.large = threaded_function(op.ufunc) if self.ufunc is not None and len(op.inputs) < 3 else None
        self.several = bool(op.results) and not op.view and (op.joint or len(self.recorded) == 1)

    def _may_be_number(self, index: int) -> bool:
        """Whether an input may be a Python number on the fast path."""
        op = self.op
        if not op.promoted[index] or op.must_be_tensor(index):
            return False
        return index != self.leading or op.promoted.count(True) == 1 < len(op.inputs)

    # The functions

    def call(self, name: str) -> str:
        quiet = self.op.warns and not self.op.view
        return self._function(name, *self._guard(quiet, self._computation(" " * 12)), *self._result())

    def inplace_call(self, name: str) -> str:
        first, others = self.inputs[0], [f"_n{index}" for index in self.recorded if index]
        recorded = " or ".join(f"{node} is not None" for node in ["_n0", *others])
        check = f"""\
        if ({recorded}) and _mode().records: break
        if _type({first}._cell) is _InferenceCell or not _0.flags.c_contiguous: break"""
        count = f"""\
        _cell = {first}._cell
        if _cell is None: {first}._cell = [1]
        else: _cell[0] += 1
        return {first}"""
        return self._function(name, check, *self._guard(self.op.warns, self._overwriting()), count)

    def _function(self, name: str, *body: str) -> str:
        op, rest = self.op, self.op.variadic
        order = [each for each in op.order if each != rest]
        left_out, keywords = [f"{each}=_absent" for each in order], [f"{each}=_absent" for each in self.keywords]
        values = f"({', '.join((*order, *self.keywords))},)"
        surplus = "_surplus" if rest is None else "not _surplus or _surplus[0] is None"
        text = f"""\
def {name}({", ".join((*left_out, "*_surplus", *keywords, "**_named"))}):
    if {surplus} or _named or (_active := _instrumentation.active) > 1{" or _policy.by_role" * bool(op.roles)}:
        return _definition({values}, _surplus, _named)"""
        if rest is not None:
            listed = "_len(_surplus) == 1 and _isinstance(_surplus[0], _sequences)"
            text += f"\n    {rest} = _tuple(_surplus[0]) if {listed} else _surplus"
        if self.ufunc is not None and self.usual:
            text += f"\n    _usual = {self.usual}"
        operands = self._sequence() if op.listed else self._operands()
        end = f"    return _definition({values}, _surplus, {{}})"
        return "\n".join([text, "    while True:", *self._defaults(), *operands, *body, end])

    # Arguments

    def _defaults(self) -> Iterator[str]:
        op = self.op
        for name in (*op.order, *self.keywords):
            if name == op.variadic:
                continue
            if name in op.defaults:
                yield f"        if {name} is _absent: {name} = _default_{name}"
            elif name in op.metadata_names:
                yield f"        if {name} is _absent: break"
            if name in op.scalars:
                yield f"        elif _type({name}) not in _kinds_{name}: break"

    def _sequence(self) -> Iterator[str]:
        """The arrays of an op on a sequence of tensors."""
        name = self.inputs[0]
        yield f"""\
        if _type({name}) not in _sequences: break
        _arrays, _all, _dtype, _n0 = [], False, None, None
        for _each in {name}:
            _kind = _type(_each)
            if _kind is not _Tensor and _kind is not _Parameter: break
            _array = _each._array
            if _array.dtype is not _dtype:
                if {"_dtype is not None or " if self.op.promoted[0] else ""}_array.dtype not in _allowed: break
                _dtype = _array.dtype
            _arrays.append(_array)
            if _n0 is None: _n0 = _each._node
        else: _all = True
        if not _all: break"""

    def _operands(self) -> Iterator[str]:
        op = self.op
        for index, name in enumerate(self.inputs):
            array, node = f"_{index}", f"_n{index}"
            yield f"""\
        _kind = _type({name})
        if _kind is _Tensor or _kind is _Parameter:
            {array}, {node} = {name}._array, {name}._node"""
            if op.promoted[index] and index != self.leading:
                yield f"            if {array}.dtype is not _dtype: break"
            else:
                dtype = "_dtype" if index == self.leading or len(self.inputs) == 1 else "_other_dtype"
                first = f"{dtype} is not _float32 and " if _FLOAT32 in self.allowed else ""
                large = "" if self.large is None else f" and ({array}.size < _least or not _is_half({dtype}))"
                yield f"            {dtype} = {array}.dtype"
                yield f"            if {first}{dtype} not in _allowed{large}: break"
            if name in op.defaults:
                yield f"        elif {name} is None: {array} = {node} = {'_dtype = ' * (index == self.leading)}None"
            if self._may_be_number(index):
                number = f"_kind is float or (_kind is int and -_exact <= {name} <= _exact)"
                when, value = self._number(index, name)
                yield f"        elif ({number}){when}: {array}, {node} = {value}, None"
            yield "        else: break"

    def _number(self, index: int, name: str) -> tuple[str, str]:
        """A further condition for a Python number, and the expression for its array."""
        op = self.op
        if index == self.leading:
            return "", f"_alone({index}, {name})"
        if not (index == 1 and op.numbers):
            return f" and {_REAL}", f"_asarray({name}, _dtype)"
        of_integers = " or (_kind is int and _dtype.kind == 'i')" if op.scalar is None else ""
        if self.large is None:
            return f" and ({_REAL}{of_integers})", name
        rounded = f"_rounded({name}, _dtype) if _is_half(_dtype) else {name}" if op.rounds else name
        return f" and ({_REAL} or _is_half(_dtype){of_integers})", rounded

    # Computation

    def _guard(self, quiet: bool, lines: Iterator[str]) -> Iterator[str]:
        """Errors fall through to the definition, which raises them with a complete message."""
        if quiet:
            yield "        _token = _silence()"
        yield "        try:"
        yield from lines
        yield "        except _Exception: break"
        if quiet:
            yield "        finally: _restore(_token)"

    def _computation(self, indent: str) -> Iterator[str]:
        operands, usual = ", ".join(self.arrays), "_usual and " if self.usual else ""
        if self.ufunc is None:
            yield indent + self._forward()
            return
        by_ufunc = f"if {usual}{_REAL}: _out = _ufunc({operands})"
        if self.large is None:
            yield indent + by_ufunc
        else:
            yield f"{indent}_out = _large({operands}) if {usual}_0.size >= _least else None"
            yield f"{indent}if _out is not None: pass"
            yield f"{indent}el{by_ufunc}"
            yield f"{indent}elif _dtype not in _allowed: break"
        yield f"{indent}else: {self._forward()}"

    def _forward(self) -> str:
        op, places = self.op, dict(zip(self.inputs, self.arrays, strict=True))
        if op.numbers:
            places[self.inputs[1]] = "_1 if _type(_1) is _ndarray else _asarray(_1, _dtype)"
        given = [places.get(name, name) for name in op.order]
        given += [f"{name}={places.get(name, name)}" for name in self.keywords]
        return f"_out = _forward({', '.join(given)})"

    def _overwriting(self) -> Iterator[str]:
        """The result, computed in the memory of the first input."""
        operands, usual, indent = ", ".join(self.arrays), "_usual and " if self.usual else "", " " * 12
        if isinstance(self.ufunc, np.ufunc):
            by_ufunc = f"if {usual}{_REAL}: _ufunc({operands}, _0)"
            if self.large is None:
                yield f"            {by_ufunc}"
            else:
                same = "".join(f" and (_type({x}) is not _ndarray or {x}.shape == _0.shape)" for x in self.arrays[1:])
                yield f"""\
            if {usual}_0.size >= _least{same} and _large({operands}, out=_0) is not None: pass
            el{by_ufunc}
            elif _dtype not in _allowed: break"""
            yield "            else:"
            indent += "    "
            yield indent + self._forward()
        else:
            yield from self._computation(indent)
        yield f"{indent}if _type(_out) is not _ndarray: _out = _asarray(_out)"
        yield f"{indent}if _out.shape != _0.shape or _out.dtype is not _0.dtype: break"
        yield f"{indent}_0[...] = _out"

    # The result, and its node

    def _result(self) -> Iterator[str]:
        op, tensors = self.op, f"[{', '.join(self.inputs)}]"
        arrays = f"[{', '.join(self.arrays)}]"
        call = f"_list({self.inputs[0]}), _arrays" if op.listed else f"{tensors}, {arrays}"
        if self.several:
            plain = "_type(_each) is _ndarray" + " and _each.flags.c_contiguous" * op.row_major
            array = f"_each if {plain} else {'_in_rows' if op.row_major else '_asarray'}(_each)"
            yield f"        _tensor = _new_tuple(_type(_out), [_adopt({array}) for _each in _out])"
            yield from self._recording(f"{call}, {self.metadata}, _tensor")
            yield "        return _tensor"
            return
        yield f"""\
        if _type(_out) is not _ndarray:
            if _isinstance(_out, _tuple): return _results({call}, {self.metadata}, _out)
            _out = _asarray(_out)"""
        if op.row_major:
            yield "        elif not _out.flags.c_contiguous: _out = _in_rows(_out)"
        if op.view:
            yield f"        _tensor = _made_view(_op, {self.metadata}, {self.inputs[0]}, _out, None)"
        else:
            yield """\
        _tensor = _new(_Tensor)
        _tensor._array = _out
        _tensor._node = _tensor._state = _tensor._cell = None
        if _active: _instrumentation.note_birth(_tensor)"""
        if self.recorded:
            yield from self._recording(f"{call}, {self.metadata}, _tensor")
        yield "        return _tensor"

    def _recording(self, call: str) -> Iterator[str]:
        """A node for the result, if an input with a rule needs a gradient."""
        op, several = self.op, len(self.recorded) > 1
        needed = " or ".join(f"_n{index} is not None" for index in self.recorded)
        floating = "" if self.several else " and (_out.dtype is _float32 or _out.dtype.kind not in 'biu')"
        yield f"        if {f'({needed})' if several else needed} and _mode().records{floating}:"
        if op.half_variant is not None and (self.large is not None or any(map(is_half, self.allowed))):
            yield f"""\
            if {self._any_half()}:
                _record({call})
                return _tensor"""
        if op.listed:
            yield f"            _edges = _tuple([_history(_each) for _each in {self.inputs[0]}])"
            yield "            if _any(_edges):"
        else:
            for index in self.recorded:
                known, name = f"_n{index} is not None and " if several else "", self.inputs[index]
                yield f"            if {known}{name}._state is not None: _n{index} = _history({name})"
            yield f"            if {needed}:"
        edges = [f"_n{index}" if index in self.recorded else "None" for index in range(len(self.inputs))]
        yield f"""\
                _node = {"" if self.several else "_tensor._node = "}_Node()
                _node.op, _node.outputs, _node.sequence = _op, (), _next_sequence()
                _node.edges = {"_edges" if op.listed else f"({', '.join(edges)},)"}
                _node.likes = {self._likes()}
                _node.metadata = {self._metadata()}
                _node.saved = _entries = {{}}"""
        for index, name in enumerate(self.inputs):
            yield from self._saving(name, self._entry(name, index, edges[index]))
        if self.several:
            yield "                _record_results(_node, _tensor, _saved_results)"
            return
        yield from self._saving("out", "_save(_tensor, _SELF)")
        if op.view:
            yield "                if _type(_tensor._state) is _View: _tensor._state.node = _node"

    def _metadata(self) -> str:
        """The arguments that are not inputs; nodes share one dictionary of the defaults."""
        op, names, metadata = self.op, self.op.metadata_names, self.metadata
        usual = [f"{name} is _default_{name}" for name in names]
        if op.product is not None and "precision" in names:
            recorded = f"_policy.precision_to_record({op.product!r}, _mode().backward)"
            asked = f"{recorded} if precision is None and _policy.may_record else precision"
            metadata = metadata.replace(": precision", f": {asked}")
            usual.append("not _policy.may_record")
        if not op.defaults.keys() >= {*names}:
            return metadata
        return f"_usual_metadata if {' and '.join(usual)} else {metadata}" if names else "_usual_metadata"

    def _any_half(self) -> str:
        """The condition that some input has a half type."""
        if self.op.listed:
            return "_any([_each.dtype.itemsize == 2 for _each in _arrays])"
        asked = [i for i, promoted in enumerate(self.op.promoted) if not promoted or i == self.leading]
        given = ["" if index in self.tensors else f"_{index} is not None and " for index in asked]
        return " or ".join(f"{test}_{index}.dtype.itemsize == 2" for test, index in zip(given, asked, strict=True))

    def _likes(self) -> str:
        """The shape and dtype of each input, unless its saved array has them (`Op.like_is_saved`)."""
        op, fields = self.op, ("shape", "dtype", "strides") if self.op.strided else ("shape", "dtype")
        if op.listed:
            return f"_tuple([({', '.join(f'_each.{field}' for field in fields)}) for _each in _arrays])"
        likes = []
        for index, name in enumerate(self.inputs):
            needed = [each for each in self.recorded if op.like_needed_by(index) >> each & 1]
            saving = self._saving_for(name) if op.like_is_saved(index) else []
            if not needed or index in saving:
                likes.append("None")
                continue
            like, conditions = f"({', '.join(f'_{index}.{field}' for field in fields)})", []
            if needed != self.recorded:
                conditions.append(f"({' or '.join(f'_n{each} is not None' for each in needed)})")
            conditions += [f"_n{each} is None" for each in saving]
            if index not in self.tensors and needed != [index]:
                conditions.append(f"_isinstance({name}, _Tensor)")
            likes.append(f"{like} if {' and '.join(conditions)} else None" if conditions else like)
        return f"({', '.join(likes)},)"

    def _saving_for(self, name: str) -> list[int]:
        """The inputs whose rules use a saved input or the result."""
        rules = {index: self.op.rules[index][1] for index in self.recorded}
        return [index for index, arguments in rules.items() if (name, "saved") in [each[:2] for each in arguments]]

    def _saving(self, name: str, entry: str) -> Iterator[str]:
        """The statements that save the inputs and the result, each if a rule that uses it has an input that needs a
        gradient."""
        asking = self._saving_for(name)
        if asking:
            when = " or ".join(f"_n{index} is not None" for index in asking)
            yield f"                {f'if {when}: ' if asking != self.recorded else ''}_entries[{name!r}] = {entry}"

    def _entry(self, name: str, index: int, edge: str) -> str:
        if self.op.listed:
            return f"[_save(_each, _edge) for _each, _edge in zip({name}, _edges)]"
        if index in self.tensors:
            return f"_save({name}, {edge})"
        entry = f"_save_operand({name}, {edge}, _{index})"
        return f"{name} if _type({name}) in _numbers else {entry}" if index == 1 and self.op.numbers else entry


def _allowed_lines(op: Any) -> frozenset[np.dtype]:
    least = FLOATING if op.promote == "float" else 0 if op.booleans else INTEGER
    taken = [each for each in dtypes.values() if each.letter in op.takes and each.category >= least]
    return frozenset(each.dtype for each in taken if not (op.widen and (is_half(each.dtype) or each.letter == "n")))


def backward_text(op: Any, name: str) -> str:
    """The text of the function (node, edges, g, flow) that applies an op's rules and delivers the gradients to the
    nodes of the inputs. `edges` are the node's, with None for those that the pass does not need. For mul:

    def mul_backward(node, edges, g, flow):
        likes = node.likes
        if edges[0] is not None:
            like = likes[0] or like_of(node, 0)
            flow.deliver(edges[0], rules[0](g, unpack(node, 'other', flow.create_graph)), like, g)
        if edges[1] is not None:
            like = likes[1] or like_of(node, 1)
            flow.deliver(edges[1], rules[1](g, unpack(node, 'input', flow.create_graph)), like, g)
    """
    lines, all_at_once = [f"def {name}(node, edges, g, flow):", "    likes = node.likes"], op.listed or op.joint
    for index, rule in enumerate(op.rules[:1] if all_at_once else op.rules):
        if rule is None:
            continue
        gradient = f"rules[{index}]({', '.join(_fetch(op, index, *source) for source in rule[1])})"
        if all_at_once:
            lines.append(f"    for edge, value, like in zip(edges, {gradient}, likes, strict=True):")
            lines.append("        if edge is not None: flow.deliver(edge, value, like, g)")
        else:
            lines.append(f"    if edges[{index}] is not None:")
            lines.append(f"        like = likes[{index}]{f' or like_of(node, {index})' * op.like_is_saved(index)}")
            lines.append(f"        flow.deliver(edges[{index}], {gradient}, like, g)")
    return "\n".join(lines)


def _fetch(op: Any, of_input: int, name: str, source: str, index: int) -> str:
    """The expression for one argument of an input's rule."""
    if source in ("g", "edges"):
        return source
    if source == "metadata" and name == "precision" and not op.joint:
        return f"precision_for(node, {of_input})"
    if source == "metadata":
        return f"node.metadata[{name!r}]"
    if source == "saved":
        return f"unpack(node, {name!r}, flow.create_graph)"
    if source == "recomputed":
        return "recomputed(node, flow.create_graph)"
    if source == "result":
        return f"unpack(node, 'out', flow.create_graph)[{index}]"
    which = ("shape", "dtype", "strides").index(source)
    if op.listed:
        return f"[like[{which}] for like in likes]"
    return f"like[{which}]" if index == of_input and not op.joint else f"likes[{index}][{which}]"
