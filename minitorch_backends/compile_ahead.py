"""`warmup`: compile kernels before their first calls, those of a model or those of families."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

from .autograd import enable_grad
from .autograd.api import grad
from .kernels.gemm.warm import show_progress
from .nn.module import Module
from .ops.names import ones_like
from .random import get_rng_state, set_rng_state
from .tensor.tensor import Tensor


def warmup(
    model: Callable[..., Any] | None = None,
    *inputs: Any,
    precisions: str | Iterable[str] | None = None,
    families: str | Iterable[str] | None = None,
    dtypes: str | Iterable[Any] = ("float32",),
    progress: Callable[[int, int, str], None] | None = show_progress,
) -> None:
    """Compile what a model calls with inputs of these shapes, or, without a model, what first calls of families need.

    The model is run once at each precision, and backward where its results require gradients. A module is copied, so
    that its buffers and gradients stay as they are, and the random generator's state is restored. Compiled code is kept
    between processes; `minitorch-backends compile` fills the store in several processes.

    Arguments:
        model: a module or function of tensors.
        inputs: its arguments.
        precisions: names of precisions of float32 products; None is what the flags in force say.
        families: of matmul, conv, attention, recurrent, fft, linalg and rows, by name; None is all. Without a model.
        dtypes: of products: one or some of float32, float64, float16 and bfloat16. Without a model.
        progress: called with the numbers of what is done and of all, and the name of what comes next; None is silent.

    Raises TypeError for a model that cannot be called and ValueError for unknown names, before anything is compiled.
    """
    if model is not None and not callable(model):
        raise TypeError(
            f"warmup(): model must be a module, a function or None, got {model!r}; name precisions by precisions="
        )
    names = _names("precisions", precisions, _precisions())
    if model is not None:
        calls = [(name or "model", name, lambda: _run(model, inputs)) for name in names]
    else:
        calls = list(_family_calls(names, _names("families", families, _families()), dtypes))
    state = get_rng_state()
    try:
        for done, (label, precision, call) in enumerate(calls):
            if progress is not None:
                progress(done, len(calls), label)
            with _at(precision):
                call()
    finally:
        set_rng_state(state)
    if progress is not None:
        progress(len(calls), len(calls), "done")


def _precisions() -> list[str]:
    from .kernels.precisions.products import PRECISIONS

    return list(PRECISIONS)


def _families() -> list[str]:
    from .cli.families import FAMILIES

    return list(FAMILIES)


def _names(argument: str, given: str | Iterable[str] | None, known: list[str]) -> list[Any]:
    """The names in order, each once; for None all families, and the precision in force."""
    if given is None:
        return known if argument == "families" else [None]
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in known:
            raise ValueError(f"warmup(): {argument} must be some of {', '.join(known)}, got {name!r}")
    return list(dict.fromkeys(names))


def _at(precision: str | None) -> Any:
    from . import backends

    return nullcontext() if precision is None else backends.flags(fp32_precision=precision)


def _family_calls(precisions: list[Any], families: list[str], dtypes: Any) -> Iterator[tuple[str, Any, Callable]]:
    """Label, precision and call of each family at each precision; of those without products once."""
    from .cli.families import FAMILIES, products

    for name in families:
        family = FAMILIES[name]
        for precision in precisions if family.precisions else [None]:
            run = family.run if name != "matmul" else lambda: products(dtypes)
            yield f"{name} {precision or ''}".rstrip(), precision, run


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from _tensors(tuple(result.values()))
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _tensors(item)


def _run(model: Any, inputs: tuple) -> None:
    """Call a copy of the model, and backward."""
    if isinstance(model, Module):
        model = copy.deepcopy(model)
    with enable_grad():
        results = [result for result in _tensors(model(*inputs)) if result.requires_grad]
        if results:
            parameters = list(model.parameters()) if isinstance(model, Module) else []
            leaves = [each for each in (*parameters, *_tensors(inputs)) if each.requires_grad]
            grad(results, leaves, [ones_like(result) for result in results], allow_unused=True)
