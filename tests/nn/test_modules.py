"""Functions as modules, modules that hold parameters, and transformers."""

import copy
import inspect
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F
from minitorch_backends.nn.functional_modules import OfFunction

from ..support.module_calls import CALLS, inputs_of

every_call = pytest.mark.parametrize(("name", "args", "options"), CALLS, ids=[str(each) for each in CALLS])


NAMES = {
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CTCLoss": "ctc_loss", "CrossEntropyLoss": "cross_entropy", "LogSigmoid": "logsigmoid",
    "LogSoftmax": "log_softmax", "LeakyReLU": "leaky_relu", "KLDivLoss": "kl_div", "MSELoss": "mse_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss", "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "NLLLoss": "nll_loss", "PoissonNLLLoss": "poisson_nll_loss", "GaussianNLLLoss": "gaussian_nll_loss",
    "SmoothL1Loss": "smooth_l1_loss", "L1Loss": "l1_loss", "LPPool1d": "lp_pool1d", "LPPool2d": "lp_pool2d",
    "LPPool3d": "lp_pool3d",
}  # fmt: skip
"""Functions whose names do not follow from those of their modules."""


def function_of(module: str) -> Any:
    words = re.sub("(?<=[a-z])(?=[A-Z])", "_", module).lower()
    return getattr(F, NAMES.get(module) or (words if hasattr(F, words) else module.lower()))


def test_every_function_as_a_module_has_a_call() -> None:
    assert {each.__name__ for each in OfFunction.__subclasses__()} <= {name for name, *_ in CALLS}


@every_call
def test_modules_are_functions_with_their_options(name: str, args: tuple, options: dict[str, Any]) -> None:
    kind, operands = getattr(nn, name), [mt.tensor(each) for each in inputs_of(name)]
    module = kind(*args, **options)
    found = module(*operands)
    if issubclass(kind, OfFunction):
        named = dict(zip(inspect.signature(kind).parameters, args, strict=False))
        assert mt.equal(found, function_of(name)(*operands, **named, **options))
        names = list(inspect.signature(function_of(name)).parameters)[: len(operands)]
        assert mt.equal(module(**dict(zip(names, operands, strict=True))), found)
    same = copy.deepcopy(pickle.loads(pickle.dumps(module)))
    assert mt.equal(same(*operands), found)
    assert repr(same) == repr(module)


def test_options_may_change_and_weights_are_buffers() -> None:
    layer, x = nn.LeakyReLU(0.5), mt.tensor([-2.0, 2.0])
    assert layer(x).tolist() == [-1.0, 2.0]
    layer.negative_slope = 0.25
    assert layer(x).tolist() == [-0.5, 2.0]
    loss = nn.CrossEntropyLoss(mt.ones(3), label_smoothing=0.1)
    assert list(loss.state_dict()) == ["weight"]
    assert not list(nn.BCEWithLogitsLoss().state_dict())
    assert loss.to(mt.float64).weight.dtype is mt.float64


def test_modules_of_functions_are_classes_to_inherit_from() -> None:
    class Focal(nn.CrossEntropyLoss):
        def __init__(self) -> None:
            super().__init__(reduction="none")

        def forward(self, input: Any, target: Any) -> Any:
            loss = super().forward(input, target)
            return ((1 - (-loss).exp()) * loss).mean()

    class Mine(nn.ReLU):
        pass

    class Frame(nn.ZeroPad2d):
        pass

    x, target = mt.randn(4, 3), mt.tensor([0, 2, 1, 1])
    plain = F.cross_entropy(x, target, reduction="none")
    assert mt.allclose(Focal()(x, target), ((1 - (-plain).exp()) * plain).mean())
    assert mt.equal(Mine()(x), x.relu())
    assert Frame(1)(mt.ones(1, 2, 2)).shape == (1, 4, 4)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        nn.ReLU()(x, True)


def test_signatures_are_those_of_the_functions() -> None:
    assert str(inspect.signature(nn.Softplus)) == "(beta=1.0, threshold=20.0)"
    assert "inplace=False" in str(inspect.signature(nn.Hardtanh))
    assert str(inspect.signature(nn.MSELoss().forward)) == "(input, target)"

    class Scaled(nn.ELU):
        def __init__(self, scale: float) -> None:
            super().__init__(alpha=scale)

    assert list(inspect.signature(Scaled).parameters) == ["scale"]
    assert mt.equal(Scaled(0.5)(mt.tensor([-1.0])), F.elu(mt.tensor([-1.0]), 0.5))
    for call, says in (
        (nn.PixelShuffle, r"PixelShuffle\(upscale_factor\): missing a required argument: 'upscale_factor'"),
        (lambda: nn.Softplus(1, 2, 3), "too many positional arguments"),
        (lambda: nn.ELU(beta=1), "unexpected keyword argument 'beta'"),
        (lambda: nn.MSELoss(None, None, "sum", 1), "too many positional arguments"),
    ):
        with pytest.raises(TypeError, match=says):
            call()


def test_relu_in_place() -> None:
    x = mt.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]
    assert repr(nn.ReLU(True)) == "ReLU(inplace=True)"


# Values around others, and as many at once


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "mode"), [("Circular", "circular"), ("Reflection", "reflect"), ("Replication", "replicate")]
)
def test_padding(kind: str, mode: str, dims: int) -> None:
    x = mt.randn(2, 3, *(3, 4, 5)[:dims])
    sides = [1, 2, 0, 1, 2, 0][: 2 * dims]
    assert mt.equal(getattr(nn, f"{kind}Pad{dims}d")(1)(x), F.pad(x, [1] * 2 * dims, mode))
    assert mt.equal(getattr(nn, f"{kind}Pad{dims}d")(sides)(x), F.pad(x, sides, mode))
    assert mt.equal(getattr(nn, f"ConstantPad{dims}d")(sides, 0.5)(x), F.pad(x, sides, "constant", 0.5))
    assert mt.equal(getattr(nn, f"ZeroPad{dims}d")(sides)(x), F.pad(x, sides))
    with pytest.raises(ValueError, match=f"one number or {2 * dims}, got"):
        getattr(nn, f"{kind}Pad{dims}d")((1, 2, 3))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_dropout_of_channels(dims: int) -> None:
    mt.manual_seed(0)
    x = mt.ones(30, 40, *(2, 3, 2)[:dims])
    out = getattr(nn, f"Dropout{dims}d")(0.25)(x).numpy().reshape(1200, -1)
    assert (out == out[:, :1]).all()
    assert abs((out[:, 0] == 0).mean() - 0.25) < 0.05
    assert np.allclose(np.unique(out), [0, 1 / 0.75])
    assert getattr(nn, f"Dropout{dims}d")().eval()(x) is x
    assert set(F.dropout(mt.ones(99, dtype=mt.float64), 0.3).tolist()) <= {0.0, 1 / 0.7}
    function, says = getattr(F, f"dropout{dims}d"), rf"input must have {dims + 1} or {dims + 2} dimensions, got"
    if dims == 1:
        with pytest.raises(RuntimeError, match=says):
            function(mt.ones(2))
        return
    with pytest.warns(UserWarning, match=says):
        assert set(function(mt.ones(4, 8)).unique().tolist()) <= {0.0, 2.0}


@pytest.mark.parametrize("kind", ["AlphaDropout", "FeatureAlphaDropout"])
def test_alpha_dropout_keeps_mean_and_variance(kind: str) -> None:
    mt.manual_seed(0)
    x = mt.randn(200, 300, 2, dtype=mt.float64)
    out = getattr(nn, kind)(0.2)(x)
    assert abs(float(out.mean())) < 0.02
    assert abs(float(out.var()) - 1) < 0.02
    values, counts = np.unique(out.numpy(), return_counts=True)
    dropped = out.numpy() == values[counts.argmax()]
    assert abs(dropped.mean() - 0.2) < 0.01
    assert (dropped[..., 0] == dropped[..., 1]).all() == (kind == "FeatureAlphaDropout")
    assert getattr(nn, kind)(0.2).eval()(x) is x


# Parameters in lists and dicts


def test_parameter_list() -> None:
    held = nn.ParameterList([mt.ones(2), nn.Parameter(mt.zeros(3))])
    held.append(mt.ones(1))
    assert [name for name, _ in held.named_parameters()] == ["0", "1", "2"]
    assert all(isinstance(each, nn.Parameter) for each in held)
    assert len(held[1:]) == 2
    held[-1] = mt.zeros(4)
    assert held[2].shape == (4,)
    del held[0]
    assert [tuple(each.shape) for each in held] == [(3,), (4,)]
    held += [mt.ones(5)]
    assert len(held + held) == 6
    assert held.pop().shape == (5,)
    assert not len(nn.ParameterList(None))
    with pytest.raises(IndexError, match="the 2 parameters"):
        held[2]
    with pytest.raises(TypeError, match="expected parameters, tensors or modules, got int"):
        held.append(3)
    assert repr(held).startswith("ParameterList(\n  (0): Parameter containing:")


def test_parameter_dict() -> None:
    held = nn.ParameterDict({"left": mt.ones(2)})
    held["right"] = mt.zeros(3)
    held.update({"left": mt.zeros(1)})
    assert {name: tuple(each.shape) for name, each in held.items()} == {"left": (1,), "right": (3,)}
    assert list(held.state_dict()) == ["left", "right"]
    assert "left" in held
    assert held.pop("left").shape == (1,)
    assert list(held) == ["right"]
    with pytest.raises(KeyError, match="names of parameters"):
        held["a.b"] = mt.ones(1)
    assert held.get("left") is None
    assert held.setdefault("left", mt.ones(2)).shape == (2,)
    assert list(reversed(held)) == ["left", "right"]
    both = held | {"middle": mt.ones(1)}
    assert list(both) == ["right", "left", "middle"]
    assert both["left"] is held["left"]
    assert both.popitem()[0] == "middle"
    both.clear()
    both |= held
    assert len(both) == 2


def test_a_module_dict_keeps_its_children() -> None:
    held = nn.ModuleDict({"a": nn.Linear(2, 2)})
    with pytest.raises(TypeError, match="ModuleDict: expected a Module, got int"):
        held["a"] = 3  # type: ignore[assignment]
    assert len(held) == 1
    with pytest.raises(KeyError, match="is empty"):
        nn.ModuleDict(None).popitem()


def test_parts_of_sequences_keep_their_names() -> None:
    layers = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.Tanh(), "third": nn.Linear(3, 1)})
    assert list(layers[1:].state_dict()) == ["third.weight", "third.bias"]
    assert list(nn.Sequential(nn.Tanh(), nn.Linear(2, 2))[1:].state_dict()) == ["1.weight", "1.bias"]
    assert list(nn.ModuleList([nn.Tanh(), nn.Linear(2, 2)])[1:].state_dict()) == ["0.weight", "0.bias"]


# Transformers


def small(kind: Any, **options: Any) -> nn.Module:
    mt.manual_seed(0)
    return kind(8, 2, 16, 0.0, dtype=mt.float64, **options)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_attention_and_two_linear_layers(norm_first: bool) -> None:
    layer, x = small(nn.TransformerEncoderLayer, norm_first=norm_first), mt.randn(5, 3, 8, dtype=mt.float64)

    def attend(y: Any) -> Any:
        return layer.self_attn(y, y, y)[0]

    def feed(y: Any) -> Any:
        return layer.linear2(layer.linear1(y).relu())

    if norm_first:
        wanted = x + attend(layer.norm1(x))
        wanted = wanted + feed(layer.norm2(wanted))
    else:
        wanted = layer.norm1(x + attend(x))
        wanted = layer.norm2(wanted + feed(wanted))
    assert mt.allclose(layer(x), wanted)
    turned = small(nn.TransformerEncoderLayer, norm_first=norm_first, batch_first=True)
    assert mt.allclose(turned(x.transpose(0, 1)), wanted.transpose(0, 1))


def test_causal_masks_keep_places_from_what_comes_after() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=mt.float64)
    assert mask.tolist() == [[-math.inf if column > row else 0.0 for column in range(4)] for row in range(4)]
    encoder = nn.TransformerEncoder(small(nn.TransformerEncoderLayer), 2)
    x = mt.randn(4, 3, 8, dtype=mt.float64)
    changed = mt.cat([x[:2], mt.randn(2, 3, 8, dtype=mt.float64)])
    for causal in (None, True):
        assert mt.allclose(encoder(x, mask, is_causal=causal)[:2], encoder(changed, mask, is_causal=causal)[:2])
    assert not mt.allclose(encoder(x)[:2], encoder(changed)[:2])


def test_a_transformer_learns_and_its_layers_are_copies() -> None:
    mt.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 1, 16, 0.0)
    source, target = mt.randn(5, 3, 8), mt.randn(4, 3, 8)
    out = model(source, target, tgt_mask=model.generate_square_subsequent_mask(4), tgt_is_causal=True)
    assert out.shape == target.shape
    out.square().sum().backward()
    assert all(bool((each.grad != 0).any()) for each in model.parameters())
    first, second = model.encoder.layers
    assert mt.equal(first.norm1.weight, second.norm1.weight)
    assert first.linear1.weight is not second.linear1.weight


def test_transformers_are_pickled_and_take_parts_of_others() -> None:
    class Encoder(nn.Module):
        def forward(self, src: Any, **masks: Any) -> Any:
            return src * 2

    class Decoder(nn.Module):
        def forward(self, tgt: Any, memory: Any, **masks: Any) -> Any:
            return tgt + memory

    x = mt.randn(3, 2, 8)
    model = nn.Transformer(8, 2, custom_encoder=Encoder(), custom_decoder=Decoder())
    assert mt.equal(model(x, x), x + x * 2)
    for activation in ("relu", "gelu", nn.ReLU()):
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation)
        assert mt.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), RuntimeError, "relu/gelu"),
        (lambda: nn.TransformerEncoderLayer(8, 3), AssertionError, "divisible by num_heads"),
        (lambda: nn.Transformer(8, 2)(mt.ones(2, 2, 8), mt.ones(2, 3, 8)), RuntimeError, "batch number"),
        (lambda: nn.Transformer(8, 2)(mt.ones(2, 2, 8), mt.ones(2, 2, 4)), RuntimeError, "d_model=8"),
        (lambda: nn.Softmax2d()(mt.ones(2, 3)), ValueError, "3D or 4D, got 2D"),
        (lambda: F.channel_shuffle(mt.ones(2, 6), 2), RuntimeError, "> 2 dims"),
        (lambda: F.channel_shuffle(mt.ones(2, 6, 1), 4), RuntimeError, "divide the 6 channels, got 4"),
        (lambda: F.feature_alpha_dropout(mt.ones(2), 0.5, True), RuntimeError, "at least 2 dimensions"),
        (lambda: F.alpha_dropout(mt.ones(2), 2.0, True), ValueError, "between 0 and 1"),
        (lambda: F.alpha_dropout(mt.ones(2).int(), 0.5, True), RuntimeError, "not implemented for"),
    ],
)
def test_bad_arguments(call: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        call()
