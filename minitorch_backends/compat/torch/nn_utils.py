"""Names of `torch.nn.utils` for memory preparation, and deprecated ones."""

from __future__ import annotations

from typing import Any

from ...dispatch.call_errors import warn_caller
from ...nn.utils import clip_grad_norm_

NAMES = ["clip_grad_norm", "skip_init"]


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """The old name of `clip_grad_norm_`."""
    warn_caller("nn.utils.clip_grad_norm is deprecated; use nn.utils.clip_grad_norm_", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the module; its values are drawn all the same. Raises RuntimeError for a class without `device`."""
    return module_cls(*args, **kwargs)
