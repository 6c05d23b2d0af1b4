"""Compiled code as functions of C: tasks of the pool of threads (`launch`), and leaves that are known by addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import launch
from .code_numbers import convert
from .code_types import INT64, NOTHING, Items, UnsupportedError, Value
from .code_values import repeat
from .jit import ir
from .pool_code import START

if TYPE_CHECKING:
    from .code_functions import Function

_I64 = ir.IntType(64)


def _c_function(function: Function, parameters: int, emit: Callable[[ir.IRBuilder, list[ir.Value]], None]) -> Any:
    """A function of LLVM that takes integers."""
    module = function.module.ir
    kind = ir.FunctionType(ir.VoidType(), [_I64] * parameters)
    made = ir.Function(module, kind, module.get_unique_name("task"))
    made.linkage = "internal"
    builder = ir.IRBuilder(made.append_basic_block())
    emit(builder, list(made.args))
    builder.ret_void()
    return made


def _run(kind: Value) -> Any:
    if not isinstance(kind.type, Items):
        raise UnsupportedError(f"a task of {kind.type}")
    return kind.type.instance_class.run


def _launch(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`launch.launch`: the parts of the job are in memory of the caller."""
    job, builder = arguments[3], function.builder
    pool, threads, tasks = (convert(builder, each, INT64).parts[0] for each in arguments[:3])
    run, parts = _run(job), job.parts
    record = ir.LiteralStructType([part.type for part in parts])
    place = function.alloca(record)
    fields = [_I64(0), ir.IntType(32)(0)]
    for index, part in enumerate(parts):
        builder.store(part, builder.gep(place, [fields[0], ir.IntType(32)(index)]))

    def emit(inner: ir.IRBuilder, given: list[ir.Value]) -> None:
        at = inner.inttoptr(given[0], record.as_pointer())
        found = [inner.load(inner.gep(at, [fields[0], ir.IntType(32)(index)])) for index in range(len(parts))]
        numbers = [Value(INT64, [each]) for each in given[1:]]
        function.module.run(run, inner, [*numbers, Value(job.type, found)])

    task = _c_function(function, 3, emit)
    at, of = builder.ptrtoint(place, _I64), builder.ptrtoint(task, _I64)
    with builder.if_else(builder.icmp_signed("!=", pool, _I64(0))) as (shared, alone):
        with shared:
            start = builder.load(builder.inttoptr(builder.add(pool, _I64(START)), _I64.as_pointer()))
            kind = ir.FunctionType(ir.VoidType(), [_I64] * 5)
            builder.call(builder.inttoptr(start, kind.as_pointer()), [pool, threads, tasks, of, at])
        with alone:
            repeat(function, tasks, lambda index: builder.call(task, [at, index, _I64(0)]))
    return Value(NOTHING, [])


def _address_of_run(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`launch.address_of_run`."""
    (leaf,) = arguments
    run = _run(leaf)
    fields = leaf.type.instance_class.arguments
    given = Items(fields, (INT64,) * len(fields._fields))

    def emit(inner: ir.IRBuilder, parts: list[ir.Value]) -> None:
        function.module.run(run, inner, [leaf, Value(given, parts)])

    made = _c_function(function, len(given), emit)
    return Value(INT64, [function.builder.ptrtoint(made, _I64)])


def _call_at(function: Function, callee: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`launch.call_at`."""
    address, given = arguments
    builder = function.builder
    if not isinstance(given.type, Items):
        raise UnsupportedError(f"a leaf that takes {given.type}")
    numbers = [convert(builder, given.type.item(given, index), INT64).parts[0] for index in range(len(given.type))]
    kind = ir.FunctionType(ir.VoidType(), [_I64] * len(numbers))
    at = convert(builder, address, INT64).parts[0]
    builder.call(builder.inttoptr(at, kind.as_pointer()), numbers)
    return Value(NOTHING, [])


TASKS = {launch.launch: _launch, launch.address_of_run: _address_of_run, launch.call_at: _call_at}
"""What is emitted in place of these functions."""
