"""Contractions that people really make, each with its source; equations and shapes only."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LETTERS = string.ascii_letters


class Network(NamedTuple):
    """A contraction, and where it comes from."""

    name: str
    equation: str
    shapes: tuple[tuple[int, ...], ...]
    source: str

    def operands(self, seed: int) -> list[np.ndarray]:
        """Normal variates, float32, scaled so that products neither grow nor vanish."""
        random = np.random.default_rng(seed)
        scaled = (random.standard_normal(shape) / math.prod(shape) ** 0.25 for shape in self.shapes)
        return [each.astype(np.float32) for each in scaled]


def _of_terms(name: str, terms: list[str], output: str, sizes: dict[str, int], source: str) -> Network:
    shapes = tuple(tuple(sizes[letter] for letter in term) for term in terms)
    return Network(name, f"{','.join(terms)}->{output}", shapes, source)


def _chain(scale: int) -> Network:
    sizes = [scale * size for size in (30, 35, 15, 5, 10, 20, 25)]
    terms = ["".join(pair) for pair in pairwise(LETTERS[:7])]
    source = "Cormen et al., Introduction to Algorithms, section 14.2 (sizes times a factor)"
    return _of_terms("matrix chain", terms, "ag", dict(zip(LETTERS, sizes, strict=False)), source)


def _attention(length: int) -> Network:
    sizes = {"b": 2, "h": 4, "q": length, "k": length, "d": 32, "e": 32}
    source = "Katharopoulos et al. 2020, attention without a softmax: the order decides between n and n^2"
    return _of_terms("linear attention", ["bqhd", "bkhd", "bkhe"], "bqhe", sizes, source)


def _tensor_train(sites: int, rank: int) -> Network:
    """The inner product of two tensor trains of `sites` cores."""
    letters, sizes, terms = iter(LETTERS), {}, []
    physical = [next(letters) for _ in range(sites)]
    sizes.update(dict.fromkeys(physical, 4))
    for _ in range(2):
        bonds = [next(letters) for _ in range(sites - 1)]
        sizes.update(dict.fromkeys(bonds, rank))
        terms += ["".join(bonds[max(0, i - 1) : i]) + physical[i] + "".join(bonds[i : i + 1]) for i in range(sites)]
    return _of_terms("tensor trains", terms, "", sizes, "Oseledets 2011, inner product; MPS overlap, Schollwöck 2011")


def _lattice(side: int, bond: int) -> Network:
    """A square lattice of tensors, one for each site, each joined to its neighbours."""
    letters, sizes = iter(LETTERS), {}
    terms = [["" for _ in range(side)] for _ in range(side)]
    for row in range(side):
        for column in range(side):
            for other_row, other_column in ((row, column + 1), (row + 1, column)):
                if other_row < side and other_column < side:
                    letter = next(letters)
                    sizes[letter] = bond
                    terms[row][column] += letter
                    terms[other_row][other_column] += letter
    source = "Verstraete and Cirac 2004, PEPS: one layer of an open square lattice"
    return _of_terms("PEPS lattice", [term for row in terms for term in row], "", sizes, source)


def _random_regular(count: int, bond: int, random: np.random.Generator) -> Network:
    """A random 3-regular graph, by pairing of half-edges until no edge is a loop."""
    while True:
        halves = random.permutation(np.repeat(np.arange(count), 3)).reshape(-1, 2)
        if (halves[:, 0] != halves[:, 1]).all():
            break
    terms = [""] * count
    for letter, ends in zip(LETTERS, halves, strict=False):
        for end in ends:
            terms[end] += letter
    sizes = dict.fromkeys(LETTERS, bond)
    return _of_terms("random 3-regular", terms, "", sizes, "Gray and Kourtis 2021, section on random regular graphs")


def _circuit(qubits: int, layers: int) -> Network:
    """One amplitude of a circuit of two-qubit gates in bricks."""
    letters, terms = iter(LETTERS), []
    wires = [next(letters) for _ in range(qubits)]
    terms += list(wires)
    for layer in range(layers):
        for first in range(layer % 2, qubits - 1, 2):
            new = next(letters), next(letters)
            terms.append(wires[first] + wires[first + 1] + "".join(new))
            wires[first], wires[first + 1] = new
    terms += wires
    source = "Markov and Shi 2008, an amplitude of a circuit (real gates, so that float32 flags act)"
    return _of_terms("circuit amplitude", terms, "", dict.fromkeys(LETTERS, 2), source)


def _transform(orbitals: int) -> Network:
    sizes = dict.fromkeys("pqrsijkl", orbitals)
    source = "Szabo and Ostlund, Modern Quantum Chemistry, four-index transformation of integrals"
    return _of_terms("four-index transform", ["pqrs", "pi", "qj", "rk", "sl"], "ijkl", sizes, source)


def networks(quick: bool, seed: int) -> Iterator[Network]:
    """The list, in small sizes or in those of a real run."""
    yield _chain(2 if quick else 16)
    yield _attention(128 if quick else 1024)
    yield _tensor_train(8, 16 if quick else 48)
    yield _lattice(3 if quick else 4, 4 if quick else 6)
    yield _random_regular(16 if quick else 30, 3 if quick else 4, np.random.default_rng(seed))
    yield _circuit(6, 5 if quick else 7)
    yield _transform(16 if quick else 40)
