"""A worker: runs cases one after another, and says before each which one it is, and after it what is wrong with it.

`python -m tests.fuzz.worker SEED START COUNT ONLY` writes lines of JSON: {"number", "code"} before a case,
{"fault"} after one that has a fault.
"""

import contextlib
import faulthandler
import inspect
import json
import os
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.tensor.call_errors import is_deliberate

from .cases import CONSTRUCTED, Case, draw, targets
from .values import NAMESPACE

ADDRESS_SPACE = 6 << 30
"""Bytes that a worker may map."""

SECONDS = 60
"""The time limit of a call; compilation dominates it."""

RAW = re.compile(
    r"object has no attribute|not supported between|unsupported operand|cannot be interpreted|values to unpack|"
    r"object is not|could not be broadcast|must be real number|tuple index|list index|has no len|too large to convert|"
    r"greater than maximum|'NoneType'|unhashable|expected str, bytes|only integer scalar arrays|"
    r"setting an array element|cannot convert|out of bounds for axis|The truth value of an (empty )?array"
)
"""What a message contains that was not written for the user of a function."""

BINDING = re.compile(r"\(\) (missing|takes|got|is missing)")
"""Python's sentences about calls that do not fit a signature."""

TYPES = (
    RuntimeError, TypeError, ValueError, IndexError, BufferError, AttributeError, MemoryError, KeyError, AssertionError,
    OverflowError,
)  # fmt: skip
"""The types of errors that calls may raise. (AssertionError and OverflowError, where torch's functions raise them.)"""

TOUCHED = 1 << 20
"""The largest result, in elements, that is read to see that its memory is there."""


def main() -> None:
    seed, start, count = map(int, sys.argv[1:4])
    only = re.compile(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    faulthandler.enable()
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a call prints is not a report
    chosen = [each for code, each in sorted(targets().items()) if only.search(code)]
    namespace: dict[str, Any] = {}
    exec(NAMESPACE, namespace)
    restore = settings()
    for number in range(start, start + count):
        case = draw(chosen[number % len(chosen)], seed, number // len(chosen))
        _say(report, number=number, code=case.code)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        if fault := examine(case, namespace):
            _say(report, fault=fault)
        restore()
        faulthandler.cancel_dump_traceback_later()
    _say(report, done=True)


def _say(report: Any, **record: Any) -> None:
    report.write(json.dumps(record) + "\n")
    report.flush()


def examine(case: Case, namespace: dict[str, Any]) -> str:
    """The fault of a call in words, or ""."""
    try:
        function = eval(case.target, namespace)
        args = [eval(each, namespace) for each in case.args]
        named = {name: eval(each, namespace) for name, each in case.named.items()}
    except Exception:  # the values do not exist, so the call is skipped
        return ""
    before = surroundings(), [_state_of(each) for each in _tensors([*args, *named.values()])]
    try:
        result = function(*args, **named)
        is_built = isinstance(result, CONSTRUCTED)
        _use(result)
        _touch(result)
        _differentiate(result)
    except Exception as error:
        after = surroundings(), [_state_of(each) for each in _tensors([*args, *named.values()])]
        if before[0] != after[0] and not ("is_built" in locals() and is_built):  # building one draws its weights
            return f"raised {type(error).__name__}, and changed {_difference(before[0], after[0])}"
        if before[1] != after[1] and "result" not in locals():
            return f"raised {type(error).__name__}, and changed its inputs: {error}"
        internal = case.target.startswith("registry[")  # whose callers are functions of this package
        return "" if internal or is_sentence(error) else _describe(error)
    return ""


def is_sentence(error: Exception) -> bool:
    """Whether an error is about an argument, in words of this package, or Python's about a call's signature."""
    text = str(error)
    if not isinstance(error, TYPES) or isinstance(error, RecursionError) or RAW.search(text):
        return False
    if isinstance(error, MemoryError):
        return text.startswith("Unable to allocate")
    return len(text) > 15 and (is_deliberate(error) or bool(BINDING.search(text)))


def _describe(error: Exception) -> str:
    """The error and where it came from."""
    last = traceback.extract_tb(error.__traceback__)
    own = [each for each in last if "minitorch_backends" in each.filename or "/kernels/" in each.filename]
    where = own[-1] if own else last[-1]
    file = re.sub(r".*/(?=minitorch_backends/|kernels/)", "", where.filename)
    return f"{type(error).__name__} at {file}:{where.lineno}: {str(error)[:300]}"


def surroundings() -> dict[str, Any]:
    """The state that a call that raises must not change."""
    return {
        "flags": backends.snapshot(),
        "grad mode": mt.is_grad_enabled(),
        "inference mode": mt.is_inference_mode_enabled(),
        "anomaly mode": mt.is_anomaly_enabled(),
        "default dtype": mt.get_default_dtype(),
        "threads": mt.get_num_threads(),
        "generator": mt.get_rng_state().numpy().tobytes(),
    }


def settings() -> Callable[[], None]:
    """The function that restores settings that a call may change on purpose."""
    before = surroundings()

    def restore() -> None:
        mt.set_printoptions(profile="default")
        if surroundings() == before:
            return
        backends.restore(before["flags"])
        mt.set_grad_enabled(before["grad mode"])
        mt.set_default_dtype(before["default dtype"])
        mt.set_num_threads(before["threads"])
        mt.set_rng_state(mt.tensor(np.frombuffer(before["generator"], np.uint8)))

    return restore


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    return ", ".join(name for name in before if before[name] != after[name])


def _tensors(values: Any, depth: int = 3) -> list[mt.Tensor]:
    """The tensors among the values, and in sequences of them."""
    if isinstance(values, mt.Tensor):
        return [values]
    if not isinstance(values, (list, tuple)) or not depth:
        return []
    return [each for value in values for each in _tensors(value, depth - 1)]


def _state_of(tensor: mt.Tensor) -> tuple:
    array = tensor._array
    values = array.tobytes() if array.size <= TOUCHED else b""
    return values, array.shape, array.strides, array.dtype, tensor._version, tensor.requires_grad, tensor.grad is None


PROBES = "mt.ones(2)", "mt.ones(2, 3)", "mt.ones(2, 2, 8)", "mt.ones(1, 2, 8, 8)", "mt.ones(2, 3).long()"
"""What modules are called with."""


def _use(result: Any) -> None:
    """Call a module that was made, or take a step of an optimizer or a scheduler."""
    if isinstance(result, mt.nn.Module):
        required = [
            each for each in inspect.signature(result.forward).parameters.values() if each.default is each.empty
        ]
        for probe in PROBES:
            try:
                _differentiate(result(*[eval(probe)] * len(required)))
            except Exception as error:
                if not is_sentence(error):
                    raise
    elif isinstance(result, mt.optim.Optimizer):
        for parameter in (each for group in result.param_groups for each in group["params"]):
            parameter.grad = mt.ones_like(parameter)
        result.step(lambda: mt.ones(()))
    elif isinstance(result, mt.optim.lr_scheduler.LRScheduler):
        result.step()


def _touch(result: Any) -> None:
    """Read the results, so that a view beyond its memory shows."""
    for each in _tensors(result):
        if each._array.size <= TOUCHED:
            each._array.tobytes()


def _differentiate(result: Any) -> None:
    for each in _tensors(result):
        if each.requires_grad and not each.is_leaf and each._array.size <= TOUCHED:
            with contextlib.suppress(MemoryError):
                each.backward(mt.ones_like(each))
            return


if __name__ == "__main__":
    main()
