"""Deliberate departures from torch: one table, which the reference shows."""

from collections.abc import Callable
from typing import Any

DEPARTURES = {
    "flags_leaves_unnamed_flags_alone": (
        "`flags()` changes what is named and nothing else; torch resets the rest, and disables the backend."
    ),
    "flags_restores_stored_values": (
        "Leaving `flags()` puts back what was stored; torch writes inherited values into the backend's own flag."
    ),
    "writes_are_atomic": "A bad value among several leaves every flag as it was; torch keeps the ones before it.",
    "every_flag_freezes": "`disable_global_flags()` freezes every flag; torch's leaves about half of them assignable.",
    "reads_never_raise": "Reading `allow_tf32` or the matmul precision never fails; torch raises on mixed settings.",
    "mkldnn_precision_writes_its_own_cell": (
        "`mkldnn.fp32_precision = ...` sets oneDNN's flag; torch's assignment sets the generic one."
    ),
    "unknown_names_are_refused": "Assigning an unknown attribute is an AttributeError; torch stores it in silence.",
    "unknown_matmul_precision_is_refused": (
        "`set_float32_matmul_precision` raises RuntimeError for an unknown name; torch warns and does nothing."
    ),
    "overrides_belong_to_a_thread_or_task": (
        "`flags()` acts on the current thread or asyncio task; torch's acts on the whole process."
    ),
    "decorators_act_inside_calls_only": "A decorated function, generator or coroutine has the values in its body only.",
    "matmul_precision_follows_the_flags": (
        "`get_float32_matmul_precision()` is the name nearest to the flags in force; torch keeps a value beside them."
    ),
    "every_flag_validates": (
        "A value that means nothing is refused when it is set; torch stores some, and fails when they are used."
    ),
    "every_strategy_can_be_set": (
        "`opt_einsum.strategy` takes every name that opt_einsum has, also while `opt_einsum.enabled` is False; torch's "
        "`flags()` takes three names, its assignment anything."
    ),
    "mkldnn_allow_tf32_acts": "`mkldnn.allow_tf32` acts on oneDNN's precisions; torch's acts on Intel GPUs only.",
    "libraries_are_all_there": (
        "Every preferred library can be chosen, since each names algorithms of this engine; torch refuses what it was "
        "not built with, in one case after storing it."
    ),
    "the_plan_cache_is_real": "`cuda.cufft_plan_cache` is the cache of this engine's plans; torch needs a GPU for it.",
    "availability_is_true_of_the_machine": (
        "`mkldnn.is_available()`, `nnpack.is_available()`, `quantized.supported_engines` and the like tell what is "
        "used here, which has a flash attention kernel, and is neither oneDNN nor NNPACK; the flags act all the same."
    ),
    "missing_devices_raise_runtime_error": (
        "Functions that need an absent device raise RuntimeError and say so; torch raises AttributeError about itself."
    ),
    "internals_of_torch_are_absent": (
        "Names that only serve torch's own modules are absent: `ContextProp`, `PropModule`, `GenericModule`, "
        "`cuda.cuBLASModule`, `cuda.cuFFTPlanCacheAttrContextProp`, `cudnn.CUDNN_TENSOR_DTYPES`, and the functions of "
        "`cudnn.rnn`."
    ),
    "a_scope_can_be_used_again": "One `flags()` object may be entered twice, and nested in itself; torch's raises.",
}
"""Where flags behave otherwise than torch's do, by the name of the test that shows it (`test_` in front)."""

AUTOGRAD_DEPARTURES = {
    "test_coroutines_and_asynchronous_generators_are_covered": (
        "`@no_grad()` and the other modes cover coroutines and async generators; torch's cover their creation only. "
        "A block inside a generator that is closed in another thread or task (`break` out of `async for`) ends there, "
        "and stays open where it was entered: decorate the generator, or close it."
    ),
    "test_one_object_entered_again": (
        "A mode's context object may be entered again while it is active; torch's leaks."
    ),
    "test_as_a_decorator_it_acts_inside_calls_only": (
        "Modes used as decorators change nothing before the call; `set_multithreading_enabled` of torch does."
    ),
    "test_what_is_no_mode_and_no_function_is_refused_at_once": (
        "`no_grad(3)` is a TypeError at once; torch returns a function that fails when it is called."
    ),
    "test_leaving_what_was_not_entered_changes_nothing": (
        "Leaving a mode that was not entered changes nothing; torch raises, or switches recording off."
    ),
    "test_inference_mode_off_gives_back_what_was_before_inference": (
        "`inference_mode(False)` inside `no_grad` records nothing; torch switches recording on."
    ),
    "test_version_checks_stay_on": (
        "With saved-tensor hooks, what they give back is checked for writes if it is the memory that was saved; torch "
        "checks nothing then."
    ),
    "test_retain_graph_and_create_graph": ("`backward(create_graph=True)` does not warn: it makes no reference cycle."),
    "test_out_into_the_world": "`float(x)` of what requires gradients does not warn, as `x.item()` does not.",
    "test_a_view_made_before_its_base_required_gradients_follows_it": (
        "A view follows a base that requires gradients later; in torch its gradient leads nowhere."
    ),
    "test_views_apart_may_be_used_after_unrecorded_writes": (
        "Views that cannot follow writes (of `unbind`, or made under `no_grad`) may be used after an unrecorded write "
        "to their base, which changes no history; torch refuses."
    ),
    "test_conj_is_a_copy": "`conj()` of a complex tensor is a copy; torch's is a view, which follows writes.",
    "test_operands_may_overlap_what_is_written": (
        "`x[1:].add_(x[:-1])` reads before it writes; torch refuses operands that overlap what is written."
    ),
}
"""By the test that shows it, in tests/autograd."""

CALL_DEPARTURES = {
    "`out=` may share memory with operands, takes every type that the result can be cast to, and is resized whatever "
    "it was made from; some of torch's functions refuse that.": (
        "masked_select error, take error, gather error, cat error, aminmax error, complex error, multinomial error, "
        "kthvalue error"
    ),
    "`narrow_copy` raises IndexError for a dim out of range, as `narrow` does; torch RuntimeError.": (
        "narrow_copy error"
    ),
    "`Tensor.__radd__(2, x)` and other reflected operators that are called by name take numbers; torch's do not.": (
        "__radd__ error, __rmul__ error, __rand__ error, __ror__ error, __rxor__ error"
    ),
}
"""What calls do otherwise, and the ops and kinds of difference that a test against torch's samples finds for it."""


def _interpolation_error(m: Any) -> int:
    """The distance of a resized image of bytes from the rounded exact one."""
    image, resize = m.arange(16) * 3, m.nn.functional.interpolate
    found, exact = (
        resize(image.to(dtype).reshape(1, 1, 4, 4), size=(7, 7), mode="bicubic") for dtype in (m.uint8, m.float64)
    )
    return int((found - (exact + 0.5).floor().clamp(0, 255)).abs().max().item())


def _extreme_gradient(m: Any) -> list[float]:
    x, values = m.ones(2), m.tensor([2.0, 1.0], requires_grad=True)
    m.scatter_reduce(x, 0, m.tensor([0, 1]), values, "amax", include_self=False).sum().backward()
    return values.grad.tolist()


def _strided_gradient(m: Any) -> list[float]:
    x = m.zeros(4, requires_grad=True)
    m.as_strided(x[:2], (2,), (1,), 2).sum().backward()
    return x.grad.tolist()


def _impossible_alignment(m: Any) -> list[float]:
    x = m.zeros(1, 1, 2, requires_grad=True)
    m.nn.functional.ctc_loss(x.log_softmax(-1), m.tensor([[1, 1]]), (1,), (2,)).backward()
    return x.grad.flatten().tolist()


def _slope_of_a_small_spread(m: Any) -> str:
    x = m.tensor([8192.0, 8192.0, 8192.0 + 2.0**-10], requires_grad=True)
    x.std().backward()
    return f"{x.grad[2].item():.5f}"


def _filled_where(m: Any) -> list[float]:
    x = m.zeros(2)
    x[m.tensor([0, 1], dtype=m.uint8)] = 2.0
    return x.tolist()


FUNCTION_DEPARTURES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "`vmap` calls a function that reads values (`item()`, branches) once for each sample; torch refuses it.": (
        lambda m: m.vmap(lambda x: x * x.item())(m.arange(3)).tolist(),
        [0, 1, 4],
    ),
    "Weights and operands of another dtype promote in the norm layers, `prelu`, `lerp`, `cdist` and the bias of "
    "`linear`; torch refuses them.": (
        lambda m: m.nn.functional.prelu(-m.ones(1), m.ones(1, dtype=m.float64)).tolist(),
        [-1.0],
    ),
    "Norm layers of rows whose squares overflow, and of rows with a spread in the last bits of their mean, are right "
    "to the last digits; torch's are NaN, and off by a tenth.": (
        lambda m: m.nn.functional.layer_norm(m.tensor([1e30, -1e30]), (2,)).round(decimals=6).tolist(),
        [1.0, -1.0],
    ),
    "Norms of every order, distances, `cosine_embedding_loss`, `local_response_norm`, `lp_pool1d` and its relatives of "
    "numbers whose powers leave the range of float32 are right, with their gradients; torch's are 0, Inf or NaN.": (
        lambda m: f"{m.linalg.vector_norm(m.tensor([1e30, 1e30]), 3).item():.4g}",
        "1.26e+30",
    ),
    "Gradients of `std` and `var` of a spread in the last bits of the mean are right; torch's are off by a tenth.": (
        _slope_of_a_small_spread,
        "0.57735",
    ),
    "`heaviside`, `gammainc` and `gammaincc` of NaN are NaN; torch's are 0 or 1 where the other argument decides.": (
        lambda m: str(m.heaviside(m.tensor([float("nan")]), m.ones(1)).item()),
        "nan",
    ),
    "`zeta` of infinite or huge arguments, and `airy_ai` of infinity, are their limit, 0; torch's are NaN.": (
        lambda m: [
            m.special.zeta(m.tensor([2.0]), m.tensor([float("inf")])).item(),
            m.special.airy_ai(m.tensor(float("inf"))).item(),
        ],
        [0.0, 0.0],
    ),
    "Orthogonal polynomials of degree NaN, or at NaN, are NaN; torch's are 0 or 1 by the degree that NaN turns into.": (
        lambda m: str(m.special.legendre_polynomial_p(m.tensor([0.5]), m.tensor([float("nan")])).item()),
        "nan",
    ),
    "Of zeros of two signs `fmax` and `fmin` are the first; torch's bfloat16 ones are the second. `maximum`, `minimum` "
    "and `clamp` are either; torch's depend on the element's place.": (
        lambda m: m.fmax(-m.zeros(2, dtype=m.bfloat16), m.zeros(2, dtype=m.bfloat16)).signbit().tolist(),
        [True, True],
    ),
    "`fmod` and `remainder` are exact for quotients of any size; torch's vectors are NaN for infinite ones.": (
        lambda m: str(m.fmod(m.full((32,), 3e38), m.full((32,), 0.5)).sum().item()),
        "0.0",
    ),
    "A remainder of 0 has the divisor's sign, as in Python; torch's has the dividend's.": (
        lambda m: m.remainder(m.tensor([0.0, -0.0]), m.tensor([-1.0, 1.0])).signbit().tolist(),
        [True, False],
    ),
    "`ldexp` scales by `2 ** other` also where that alone is out of range; torch's is 0 or NaN.": (
        lambda m: m.ldexp(m.tensor([0.0]), m.tensor([200.0])).item(),
        0.0,
    ),
    "`trapezoid` adds and subtracts small integers without wrapping around; torch's sums of uint8 wrap.": (
        lambda m: m.cumulative_trapezoid(m.tensor([200, 200], dtype=m.uint8)).tolist(),
        [200.0],
    ),
    "With `include_self=False`, the gradient of `scatter_reduce`'s extremes does not go to the elements that do not "
    "count; torch shares it with those that are equal.": (_extreme_gradient, [1.0, 1.0]),
    "The gradient of `as_strided` of a view reaches the memory beyond the view; torch loses it.": (
        _strided_gradient,
        [0.0, 0.0, 1.0, 1.0],
    ),
    "Targets that `ctc_loss` cannot align have an infinite loss and a gradient of 0; torch's is NaN.": (
        _impossible_alignment,
        [0.0, 0.0],
    ),
    "`lp_pool1d` and its relatives refuse `norm_type=0`, and `init.trunc_normal_` a `std` that is not positive, by a "
    "ValueError; torch divides by zero.": (
        lambda m: m.nn.functional.lp_pool1d(m.ones(1, 1, 4), 0, 2).tolist(),
        ValueError,
    ),
    "`mode` counts NaN as the largest values, none equal to another; where torch finds them depends on their order.": (
        lambda m: m.mode(m.tensor([float("nan"), 1.0])).values.item(),
        1.0,
    ),
    "Images of bytes are resized exactly and rounded once; torch's weights have few bits, which moves values by 1.": (
        _interpolation_error,
        0,
    ),
    "Assignment of a number by a mask of bytes works, as that of a tensor does (with the warning); torch refuses it.": (
        _filled_where,
        [0.0, 2.0],
    ),
    "Numbers from 2**63 to 2**64 - 1 are compared as they are; torch's wrap around.": (
        lambda m: (m.arange(2) < 2**63).tolist(),
        [True, True],
    ),
    "uint16, uint32 and uint64 have every function that uint8 has, and promote as in the array API standard; torch has "
    "few functions for them, and no promotion.": (
        lambda m: (m.tensor([3], dtype=m.uint16) + m.tensor([-4], dtype=m.int16)).tolist(),
        [-1],
    ),
    "Every function that only moves elements takes 8-bit floats, and so do batches of matrix products; torch has no "
    "kernels of `flip`, `gather`, `take`, `scatter`, `masked_fill`, `bmm` and some others for them.": (
        lambda m: m.tensor([1.0, 2.0]).to(m.float8_e5m2).flip(0).float().tolist(),
        [2.0, 1.0],
    ),
    "float64 and int64 are rounded once to bfloat16 and 8-bit floats; torch rounds to float32 first.": (
        lambda m: m.tensor([1 + 2.0**-4 + 2.0**-40], dtype=m.float64).to(m.float8_e4m3fn).float().tolist(),
        [1.125],
    ),
    "`finfo(float8_e5m2fnuz).eps` is 0.25, the distance from 1 to the next number; torch's is half of it.": (
        lambda m: m.finfo(m.float8_e5m2fnuz).eps,
        0.25,
    ),
    "Slices may have negative steps, which give views as in NumPy; torch refuses them.": (
        lambda m: m.arange(3)[::-1].tolist(),
        [2, 1, 0],
    ),
    "`max_pool1d`, `avg_pool1d` and `local_response_norm` take every integer dtype, `kthvalue`, `searchsorted` and "
    "padding by reflection also booleans; torch has no kernels for them.": (
        lambda m: m.kthvalue(m.tensor([True, False]), 1).values.item(),
        False,
    ),
}
"""What functions do otherwise: a call of a module, and its result here, or the exception that it raises."""
