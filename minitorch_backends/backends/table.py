"""The table of flags: one row each. Everything else about a flag is derived from its row."""

from __future__ import annotations

from ..flags import Flag, State

GENERIC_PRECISIONS = ("none", "ieee", "tf32", "bf16", "bf16x3", "bf16x6", "bf16x9", "tf32x3", "fp16")
CUDA_PRECISIONS = tuple(name for name in GENERIC_PRECISIONS if name != "bf16")
"""As on a GPU, whose fp32 products never run as one bf16 pass; an inherited "bf16" is no opinion there."""

SPELLINGS = {"bfx9": "bf16x9"}

XLA_PRECISIONS = {"default": "bf16", "high": "bf16x3", "highest": "bf16x6"}
"""What the three names of `torch_xla.backends.set_mat_mul_precision` stand for, as on a TPU."""

MATMUL_PRECISIONS = {
    "highest": {"cuda": "ieee", "mkldnn": "ieee"},
    "high": {"cuda": "tf32", "mkldnn": "tf32"},
    "medium": {"cuda": "tf32", "mkldnn": "bf16"},
}
"""What `set_float32_matmul_precision` writes to the matmul flag of each family, as torch does."""


def _matmul_precision(state: State) -> str:
    """The name of `MATMUL_PRECISIONS` that is nearest to the flags; torch keeps a cell of its own, and a read may
    raise.
    """
    if state.read("mkldnn.matmul.fp32_precision") == "bf16":
        return "medium"
    families = (state.read("cuda.matmul.fp32_precision"), state.read("mkldnn.matmul.fp32_precision"))
    return "highest" if set(families) <= {"none", "ieee"} else "high"


def _precision(path: str, inherits: str | None, doc: str) -> Flag:
    choices = CUDA_PRECISIONS if path.startswith(("cuda", "cudnn")) else GENERIC_PRECISIONS
    return Flag(path, "none", choices, doc, inherits=inherits, aliases=SPELLINGS)


Flag(
    "emulate",
    None,
    (None, "cuda", "mkldnn", "xla"),
    "obey one family of flags only, with that family's own defaults; None obeys the fastest that any family allows",
)
_precision(
    "fp32_precision", None, "precision that float32 products may use, for every family that has no opinion of its own"
)
_precision("cudnn.fp32_precision", "fp32_precision", "the same, for the CUDA family")
_precision("mkldnn.fp32_precision", "fp32_precision", "the same, for the oneDNN family")
_precision("cuda.matmul.fp32_precision", "cudnn.fp32_precision", "precision of matrix products, for the CUDA family")
_precision(
    "mkldnn.matmul.fp32_precision", "mkldnn.fp32_precision", "precision of matrix products, for the oneDNN family"
)
Flag(
    "cuda.matmul.allow_tf32",
    False,
    bool,
    'whether `cuda.matmul.fp32_precision` is "tf32"; setting it writes "tf32" or "ieee" there',
    reads=lambda state: state.read("cuda.matmul.fp32_precision") == "tf32",
    writes=lambda allow: {"cuda.matmul.fp32_precision": "tf32" if allow else "ieee"},
)
Flag(
    "float32_matmul_precision",
    "highest",
    tuple(MATMUL_PRECISIONS),
    "torch.set_float32_matmul_precision: writes the matmul flags of the CUDA and the oneDNN family",
    reads=_matmul_precision,
    writes=lambda name: {f"{family}.matmul.fp32_precision": p for family, p in MATMUL_PRECISIONS[name].items()},
)
Flag(
    "xla.mat_mul_precision",
    "default",
    tuple(XLA_PRECISIONS),
    "torch_xla's precision of products: one, three or six bf16 passes; permits nothing until it is set",
)
Flag(
    "tf32_rounding",
    "rna",
    ("rna", "rne", "rz"),
    "how operands are rounded to TF32: nearest with ties away from zero or to even, or toward zero",
)
