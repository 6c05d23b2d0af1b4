"""torch's other names of functions: synonyms that write in place, functions of `nn.functional` in the package's own
namespace, copies of views."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..dispatch.call_errors import argument_errors
from ..tensor.tensor import Tensor
from .elementwise.complex_numbers import view_as_complex, view_as_real
from .functional import FUNCTIONAL, functions

_SYNONYMS = {
    "absolute": "abs", "divide": "div", "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "true_divide": "div",
}  # fmt: skip
"""Other names of methods, which write in place as well."""

_OF_VIEWS = """
    as_strided diagonal expand permute select split_with_sizes squeeze t transpose unbind unfold unsqueeze view
"""
"""Methods that give views, and functions `name_copy` that give copies of these."""

_OF_NN = """
    adaptive_avg_pool1d bilinear celu celu_ channel_shuffle cosine_similarity hardshrink max_pool1d max_pool2d
    max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rms_norm rrelu rrelu_ selu selu_
    threshold threshold_
"""
"""Functions of `nn.functional` that are functions of the package as well, with the same arguments."""


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    """The function that copies the views that another one gives: one tensor or a tuple of them."""

    def copying(input: Tensor, *args: Any, **named: Any) -> Any:
        views = view(input, *args, **named)
        return tuple(each.clone() for each in views) if isinstance(views, (tuple, list)) else views.clone()

    return _rename(copying, f"{name}_copy", f"A copy of `{name}`.", view)


def _with_indices(name: str) -> Callable[..., Any]:
    """The function of `nn.functional` that always returns where the largest values are as well."""

    def pool(input: Tensor, *args: Any, **named: Any) -> Any:
        return functions[name](input, *args, **named | {"return_indices": True})

    pool.__module__ = FUNCTIONAL  # where pickles find it
    return _rename(pool, f"{name}_with_indices", f"`{name}` with `return_indices=True`.", functions[name])


def _rename(function: Any, name: str, doc: str, wrapped: Callable[..., Any]) -> Callable[..., Any]:
    functools.update_wrapper(function, wrapped, assigned=())
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return argument_errors(function)


@argument_errors
def detach(input: Tensor) -> Tensor:
    """A view of the tensor outside the graph."""
    return input.detach()


for _name, _method in _SYNONYMS.items():
    setattr(Tensor, f"{_name}_", getattr(Tensor, f"{_method}_"))
functions.update(
    (f"{_kind}max_pool{_dims}d_with_indices", _with_indices(f"{_kind}max_pool{_dims}d"))
    for _kind, _dims in [(kind, dims) for kind in ("", "adaptive_") for dims in (1, 2, 3)]
    + [("fractional_", 2), ("fractional_", 3)]
)
_views = {_name: getattr(Tensor, _name) for _name in _OF_VIEWS.split()}
_views |= {"view_as_complex": view_as_complex, "view_as_real": view_as_real}
_aliases: dict[str, Callable[..., Any]] = {"detach": detach}
_aliases |= {f"{_name}_copy": _copying(_name, _view) for _name, _view in _views.items()}
_aliases |= {_name: functions[_name] for _name in [*_OF_NN.split(), "max_pool1d_with_indices"]}
globals().update(_aliases)
__all__ = list(_aliases)
