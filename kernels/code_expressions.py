"""Expressions of compiled functions as LLVM's language (`code_functions`)."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .code_calls import CALLS
from .code_numbers import binary, common, compare, convert, negative, truth
from .code_types import NOTHING, Items, Number, Static, UnsupportedError, Value, constant
from .code_values import attribute, element, view
from .jit import ir

if TYPE_CHECKING:
    pass


class Expressions:
    """What a function (`code_functions.Function`) emits for expressions."""

    builder: ir.IRBuilder
    function: ir.Function

    def value(self, node: ast.expr) -> Value:
        """Emit an expression."""
        emit = getattr(self, f"_{type(node).__name__}", None)
        if emit is None or not isinstance(node, ast.expr):
            raise UnsupportedError(f"the expression {ast.unparse(node)}")
        return emit(node)

    def condition(self, node: ast.expr) -> ir.Value:
        """Emit the truth of an expression, as a bit."""
        return truth(self.builder, self.value(node))

    def _Constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def _Tuple(self, node: ast.Tuple) -> Value:
        return self.tuple_of(tuple, self._items(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Value]:
        found = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.value(node.value)
                if not isinstance(value.type, Items):
                    raise UnsupportedError(f"* of {value.type}")
                found += [value.type.item(value, index) for index in range(len(value.type))]
            else:
                found.append(self.value(node))
        return found

    def tuple_of(self, instance_class: type, items: list[Value]) -> Value:
        """A tuple of a class."""
        kind = Items(instance_class, tuple(item.type for item in items))
        return Value(kind, [part for item in items for part in item.parts])

    def _Attribute(self, node: ast.Attribute) -> Value:
        return attribute(self, self.value(node.value), node.attr)

    def _Subscript(self, node: ast.Subscript) -> Value:
        return element(self, self.value(node.value), self.value(node.slice))

    def _Slice(self, node: ast.Slice) -> Value:
        if node.step is not None:
            raise UnsupportedError("a slice with a step")
        none = constant(None)
        return self.tuple_of(slice, [self.value(each) if each else none for each in (node.lower, node.upper)])

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self.value(node.left), self.value(node.right))

    def _binary(self, operator: ast.operator, a: Value, b: Value) -> Value:
        return binary(self.builder, type(operator).__name__, a, b)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            found = self.condition(node.operand)
            if isinstance(found, ir.Constant):
                return constant(not found.constant)
            return Value(constant(True).type, [self.builder.not_(found)])
        if not isinstance(node.op, ast.USub):
            raise UnsupportedError(ast.unparse(node))
        return negative(self.builder, self.value(node.operand))

    def _Compare(self, node: ast.Compare) -> Value:
        left, found = self.value(node.left), constant(True)
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            found = self._and(found, self._compare_two(operator, left, right))
            left = right
        return found

    def _compare_two(self, operator: ast.cmpop, left: Value, right: Value) -> Value:
        if isinstance(operator, ast.In) and isinstance(right.type, Items):
            found = constant(False)
            for index in range(len(right.type)):
                same = compare(self.builder, "Eq", left, right.type.item(right, index))
                found = binary(self.builder, "BitOr", found, same)
            return found
        if isinstance(operator, ast.Is) and NOTHING in (left.type, right.type):
            return constant(left.type == right.type)
        if isinstance(operator, ast.IsNot) and NOTHING in (left.type, right.type):
            return constant(left.type != right.type)
        return compare(self.builder, type(operator).__name__, left, right)

    def _and(self, a: Value, b: Value) -> Value:
        """Both, where neither costs anything to find."""
        return b if a.number == 1 else a if a.number == 0 else binary(self.builder, "BitAnd", a, b)

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or` of conditions: later ones are evaluated only where they matter."""
        stops = isinstance(node.op, ast.Or)
        first, *rest = node.values
        found = self.value(first)
        for each in rest:
            known = truth(self.builder, found)
            if isinstance(known, ir.Constant):
                if bool(known.constant) == stops:
                    return found
                found = self.value(each)
                continue
            other = functools.partial(self.value, each)
            taken = (lambda kept=found: kept), other
            found = self.either(known, *(taken if stops else taken[::-1]))
        return found

    def _IfExp(self, node: ast.IfExp) -> Value:
        condition = self.condition(node.test)
        yes, no = functools.partial(self.value, node.body), functools.partial(self.value, node.orelse)
        if isinstance(condition, ir.Constant):
            return yes() if condition.constant else no()
        return self.either(condition, yes, no)

    def either(self, condition: ir.Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """One of two values."""
        builder, found = self.builder, []
        blocks = [self.function.append_basic_block(name) for name in ("yes", "no")]
        end = self.function.append_basic_block("either")
        builder.cbranch(condition, *blocks)
        for block, emit in zip(blocks, (yes, no), strict=True):
            builder.position_at_end(block)
            found.append((emit(), builder.block))
        kind = common(found[0][0].type, found[1][0].type)
        parts = []
        for value, block in found:
            builder.position_at_end(block)
            parts.append((convert(builder, value, kind).parts, builder.block))
            builder.branch(end)
        builder.position_at_end(end)
        result = []
        for place, part in enumerate(kind.parts):
            phi = builder.phi(part)
            for values, block in parts:
                phi.add_incoming(values[place], block)
            result.append(phi)
        return Value(kind, result)

    # Calls

    def _Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            (kind,) = (self.value(each).type for each in node.args)
            return view(self.builder, self.value(node.func.value), Number(np.dtype(kind.key[0]).name))
        callee = self.value(node.func)
        arguments = self._items(node.args)
        keywords = {each.arg: self.value(each.value) for each in node.keywords if each.arg}
        if len(keywords) != len(node.keywords):
            raise UnsupportedError("** in a call")
        return self.call(callee, arguments, keywords)

    def call(self, callee: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Emit a call."""
        if isinstance(callee.type, Static):
            for accepts, emit in CALLS:
                if accepts(callee.type.of):
                    return emit(self, callee.type.of, arguments, keywords)
        raise UnsupportedError(f"a call of {callee.type}")
