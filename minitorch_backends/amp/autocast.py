"""`autocast`: a block that casts the inputs of ops to the dtype that their declarations name (`autocast=`),
which is that of torch's lists.

While a block is active in any thread, calls take the definition of an op (`Op.apply`) or of a composite, which calls
`_call` once. It casts the inputs of such ops, and switches autocast off inside them. Casts are ops, so gradients
reach the parameters in their own dtype. As in torch, casts of parameters are cached until the outermost block ends: a
weight that is used twice is cast once, unless it was written to in between.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..autograd.extras.replay import replayed
from ..autograd.function import FunctionCtx
from ..autograd.modes import grad_mode
from ..autograd.versions import writes
from ..flags.scopes import Scope
from ..kernels.runtime.context import restorable, restore_on_failure, warn_caller
from ..ops.elementwise.cast import to_copy
from ..tensor import instrumentation
from ..tensor.dtypes import FLOATING, DType, bfloat16, dtype_of, float16, float32, float64, to_dtype
from ..tensor.registry import registry
from ..tensor.tensor import Tensor


class _State(NamedTuple):
    """The state of the innermost block: the half type, or None if autocast is off, and the cached casts."""

    dtype: DType | None
    kept: dict[tuple[int, bool, bool], tuple[Any, Any, Any, Tensor]] | None
    depth: int


_OFF = _State(None, None, 0)
_state: ContextVar[_State] = ContextVar("autocast", default=_OFF)
_DEFAULTS = {"cpu": bfloat16, "cuda": float16, "xpu": bfloat16, "mps": float16}
"""The default half type of each device."""

_lock, _blocks = threading.Lock(), 0


def _call(name: str, function: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
    """Call an op or a composite with its inputs cast; return NotImplemented if the inputs stay unchanged."""
    state = _state.get()
    if state.dtype is None or (rule := registry[name].autocast) is None:
        return NotImplemented
    wanted: DType | None = {"lower": state.dtype, "float32": float32}.get(rule)
    if rule == "widest":
        found = set(map(dtype_of, _arrays([*args, *named.values()])))
        wanted = float32 if float32 in found or float64 in found else state.dtype
    token = _state.set(_OFF)
    try:
        args = tuple(_cast(each, wanted, state) for each in args)
        cast = {key: each if key == "out" else _cast(each, wanted, state) for key, each in named.items()}
        return function(*args, **cast)
    finally:
        _state.reset(token)


def _arrays(values: Any) -> list[Any]:
    """The arrays of tensors, including those in lists."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value._array)
        elif isinstance(value, (list, tuple)):
            found += _arrays(value)
    return found


def _cast(value: Any, wanted: DType | None, state: _State) -> Any:
    """Cast a floating tensor, except float64, to another dtype; also in lists."""
    if wanted is None:
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        return type(value)([_cast(each, wanted, state) for each in value])
    if not isinstance(value, Tensor):
        return value
    dtype = dtype_of(value._array)
    if dtype.category != FLOATING or dtype is float64 or dtype is wanted:
        return value
    if state.kept is None or wanted is not state.dtype or not (value.is_leaf and value.requires_grad):
        return to_copy(value, wanted)
    mode = grad_mode.get()
    version = writes(value)
    key = id(value), mode.records, mode.inference  # a cast without history must not be found by a recorded call
    found = state.kept.get(key)
    if found is None or found[0]() is not value or found[1] is not value._array or found[2] != version:
        found = state.kept[key] = weakref.ref(value), value._array, version, to_copy(value, wanted)
        if version is None:
            del state.kept[key]
    return found[3]


class autocast(Scope):
    """Compute products in `dtype` (bfloat16 by default, or float16) while a block or a decorated function runs.

    `device_type` is as in torch. Blocks for absent devices warn and have no effect, as in torch without them. With
    `enabled=False` inputs stay unchanged. Raises RuntimeError for an unknown device. Other dtypes warn and switch
    autocast off.
    """

    __slots__ = ("_cache", "_dtype", "_enabled", "_tokens", "device")

    _tokens: list[Any]

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"autocast(): device_type must be a str, got {type(device_type).__name__}")
        if device_type not in _DEFAULTS:
            raise RuntimeError(f"autocast(): device_type must be one of {', '.join(_DEFAULTS)}, got {device_type!r}")
        self.device, self._enabled, self._tokens = device_type, enabled, []
        self._dtype = _DEFAULTS[device_type] if dtype is None else to_dtype(dtype)
        self._cache = True if cache_enabled is None else cache_enabled
        if enabled and device_type != "cpu":
            warn_caller(f"autocast(): {device_type} devices are not available, so it has no effect")
            self._enabled = False
        elif enabled and self._dtype not in (bfloat16, float16):
            warn_caller(f"autocast(): dtype must be bfloat16 or float16, got {self._dtype!r}, so it has no effect")
            self._enabled = False

    def __enter__(self) -> autocast:
        if self.device != "cpu":
            return self
        outer = _state.get()
        kept = (outer.kept if outer.kept is not None else {}) if self._cache else None
        state = _State(self._dtype if self._enabled else None, kept, outer.depth + 1)
        _count(1)
        self._tokens.append(outer)
        _state.set(state)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.device != "cpu":
            return
        state = _state.get()
        if state.depth == 1 and state.kept:
            state.kept.clear()
        _count(-1)
        _state.set(self._tokens.pop())


def _with_new_cache(state: _State) -> _State:
    """The state for a second run: casts of the first one belong to its graph."""
    return state if state.kept is None else state._replace(kept={})


def _count(change: int) -> None:
    """Make all calls use `_call` while a block is active in some thread."""
    global _blocks
    with _lock, instrumentation.lock:
        _blocks += change
        instrumentation.active += 2 * change
        instrumentation.autocast = _call if _blocks else None


replayed.append((restorable(_state, lambda state: state.depth, _count), _with_new_cache))


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether inputs are cast, in this thread or task."""
    return device_type == "cpu" and _state.get().dtype is not None


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """The current half type, or the default of blocks that name none."""
    return (_state.get().dtype if device_type == "cpu" else None) or _DEFAULTS[device_type]


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are cached until the outermost block ends."""
    return _state.get() is _OFF or _state.get().kept is not None


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast supports a device type."""
    return device_type in _DEFAULTS


_FORWARD_DTYPE = "autocast_dtype"
"""The attribute of a node that holds the half type of its forward pass, or None."""


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate `forward` of an `autograd.Function`, whose `backward` has `custom_bwd`. With `cast_inputs` it receives
    floating tensors in this dtype and runs with autocast off, as if it were listed."""
    _check_device("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    @restore_on_failure
    def forward(*args: Any, **named: Any) -> Any:
        enabled, state = is_autocast_enabled(device_type), _state.get()
        if args and isinstance(args[0], FunctionCtx):
            vars(args[0])[_FORWARD_DTYPE] = state.dtype if enabled and cast_inputs is None else None
        if cast_inputs is None or not enabled:
            return fwd(*args, **named)
        wanted = to_dtype(cast_inputs)
        args = tuple(_cast(each, wanted, state) for each in args)
        with autocast(device_type, enabled=False):
            return fwd(*args, **{key: _cast(each, wanted, state) for key, each in named.items()})

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate `backward` of an `autograd.Function` whose `forward` has `custom_fwd`: it runs in the autocast state of
    the forward pass, which is off with `cast_inputs`."""
    _check_device("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    @restore_on_failure
    def backward(ctx: Any, *grads: Any) -> Any:
        dtype = vars(ctx).get(_FORWARD_DTYPE)
        with autocast(device_type, dtype, enabled=dtype is not None):
            return bwd(ctx, *grads)

    return backward


def _check_device(function: str, device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"{function}(): device_type must be a str, got {type(device_type).__name__}")
