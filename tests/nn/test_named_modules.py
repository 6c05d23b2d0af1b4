"""Modules of one, two and three dimensions by their names, and functions of `nn` that no other file has."""

from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.nn import functional as F

POOLS: dict[str, tuple[Any, ...]] = {
    "AdaptiveAvgPool1d": (2,), "AdaptiveAvgPool2d": ((2, None),), "AdaptiveAvgPool3d": (2,), "AdaptiveMaxPool1d": (2,),
    "AdaptiveMaxPool2d": ((2, 3),), "AdaptiveMaxPool3d": (1,), "AvgPool1d": (2, 1, 1), "AvgPool2d": (2, 1),
    "AvgPool3d": (2,), "MaxPool1d": (2, 1), "MaxPool2d": (2, 2, 1), "MaxPool3d": (2, 1),
}  # fmt: skip


def volume(dims: int) -> mt.Tensor:
    return mt.arange(6.0 * 4**dims).roll(7).reshape(2, 3, *[4] * dims)


@pytest.mark.parametrize("name", POOLS)
def test_pools_are_their_functions(name: str) -> None:
    dims, words = int(name[-2]), name[:-2].replace("Adaptive", "adaptive_").replace("Pool", "_pool").lower()
    x, module = volume(dims), getattr(nn, name)(*POOLS[name])
    assert mt.equal(module(x), getattr(F, f"{words}{dims}d")(x, *POOLS[name]))
    assert f"={POOLS[name][0]}" in repr(module)


@pytest.mark.parametrize("name", ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"])
def test_unpooling_puts_the_largest_values_back(name: str) -> None:
    x = volume(int(name[-2]))
    values, places = getattr(nn, name.replace("Unpool", "Pool"))(2, return_indices=True)(x)
    back = getattr(nn, name)(2)(values, places)
    assert back.shape == x.shape
    assert mt.equal(back[back != 0], x[back != 0])
    assert back.sum() == values.sum()


def test_windows_as_columns() -> None:
    x = volume(2)
    columns = nn.Unfold(2, stride=2)(x)
    assert columns.shape == (2, 12, 4)
    assert mt.equal(nn.Fold((4, 4), 2, stride=2)(columns), x)


@pytest.mark.parametrize(
    ("padding", "mode", "value"),
    [
        ("CircularPad1d CircularPad2d CircularPad3d", "circular", None),
        ("ReflectionPad1d ReflectionPad2d ReflectionPad3d", "reflect", None),
        ("ReplicationPad1d ReplicationPad2d ReplicationPad3d", "replicate", None),
        ("ZeroPad1d ZeroPad2d ZeroPad3d", "constant", 0.0),
        ("ConstantPad1d ConstantPad2d ConstantPad3d", "constant", 0.5),
    ],
)
def test_paddings_are_their_modes(padding: str, mode: str, value: float | None) -> None:
    for dims, name in enumerate(padding.split(), 1):
        arguments = (1, value) if name.startswith("Constant") else (1,)
        x = volume(dims)
        assert mt.equal(getattr(nn, name)(*arguments)(x), F.pad(x, [1] * 2 * dims, mode, value))


def test_volumes_are_convolved_normalised_and_dropped_by_channel() -> None:
    mt.manual_seed(0)
    x, layer = volume(3) / 64, nn.Conv3d(3, 4, 2, stride=2)
    assert mt.equal(layer(x), F.conv3d(x, layer.weight, layer.bias, stride=2))
    normal = nn.BatchNorm3d(3)(x)
    assert float(normal.mean((0, 2, 3, 4)).abs().max()) < 1e-5
    assert float((normal.var((0, 2, 3, 4), correction=0) - 1).abs().max()) < 1e-3
    with pytest.raises(ValueError, match="5"):
        nn.BatchNorm3d(3)(x[0])
    for drop, seen in ((nn.Dropout2d(0.5), x[..., 0]), (nn.Dropout3d(0.5), x)):
        channels = (drop(seen) != 0).flatten(2).float().mean(-1)
        assert ((channels == 0) | (channels > 0.9)).all()
    assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)


def test_a_decoder_is_its_layers_and_a_norm() -> None:
    mt.manual_seed(0)
    layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0)
    decoder, target, memory = nn.TransformerDecoder(layer, 2, nn.LayerNorm(8)), mt.randn(4, 3, 8), mt.randn(5, 3, 8)
    expected = target
    for each in decoder.layers:
        expected = each(expected, memory)
    assert mt.equal(decoder(target, memory), decoder.norm(expected))
    assert mt.equal(decoder.layers[0].norm1.weight, layer.norm1.weight)


def test_buffers_are_assigned_as_parameters_are() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept, self.left = nn.Buffer(mt.ones(2)), nn.Buffer(mt.zeros(2), persistent=False)

    assert [*dict(Counted().named_buffers())] == ["kept", "left"]
    assert [*Counted().state_dict()] == ["kept"]


def test_sparse_starting_values_have_zeros_in_each_column() -> None:
    mt.manual_seed(0)
    weight = nn.init.sparse_(mt.empty(10, 7), sparsity=0.25, std=0.5)
    assert (weight == 0).sum(0).tolist() == [3] * 7
    assert 0.2 < float(weight[weight != 0].std()) < 1
    with pytest.raises(ValueError, match="must have 2 dimensions"):
        nn.init.sparse_(mt.empty(3), 0.5)


def test_layers_start_anew() -> None:
    mt.manual_seed(0)
    for layer in (nn.Linear(3, 2), nn.Bilinear(3, 2, 2), nn.Embedding(4, 2), nn.PReLU()):
        before = [each.detach().clone() for each in layer.parameters()]
        for each in layer.parameters():
            each.data.fill_(9.0)
        layer.reset_parameters()
        assert all(float(each.abs().max()) < 9 for each in layer.parameters())
        assert [each.shape for each in layer.parameters()] == [each.shape for each in before]


def test_a_linear_layer_and_its_normalisation_become_one() -> None:
    mt.manual_seed(0)
    linear, norm, x = nn.Linear(4, 3).eval(), nn.BatchNorm1d(3).eval(), mt.randn(5, 4)
    norm.running_mean.copy_(mt.tensor([0.5, -1.0, 2.0]))
    norm.running_var.copy_(mt.tensor([4.0, 0.25, 1.0]))
    mt.testing.assert_close(nn.utils.fuse_linear_bn_eval(linear, norm)(x), norm(linear(x)))
    statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    by_linear = nn.utils.fuse_linear_bn_weights(linear.weight, linear.bias, *statistics)
    by_conv = nn.utils.fuse_conv_bn_weights(linear.weight[..., None], linear.bias, *statistics)
    assert mt.equal(by_linear[0], by_conv[0][..., 0])
    assert mt.equal(by_linear[1], by_conv[1])


def test_sequences_are_taken_apart_again() -> None:
    sequences = [mt.arange(float(length)) for length in (2, 4, 3)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    assert isinstance(packed, nn.utils.rnn.PackedSequence)
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert mt.equal(packed.unsorted_indices, nn.utils.rnn.invert_permutation(packed.sorted_indices))
    assert nn.utils.rnn.invert_permutation(None) is None
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    for found, expected in zip(nn.utils.rnn.unpad_sequence(padded, lengths, True), sequences, strict=True):
        assert mt.equal(found, expected)


def test_modules_that_a_glob_matches() -> None:
    names = ["encoder.0", "encoder.1", "head"]
    assert nn.utils.matching_names("f", names, "encoder.*") == names[:2]
    with pytest.raises(ValueError, match="no module has a name like 'haed'; did you mean 'head'"):
        nn.utils.matching_names("f", names, "haed")


def test_batch_normalisations_use_each_batch() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm1d(2)))
    assert mt.func.replace_all_batch_norm_modules_(model) is model
    assert all(each.running_mean is None for each in (model[0], model[1][0]))
    assert abs(float(model.eval()(mt.randn(8, 2) + 3).mean())) < 1e-5
    with pytest.raises(TypeError, match="root must be a Module"):
        mt.func.replace_all_batch_norm_modules_(3)
