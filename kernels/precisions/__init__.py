"""Precisions. `elements` has the formats of single numbers, `products` the precisions of float32 products, `formats`
the table of formats of operands.

`parts` rounds arrays to bf16, fp16 and tf32, and splits them; `scaling` rounds them in blocks by the rules of
`products`, `rounding` to any row of `formats`; `ggml` has GGUF's block types, `float8` the dtypes of 8 bits.
"""

from .formats import FORMATS, Format, add, find_format
from .ggml import BLOCKS

__all__ = ["BLOCKS", "FORMATS", "Format", "add", "find_format"]
