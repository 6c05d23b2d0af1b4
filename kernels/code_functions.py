"""Compiled functions without Numba: Python's syntax trees, translated to LLVM's language.

The subset: integers, floats and booleans; tuples, tags and records; arrays that are read and written by index; loops
over ranges; calls of other compiled functions and of functions that emit code. Everything else raises
`UnsupportedError`, and Numba compiles the entry point (`compiler`), which takes several times as long.

A function becomes one function of LLVM for each combination of the types of its arguments, which takes and returns the
parts of values (`code_types`). A variable is memory on the stack for each of its parts, which LLVM makes registers. The
type of a variable is that of its first value; where a later one needs a wider type, the function is translated again.
A branch whose condition is constant is not translated.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .code_calls import aggregate, has_arrays, release, separate
from .code_expressions import Expressions
from .code_numbers import common, convert
from .code_types import INT64, NOTHING, Items, Range, Type, UnsupportedError, Value, constant
from .code_values import store_attribute, store_element
from .jit import ir

_VOID = ir.VoidType()
_BYTES = ir.IntType(8).as_pointer()


@functools.cache
def _definitions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a source file by their first lines, those of decorators included."""
    found = {}
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if isinstance(node, ast.FunctionDef):
            found[min([node.lineno, *(each.lineno for each in node.decorator_list)])] = node
    return found


def _definition(function: Callable) -> ast.FunctionDef:
    code = function.__code__
    try:
        found = _definitions(code.co_filename).get(code.co_firstlineno)
    except OSError:
        found = None
    if found is None or found.name != code.co_name:
        raise UnsupportedError(f"{code.co_name}, whose definition is not in a file")
    return found


class Module:
    """What is translated for one entry point: functions of LLVM by function and types."""

    def __init__(self) -> None:
        self.ir = ir.Module("minitorch_backends")
        self._functions: dict[tuple, tuple[ir.Function, Type, int]] = {}
        self._open: set[tuple] = set()

    def function(self, subroutine: Any, arguments: tuple[Type, ...]) -> tuple[ir.Function, Type, int]:
        """A compiled function for arguments of these types, the type of its result, and how many addresses of memory
        that its caller is to free come behind it."""
        key = subroutine, arguments
        if key in self._open:
            raise UnsupportedError(f"{subroutine.__name__} calls itself")
        wide: dict[str, Type] = {}
        self._open.add(key)
        while key not in self._functions:
            with contextlib.suppress(_WiderError):
                found = Function(self, subroutine, arguments, wide)
                memories = len(found.owned) if found.hands_on else 0
                self._functions[key] = found.function, found.result or NOTHING, memories
        self._open.remove(key)
        return self._functions[key]

    def run(self, subroutine: Any, builder: ir.IRBuilder, values: list[Value], caller: Function | None = None) -> Value:
        """Call a compiled function. Memory that it hands on becomes that of the caller."""
        function, result, memories = self.function(subroutine, tuple(each.type for each in values))
        found = builder.call(function, [part for each in values for part in each.parts])
        parts = separate(builder, found, [*result.parts, *[_BYTES] * memories])
        count = len(result.parts)
        for memory in parts[count:]:
            if caller is None:
                release(builder, memory)
            else:
                caller.own(memory)
        return Value(result, parts[:count])


class _WiderError(Exception):
    """A variable needs a wider type than that of its first value."""


class _Builder(ir.IRBuilder):
    """A builder whose operations on floats have flags (`fastmath`)."""

    def __init__(self, flags: tuple[str, ...], block: ir.Block) -> None:
        super().__init__(block)
        self._flags = flags

    def _insert(self, instruction: ir.Instruction) -> None:
        if self._flags and instruction.opname in _FLOAT_OPERATIONS:
            instruction.flags = [*instruction.flags, *(each for each in self._flags if each not in instruction.flags)]
        if self._flags and instruction.opname == "call" and isinstance(instruction.type, (ir.FloatType, ir.DoubleType)):
            for flag in self._flags:
                instruction.fastmath.add(flag)
        super()._insert(instruction)


_FLOAT_OPERATIONS = ("fadd", "fsub", "fmul", "fdiv", "fcmp")


class Function(Expressions):
    """The translation of one function."""

    def __init__(self, module: Module, subroutine: Any, arguments: tuple[Type, ...], wide: dict[str, Type]) -> None:
        self.module, self.py_func, self.wide = module, subroutine.py_func, wide
        node = _definition(self.py_func)
        kind = ir.FunctionType(_VOID, [part for each in arguments for part in each.parts])
        self.function = ir.Function(module.ir, kind, module.ir.get_unique_name(node.name))
        self.function.linkage = "internal"
        flags = tuple(sorted(subroutine.options.get("fastmath", ())))
        self.builder = _Builder(flags, self.function.append_basic_block("entry"))
        self.result: Type | None = None
        self.owned: list[ir.Value] = []
        self.hands_on = self.returned = False
        self.variables: dict[str, Value] = {}
        self.loops: list[tuple[ir.Block, ir.Block]] = []
        self.ends: set[ir.Block] = set()
        start = self.function.append_basic_block("start")
        self.builder.position_at_end(start)
        try:
            self._translate(node, arguments)
        except _WiderError:
            del module.ir.globals[self.function.name]
            raise
        with self.builder.goto_block(self.function.blocks[0]):
            self.builder.branch(start)

    def _translate(self, node: ast.FunctionDef, arguments: tuple[Type, ...]) -> None:
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or len(node.args.args) != len(arguments):
            raise UnsupportedError(f"the parameters of {node.name}")
        parts = list(self.function.args)
        for parameter, kind in zip(node.args.args, arguments, strict=True):
            count = len(kind.parts)
            self.assign(parameter.arg, Value(kind, parts[:count]))
            parts = parts[count:]
        self._statements(node.body)
        if not self.builder.block.is_terminated:
            self._return(Value(NOTHING, []))

    def alloca(self, kind: ir.Type, name: str = "") -> ir.Value:
        """Memory of the function."""
        with self.builder.goto_block(self.function.blocks[0]):
            return self.builder.alloca(kind, name=name)

    def own(self, memory: ir.Value) -> None:
        """Free memory that the function allocates when it returns, or have its caller do so if it returns arrays."""
        if self.loops or self.returned:
            raise UnsupportedError("memory that is allocated in a loop, or behind the first return")
        place = self.alloca(_BYTES)
        with self.builder.goto_block(self.function.blocks[0]):
            self.builder.store(_BYTES(None), place)
        self.builder.store(memory, place)
        self.owned.append(place)

    def _return(self, value: Value) -> None:
        """End the function. The type of its result is that of the first value."""
        if self.result is None:
            self._set_result(self.wide.get("return", value.type))
        kind = common(self.result, value.type)
        if kind != self.result:
            self.wide["return"] = kind
            raise _WiderError
        parts = convert(self.builder, value, self.result).parts
        memory = [self.builder.load(place) for place in self.owned]
        if self.hands_on:
            parts = [*parts, *memory]
        else:
            for each in memory:
                release(self.builder, each)
        if not parts:
            self.builder.ret_void()
        else:
            self.builder.ret(aggregate(self.builder, parts) if len(parts) > 1 else parts[0])

    def _set_result(self, kind: Type) -> None:
        """Set the type of the result of the function, which nothing calls yet."""
        self.result, function, self.hands_on = kind, self.function, has_arrays(kind)
        parts = [*kind.parts] + [_BYTES] * (len(self.owned) if self.hands_on else 0)
        self.returned = True
        if parts:
            result = parts[0] if len(parts) == 1 else ir.LiteralStructType(parts)
            function.ftype = ir.FunctionType(result, function.ftype.args)
            function.type = function.ftype.as_pointer()
            function.return_value.type = result

    # Variables

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        known = self.variables.get(name)
        if known is None:
            kind = self.wide.get(name, value.type)
            known = self.variables[name] = Value(kind, [self.alloca(part, name=name) for part in kind.parts])
        if known.type != value.type:
            kind = common(known.type, value.type)
            if kind != known.type:
                self.wide[name] = kind
                raise _WiderError
            value = convert(self.builder, value, kind)
        for place, part in zip(known.parts, value.parts, strict=True):
            self.builder.store(part, place)

    def _Name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self.variables:
            place = self.variables[name]
            return Value(place.type, [self.builder.load(part) for part in place.parts])
        code, function = self.py_func.__code__, self.py_func
        if name in code.co_freevars:
            return constant(function.__closure__[code.co_freevars.index(name)].cell_contents)
        if name in code.co_varnames:
            raise UnsupportedError(f"{name}, which has no value on some ways to its use")
        return constant(function.__globals__[name] if name in function.__globals__ else getattr(builtins, name))

    # Statements

    def _statements(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if self.builder.block.is_terminated:
                return
            emit = getattr(self, f"_{type(node).__name__}", None)
            if emit is None:
                raise UnsupportedError(f"the statement {ast.unparse(node)}")
            try:
                emit(node)
            except UnsupportedError as error:
                error.place = (
                    error.place or f"{self.py_func.__module__}.{self.py_func.__qualname__}, line {node.lineno}"
                )
                raise

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _Return(self, node: ast.Return) -> None:
        self._return(self.value(node.value) if node.value else Value(NOTHING, []))

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._store(target, value)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if any(isinstance(each, ast.Call) for each in ast.walk(node.target)):
            raise UnsupportedError(f"a call in the target {ast.unparse(node.target)}, which is found twice")
        self._store(node.target, self._binary(node.op, self.value(node.target), self.value(node.value)))

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple) and isinstance(value.type, Items):
            if len(value.type) != len(target.elts):
                raise UnsupportedError("a tuple of another length")
            for index, each in enumerate(target.elts):
                self._store(each, value.type.item(value, index))
        elif isinstance(target, ast.Subscript):
            store_element(self, self.value(target.value), self.value(target.slice), value)
        elif isinstance(target, ast.Attribute):
            store_attribute(self, self.value(target.value), target.attr, value)
        else:
            raise UnsupportedError(f"the target {ast.unparse(target)}")

    def _If(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if isinstance(condition, ir.Constant):
            self._statements(node.body if condition.constant else node.orelse)
            return
        then, otherwise, end = (self.function.append_basic_block(name) for name in ("then", "else", "end"))
        self.builder.cbranch(condition, then, otherwise)
        ends = False
        for block, body in ((then, node.body), (otherwise, node.orelse)):
            self.builder.position_at_end(block)
            self._statements(body)
            if not self.builder.block.is_terminated:
                self.builder.branch(end)
                ends = True
        self.builder.position_at_end(end)
        if not ends:
            self.builder.unreachable()

    def _While(self, node: ast.While) -> None:
        if node.orelse:
            raise UnsupportedError("else of a loop")
        test, body, end = (self.function.append_basic_block(name) for name in ("test", "body", "end"))
        self.builder.branch(test)
        self.builder.position_at_end(test)
        condition = self.condition(node.test)
        if isinstance(condition, ir.Constant):
            self.builder.branch(body if condition.constant else end)
        else:
            self.builder.cbranch(condition, body, end)
        self._body(node.body, body, test, end)
        if isinstance(condition, ir.Constant) and condition.constant and end not in self.ends:
            self.builder.unreachable()

    def _body(self, nodes: list[ast.stmt], body: ir.Block, again: ir.Block, end: ir.Block) -> None:
        """The body of a loop; go on at its end."""
        self.builder.position_at_end(body)
        self.loops.append((again, end))
        self._statements(nodes)
        self.loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(again)
        self.builder.position_at_end(end)

    def _For(self, node: ast.For) -> None:
        span = self.value(node.iter)
        if isinstance(span.type, Items):
            self._unroll(node, span)
            return
        if node.orelse or not isinstance(span.type, Range) or not isinstance(node.target, ast.Name):
            raise UnsupportedError(f"the loop over {ast.unparse(node.iter)}")
        builder, (start, stop, step), place = self.builder, span.parts, self.alloca(INT64.ir)
        builder.store(start, place)
        body, again, end = (self.function.append_basic_block(name) for name in ("body", "again", "end"))
        self._go_on(start, stop, step, body, end)
        builder.position_at_end(body)
        self.assign(node.target.id, Value(INT64, [builder.load(place)]))
        self._body(node.body, builder.block, again, end)
        builder.position_at_end(again)
        following = builder.add(builder.load(place), step, flags=["nsw"])
        builder.store(following, place)
        self._go_on(following, stop, step, body, end)
        builder.position_at_end(end)

    def _go_on(self, index: ir.Value, stop: ir.Value, step: ir.Value, body: ir.Block, end: ir.Block) -> None:
        """Branch to the body of a loop, or to its end: before the loop, and at the end of each turn."""
        builder = self.builder
        less, greater = (builder.icmp_signed(sign, index, stop) for sign in "<>")
        if isinstance(step, ir.Constant):
            is_left = less if step.constant > 0 else greater
        else:
            is_left = builder.select(builder.icmp_signed(">", step, INT64.ir(0)), less, greater)
        builder.cbranch(is_left, body, end)

    def _unroll(self, node: ast.For, items: Value) -> None:
        """A loop over a tuple."""
        assert isinstance(items.type, Items)
        end = self.function.append_basic_block("end")
        for index in range(len(items.type)):
            self._store(node.target, items.type.item(items, index))
            again = self.function.append_basic_block("again")
            self.loops.append((again, end))
            self._statements(node.body)
            self.loops.pop()
            if not self.builder.block.is_terminated:
                self.builder.branch(again)
            self.builder.position_at_end(again)
        self.builder.branch(end)
        self.builder.position_at_end(end)

    def _Break(self, node: ast.Break) -> None:
        self.ends.add(self.loops[-1][1])
        self.builder.branch(self.loops[-1][1])

    def _Continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])
