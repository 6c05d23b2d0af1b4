"""Formats of operands: `formats` has the table, `rounding` rounds arrays to them, `ggml` has GGUF's block types."""

from .formats import FORMATS, Format, add, find_format
from .ggml import BLOCKS

__all__ = ["BLOCKS", "FORMATS", "Format", "add", "find_format"]
