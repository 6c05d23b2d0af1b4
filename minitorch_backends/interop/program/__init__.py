"""Torch programs under the flags of this package: the processes that `minitorch-backends torch` starts.

`startup` runs at the start of each Python process, `process` where it imports torch, and `counts` collects what ran.
"""
