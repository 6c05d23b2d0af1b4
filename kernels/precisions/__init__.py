"""Formats of operands: `formats` has the table, `rounding` rounds arrays to them, `ggml` has GGUF's block types."""

from .formats import FORMATS, Format, add, find_format

__all__ = ["FORMATS", "Format", "add", "find_format"]
