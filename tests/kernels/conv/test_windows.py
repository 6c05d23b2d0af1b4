"""Windows of depthwise convolutions: the code of any window agrees with that of usual ones, and code is bounded."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels.conv import channelwise, conv, conv_input_gradient, conv_weight_gradient
from minitorch_backends.kernels.conv.params import setting_of
from minitorch_backends.kernels.runtime import cpu

pytestmark = pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="depthwise convolutions need AVX2")

SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"x": (2, 5, 19, 21), "w": (5, 1, 3, 3), "padding": (1, 1)},
    "every second": {"x": (1, 19, 20, 40), "w": (19, 1, 5, 3), "padding": (2, 1), "stride": (2, 2)},
    "narrow images": {"x": (2, 18, 9, 3), "w": (18, 1, 7, 2), "padding": (3, 1)},
    "dilated": {"x": (1, 20, 17, 18), "w": (20, 1, 3, 3), "padding": (4, 4), "dilation": (4, 4)},
    "two of each": {"x": (1, 17, 12, 9), "w": (34, 1, 4, 3), "padding": (1, 2)},
    "three dimensions": {"x": (1, 16, 4, 5, 17), "w": (16, 1, 2, 3, 3), "padding": (1, 1, 1)},
}


def _last(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


@pytest.mark.parametrize("layout", [np.asarray, _last], ids=["rows", "channels last"])
@pytest.mark.parametrize("name", SHAPES)
def test_any_window_has_the_bits_of_its_own_code(name: str, layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, generator = SHAPES[name], np.random.default_rng(1)
    x, w = (generator.standard_normal(shape[key]).astype(np.float32) for key in ("x", "w"))
    keywords = {key: value for key, value in shape.items() if key not in ("x", "w")} | {"groups": x.shape[1]}
    g = generator.standard_normal(conv.reference(x, w, **keywords).shape).astype(np.float32)
    x, g = layout(x), layout(g)

    def results() -> list[np.ndarray]:
        channelwise._plan.cache_clear()
        return [
            conv["depthwise"](x, w, **keywords),
            conv_input_gradient["depthwise"](g, w, input_size=x.shape[2:], **keywords),
            conv_weight_gradient["depthwise"](x, g, kernel_size=w.shape[2:], **keywords),
        ]

    own = results()
    monkeypatch.setattr(channelwise, "_USUAL", frozenset())
    for before, after in zip(own, results(), strict=True):
        assert after.strides == before.strides
        assert after.tobytes() == before.tobytes()
    channelwise._plan.cache_clear()


def test_shapes_without_end_share_code() -> None:
    """Each window has code in memory: 4,000 shapes of 40 taps and strides to 9 must not have a window each."""
    draw = random.Random(0)

    def shape() -> channelwise._Case:
        kernel, stride, dilation = ([draw.randint(1, most) for _ in range(2)] for most in (40, 4, 9))
        groups, several = draw.randint(1, 40), draw.choice((1, 1, 2))
        size = [(taps - 1) * apart + draw.randint(1, 40) for taps, apart in zip(kernel, dilation, strict=True)]
        kind, more = draw.choice(
            (("forward", {}), ("input", {"input_size": size}), ("weight", {"kernel_size": kernel}))
        )
        setting = setting_of(kind, 2, stride=stride, dilation=dilation, groups=groups, **more)
        results = [
            (length - (taps - 1) * apart - 1) // step + 1
            for length, taps, apart, step in zip(size, kernel, dilation, stride, strict=True)
        ]
        x, w, y = (2, groups, *size), (groups * several, 1, *kernel), (2, groups * several, *results)
        first, second = {"forward": (x, w), "input": (y, w), "weight": (x, y)}[kind]
        return channelwise._Case(setting, first, second, np.dtype(np.float32), several == 1 and draw.random() < 0.5)

    cases = [shape() for _ in range(4000)]
    assert len({case.window for case in cases if not case.usual}) <= 40
    assert len({case.inner[2:6] for case in cases if not case.usual}) > 1000
