"""vmap: a function of samples as a function of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..kernels.runtime.context import restore_on_failure
from ..ops.dims import wrap_dim
from ..ops.views.join import cat
from ..tensor.call_errors import argument_errors
from ..tensor.instrumentation import ValuesNeeded
from ..tensor.tensor import Tensor
from . import rules  # noqa: F401  (which batched calls obey)
from .batched import Batched, Level, active_levels, enter, flat, loop_samples, physical


def _spread(dims: Any, tree: Any, where: str) -> list[Any]:
    """A dimension for each leaf of a tree: `dims` is one for all below it, or has the structure of the tree."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims] * len(flat(tree)[0])
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        pairs = list(zip(dims, tree, strict=True))
    elif isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        pairs = [(dims[name], tree[name]) for name in tree]
    else:
        raise ValueError(
            f"vmap(): {where} must be an int, None, or of the structure of what it is for, got {dims!r} for "
            f"{type(tree).__name__} of {len(tree) if isinstance(tree, (tuple, list, dict)) else 1}"
        )
    return [each for inner, part in pairs for each in _spread(inner, part, where)]


def _in_front(leaf: Any, dim: Any) -> Any:
    """A leaf with its batch as first dimension; unchanged without a batch."""
    if dim is None:
        return leaf
    if not isinstance(leaf, Tensor):
        raise ValueError(f"vmap(): in_dims gives a dimension, {dim}, to {type(leaf).__name__}; expected None for it")
    if not leaf.ndim or not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(f"vmap(): in_dims must name a dimension of a tensor of {leaf.ndim}, got {dim}")
    return leaf.movedim(dim, 0)


@argument_errors
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `func`, written for one sample, over a batch.

    Operations compute all samples at once by broadcasting; those that cannot are called once per sample.

    Arguments:
        in_dims: the batch dimension of each argument: an int, None (the same for all samples), or a structure like that
            of the arguments, which may be nested tuples, lists and dicts. Keyword arguments are batched along dimension
            0.
        out_dims: the batch dimension of the results.
        randomness: "error" (random functions raise), "same" or "different" (random numbers across samples).
        chunk_size: the number of samples to compute together.

    A function that reads values (`item()`, branches) is called once per sample. `vmap` may be nested, and combined with
    `grad`, `jvp` and the others. Raises ValueError for dimensions out of range, for batches of different sizes, and for
    results that are not tensors, RuntimeError for another `randomness`.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"vmap(): randomness must be 'error', 'same' or 'different', got {randomness!r}")
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap(): chunk_size must be None or a positive integer, got {chunk_size!r}")

    @functools.wraps(func)
    def run_batched(*args: Any, **kwargs: Any) -> Any:
        samples = _samples_of(func, args, kwargs, in_dims)
        step = chunk_size or samples.size
        chunks = [
            _run_chunk(func, samples, range(start, min(start + step, samples.size)), out_dims, randomness)
            for start in range(0, samples.size, step)
        ]
        rebuild, dims = chunks[0].rebuild, chunks[0].dims
        columns = zip(*(chunk.values for chunk in chunks), strict=True)
        return rebuild(
            [
                parts[0] if len(parts) == 1 else cat(list(parts), 0 if dim is None else dim)
                for parts, dim in zip(columns, dims, strict=True)
            ]
        )

    return run_batched


class _Samples(NamedTuple):
    """The leaves of a call's arguments, those with a batch in front, and the function that rebuilds the arguments."""

    leaves: list[Any]
    batched: list[bool]
    size: int
    rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def _samples_of(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], in_dims: Any) -> _Samples:
    if not args and not kwargs:
        raise ValueError(f"vmap({_name(func)}): expected at least one argument, got none")
    leaves, rebuild = flat([*args])
    dims = _spread(list(in_dims) if isinstance(in_dims, tuple) else in_dims, [*args], "in_dims")
    more, rebuild_more = flat(kwargs)
    dims += [0 if isinstance(each, Tensor) else None for each in more]
    moved = [_in_front(leaf, dim) for leaf, dim in zip([*leaves, *more], dims, strict=True)]
    sizes = {each.shape[0] for each, dim in zip(moved, dims, strict=True) if dim is not None}
    if len(sizes) != 1:
        expected = "at least one tensor with a batch" if not sizes else "batches of one size"
        raise ValueError(f"vmap({_name(func)}): expected {expected}, got sizes {sorted(sizes)}")
    (size,) = sizes
    if not size:
        raise ValueError(f"vmap({_name(func)}): expected a batch of at least one sample, got none")

    def rebuild_both(values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(rebuild(values[: len(leaves)])), rebuild_more(values[len(leaves) :])

    return _Samples(moved, [dim is not None for dim in dims], size, rebuild_both)


class _Chunk(NamedTuple):
    """The results of some samples, the function that rebuilds their structure, and the batch dimension of each."""

    values: list[Tensor]
    rebuild: Callable[[list[Any]], Any]
    dims: list[Any]


@restore_on_failure
def _run_chunk(func: Callable[..., Any], samples: _Samples, some: range, out_dims: Any, randomness: str) -> _Chunk:
    level = Level(len(some), randomness)
    given = [
        Batched.of(each[some.start : some.stop] if len(some) < samples.size else each, level) if is_batched else each
        for each, is_batched in zip(samples.leaves, samples.batched, strict=True)
    ]
    arguments, named = samples.rebuild(given)
    with enter((*active_levels(), level)):
        try:
            result = func(*arguments, **named)
        except ValuesNeeded:
            result = loop_samples(level, func, arguments, named)
        outputs, rebuild = flat(result)
        for each in outputs:
            if not isinstance(each, Tensor):
                raise ValueError(
                    f"vmap({_name(func)}): the function must return Tensors only, got {type(each).__name__}"
                )
        values = [physical(each, level) for each in outputs]
    dims = _spread(out_dims, result, "out_dims")
    return _Chunk([_place(each, dim) for each, dim in zip(values, dims, strict=True)], rebuild, dims)


def _place(value: Tensor, dim: Any) -> Tensor:
    """A result with its batch at a dimension; without it if that is None."""
    if dim is None:
        return value[0]
    return value.movedim(0, wrap_dim(dim, value.ndim))


def _name(func: Any) -> str:
    return getattr(func, "__name__", type(func).__name__)
