"""lab.devices: bounds of time from peaks and bandwidth, in audits, frontiers and sweeps, and measured speeds."""

import json
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, cli, lab
from minitorch_backends.kernels.registry import Call, observe
from minitorch_backends.lab.devices import DEVICES, Device, find_device, measure_speed, predict_seconds

pytestmark = pytest.mark.usefixtures("default_flags")

SLOW = Device("slow", {"fp64": 1.0, "fp32": 2.0, "tf32": 8.0, "bf16": 16.0, "int8": 32.0}, 1.0, "a test")
FAST_MEMORY = SLOW._replace(bandwidth=1e9)


def call_of(a: mt.Tensor, b: mt.Tensor, **flags: Any) -> Call:
    calls: list[Call] = []
    with backends.flags(**flags), observe(calls.append):
        a @ b
    return calls[0]


@pytest.mark.parametrize(
    ("precision", "terms_over_peak"),
    [("ieee", 1 / 2), ("tf32", 1 / 8), ("bf16", 1 / 16), ("bf16x3", 3 / 16), ("fp16", 1 / 8), ("e4m3", 1 / 16)],
)
def test_operations_take_the_peak_of_their_format_or_the_next_wider_one(precision: str, terms_over_peak: float) -> None:
    call = call_of(mt.randn(30, 50), mt.randn(50, 20), fp32_precision=precision)
    assert predict_seconds(FAST_MEMORY, call) == pytest.approx(2 * 30 * 50 * 20 * terms_over_peak * 1e-12)


def test_memory_bounds_small_products() -> None:
    call = call_of(mt.randn(1, 50), mt.randn(50, 20))
    assert predict_seconds(SLOW, call) == pytest.approx((50 + 1000 + 20) * 4 / 1e9)
    assert predict_seconds(SLOW, call, "bf16") == pytest.approx((50 + 1000 + 20) * 2 / 1e9)


def test_float64_and_its_emulation() -> None:
    a, b = mt.randn(30, 50, dtype=mt.float64), mt.randn(50, 20, dtype=mt.float64)
    flops = 2 * 30 * 50 * 20 * 1e-12
    assert predict_seconds(FAST_MEMORY, call_of(a, b)) == pytest.approx(flops)
    assert predict_seconds(FAST_MEMORY, call_of(a, b, fp64_precision="int8x4")) == pytest.approx(flops * 10 / 32)
    assert predict_seconds(FAST_MEMORY, call_of(a, b, fp64_precision="int8mod14")) == pytest.approx(flops * 14 / 32)
    with pytest.raises(ValueError, match="tpu-v4 has no float64 products"):
        predict_seconds(DEVICES["tpu-v4"], call_of(a, b))


def test_rows_of_the_table() -> None:
    for row in DEVICES.values():
        assert row.source
        order = [row.peaks[each] for each in ("fp64", "fp32", "tf32", "bf16", "e4m3", "e2m1") if each in row.peaks]
        assert order == sorted(order), f"{row.name}: shorter formats are not slower"
    assert find_device("H100") is DEVICES["h100"]
    with pytest.raises(ValueError, match=r"device must be one of v100, .* got 'h1000'"):
        find_device("h1000")


def test_an_audit_has_times_beside_errors() -> None:
    mt.manual_seed(0)
    model = mt.nn.Sequential(mt.nn.Linear(40, 60), mt.nn.ReLU(), mt.nn.Linear(60, 10)).eval()
    found = lab.audit(model, mt.randn(32, 40), ("tf32", "bf16"), gradients=False, device=FAST_MEMORY)
    layers, whole = found.layers(), found.whole("bf16")
    assert whole["predicted_seconds"] == pytest.approx(sum(row["predicted_seconds"] for row in layers))
    assert whole["predicted_before"] == pytest.approx(8 * whole["predicted_seconds"])
    assert found.predicted == pytest.approx((whole["predicted_before"], whole["predicted_seconds"]))
    points = found.frontier(verify=1)
    assert [point.milliseconds for point in points] == sorted((p.milliseconds for p in points), reverse=True)
    assert points[-1].milliseconds == pytest.approx(1e3 * whole["predicted_seconds"])
    assert "ms at least, slow" in points.cells()[0]
    assert "milliseconds of products on slow, at least" in points.plot().axes[0].get_xlabel()
    assert "Products take at least" in found.summary()
    assert json.loads(found.to_json())["predicted"] == list(found.predicted)
    assert "predicted_seconds" not in lab.audit(model, mt.randn(32, 40), "bf16", gradients=False).rows[0]


def product(n: int) -> mt.Tensor:
    return mt.randn(n, n) @ mt.randn(n, n)


def test_a_sweep_has_times_beside_errors() -> None:
    flags = {"fp32_precision": ["ieee", "bf16"]}
    found = lab.sweep(product, over={"n": [40]}, flags=flags, repeats=0, device=FAST_MEMORY)
    seconds = {row["flags"]["fp32_precision"]: row["predicted_seconds"] for row in found.rows}
    assert seconds == {"ieee": pytest.approx(2 * 40**3 / 2e12), "bf16": pytest.approx(2 * 40**3 / 16e12)}
    assert [point.label for point in found.pareto("predicted_seconds").front] == [
        "fp32_precision=bf16", "fp32_precision=ieee",
    ]  # fmt: skip


def test_measured_speeds_take_the_place_of_a_table(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lab.devices, "_MEGABYTES", 1)
    found = measure_speed(size=32, seconds=0.001)
    assert found.peaks.keys() >= {"fp64", "fp32", "tf32", "bf16"}
    assert all(peak > 0 for peak in found.peaks.values())
    monkeypatch.setattr(lab.devices, "measure_speed", lambda device: found)
    file = tmp_path / "mine.json"
    assert cli.main(["measure", "--speed", "--out", str(file)]) == 0
    assert "GB/s" in capsys.readouterr().out
    assert find_device(file) == found
    file.write_text("{}")
    with pytest.raises(ValueError, match="a file of measured speeds"):
        find_device(file)
