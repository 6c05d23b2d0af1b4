"""Attention as users call it: which kernel runs and why, gradients of every order, flags, modules, errors."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, nn
from minitorch_backends.autograd import gradcheck, gradgradcheck
from minitorch_backends.nn.attention import SDPBackend, sdpa_kernel
from minitorch_backends.nn.functional import scaled_dot_product_attention as attend

FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


pytestmark = pytest.mark.usefixtures("default_flags")


def tensors(*shapes: tuple[int, ...], dtype: Any = mt.float32, grad: bool = False) -> list[mt.Tensor]:
    mt.manual_seed(1)
    return [mt.randn(*shape).to(dtype).requires_grad_(grad) for shape in shapes]


def ran(log: explain.Log) -> list[tuple[str, str]]:
    return [(entry.kernel, entry.implementation) for entry in log]


# Which kernel


def test_the_order_of_kernels() -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    with explain.record() as log:
        attend(q, k, v)
        attend(q, k, v, mt.zeros(6, 6))
        attend(q[0], k[0], v[0])
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            attend(q, k, v)
    kernels = [entry.implementation for entry in log if entry.kernel == "attention"]
    assert kernels == ["flash", "efficient", "math", "math"]
    masked = next(entry for entry in log if entry.implementation == "efficient")
    assert "non-null attn_mask" in dict(masked.refusals)["flash"]
    answer = explain.why("scaled_dot_product_attention", q, k, v, mt.zeros(6, 6))
    assert answer.kernel == "attention"
    assert answer.implementations[0] == "efficient"


def test_the_question_and_the_dispatcher_agree() -> None:
    shapes = [((1, 2, 6, 4),) * 3, ((1, 2, 6, 4), (1, 1, 6, 4), (1, 1, 6, 4)), ((2, 6, 4),) * 3]
    for causal in (False, True):
        for shape in shapes:
            for gqa in (False, True):
                q, k, v = tensors(*shape)
                params = backends.cuda.SDPAParams(q, k, v, None, 0.0, causal, gqa)
                with explain.record() as log, sdpa_kernel([*FUSED, SDPBackend.MATH]):
                    attend(q, k, v, is_causal=causal, enable_gqa=gqa)
                assert ("attention", "flash") in ran(log) or not backends.cuda.can_use_flash_attention(params)


def test_no_kernel_is_an_error_with_every_reason() -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    with (
        pytest.raises(RuntimeError, match=r"No viable backend .* was found: cuda.flash_sdp, .* are all False; set one"),
        sdpa_kernel([]),
    ):
        attend(q, k, v)
    with (
        pytest.raises(RuntimeError, match=r"No available kernel. Aborting execution. .*cuda.flash_sdp = False.*math"),
        sdpa_kernel(SDPBackend.CUDNN_ATTENTION),
    ):
        attend(q, k, v)
    with (
        pytest.raises(RuntimeError, match="flash: both fused kernels do not support non-zero dropout"),
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    ):
        attend(q, k, v, dropout_p=0.5)
    with (
        pytest.raises(RuntimeError, match="cudnn: this engine does not have the kernel"),
        sdpa_kernel(SDPBackend.CUDNN_ATTENTION),
    ):
        attend(q, k, v)


def test_data_that_flash_refuses_goes_to_a_kernel_that_is_allowed() -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    v[0, 0, 0, 0] = 1e-42
    expected = attend(q, k, v)
    with backends.flags(fp32_precision="bf16x3"), explain.record() as log:
        out = attend(q, k, v)
    assert [kernel for kernel, _ in ran(log)] == ["attention"]
    assert mt.allclose(out, expected, atol=1e-4)
    if ran(log)[0][1] != "flash":  # because of the data or, without tiles, of the precision
        refused = "no implementation of attention takes|flash attention has no loops for float32 at bf16x3 on this CPU"
        with (
            backends.flags(fp32_precision="bf16x3"),
            sdpa_kernel(SDPBackend.FLASH_ATTENTION),
            pytest.raises(RuntimeError, match=refused),
        ):
            attend(q, k, v)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16", "bf16x3"])
def test_known_signatures_have_the_bits_of_new_ones(precision: str) -> None:
    """Strides, values that tiles refuse, and observers included."""
    q, k, v = tensors(*[(1, 2, 40, 16)] * 3)
    turned = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in (q, k, v)]
    large = v.clone()
    large[0, 0, 0, 0] = 1e37
    large[0, 1, 0, 0] = 1e-42
    with backends.flags(fp32_precision=precision):
        for causal in (False, True):
            for each in (v, large):
                with explain.record() as log:  # what observers see goes the general way
                    expected = attend(q, k, each, is_causal=causal)
                assert len(log) == 1
                for given in ((q, k, each), (q, k, each), turned if each is v else (q, k, each)):
                    np.testing.assert_array_equal(attend(*given, is_causal=causal).numpy(), expected.numpy())


def test_a_known_signature_is_recorded_where_gradients_are() -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    attend(q, k, v)
    out = attend(q, k, v.requires_grad_())
    assert out.requires_grad
    with mt.no_grad():
        assert not attend(q, k, v).requires_grad


# Values


@pytest.mark.parametrize("backend", [*FUSED, SDPBackend.MATH])
def test_boolean_masks_and_hidden_rows(backend: SDPBackend) -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3, grad=True)
    seen = mt.ones(6, 6, dtype=mt.bool).tril()
    with sdpa_kernel(backend):
        if backend is SDPBackend.FLASH_ATTENTION:
            expected = attend(q, k, v, is_causal=True)
            with sdpa_kernel(SDPBackend.MATH):
                assert mt.allclose(attend(q, k, v, seen), expected, atol=1e-6)
            return
        assert mt.allclose(attend(q, k, v, seen), attend(q, k, v, is_causal=True), atol=1e-6)
        seen[3] = False
        out = attend(q, k, v, seen)
        assert (out[..., 3, :] == 0).all()
        grads = mt.autograd.grad(out.sum(), (q, k, v))
        assert all(each.isfinite().all() for each in grads)
        assert (grads[0][..., 3, :] == 0).all()


def test_dropout_is_drawn_from_the_generator() -> None:
    q, k, v = tensors(*[(1, 2, 50, 4)] * 3)
    results = []
    for _ in range(2):
        mt.manual_seed(3)
        results.append(attend(q, k, v, dropout_p=0.5))
    assert results[0].equal(results[1])
    assert not results[0].equal(attend(q, k, v))
    mt.manual_seed(4)
    mean = sum(attend(q, k, v, dropout_p=0.2) for _ in range(200)) / 200
    assert (mean - attend(q, k, v)).abs().max() < 0.3


# Gradients


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((1, 2, 3, 4),) * 3, {}),
        (((1, 2, 3, 4),) * 3, {"is_causal": True}),
        (((1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2)), {"enable_gqa": True, "scale": 0.9}),
        (((3, 2), (4, 2), (4, 3)), {}),
        (((4, 3, 2), (2, 3, 2), (2, 3, 2), (4, 3, 3)), {"enable_gqa": True}),
        (((2, 2, 2), (2, 1, 2, 2), (1, 2, 2)), {"enable_gqa": True}),
    ],
)
@pytest.mark.parametrize("backend", [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
def test_gradients_of_every_order(shapes: Any, options: Any, backend: SDPBackend) -> None:
    inputs = tensors(*shapes, dtype=mt.float64, grad=True)
    allowed = [backend, SDPBackend.MATH] if len(shapes[0]) < 4 else backend
    with sdpa_kernel(allowed):
        assert gradcheck(lambda *args: attend(*args, **options), inputs)
        assert gradgradcheck(lambda *args: attend(*args, **options), inputs)


@pytest.mark.parametrize("backend", FUSED)
def test_fused_gradients_are_those_of_math(backend: SDPBackend) -> None:
    inputs = tensors((2, 4, 40, 8), (2, 2, 40, 8), (2, 2, 40, 8), grad=True)
    g = mt.randn(2, 4, 40, 8)

    def grads(backend: SDPBackend) -> tuple:
        with sdpa_kernel(backend):
            out = attend(*inputs, is_causal=True, enable_gqa=True)
        return mt.autograd.grad(out, inputs, g)

    with explain.record() as log:
        found = grads(backend)
    assert [name for name, _ in ran(log)] == ["attention", "attention_gradient"]
    for one, other in zip(found, grads(SDPBackend.MATH), strict=True):
        assert mt.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("backend", FUSED)
def test_gradients_that_are_differentiated_again_say_that_they_are_of_math(backend: SDPBackend) -> None:
    q, k, v = tensors(*[(1, 2, 5, 4)] * 3, grad=True)
    with sdpa_kernel(backend):
        out = attend(q, k, v)
    with explain.record() as log:
        (grad,) = mt.autograd.grad(out.sum(), q, create_graph=True)
        again = len(log)
        grad.square().sum().backward()
    name = {SDPBackend.FLASH_ATTENTION: "flash", SDPBackend.EFFICIENT_ATTENTION: "efficient"}[backend]
    said = f"no flag allows less than ieee; gradients of {name} attention that are differentiated again are math's"
    assert {entry.decided_by for entry in log[:again]} == {said}
    assert {entry.decided_by for entry in log[again:]} == {"no flag allows less than ieee"}


def test_gradients_of_a_mask() -> None:
    q, k, v, mask = tensors((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (3, 3), dtype=mt.float64, grad=True)
    assert gradcheck(attend, (q, k, v, mask))
    with (
        pytest.raises(RuntimeError, match="no gradient with respect to attn_mask"),
        sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION),
    ):
        attend(q, k, v, mask)


def test_forward_mode() -> None:
    q, k, v = tensors(*[(1, 1, 3, 2)] * 3, dtype=mt.float64)
    with mt.autograd.forward_ad.dual_level():
        dual = mt.autograd.forward_ad.make_dual(q, mt.ones_like(q))
        tangent = mt.autograd.forward_ad.unpack_dual(attend(dual, k, v)).tangent
    step = 1e-6
    assert mt.allclose(tangent, (attend(q + step, k, v) - attend(q - step, k, v)) / (2 * step), atol=1e-6)


# Flags


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_precision_flags_and_those_of_backward(precision: str) -> None:
    q, k, v = tensors(*[(1, 2, 40, 8)] * 3, grad=True)

    def run(mode: str) -> tuple[bytes, ...]:
        with backends.flags(backward_precision=mode):
            with backends.flags(fp32_precision=precision):
                out = attend(q, k, v)
            grads = mt.autograd.grad(out.sum(), (q, k, v))
        return tuple(each.detach().numpy().tobytes() for each in (out, *grads))

    live, recorded, named = run("live"), run("recorded"), run(precision)
    assert live[0] == recorded[0]
    assert recorded == named
    assert live[1:] != recorded[1:]
    with backends.flags(fp32_precision=precision), explain.record() as log:
        attend(q, k, v)
    assert log[0].precision == precision
    assert precision in log[0].decided_by


# The module


def reference(module: nn.MultiheadAttention, x: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """By loops over the batch and the heads, in float64."""
    weight, bias = (each.detach().numpy().astype(np.float64) for each in (module.in_proj_weight, module.in_proj_bias))
    out_weight, out_bias = (each.detach().numpy() for each in (module.out_proj.weight, module.out_proj.bias))
    size = module.head_dim
    out = np.zeros(x.shape)
    for n in range(x.shape[1]):
        q, k, v = np.split(x[:, n] @ weight.T + bias, 3, -1)
        for head in range(module.num_heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / math.sqrt(size)
            weights = np.exp(scores if mask is None else scores + mask)
            out[:, n, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    return out @ out_weight.T + out_bias


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention(need_weights: bool, masked: bool) -> None:
    (x,) = tensors((5, 3, 8))
    module = nn.MultiheadAttention(8, 2)
    hidden = mt.ones(5, 5, dtype=mt.bool).triu(1) if masked else None
    mask = None if hidden is None else np.where(hidden.numpy(), -np.inf, 0)
    with explain.record() as log:
        out, weights = module(x, x, x, need_weights=need_weights, attn_mask=hidden)
    np.testing.assert_allclose(out.detach().numpy(), reference(module, x.numpy(), mask), atol=1e-5)
    assert (("attention" in dict(ran(log))), weights is None) == (not need_weights, not need_weights)
    if weights is not None:
        assert weights.shape == (3, 5, 5)
        assert mt.allclose(weights.sum(-1), mt.ones(3, 5))
    backends.mha.set_fastpath_enabled(False)
    with explain.record() as log:
        slow, _ = module(x, x, x, need_weights=need_weights, attn_mask=hidden)
    assert "attention" not in dict(ran(log))
    assert mt.allclose(out, slow, atol=1e-5)


def test_multihead_attention_with_everything() -> None:
    query, key, value = tensors((2, 5, 8), (2, 6, 4), (2, 6, 3))
    module = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, kdim=4, vdim=3, batch_first=True)
    padding = mt.zeros(2, 6, dtype=mt.bool)
    padding[1, 4:] = True
    out, weights = module(query, key, value, key_padding_mask=padding, average_attn_weights=False)
    assert (out.shape, weights.shape) == ((2, 5, 8), (2, 2, 5, 8))
    assert (weights[1, :, :, 4:6] == 0).all()
    changed = value.clone()
    changed[1, 4:] = 100.0
    assert module(query, key, changed, key_padding_mask=padding)[0].equal(out)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert module(query[0], key[0], value[0])[0].shape == (5, 8)
    with pytest.raises(RuntimeError, match="need attn_mask"):
        module(query, key, value, is_causal=True)
    with pytest.raises(AssertionError, match="divisible"):
        nn.MultiheadAttention(7, 2)


# Errors


@pytest.mark.parametrize(
    ("shapes", "options", "match"),
    [
        (((3, 4), (3, 5), (3, 4)), {}, r"\[3, 4\], \[3, 5\], \[3, 4\] do not meet"),
        (((4,), (3, 4), (3, 4)), {}, "at least 2-D"),
        (((2, 3, 4), (3, 3, 4), (3, 3, 4)), {}, "do not broadcast"),
        (((1, 3, 2, 4), (1, 2, 2, 4), (1, 2, 2, 4)), {"enable_gqa": True}, "multiple of those of key and value"),
        (((3, 4),) * 3, {"enable_gqa": True}, "at least 3-D"),
        (((1, 3, 2, 4), (1, 2, 2, 4), (1, 2, 2, 4)), {}, "do not broadcast"),
    ],
)
def test_sizes_that_do_not_meet(shapes: Any, options: Any, match: str) -> None:
    with pytest.raises(RuntimeError, match=match):
        attend(*tensors(*shapes), **options)


@pytest.mark.parametrize("add_zero_attn", [False, True])
def test_masks_that_do_not_fit_are_refused(add_zero_attn: bool) -> None:
    module, x = mt.nn.MultiheadAttention(8, 2, add_zero_attn=add_zero_attn), mt.randn(3, 4, 8)
    for shape in ((2, 2), (3, 2), (3, 4), (4, 3, 3), (8, 3, 2)):
        for need_weights in (True, False):
            with pytest.raises(RuntimeError, match=r"attn_mask is .*, but should be \[3, 3\] or \[8, 3, 3\]"):
                module(x, x, x, attn_mask=mt.zeros(*shape), need_weights=need_weights)
    for shape in ((3, 3), (4, 2), (4, 4)):
        with pytest.raises(AssertionError, match=r"key_padding_mask shape of \[4, 3\], but got"):
            module(x, x, x, key_padding_mask=mt.zeros(*shape))


@pytest.mark.parametrize("dtype", [mt.float32, mt.float16])
def test_rows_that_see_no_key_have_weights_of_zero(dtype: Any) -> None:
    """Their result is the bias, and gradients are those of the fused kernel, which makes no weights."""
    mt.manual_seed(0)
    module, x = nn.MultiheadAttention(4, 2).to(dtype), mt.randn(3, 2, 4).to(dtype)
    mask = mt.zeros(3, 3, dtype=dtype)
    mask[2] = -math.inf
    found = []
    for need_weights in (True, False):
        module.zero_grad()
        out, weights = module(x, x, x, attn_mask=mask, need_weights=need_weights)
        assert mt.equal(out[2], module.out_proj.bias.expand(2, 4))
        assert weights is None or not weights[:, 2].any()
        out.sum().backward()
        found.append([parameter.grad for parameter in module.parameters()])
    for one, other in zip(*found, strict=True):
        assert mt.allclose(
            one, other, rtol=1e-2 if dtype is mt.float16 else 1e-5, atol=1e-2 * mt.finfo(dtype).eps ** 0.5
        )


def test_bad_arguments() -> None:
    q, k, v = tensors(*[(1, 2, 3, 4)] * 3)
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
        attend(q, k, v, mt.zeros(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match="one floating dtype"):
        attend(q, k.double(), v)
    with pytest.raises(RuntimeError, match="attn_mask of dtype bool, float32 or"):
        attend(q, k, v, mt.zeros(3, 3, dtype=mt.float64))
    with pytest.raises(TypeError, match=r"must be Tensors, but they are Tensor, numpy\.ndarray, Tensor"):
        attend(q, np.ones((1, 2, 3, 4), np.float32), v)
    with pytest.raises(ValueError, match="dropout_p has to be between 0 and 1, but got 2"):
        attend(q, k, v, dropout_p=2)


@pytest.mark.parametrize("shapes", [((2, 3, 4), (1, 2, 3, 4)), ((1, 2, 3, 4), (5, 1, 3, 4)), ((3, 4), (2, 3, 4))])
def test_a_query_is_broadcast_over_the_batch_of_keys(shapes: Any) -> None:
    q, k = (mt.randn(shape, requires_grad=True) for shape in shapes)
    out = attend(q, k, k)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    assert out.shape == (*np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]), 3, 4)
    assert mt.allclose(out, weights @ k, atol=1e-6)
    out.sum().backward()
    assert q.grad.shape == q.shape


def test_the_scale_of_each_call_is_its_own() -> None:
    """The scale may be a tensor that changes between calls of one signature, or exceed the range of float32."""
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    mask, scale = mt.randn(6, 6), mt.tensor(0.5)
    for value in (0.5, 3.0):
        scale.fill_(value)
        for given in ((), (mask,)):
            for _ in range(2):
                np.testing.assert_array_equal(
                    attend(q, k, v, *given, scale=scale), attend(q, k, v, *given, scale=value)
                )
    for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            np.testing.assert_allclose(
                attend(q, k, v, scale=1e-46), v.mean(-2, keepdim=True).expand(1, 2, 6, 4), atol=1e-6
            )
            attend(q, k, v, mask, scale=1e39)


def test_scales_are_among_what_kernels_refuse() -> None:
    q, k, v = tensors(*[(1, 2, 6, 4)] * 3)
    sentence = "compares scores before they are scaled, which scale=0.0 does not allow"
    params = backends.cuda.SDPAParams
    assert backends.cuda.can_use_flash_attention(params(q, k, v, None, 0.0, False, False))
    with pytest.warns(UserWarning, match=sentence):
        assert not backends.cuda.can_use_flash_attention(params(q, k, v, None, 0.0, False, False, 0.0), debug=True)
    answer = explain.why("scaled_dot_product_attention", q, k, v, scale=0.0)
    assert answer.implementations[0] == "efficient"
    assert any(sentence in refusal for _, refusal in answer.refusals)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match=f"No available kernel.*{sentence}"):
        attend(q, k, v, scale=0.0)
    np.testing.assert_allclose(attend(q, k, v, scale=0.0), v.mean(-2, keepdim=True).expand(1, 2, 6, 4), atol=1e-6)


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float64])
def test_a_mask_of_float32_is_brought_to_the_type_of_the_query(dtype: mt.dtype) -> None:
    q, mask = mt.randn(1, 2, 5, 8, dtype=dtype), mt.randn(5, 5, requires_grad=True)
    out = mt.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert out.dtype is dtype
    expected = mt.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask.to(dtype))
    assert mt.equal(out, expected)
    out.sum().backward()
    assert mask.grad.dtype is mt.float32


@pytest.mark.parametrize("mask", [None, mt.bool, mt.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_without_keys_the_result_is_zero(mask: mt.dtype | None, causal: bool) -> None:
    query, key = mt.ones(2, 3, 4, 8).transpose(1, 2).requires_grad_(), mt.ones(2, 4, 0, 8)
    if mask is None:
        out = attend(query, key, key, is_causal=causal)
    else:
        out = attend(query, key, key, mt.zeros(3, 0, dtype=mask))
    out.sum().backward()
    assert out.shape == query.shape
    assert not out.any()
    assert not query.grad.any()
