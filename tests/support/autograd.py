"""What the tests of autograd share."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch_backends as mt


def tensor(values: Any, dtype: Any = np.float64) -> mt.Tensor:
    return mt.tensor(np.array(values, dtype))


def leaf(values: Any, dtype: Any = np.float64) -> mt.Tensor:
    return tensor(values, dtype).requires_grad_()


def leaf_of(*shape: int, dtype: Any = np.float32, low: float = 1.0) -> mt.Tensor:
    """A leaf of this shape that requires gradients, with the values low, low + 1, ..."""
    return leaf((np.arange(np.prod(shape, dtype=int)) + low).reshape(shape), dtype)


def values(given: mt.Tensor | None) -> Any:
    return None if given is None else given.tolist()


def made_in_inference(values: Any, dtype: Any = np.float64) -> mt.Tensor:
    with mt.inference_mode():
        return tensor(values, dtype)


def in_thread(function: Callable[[], Any]) -> Any:
    """The result of a function, or its exception, in a thread of its own."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append((function(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result


def make_function(forward: Any, backward: Any = lambda ctx, *g: g[0], **others: Any) -> Any:
    """A Function from two functions."""
    named = {"forward": forward, "backward": backward} | others
    return type("Made", (mt.autograd.Function,), {name: staticmethod(each) for name, each in named.items()})


def warnings_of(function: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """The warnings that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return caught
