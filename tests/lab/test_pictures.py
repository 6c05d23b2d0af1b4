"""Pictures and tables of sweeps: what they hold, with 2, 10 and 60 points, in each format."""

import itertools
import statistics
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import lab

pd = pytest.importorskip("pandas", reason="to_pandas() needs pandas, which the extra `test` brings")

PRECISIONS = ("ieee", "bf16x6", "tf32x3", "bf16x3", "tf32", "fp16", "bf16", "mxfp8", "e4m3", "e5m2")
ENDS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def product(n: int, spread: float = 1.0, seed: int = 0) -> mt.Tensor:
    return mt.randn(n, n) * spread @ mt.randn(n, n)


def fails(n: int, seed: int) -> mt.Tensor:
    if n == 3 and seed == 1:
        raise ValueError(f"no matrix of {n}")
    return product(n, 1.0, seed)


def sweep_of(sizes: int, precisions: int, seeds: int = 3) -> lab.Sweep:
    """Rows as a sweep writes them, with errors that follow from the row."""
    random = np.random.default_rng([sizes, precisions])
    rows = []
    for n, precision, seed in itertools.product(range(1, sizes + 1), PRECISIONS[:precisions], range(seeds)):
        error, seconds = random.lognormal(PRECISIONS.index(precision)), random.lognormal() * 1e-4 * n
        flags = {"fp32_precision": precision}
        rows.append({"n": n, "flags": flags, "seed": seed, "error": error, "exception": None, "seconds": seconds})
    return lab.Sweep("made", rows)


def boxes(axes: Any) -> list[Any]:
    figure = axes.get_figure()
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    return [text.get_window_extent(renderer) for text in axes.texts if text.get_text()]


def test_a_curve_has_a_line_of_medians_for_each_setting() -> None:
    found = sweep_of(5, 3)
    (axes,) = found.plot(x="n", y="error", by="fp32_precision").axes
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == set(PRECISIONS[:3])
    for precision, line in lines.items():
        rows = found.where(fp32_precision=precision).rows
        medians = [statistics.median(row["error"] for row in rows if row["n"] == n) for n in range(1, 6)]
        assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
        assert line.get_ydata() == pytest.approx(medians)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "n")
    assert {each.get_text() for each in axes.figure.legends[0].get_texts()} == set(lines)


def test_the_band_of_a_curve_is_its_spread_over_seeds() -> None:
    found = sweep_of(2, 1, seeds=5)
    for spread, shares in (("quantiles", (0.25, 0.75)), ("range", (0.0, 1.0))):
        (axes,) = found.plot(spread=spread).axes
        reached = axes.collections[0].get_datalim(axes.transData)
        errors = [[row["error"] for row in found.rows if row["n"] == n] for n in (1, 2)]
        low, high = ([np.quantile(each, share) for each in errors] for share in shares)
        assert (reached.y0, reached.y1) == pytest.approx((min(low), max(high)))
    assert not found.plot(spread=None).axes[0].collections


def test_axes_that_are_not_drawn_have_panels() -> None:
    flags = {"fp32_precision": ["ieee", "bf16"]}
    found = lab.sweep(
        product, over={"n": [4, 8], "spread": [1.0, 2.0]}, flags=flags, seeds=2, repeats=1, progress=False
    )
    figure = found.plot()
    assert [axes.get_title("left") for axes in figure.axes] == ["spread=1.0", "spread=2.0"]
    assert len(found.plot(by=["fp32_precision", "spread"]).axes) == 1
    (axes,) = found.plot(x="fp32_precision", by=["n", "spread"]).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ieee", "bf16"]
    assert found.where(spread=2.0).plot(ax=axes) is axes.figure
    with pytest.raises(ValueError, match=r"at most 1 panels, got 2 \(spread=1.0, ...\)"):
        found.plot(ax=axes)


def test_what_failed_stands_in_the_legend() -> None:
    found = lab.sweep(fails, over={"n": [2, 3]}, flags={"fp32_precision": ["tf32", "bf16"]}, seeds=2, progress=False)
    labels = [line.get_label() for line in found.plot().axes[0].lines]
    assert labels == ["tf32 (1 rows without it)", "bf16 (1 rows without it)"]
    none = lab.sweep(fails, over={"n": [3]}, seeds=[1], progress=False)
    with pytest.raises(ValueError, match="rows must have the measure 'error', got 1 rows without it"):
        none.plot()
    with pytest.raises(ValueError, match="rows must have a parameter or a flag as an axis, got none"):
        lab.Sweep("empty", []).plot()


@pytest.mark.parametrize(("options", "message"), [
    ({"x": "m"}, "axes must be among n, fp32_precision, got 'm'"),
    ({"by": "seed"}, "axes must be among n, fp32_precision, got 'seed'"),
    ({"y": "speed"}, "measures must be among"), ({"x": "fp32_precision", "by": ()}, "at most 12 panels, got 60"),
    ({"spread": "all"}, "spread must be 'quantiles', 'range' or None, got 'all'"),
    ({"path": "a.bmp"}, r"path must end in one of .png, .pdf, .svg, got 'a.bmp'"),
])  # fmt: skip
def test_plots_refuse_what_they_cannot_draw(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep_of(60, 2).plot(**options)


@pytest.mark.parametrize(("sizes", "precisions"), [(2, 1), (1, 2), (1, 10), (10, 10), (60, 1), (60, 10)])
def test_no_label_of_a_front_meets_another(sizes: int, precisions: int) -> None:
    found = sweep_of(sizes, precisions).pareto(by=["n"])
    (axes,) = found.plot().axes
    written = boxes(axes)
    assert len(written) >= min(len(found), 10)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(written, 2))
    front = axes.lines[0].get_path().transformed(axes.transData)
    assert len(found) > 60 or not any(front.intersects_bbox(box, filled=False) for box in written)
    frame = axes.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in written)


def test_ticks_of_narrow_panels_do_not_meet() -> None:
    rows = [{**row, "seconds": 0.00018 + 1e-5 * place} for place, row in enumerate(sweep_of(3, 10, 1).rows)]
    figure = lab.Sweep("made", rows).pareto().plot()
    audit = lab.audit(mt.nn.Linear(4, 4).eval(), mt.randn(3, 4), ["tf32", "bf16"], gradients=False, progress=False)
    audit.rows[:] = [{**row, "error": 1.3e-4 if row["precision"] == "tf32" else 7.6e-3} for row in audit.rows]
    assert [axes.get_xscale() for axes in figure.axes] == ["linear"] * 3
    for axes in (*figure.axes, *audit.plot().axes):
        axes.figure.draw_without_rendering()
        written = [each.get_window_extent() for each in axes.get_xticklabels(which="both") if each.get_text()]
        assert len(written) >= 2
        assert not any(a.overlaps(b) for a, b in itertools.combinations(written, 2))


def test_labels_of_a_front_name_what_they_need_alone() -> None:
    (axes,) = sweep_of(2, 2).pareto(by="n").plot().axes
    assert {text.get_text() for text in axes.texts} == {"n=1, ieee", "n=1, bf16x6", "n=2, ieee", "n=2, bf16x6"}
    rows = [
        {**row, "flags": {**row["flags"], "backward_precision": backward}}
        for row, backward in itertools.product(sweep_of(1, 2).rows, ("ieee", "tf32"))
    ]
    (axes,) = lab.Sweep("made", rows).pareto().plot().axes
    assert "fp32_precision=ieee, backward_precision=tf32" in {text.get_text() for text in axes.texts}
    with pytest.raises(ValueError, match=r"by must be among the parameters \(n\), got 'fp32_precision'"):
        sweep_of(2, 2).pareto(by=["fp32_precision"])


@pytest.mark.parametrize(("lines", "layout"), [(3, None), (60, None), (60, "constrained")])
def test_a_legend_on_axes_of_the_user_hides_no_line(lines: int, layout: str | None) -> None:
    figure = matplotlib.figure.Figure(layout=layout)
    axes, other = figure.subplots(1, 2) if layout else (figure.subplots(), None)
    rows = [{**row, "n": row["n"] % 6, "part": f"part {(row['n'] - 1) // 6}"} for row in sweep_of(6 * lines, 1).rows]
    found = lab.Sweep("made", [{"part": row.pop("part"), **row} for row in rows])
    assert found.plot(x="n", by="part", ax=axes) is figure
    figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    assert len(axes.get_legend().get_texts()) == lines
    assert legend.x1 <= figure.bbox.x1
    assert (legend.x0 >= axes.get_window_extent().x1) == (lines > 10)
    assert axes.get_window_extent().width > (0.6 if other is None else 0.25) * figure.bbox.width
    assert legend.y0 >= figure.bbox.y0
    assert other is None or legend.x1 <= other.get_window_extent().x0


def test_each_size_has_a_front_of_its_own(tmp_path: Path) -> None:
    found = sweep_of(3, 10)
    points = found.pareto()
    assert list(points.by_parameters()) == ["n=1", "n=2", "n=3"]
    for n in (1, 2, 3):
        alone = found.where(n=n).pareto()
        assert [point[:4] for point in points.by_parameters()[f"n={n}"]] == [point[:4] for point in alone]
    assert len(points.plot().axes) == 3
    assert "n=2" in str(points)
    with pytest.raises(ValueError, match="no more than 12 combinations of parameters, got 60"):
        sweep_of(60, 1).pareto().plot()


@pytest.mark.parametrize("end", ENDS)
def test_files_have_the_format_of_their_name(end: str, tmp_path: Path) -> None:
    found = sweep_of(2, 2)
    model = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.Linear(4, 2)).eval()
    audit = lab.audit(model, mt.randn(3, 4), ["tf32"], progress=False)
    plan = mt.einsum_plan("ab,bc,cd", (2, 3), (3, 4), (4, 5))
    draws = [found.plot, found.pareto().plot, audit.plot, audit.frontier().plot, plan.plot]
    for number, draw in enumerate(draws):
        path = tmp_path / f"{number}.{end}"
        assert hasattr(draw(path=path), "savefig")
        assert path.read_bytes().startswith(ENDS[end])
        with pytest.raises(ValueError, match="path must end in one of"):
            draw(path=tmp_path / "picture.gif")
    assert found.plot()._repr_png_().startswith(ENDS["png"])


def test_tables_are_flat() -> None:
    with mt.backends.cuda.matmul.flags(fp16_reduction="whole"), mt.backends.flags(fp32_precision="bf16"):
        flags = [{"fp32_precision": "ieee"}, mt.backends.snapshot()]
    found = lab.sweep(product, over={"n": [4, 8]}, flags=flags, seeds=2, progress=False)
    table = found.to_pandas()
    assert len(table) == 8
    assert not [name for name in table.columns if hasattr(pd.DataFrame, name)]
    assert not any(isinstance(value, (dict, list)) for value in table.to_numpy().ravel())
    assert {"fp32_precision", "cuda_matmul_fp16_reduction", "effective_matmul", "flops_bf16", "kernels"} < set(
        table.columns
    )
    for row, record in zip(found.rows, table.to_dict("records"), strict=True):
        assert record["error"] == row["error"]
        assert record["fp32_precision"] == row["flags"]["fp32_precision"]
    medians = pd.DataFrame(found.rows).groupby("flags")["error"].median()
    assert sorted(map(str, medians.index)) == sorted({str(row["flags"]) for row in found.rows})
    assert found.rerun(found.rows[-1]).shape == (8, 8)
    named = lab.sweep(lambda size, error: mt.ones(size), over={"size": [2], "error": [1]}, seeds=None, progress=False)
    assert {"size_", "error"} < set(named.to_pandas().columns)


def test_tables_for_papers() -> None:
    found = sweep_of(2, 2, seeds=5)
    lines = found.table("error", quantiles=(0, 0.5, 1)).splitlines()
    assert lines[0].split() == ["n", "flags", "rows", "failed", "error", "0%", "error", "error", "100%"]
    errors = sorted(row["error"] for row in found.rows[:5])
    assert lines[1].split()[-3:] == [f"{errors[place]:.3g}" for place in (0, 2, 4)]
    head, rule, *rows = found.to_markdown("error").splitlines()
    assert head == "| n | flags | rows | failed | error |"
    assert rule == "| --- | --- | ---: | ---: | ---: |"
    assert len(rows) == 4
    latex = found.to_latex("seconds")
    assert latex.startswith("\\begin{tabular}{llrrr}\n\\toprule\nn & flags & rows & failed & seconds \\\\\n")
    assert "fp32\\_precision=ieee" in latex
    assert "\\times 10^{-5}$" in latex
    with pytest.raises(ValueError, match="quantiles must be from 0 to 1"):
        found.table("error", quantiles=(50,))


def test_a_row_runs_again(tmp_path: Path) -> None:
    flags = {"fp32_precision": ["ieee", "bf16"]}
    found = lab.sweep(fails, over={"n": [3, 4]}, flags=flags, seeds=2, store=tmp_path / "store", progress=False)
    for row in found.rows:
        if row["exception"] is None:
            rounded, exact = found.rerun(row), found.rerun({**row, "flags": {"fp32_precision": "ieee"}})
            error = float((rounded - exact).double().norm() / exact.double().norm())
            assert error == pytest.approx(row["error"], rel=1e-2, abs=1e-6)
        else:
            with pytest.raises(ValueError, match="no matrix of 3"):
                found.rerun(row)
    with pytest.raises(ValueError, match="read from a store"):
        lab.Sweep.read(tmp_path / "store").rerun(found.rows[0])


def test_a_page_has_the_curves_of_all_parameters(tmp_path: Path) -> None:
    found = lab.sweep(product, over={"n": [4, 8], "spread": [1.0, 2.0]}, flags={"fp32_precision": ["ieee", "bf16"]},
                      seeds=2, repeats=1, progress=False)  # fmt: skip
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert "error over n: medians over seeds" in page


def test_pictures_of_answers_that_did_not_change() -> None:
    model = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.Linear(4, 2)).eval()
    figure = lab.audit(model, mt.randn(3, 4), "ieee", gradients=False, progress=False).plot()
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.axes[0].texts] == ["no error is above 0"]


@pytest.mark.parametrize("n", [2, 10, 60])
def test_no_label_of_a_tree_meets_another(n: int) -> None:
    (axes,) = lab.summation_order(lambda x: x.sum(), n).plot().axes
    axes.get_figure().draw_without_rendering()
    labels = [each.get_window_extent() for each in axes.get_xticklabels()]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(labels))
    assert all(float(tick).is_integer() for tick in axes.get_yticks())
