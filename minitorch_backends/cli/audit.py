"""Measure the effect of lower precisions of each layer on the outputs of a model, as lab.audit does.

  minitorch-backends audit model.py:model --inputs batch.npz --precisions tf32,bf16 --metric logits --budget 0.01
  minitorch-backends audit model.onnx --inputs batch.npz --precisions tf32,bf16
  minitorch-backends audit folder/of/a/checkpoint --inputs texts.txt --precisions bf16,e4m3 --metric logits

MODEL is a module of minitorch_backends or torch, or a function without arguments that returns one; or the target is
an ONNX file. The inputs of MODEL come from `inputs` in the same file (a tensor, a tuple of positional arguments, a
dict of named ones, or a function that returns these), or from an NPZ file. Arrays of an NPZ file are passed by name;
arr_0, arr_1 and so on by position. An ONNX file takes its inputs from an NPZ file. A checkpoint of transformers, or its
folder, is the model that its configuration names. It takes an NPZ file, or a text file whose lines its tokenizer reads.
With --generate the logits of new tokens are measured, each precision with the tokens that it chooses.
The exit code is 1 if the budget cannot be met.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from pathlib import Path
from typing import Any

from ..kernels.runtime.files import write_file
from .common import UsageError, load_object, usage_errors, write, write_table

HELP = "measure the effect of each layer at low precision, and find a policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="FILE:MODEL|ONNX|CHECKPOINT", help="the model, in evaluation mode, or its file")
    add("--inputs", metavar="NAME|NPZ|TXT", default="inputs", help="a name in FILE, or a file (%(default)s)")
    add("--precisions", metavar="P,P", default="tf32,bf16", help="those to measure (%(default)s)")
    add(
        "--metric",
        choices=("logits", "language", "embedding", "regression"),
        help="the task, which determines the units of errors",
    )
    add(
        "--budget", metavar="X|NAME=X,...", type=_budget,
        help=("bound on the metric's first measure, or on the relative error; or bounds by name, including "
             "gradient_error"),
    )  # fmt: skip
    add("--generate", metavar="TOKENS", type=int, help="audit generation of so many tokens, of transformers' models")
    add("--roles", metavar="R,R", default="", help="roles of operands whose formats --precisions names, as weight")
    add("--groups", metavar="GLOB,GLOB", default="", help="modules whose layers are tried as one, as blk.*")
    add("--store", metavar="DIR", help="keep rows there, from which a broken audit goes on")
    add("--gradients", action=argparse.BooleanOptionalAction, default=False, help="also measure gradients")
    add("--device", metavar="NAME|JSON", help="predict times on a device of lab.devices, or of measured speeds")
    add("--policy", metavar="PATH", help="write the policy as JSON, for lab.Policy.from_json")
    add("--page", metavar="PATH", help="write a page of HTML")


def run(options: argparse.Namespace) -> int:
    from .. import lab

    model = load_model(options.target)
    inputs = inputs_of(options.inputs, options.target, model)
    if isinstance(inputs, dict) and options.inputs.endswith(".npz") and not options.target.endswith(".onnx"):
        _check_names(model, inputs)
    if options.generate is not None:
        model, inputs = _generation(model, inputs, options.generate)
    with usage_errors():
        found = lab.audit(
            model, inputs, options.precisions.split(","), options.metric, options.budget,
            roles=[each for each in options.roles.split(",") if each],
            groups=[each for each in options.groups.split(",") if each],
            store=options.store,
            gradients=options.gradients or "gradient_error" in str(options.budget),
            device=options.device,
        )  # fmt: skip
        found.label = Path(options.target).name
        if options.page:
            found.report(options.page)
        if options.policy:
            write_file(options.policy, found.policy.to_json())
    if options.json:
        write(found.to_json())
    else:
        write(f"Audit of {found.name}\n")
        write_table([found.header(), *found.cells(lab.audits.MOST_LISTED)])
        write(f"\n{found.omission()}{found.summary()}\n{found.policy}")
    return int(not found.is_met)


def _generation(model: Any, inputs: Any, tokens: int) -> tuple[Any, dict[str, Any]]:
    """The method of a model that generates text, and its arguments."""
    if not hasattr(model, "generate") or not isinstance(inputs, dict):
        raise UsageError(f"--generate must be used with a model of transformers and named inputs, got {type(model)}")
    options = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    return model.generate, {**inputs, "max_new_tokens": tokens, **options}


def load_model(target: str) -> Any:
    """The module of an ONNX file, or the one of `FILE:NAME`, which may be a function that returns it."""
    if target.endswith(".onnx"):
        with usage_errors():
            from ..interop import onnx

            return onnx.load(target)
    folder = _checkpoint(target)
    if folder is not None:
        with usage_errors():
            transformers = importlib.import_module("transformers")
            config = transformers.AutoConfig.from_pretrained(folder)
            name = (config.architectures or ["AutoModel"])[0]
            return getattr(transformers, name).from_pretrained(folder).eval()
    model = load_object(target, ", an ONNX file, or a checkpoint of transformers that exists")
    return model if hasattr(model, "named_modules") or not callable(model) else model()


def _checkpoint(target: str) -> Path | None:
    """The folder of a checkpoint of transformers, which has the configuration; None for other targets."""
    path = Path(target)
    folder = path if path.is_dir() else path.parent if path.suffix in (".safetensors", ".bin") else None
    if folder is not None and not (folder / "config.json").is_file():
        raise UsageError(f"a checkpoint must be in a folder with config.json, got {target!r}")
    return folder


def _check_names(model: Any, inputs: dict[str, Any]) -> None:
    """Raise UsageError for arrays that are not arguments of the model."""
    try:
        inspect.signature(getattr(model, "forward", model)).bind(**inputs)
    except TypeError as problem:
        raise UsageError(
            f"--inputs must have arrays named as arguments of the model, or arr_0, arr_1, ... by position: {problem}"
        ) from None


def _budget(text: str) -> float | dict[str, float]:
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {name: float(value) for name, _, value in pairs} if "=" in text else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, or NAME=NUMBER,..., got {text!r}") from None


def inputs_of(source: str, target: str, function: Any) -> Any:
    """The inputs of a function or model: a name in its file, or an NPZ file, as tensors of torch for its modules."""
    import numpy as np

    folder = _checkpoint(target)
    if folder is not None and source.endswith(".txt"):
        with usage_errors():
            tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
            lines = Path(source).read_text(encoding="utf-8").splitlines()
            return dict(tokenizer(lines, return_tensors="pt", padding=tokenizer.pad_token is not None))
    if not source.endswith(".npz"):
        if target.endswith(".onnx") or folder is not None:
            of, kinds = ("an ONNX model", "NPZ") if folder is None else ("a checkpoint", "NPZ or text")
            raise UsageError(f"--inputs must be an {kinds} file for {of}, got {source!r}")
        found = load_object(f"{target.rpartition(':')[0]}:{source}")
        return found() if callable(found) else found
    with usage_errors(), np.load(source, allow_pickle=False) as arrays:
        named = {name: _as_tensor(arrays[name], function) for name in arrays.files}
    if not named:
        raise UsageError(f"--inputs must name a file with arrays, got {source!r} without any")
    positions = [f"arr_{place}" for place in range(len(named))]
    return tuple(named[name] for name in positions) if set(named) == set(positions) else named


def _as_tensor(array: Any, function: Any) -> Any:
    from ..nn import Module
    from ..ops.creation.factories import from_numpy

    if not hasattr(function, "named_modules") or isinstance(function, Module):
        return from_numpy(array)
    from ..interop.torch.memory import to_torch

    return to_torch(from_numpy(array))
