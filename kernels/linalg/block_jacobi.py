"""Jacobi's method for matrices of any size, by blocks: the rotations of two blocks of rows are gathered in one
orthogonal matrix, and used on everything else by products (Golub and Van Loan, Matrix Computations, 2013, section
8.5.6; Drmac and Veselic, New fast and accurate Jacobi SVD algorithm, 2008).

A round pairs all blocks, as players of a tournament; the small problems of a round are solved side by side, one in each
lane of a vector (`small_jacobi.EighBlock`). It ends with a sweep in which nothing was left to rotate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..gemm import matmul

BLOCK = 16
"""Rows of a block, where a matrix has enough of them."""

INNER_SWEEPS = 2
"""The most sweeps over the pairs of rows of a pair of blocks, each time."""


class Found(NamedTuple):
    """`rows` after all rotations, and the product of the rotations (None if not requested), both in the order of
    `players`, the row numbers of before; numbers past the last belong to rows of zeros, which filled the last block.
    `rest` is how many pairs of blocks were still rotated in the last sweep, 0 where it converged."""

    rows: np.ndarray
    vectors: np.ndarray | None
    players: np.ndarray
    sweeps: int
    rest: int


@functools.cache
def _rounds(blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """The order of blocks in which those of a pair are neighbours, in the first round, and the step to the next."""
    half = np.arange(blocks // 2)
    order = np.stack([half, blocks - 1 - half], axis=1).reshape(-1)  # seats; the first player keeps the first
    moved = np.concatenate([[0, blocks - 1], np.arange(1, blocks - 1)])[:blocks]
    return order, np.argsort(order)[moved[order]]


def _pad(rows: np.ndarray, size: int, columns: int) -> np.ndarray:
    whole = np.zeros((size, columns), rows.dtype)
    whole[: rows.shape[0], : rows.shape[1]] = rows
    return whole


def _rotate_pairs(problems: np.ndarray, least: float, relative: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is left of each of the small problems, their rotations, and which had any."""
    from . import groups, small_jacobi

    count, n, _ = problems.shape
    left, turned, rotated = np.empty_like(problems), np.empty_like(problems), np.empty(count, np.int32)
    groups.run(
        small_jacobi.EighBlock, problems.dtype, count, small_jacobi.eigh_vectors(n), n=n, options=INNER_SWEEPS,
        a=problems, b=np.array([least, relative], problems.dtype), x=left, y=turned, info=rotated,
    )  # fmt: skip
    return left, turned, rotated


def _turn(turns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    count, width, _ = turns.shape
    return matmul(turns, rows.reshape(count, width, -1)).reshape(rows.shape)


class _Tournament:
    """Rows of a matrix in blocks; opponents stand side by side."""

    def __init__(self, a: np.ndarray, vectors: bool, square: bool) -> None:
        n, columns = a.shape
        self.block = min(BLOCK, -(-n // 2))
        self.block += self.block % 2
        self.blocks = -(-n // self.block)
        self.blocks += self.blocks % 2
        self.size, self.square = self.blocks * self.block, square
        self.order, self.step = _rounds(self.blocks)
        self.rows = _pad(a, self.size, self.size if square else columns)
        self.vectors = _pad(np.eye(n, dtype=a.dtype), self.size, n) if vectors else None
        self.players = np.arange(self.size)

    def _seat(self, a: np.ndarray) -> np.ndarray:
        return a.reshape(self.blocks, self.block, -1)[self.order].reshape(a.shape)

    def next_round(self) -> None:
        self.rows = self._seat(self.rows)
        if self.square:
            self.rows = self._seat(np.ascontiguousarray(self.rows.T))  # which is symmetric
        if self.vectors is not None:
            self.vectors = self._seat(self.vectors)
        self.players = self._seat(self.players)
        self.order = self.step

    def sweeps(self, play: Callable[[], int], most: int) -> Found:
        """Play rounds, each returning the number of rotated pairs of blocks, until a sweep rotates none."""
        rest, sweeps = 1, 0
        while rest > 0 and sweeps < most:
            rest, sweeps = 0, sweeps + 1
            for _ in range(self.blocks - 1):
                self.next_round()
                rest += play()
        return Found(self.rows, self.vectors, self.players, sweeps, rest)

    def problems(self, a: np.ndarray) -> np.ndarray:
        """The blocks on the diagonal of a square matrix."""
        pairs = self.blocks // 2
        return np.ascontiguousarray(self._on_diagonal(a)[np.arange(pairs), :, np.arange(pairs), :])

    def set_problems(self, left: np.ndarray) -> None:
        """What the small problems have become, without the rounding errors of the products."""
        pairs = self.blocks // 2
        self._on_diagonal(self.rows)[np.arange(pairs), :, np.arange(pairs), :] = left

    def _on_diagonal(self, a: np.ndarray) -> np.ndarray:
        return a.reshape(self.blocks // 2, 2 * self.block, self.blocks // 2, 2 * self.block)

    def turn_vectors(self, turns: np.ndarray) -> None:
        if self.vectors is not None:
            self.vectors = _turn(turns, self.vectors)


def orthonormal(rows: np.ndarray) -> np.ndarray:
    """Rows that are nearly orthonormal, made more so by a step of Newton and Schulz (Higham, Functions of Matrices,
    2008, section 8.3): hundreds of products have left errors that add up, about 130 units a row at n = 512. In float64,
    so that sums of equal terms, whose rounding errors are alike, do no harm."""
    wide = rows.astype(np.float64)
    return (1.5 * wide - 0.5 * matmul(matmul(wide, wide.T), wide)).astype(rows.dtype)


def eigh_blocked(a: np.ndarray, vectors: bool, sweeps: int) -> Found:
    """Diagonalise a symmetric matrix; `rows` is what is left of it, `vectors` has eigenvectors as rows."""
    n = len(a)
    norm = float(np.sqrt(np.sum(np.square(a, dtype=np.float64))))
    least = norm * float(np.finfo(a.dtype).eps) / (2 * n)
    games = _Tournament(a, vectors, square=True)

    def play() -> int:
        rows = games.rows
        left, turns, rotated = _rotate_pairs(games.problems(rows), least, 0.0)
        if rotated.any():
            games.rows = _turn(turns, np.ascontiguousarray(_turn(turns, rows).T))
            games.set_problems(left)
            games.turn_vectors(turns)
        return int(rotated.sum())

    return games.sweeps(play, sweeps)


def null_lengths(rows: np.ndarray) -> np.ndarray:
    """The squares of the lengths up to which what is left of each row is rounding errors of the row, or would underflow
    as a square. (That keeps the accuracy of small singular values where rows are of different lengths. Making rounding
    errors orthogonal to each other takes 40 sweeps and more for a matrix of ones: rotations leave rows as long as two
    units of rounding.)"""
    precision = np.finfo(rows.dtype)
    squares = np.sum(np.square(rows, dtype=np.float64), axis=1)
    return np.maximum(16 * float(precision.eps) ** 2 * squares, float(precision.tiny / precision.eps**2))


def svd_blocked(rows: np.ndarray, vectors: bool, sweeps: int) -> Found:
    """Rotate rows of a matrix until all are orthogonal that have not become null."""
    length = rows.shape[1]
    relative = float(np.finfo(rows.dtype).eps) * max(1.0, 0.5 * length**0.5)
    games = _Tournament(rows, vectors, square=False)
    null_length = null_lengths(_pad(rows, games.size, length))

    def play() -> int:
        pairs = games.rows.reshape(games.blocks // 2, -1, length)
        products = matmul(pairs, pairs.swapaxes(-1, -2))
        null = np.diagonal(products, axis1=1, axis2=2) <= null_length[games.players].reshape(len(pairs), -1)
        products[null] = 0
        products.swapaxes(-1, -2)[null] = 0
        _, turns, rotated = _rotate_pairs(products, 0.0, relative)
        if rotated.any():
            games.rows = _turn(turns, games.rows)
            games.turn_vectors(turns)
        return int(rotated.sum())

    return games.sweeps(play, sweeps)
