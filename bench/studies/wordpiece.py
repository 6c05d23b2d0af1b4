"""WordPiece: the tokenizer of BERT and its descendants, for text in lower case.

Text is cleaned, lowered and stripped of accents, and split at spaces, punctuation and CJK characters. Each word is then
cut into the longest pieces of the vocabulary, from the left; pieces that continue a word begin with "##". Source:
J. Devlin et al., arXiv 1810.04805, and Y. Wu et al., arXiv 1609.08144, section 4.1.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

_LONGEST_WORD = 100
"""Characters from which a word is unknown, whatever its pieces."""

_CJK = (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F)


class Tokenizer:
    """Turns sentences into rows of token numbers.

    Arguments:
        vocabulary: one token a line, numbered from 0; with [PAD], [UNK], [CLS] and [SEP] among them.
        longest: tokens that are kept of one sentence, [CLS] and [SEP] included.
    """

    def __init__(self, vocabulary: str | os.PathLike[str], longest: int = 256) -> None:
        tokens = Path(vocabulary).read_text(encoding="utf-8").splitlines()
        self.numbers = {token: number for number, token in enumerate(tokens)}
        self.longest = longest

    def __call__(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token numbers and a mask that is 0 in the padding; both are int64 of (sentences, longest sentence)."""
        rows = [self.encode(sentence) for sentence in sentences]
        width = max(map(len, rows), default=0)
        numbers = np.full((len(rows), width), self.numbers["[PAD]"], np.int64)
        mask = np.zeros_like(numbers)
        for place, row in enumerate(rows):
            numbers[place, : len(row)] = row
            mask[place, : len(row)] = 1
        return numbers, mask

    def encode(self, sentence: str) -> list[int]:
        """The numbers of one sentence between those of [CLS] and [SEP]."""
        pieces = itertools.chain.from_iterable(self._pieces(word) for word in _words(sentence))
        kept = [*itertools.islice(pieces, self.longest - 2)]
        return [self.numbers[token] for token in ("[CLS]", *kept, "[SEP]")]

    def _pieces(self, word: str) -> list[str]:
        found: list[str] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.numbers), None)
            if end is None:
                return ["[UNK]"]
            found.append(prefix + word[start:end])
            start = end
        return found or ["[UNK]"]


def _words(sentence: str) -> Iterator[str]:
    """The words of a sentence; each punctuation mark and CJK character is one."""
    spaced = "".join(f" {c} " if _is_cjk(c) else " " if c.isspace() else c for c in sentence if not _is_control(c))
    plain = "".join(c for c in unicodedata.normalize("NFD", spaced.lower()) if unicodedata.category(c) != "Mn")
    for word in plain.split():
        yield from "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()


def _is_control(c: str) -> bool:
    return c in "\0\ufffd" or (unicodedata.category(c).startswith("C") and c not in "\t\n\r")


def _is_cjk(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in _CJK)


def _is_punctuation(c: str) -> bool:
    """Whether a character is punctuation; every ASCII symbol counts as such."""
    return (c.isascii() and c.isprintable() and not c.isalnum()) or unicodedata.category(c).startswith("P")
