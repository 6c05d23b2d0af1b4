"""Which products torch computed itself, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Left:
    """Products that stayed with torch.

    Attributes:
        op: the operator, "aten.linalg_eig.default".
        count: the number of calls.
        why: the reason.
    """

    op: str
    count: int
    why: str

    def __str__(self) -> str:
        return f"{self.op} ({self.count}): {self.why}"


class LeftProductWarning(UserWarning):
    """Torch computed products itself, at its own precision, inside `emulate`."""


_PRODUCT = re.compile(
    r"(^|_)((\w*mm|mv|dot|linear|matmul|trilinear|cdist|euclidean_dist)(_|$)"
    r"|conv|attention|transformer_encoder|rnn|lstm|gru|linalg_|cholesky|triangular_solve|lu_solve|geqrf|ormqr)"
)
_NO_PRODUCT = re.compile(r"linalg_(vector_norm|cross|check_errors)|convert|^addmm_is|pointwise_grad")


def is_product(name: str) -> bool:
    """Whether an operator multiplies matrices, judged by its name, since torch has no such list."""
    return _PRODUCT.search(name) is not None and _NO_PRODUCT.search(name) is None
