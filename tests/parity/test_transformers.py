"""Small random models of transformers as they are: audited, generating, in pipelines, from folders."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", exc_type=ImportError)
tokenizers = pytest.importorskip("tokenizers")

from minitorch_backends import cli, explain, lab  # noqa: E402  (after torch, which may be missing)
from minitorch_backends.interop.torch import emulate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::Warning:transformers", "ignore::Warning:torch")

TEXT = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {**GROUPED, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
BOTH = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
IMAGE = {**TEXT, "image_size": 32, "patch_size": 8}
STAGES = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}

CAUSAL = {
    **dict.fromkeys(("gpt2", "gpt_neox", "bloom", "falcon", "mpt", "phi"), TEXT),
    "gptj": {**TEXT, "rotary_dim": 4},
    "codegen": {**TEXT, "rotary_dim": 4},
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3"), GROUPED),
    **dict.fromkeys(("stablelm", "olmo", "olmo2", "cohere", "granite", "starcoder2"), GROUPED),
    **dict.fromkeys(("mixtral", "qwen3_moe", "olmoe", "gpt_oss", "granitemoe"), EXPERTS),
    "opt": {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "mamba": {**TEXT, "state_size": 4},
}
MASKED = {
    **dict.fromkeys(("bert", "roberta", "electra", "mpnet", "deberta-v2", "esm", "fnet", "roformer"), TEXT),
    "distilbert": {**TEXT, "dim": 32, "hidden_dim": 48, "n_layers": 1, "n_heads": 4},
    "albert": {**TEXT, "embedding_size": 16},
    "modernbert": {**TEXT, "global_attn_every_n_layers": 1},
}
SEQUENCES = {"t5": {**T5, "decoder_start_token_id": 0}, **dict.fromkeys(("bart", "marian", "pegasus", "m2m_100"), BOTH)}
IMAGES = {
    **dict.fromkeys(("vit", "beit", "dinov2"), IMAGE),
    "swin": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1], "num_heads": [2], "window_size": 4},
    "resnet": STAGES,
    "regnet": {**STAGES, "groups_width": 4},
}
FAMILIES = {
    "AutoModelForCausalLM": CAUSAL,
    "AutoModelForMaskedLM": MASKED,
    "AutoModelForSeq2SeqLM": SEQUENCES,
    "AutoModelForImageClassification": IMAGES,
}
ARCHITECTURES = [(head, name) for head, family in FAMILIES.items() for name in family]


def model_of(head: str, name: str) -> Any:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **FAMILIES[head][name])
    return getattr(transformers, head).from_config(config).eval()


def inputs_of(head: str) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    if head == "AutoModelForImageClassification":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}
    tokens = torch.randint(3, 64, (2, 8), generator=generator)
    names = ("input_ids", "decoder_input_ids") if head == "AutoModelForSeq2SeqLM" else ("input_ids",)
    return dict.fromkeys(names, tokens)


@pytest.mark.parametrize(("head", "name"), ARCHITECTURES, ids=lambda each: each)
def test_an_architecture_runs_and_is_audited(head: str, name: str) -> None:
    model, inputs = model_of(head, name), inputs_of(head)
    with torch.no_grad():
        plain = model(**inputs).logits
        with emulate(fp32_precision="ieee") as mode:
            ours = model(**inputs).logits
    assert ((ours - plain).norm() / plain.norm()).item() < 1e-5
    assert mode.products
    found = lab.audit(model, inputs, "tf32", metric="logits")
    names = {name for name, _ in model.named_modules()}
    assert {row["module"] for row in found.layers()} <= names
    assert len(found.layers()) >= 3
    assert 1e-6 < found.whole("tf32")["error"] < 2e-2
    assert found.whole("tf32")["flips"] <= 0.2


@pytest.mark.parametrize(("name", "experts"), [("mixtral", "mlp"), ("granitemoe", "block_sparse_moe")])
def test_experts_have_a_name_in_audits_and_policies(name: str, experts: str) -> None:
    """By the grouped products that transformers computes them with."""
    model, inputs = model_of("AutoModelForCausalLM", name), inputs_of("AutoModelForCausalLM")
    experts = f"model.layers.0.{experts}.experts"
    assert model.config._experts_implementation == "grouped_mm"
    assert experts in {row["module"] for row in lab.audit(model, inputs, "bf16", metric="logits").layers()}
    model.train()
    policy = lab.Policy({"*.experts": lab.Rule({"fp32_precision": "bf16"}, "tf32", "bf16x3")})
    with emulate() as mode, policy, explain.record() as log:
        model(**inputs).logits.square().sum().backward()
    assert mode.left == []
    found = {(each.module == experts, each.direction, each.precision) for each in log if each.kernel == "matmul"}
    backward = {(True, "backward", "tf32"), (True, "backward", "bf16x3"), (False, "backward", "ieee")}
    assert found == {(True, "forward", "bf16"), (False, "forward", "ieee"), *backward}


def test_there_are_forty_architectures() -> None:
    assert len(ARCHITECTURES) >= 40


def test_generation_is_audited_with_its_caches() -> None:
    model, tokens = model_of("AutoModelForCausalLM", "llama"), inputs_of("AutoModelForCausalLM")["input_ids"]
    options = {"max_new_tokens": 3, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    found = lab.audit(model.generate, {"input_ids": tokens, **options}, "bf16", metric="logits")
    assert {"model.layers.0.mlp.down_proj", "lm_head"} <= {row["module"] for row in found.layers()}
    assert 1e-4 < found.whole("bf16")["log_probability_error"] < 0.1
    with torch.no_grad(), emulate():
        rows = explain.sensitivity(model.generate, precisions="tf32", input_ids=tokens, **options)
    assert 0 < rows[-1].error < 1e-2


def test_answers_of_another_length_have_an_infinite_error_and_measures_of_what_both_have() -> None:
    class Shorter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = torch.nn.Linear(4, 4), 0

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            y, self.calls = self.layer(x), self.calls + 1
            return {"logits": y if self.calls < 3 else y[:1], "text": "answer", "cache": object(), "loss": None}

    found = lab.audit(Shorter().eval(), torch.randn(3, 4), "tf32", metric="logits")
    assert found.whole("tf32")["error"] == np.inf
    assert 0 < found.whole("tf32")["log_probability_error"] < 1e-2


def test_a_pipeline_is_audited() -> None:
    config = transformers.AutoConfig.for_model("resnet", **STAGES)
    torch.manual_seed(0)
    model = transformers.AutoModelForImageClassification.from_config(config).eval()
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    pipe = transformers.pipeline("image-classification", model=model, image_processor=processor, device="cpu")
    image = pytest.importorskip("PIL.Image").fromarray(np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3))
    found = lab.audit(pipe, (image,), "bf16")
    assert {row["module"] for row in found.layers()} <= {name for name, _ in model.named_modules()}
    assert 0 < found.whole("bf16")["error"] < 0.1


def test_other_callables_are_refused() -> None:
    with pytest.raises(TypeError, match="a Module, a method of one or a pipeline, got function"):
        lab.audit(lambda x: x, torch.ones(2))


def test_a_checkpoint_is_audited_in_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = model_of("AutoModelForCausalLM", "llama"), inputs_of("AutoModelForCausalLM")
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    np.savez(tmp_path / "batch.npz", **{name: each.numpy() for name, each in inputs.items()})
    expected = lab.audit(model, inputs, "tf32")
    for target in (folder, folder / "model.safetensors"):
        options = ["--inputs", str(tmp_path / "batch.npz"), "--precisions", "tf32", "--json"]
        assert cli.main(["audit", str(target), *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["rows"]) == len(expected.rows)
        assert found["error"] == pytest.approx(expected.error, rel=1e-6)
    assert cli.main(["audit", str(folder), *options, "--metric", "logits", "--generate", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["log_probability_error"] > 0
    assert "lm_head" in {row["module"] for row in found["rows"]}
    vocabulary = {"<pad>": 0, "a": 3, "b": 4}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<pad>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>").save_pretrained(folder)
    (tmp_path / "texts.txt").write_text("a b a\nb a\n")
    options = ["--inputs", str(tmp_path / "texts.txt"), "--precisions", "tf32", "--metric", "logits", "--json"]
    assert cli.main(["audit", str(folder), *options]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["measured"]["log_probability_error"] < 1e-2
    assert cli.main(["audit", str(tmp_path), "--inputs", "x.npz"]) == 2
    assert "a folder with config.json" in capsys.readouterr().err
    assert cli.main(["audit", str(folder)]) == 2
    assert "--inputs must be an NPZ or text file for a checkpoint" in capsys.readouterr().err
