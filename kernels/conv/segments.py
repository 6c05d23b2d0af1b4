"""The positions of a convolution as blocks of rows of a product: segments of neighbours on the lists of `geometry`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .geometry import GROUP, Geometry, Pass


class Blocks(NamedTuple):
    """The positions of a pass as blocks of rows of a product: segments of neighbours, each in one row of an image, or
    across rows where that leaves fewer places empty.

    Attributes:
        starts: int32 (blocks, segments), the position in its period where each segment begins.
        lanes: int64 (blocks, 16), the position in its period of each row of a block, or -1.
        images: of a period, which all have the same blocks.
        count: blocks of all images.
    """

    starts: np.ndarray
    lanes: np.ndarray
    images: int
    count: int

    def begins(self, image: int) -> np.ndarray:
        """The first position of each block of all images, of so many positions each."""
        periods = np.arange(-(-self.count // len(self.starts)))[:, None]
        return (self.starts[:, 0] + periods * self.images * image).reshape(-1)

    def ends(self, image: int, length: int) -> np.ndarray:
        """One more than the last position that a block reads, with segments of so many."""
        periods = np.arange(-(-self.count // len(self.starts)))[:, None]
        return (self.starts.max(axis=1) + length + periods * self.images * image).reshape(-1)


def blocks_of(geometry: Geometry, one: Pass, length: int, segments: int) -> Blocks:
    """The blocks of a pass, of so many segments of `length` positions."""
    rows = [np.arange(count) * step for count, step in zip(one.counts[:2], geometry.steps[:2], strict=True)]
    rows = np.add.outer(*rows).reshape(-1)
    width, within = one.counts[2], np.arange(length)
    in_row = np.arange(0, width, length)
    across = np.arange(0, rows[-1] + width, length)
    if len(rows) * len(in_row) <= len(across):
        starts = np.add.outer(rows, in_row).reshape(-1)
        there = np.tile(np.add.outer(in_row, within) < width, (len(rows), 1))
    else:
        starts, exists = across, np.zeros(across[-1] + length, bool)
        exists[np.add.outer(rows, np.arange(width))] = True
        there = exists[np.add.outer(across, within)]
    images = segments // math.gcd(len(starts), segments)
    if geometry.task.images % images:
        images = 1
    empty = -images * len(starts) % segments
    starts = np.add.outer(np.arange(images) * geometry.image, starts).reshape(-1)
    lanes = np.where(np.tile(there, (images, 1)), np.add.outer(starts, within), -1)
    starts = np.append(starts, np.full(empty, starts[-1]))
    lanes = np.append(lanes, np.full((empty, length), -1), axis=0).reshape(-1, segments * length)
    wide = np.full((len(lanes), GROUP), -1, np.int64)
    wide[:, : segments * length] = lanes
    starts = starts.reshape(-1, segments).astype(np.int32)
    return Blocks(starts, wide, images, geometry.task.images // images * len(starts))
