"""torch's scripts: the library under torch's name, devices that are not there, and names that are missing."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import minitorch_backends as mt
from minitorch_backends.compat.torch import missing, paths

SCRIPT = """
import sys
import torch, torch.nn as nn, torch.nn.functional as F, torch.backends.cudnn as cudnn
from torch.autograd import Variable
from torch.nn.modules.linear import Linear
from torch.optim.lr_scheduler import StepLR
cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = Variable(torch.FloatTensor([[1, 2]]).to(device))
with torch.no_grad():
    print(F.relu(torch.jit.script(torch.compile(Linear(2, 1).eval().to(device)))(x)).shape, x.dtype, sys.argv[1])
print(torch.__version__, __name__)
try:
    from torch import sparse_coo_tensor
except ImportError as error:
    print(error)
"""


def test_a_script_runs_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "minitorch_backends.compat.torch", str(script), "argument"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [
        "torch.Size([1, 1]) torch.float32 argument",
        "2.13.0+minitorch __main__",
        "torch has no sparse_coo_tensor: sparse tensors are not supported; use dense tensors and matmul",
    ]


def test_old_variables_are_leaves_and_old_classes_are_types() -> None:
    x = mt.ones(2, requires_grad=True)
    variable = mt.autograd.Variable(x * 2)
    assert variable.is_leaf
    assert not variable.requires_grad
    assert mt.autograd.Variable(x, requires_grad=True) is not x
    assert variable.type(mt.DoubleTensor).dtype is mt.float64
    with pytest.raises(TypeError, match=r"cuda\.FloatTensor\(\): no CUDA device is available"):
        mt.cuda.FloatTensor(2)


def test_event_files_hold_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="event files are written by the package tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from minitorch_backends.compat.torch.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", mt.tensor(step * 1.5), step)
        writer.add_histogram("values", mt.tensor([0.0, 1.0, 1.0, 3.0]), 1, bins=3)
        writer.add_images("images", mt.rand(2, 3, 4, 4))
        writer.add_text("note", "text")
        with pytest.raises(ValueError, match="img_tensor must have dimensions CHW"):
            writer.add_image("bad", mt.rand(4, 4))
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(each.step, each.value) for each in found.Scalars("loss")] == [(0, 0.0), (1, 1.5), (2, 3.0)]
    assert found.Histograms("values")[0].histogram_value.bucket == [1.0, 2.0, 1.0]
    assert (found.Images("images")[0].height, found.Images("images")[0].width) == (4, 8)


def test_every_path_of_the_table_is_a_module():
    assert mt.nn.modules.linear.Linear is mt.nn.Linear
    listed = [
        *paths.HOMES,
        *(f"{above}.{name}".strip(".") for above, names in paths.PATHS.items() for name in names.split()),
    ]
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(ImportError, match="needs the package tensorboard"):
            importlib.import_module("minitorch_backends.utils.tensorboard")
        listed.remove("utils.tensorboard")
    for path in listed:
        assert importlib.import_module(f"minitorch_backends.{path}")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("softmaxx", "minitorch_backends has no softmaxx; the nearest name is softmax"),
        ("quantize_per_tensor", "quantized tensors are not supported"),
        ("nn.Liner", "no nn.Liner; the nearest name is nn.Linear"),
        ("cuda.nccl", "the CPU is the only device"),
    ],
)
def test_missing_names_say_why(name, sentence):
    path, _, last = name.rpartition(".")
    namespace = importlib.import_module(".".join(filter(None, ("minitorch_backends", path))))
    with pytest.raises(AttributeError, match=sentence):
        getattr(namespace, last)
    with pytest.raises(ImportError, match=sentence.partition(";")[0]):
        exec(f"from {namespace.__name__.replace('.compat.torch', '')} import {last}")


def test_reasons_name_a_remedy():
    assert all(";" in reason for reason in missing.REASONS.values())


def test_devices():
    x = mt.ones(2)
    assert x.device == mt.device("cpu") != mt.device("cuda", 1) == mt.device("cuda:1") == mt.device(1)
    assert (str(mt.device(1)), repr(x.device), x.get_device()) == ("cuda:1", "device(type='cpu')", -1)
    assert x.to(mt.device("cpu")) is x is x.cpu() is x.pin_memory()
    with mt.device("cpu"):
        assert mt.zeros(2, device=x.device).device is x.device
    refused = [x.cuda, lambda: x.to("cuda:0"), lambda: x.to(0), mt.nn.Linear(1, 1).cuda, lambda: mt.cuda.set_device(0)]
    for call in refused:
        with pytest.raises(AssertionError, match="cuda"):
            call()
    for name in ("mps", "nowhere"):
        with pytest.raises(RuntimeError, match=name):
            x.to(name)
    asked = (mt.cuda.is_available(), mt.accelerator.is_available(), mt.backends.mps.is_available())
    assert asked == (False, False, False)


def test_memory_formats():
    x = mt.arange(120.0).reshape(2, 3, 4, 5)
    last = x.to(memory_format=mt.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.equal(x)
    assert not last.is_contiguous()
    assert last.contiguous(memory_format=mt.channels_last) is last
    assert mt.empty_like(x, memory_format=mt.channels_last).is_contiguous(memory_format=mt.channels_last)
    assert mt.nn.Conv2d(2, 3, 2).to(memory_format=mt.channels_last).weight.stride() == (8, 1, 4, 2)
    with pytest.raises(RuntimeError, match="4 dimensions, got 1"):
        mt.ones(2).to(memory_format=mt.channels_last)


def test_legacy_constructors():
    assert mt.LongTensor([1, 2]).dtype is mt.int64
    assert mt.DoubleTensor(2, 3).shape == (2, 3)
    assert isinstance(mt.ones(2), mt.FloatTensor)
    assert not isinstance(mt.ones(2), mt.LongTensor)
    with pytest.raises(TypeError, match="float32"):
        mt.FloatTensor(mt.tensor([1]))


def test_a_convolution_and_its_normalisation_become_one():
    conv, norm = mt.nn.Conv2d(2, 3, 2).eval(), mt.nn.BatchNorm2d(3).eval()
    norm.running_mean.copy_(mt.tensor([0.5, -1.0, 2.0]))
    norm.running_var.copy_(mt.tensor([4.0, 0.25, 1.0]))
    x = mt.arange(32.0).reshape(1, 2, 4, 4) / 16
    mt.testing.assert_close(mt.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)))
