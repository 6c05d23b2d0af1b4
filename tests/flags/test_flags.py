"""Flags: every row of the table set, read, inherited, scoped, frozen, snapshotted, and the rule of permission."""

import asyncio
import functools
import itertools
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.backends.precision_policy import FAMILIES
from minitorch_backends.backends.profiles import STACKS
from minitorch_backends.backends.table import XLA_PRECISIONS
from minitorch_backends.flags import Flag, Snapshot, current, rows
from minitorch_backends.flags.state import _STATES_KEPT, _state_of
from minitorch_backends.kernels.precisions.products import PRECISIONS

from ..support.processes import in_thread, python

FASTEST_FIRST = tuple(PRECISIONS)


pytestmark = pytest.mark.usefixtures("default_flags")


def place(path: str) -> tuple[Any, str]:
    """The object that has the flag, and the attribute's name."""
    *groups, name = path.split(".")
    found = backends
    for group in groups:
        found = getattr(found, group)
    return found, name


def get(path: str) -> Any:
    return getattr(*place(path))


def put(path: str, value: Any) -> None:
    setattr(*place(path), value)


def values_of(row: Flag) -> list[Any]:
    return list(row.choices.examples)


def readings() -> dict[str, Any]:
    return {path: get(path) for path in rows}


every_row = pytest.mark.parametrize("path", list(rows))
inheriting = [path for path, row in rows.items() if row.inherits]
precisions = [path for path in rows if path.endswith("fp32_precision")]
stored = [path for path, row in rows.items() if row.writes is None]


# One flag


@every_row
def test_rows_are_documented(path: str) -> None:
    group, name = place(path)
    assert rows[path].doc
    assert getattr(type(group), name).__doc__ == rows[path].doc


@every_row
def test_default_is_read(path: str) -> None:
    assert get(path) == rows[path].default


@every_row
def test_set_and_read(path: str) -> None:
    for value in values_of(rows[path]):
        put(path, value)
        assert get(path) == value
    for alias, value in rows[path].aliases.items():
        put(path, alias)
        assert get(path) == value


def bad_values(row: Flag) -> Iterator[tuple[Any, type[Exception]]]:
    """Values that a flag refuses, and what it raises."""
    if row.accepts is not None and row.of is not None:
        yield from [(value, row.mistyped) for value in (1, None, "bogus", (), (True,) * 3, (1, True))]
        yield (True, False), row.unknown
        return
    for value in (1, 0, None, -1, 1.5, True, "bogus", "", ("ieee",), ["ieee"], object()):
        if not row.choices.has(value):
            yield value, row.unknown if type(value) is row.choices.kind else row.mistyped
    for value in row.choices.examples:
        if isinstance(value, str) and value != value.upper() and not getattr(row.choices, "any_case", False):
            yield value.upper(), row.unknown


def test_names_of_devices_are_taken_in_any_case_and_others_are_not() -> None:
    with backends.flags(profile="H100"):
        assert backends.profile == "h100"
    with pytest.raises(RuntimeError, match="did you mean 'tf32'"):
        backends.fp32_precision = "TF32"


@every_row
def test_bad_values_are_refused(path: str) -> None:
    before, stored_before = readings(), backends.snapshot()
    for value, kind in bad_values(rows[path]):
        group, name = place(path)
        with pytest.raises(kind) as assigned:
            put(path, value)
        assert repr(value) in str(assigned.value)
        if value is not None:
            with pytest.raises(kind):
                group.flags(**{name: value})
    assert readings() == before
    assert backends.snapshot() == stored_before


def test_truth_is_a_bool_and_nothing_else() -> None:
    for value in (1, 0, None, "True", 1.0, np.True_):
        with pytest.raises(RuntimeError, match=r"cudnn.enabled takes one of True, False, got"):
            backends.cudnn.enabled = value


@every_row
def test_none_leaves_a_flag_alone(path: str) -> None:
    group, name = place(path)
    before = readings()
    with group.flags(**{name: None}):
        expected = None if rows[path].takes_none else before[path]
        assert get(path) == expected
    if group not in (backends, backends.nnpack):
        group.set_flags(**{f"_{name}": None})
        assert get(path) == expected


def test_refusal_names_the_value_and_the_choices() -> None:
    for value, meant in (("tf23", "tf32"), ("fp32", "ieee"), ("FP32", "ieee")):
        with pytest.raises(RuntimeError, match=rf"n = '{value}' is unknown.+did you mean '{meant}'.+expected .+'ieee'"):
            backends.fp32_precision = value


def test_bytes_and_subclasses_of_str_are_names() -> None:
    class Name(str):
        __slots__ = ()

    backends.fp32_precision = b"tf32"
    assert backends.fp32_precision == "tf32"
    backends.fp32_precision = Name("ieee")
    assert backends.fp32_precision == "ieee"


@every_row
def test_scope_sets_and_restores(path: str) -> None:
    group, name = place(path)
    for value in values_of(rows[path]):
        before = readings()
        with group.flags(**{name: value}) as entered:
            assert entered is None
            assert get(path) == value
        assert readings() == before
        with pytest.raises(KeyError), group.flags(**{name: value}):
            raise KeyError
        assert readings() == before


@every_row
def test_flags_cannot_be_deleted(path: str) -> None:
    with pytest.raises(AttributeError):
        delattr(*place(path))


def groups() -> list[Any]:
    return list({id(place(path)[0]): place(path)[0] for path in rows}.values())


@pytest.mark.parametrize("group", groups(), ids=lambda group: group._path or "backends")
def test_unknown_names_are_refused(group: Any) -> None:
    name = next(name for name in dir(type(group)) if isinstance(getattr(type(group), name), property))
    for write in (False, True):
        with pytest.raises(AttributeError, match=f"did you mean '{name}'"):
            setattr(group, name + "s", 1) if write else getattr(group, name + "s")
    assert not hasattr(group, "bogus")
    with pytest.raises(TypeError, match="bogus"):
        group.flags(bogus=1)


def test_functions_and_groups_are_not_assignable() -> None:
    for group, name in (
        (backends, "cuda"),
        (backends.cuda, "matmul"),
        (backends, "snapshot"),
        (backends.cuda, "is_built"),
    ):
        before = getattr(group, name)
        with pytest.raises(AttributeError, match="is not a flag"):
            setattr(group, name, 3)
        assert getattr(group, name) is before


# Inheritance


@pytest.mark.parametrize("path", inheriting)
def test_none_inherits(path: str) -> None:
    parent = rows[path].inherits
    assert parent is not None
    put(parent, "tf32")
    assert get(path) == "tf32"
    put(path, "ieee")
    assert (get(path), get(parent)) == ("ieee", "tf32")
    put(path, "none")
    assert get(path) == "tf32"
    put(parent, "none")
    assert get(path) == "none"


def test_generic_reaches_every_level_that_has_no_opinion() -> None:
    backends.fp32_precision = "ieee"
    assert {get(path) for path in precisions} == {"ieee"}
    backends.cudnn.fp32_precision = "tf32"
    assert backends.cuda.matmul.fp32_precision == "tf32"
    assert backends.mkldnn.matmul.fp32_precision == "ieee"


def test_cuda_never_inherits_bf16() -> None:
    backends.fp32_precision = "bf16"
    assert backends.cuda.matmul.fp32_precision == "none"
    assert backends.cudnn.fp32_precision == "none"
    assert backends.mkldnn.matmul.fp32_precision == "bf16"
    with pytest.raises(RuntimeError, match="'bf16' is unknown"):
        backends.cuda.matmul.fp32_precision = "bf16"


def test_mkldnn_precision_writes_its_own_cell() -> None:
    backends.mkldnn.fp32_precision = "tf32"
    assert (backends.fp32_precision, backends.cuda.matmul.fp32_precision) == ("none", "none")
    assert backends.mkldnn.matmul.fp32_precision == "tf32"


# The older switches


def test_allow_tf32_is_a_view_of_the_precision() -> None:
    matmul = backends.cuda.matmul
    matmul.allow_tf32 = True
    assert (matmul.fp32_precision, matmul.allow_tf32) == ("tf32", True)
    matmul.allow_tf32 = False
    assert (matmul.fp32_precision, matmul.allow_tf32) == ("ieee", False)
    matmul.fp32_precision = "tf32"
    assert matmul.allow_tf32 is True
    assert backends.mkldnn.matmul.fp32_precision == "none"


@pytest.mark.parametrize(
    ("name", "cuda", "mkldnn"), [("highest", "ieee", "ieee"), ("high", "tf32", "tf32"), ("medium", "tf32", "bf16")]
)
def test_set_float32_matmul_precision(name: str, cuda: str, mkldnn: str) -> None:
    mt.set_float32_matmul_precision(name)
    assert mt.get_float32_matmul_precision() == name == backends.float32_matmul_precision
    assert (backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision) == (cuda, mkldnn)


def test_unknown_matmul_precision_is_refused() -> None:
    mt.set_float32_matmul_precision("high")
    for value, kind in (("HIGH", RuntimeError), ("bogus", RuntimeError), (3, RuntimeError), (None, RuntimeError)):
        with pytest.raises(kind):
            mt.set_float32_matmul_precision(value)  # type: ignore[arg-type]
    assert mt.get_float32_matmul_precision() == "high"


@given(
    st.lists(
        st.tuples(st.sampled_from([*stored, "cuda.matmul.allow_tf32", "float32_matmul_precision"]), st.integers(0, 20))
    )
)
def test_reads_never_raise(assignments: list[tuple[str, int]]) -> None:
    backends.restore(Snapshot(()))
    for path, index in assignments:
        values = values_of(rows[path])
        put(path, values[index % len(values)])
        for each, value in readings().items():
            assert rows[each].choices.has(value)
    assert mt.get_float32_matmul_precision() in ("highest", "high", "medium")


# Scopes


def test_flags_leaves_unnamed_flags_alone() -> None:
    backends.cudnn.fp32_precision, backends.emulate = "tf32", "cuda"
    before = readings()
    with backends.flags(), backends.cudnn.flags(), backends.mkldnn.flags(), backends.cuda.matmul.flags():
        assert readings() == before
    with backends.flags(fp32_precision="ieee"):
        assert (backends.cudnn.fp32_precision, backends.emulate) == ("tf32", "cuda")


def test_flags_restores_stored_values() -> None:
    backends.fp32_precision = "tf32"
    with backends.cudnn.flags(fp32_precision="ieee"):
        pass
    backends.fp32_precision = "none"
    assert backends.cudnn.fp32_precision == "none"


def test_writes_are_atomic() -> None:
    before = readings()
    for values in ({"fp32_precision": "tf32", "emulate": "bogus"}, {"fp32_precision": "tf32", "bogus": 1}):
        with pytest.raises((RuntimeError, TypeError)):
            backends.flags(**values)
    assert readings() == before


def test_a_state_that_returns_brings_what_was_derived_from_it() -> None:
    before = current()
    with backends.mkldnn.flags(fp32_precision="tf32"):
        within = current()
        decided = explain.precision_of("matmul")
    assert current() is before
    with backends.mkldnn.flags(fp32_precision="tf32"):
        assert current() is within
        assert explain.precision_of("matmul") is decided


def test_states_are_told_apart_by_the_types_and_identities_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitorch_backends.flags.state._states", {})  # full of others, it would be emptied on the way
    first, second = [1], [1]
    states = [_state_of({"a": value}) for value in (1, True, 1.0, "1", first, second)]
    assert len(set(map(id, states))) == len(states)
    assert [type(state.stored["a"]) for state in states[:4]] == [int, bool, float, str]
    assert _state_of({"a": first}) is states[4]
    for number in range(2 * _STATES_KEPT):  # the first ones are dropped
        assert _state_of({"b": number}).stored == {"b": number}
    assert _state_of({"a": first}) is not states[4]


def test_scopes_nest() -> None:
    with backends.flags(fp32_precision="tf32"):
        with backends.flags(fp32_precision="bf16", emulate="cuda"):
            assert (backends.fp32_precision, backends.emulate) == ("bf16", "cuda")
        assert (backends.fp32_precision, backends.emulate) == ("tf32", None)
    assert backends.fp32_precision == "none"


def test_assignment_in_a_scope_lasts_as_long_as_the_override() -> None:
    with backends.flags(fp32_precision="tf32"):
        backends.fp32_precision = "bf16"
        with backends.flags(emulate="mkldnn"):
            backends.fp32_precision = "ieee"
            assert backends.fp32_precision == "ieee"
        assert backends.fp32_precision == "ieee"
        backends.tf32_rounding = "rz"
    assert (backends.fp32_precision, backends.tf32_rounding) == ("none", "rz")


def test_a_scope_can_be_used_again() -> None:
    scope = backends.flags(fp32_precision="tf32")
    for _ in range(2):
        with scope:
            with scope:
                assert backends.fp32_precision == "tf32"
            assert backends.fp32_precision == "tf32"
        assert backends.fp32_precision == "none"


def test_decorators_act_inside_calls_only() -> None:
    @backends.flags(fp32_precision="tf32")
    def function() -> str:
        """The flags that it reads."""
        return backends.fp32_precision

    @backends.flags(fp32_precision="tf32")
    def generator() -> Iterator[str]:
        yield backends.fp32_precision
        yield backends.fp32_precision

    @backends.flags(fp32_precision="tf32")
    async def coroutine() -> str:
        await asyncio.sleep(0)
        return backends.fp32_precision

    assert backends.fp32_precision == "none"
    assert (function.__name__, function.__doc__) == ("function", "The flags that it reads.")
    assert function() == "tf32"
    for value in generator():
        assert (value, backends.fp32_precision) == ("tf32", "none")
    assert asyncio.run(coroutine()) == "tf32"
    assert backends.fp32_precision == "none"


# Threads and tasks


def test_blocks_whose_exit_was_lost_end_with_the_block_around_them() -> None:
    def steps() -> Iterator[None]:
        with backends.flags(fp32_precision="bf16"):
            yield

    with backends.flags(fp32_precision="tf32"):
        generator = steps()
        next(generator)
        assert in_thread(lambda: (generator.close(), backends.fp32_precision)[1]) == "none"
    assert backends.fp32_precision == "none"


def test_blocks_left_out_of_order() -> None:
    outer, inner = backends.flags(fp32_precision="tf32"), backends.flags(cross_check=True)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__()
    assert (backends.fp32_precision, backends.cross_check) == ("none", False)
    inner.__exit__()
    assert (backends.fp32_precision, backends.cross_check) == ("none", False)


@pytest.mark.parametrize("text", ["", "[]", "null", "5", None, b"x"])
def test_a_snapshot_from_what_is_no_json_of_one(text: Any) -> None:
    with pytest.raises(ValueError, match=r"Snapshot\.to_json"):
        Snapshot.from_json(text)


def test_assignment_is_seen_by_every_thread() -> None:
    backends.fp32_precision = "tf32"
    assert in_thread(lambda: backends.fp32_precision) == "tf32"
    in_thread(lambda: put("fp32_precision", "ieee"))
    assert backends.fp32_precision == "ieee"


def test_overrides_belong_to_a_thread_or_task() -> None:
    with backends.flags(fp32_precision="tf32"):
        assert in_thread(lambda: backends.fp32_precision) == "none"
    barrier, seen = threading.Barrier(2), {}

    def work(precision: str) -> None:
        with backends.flags(fp32_precision=precision):
            barrier.wait()
            seen[precision] = (backends.fp32_precision, explain.precision_of("matmul").precision)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(precision,)) for precision in ("tf32", "bf16")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"tf32": ("tf32", "tf32"), "bf16": ("bf16", "bf16")}


def test_process_wide_assignment_reaches_below_an_override_of_another_flag() -> None:
    with backends.flags(emulate="mkldnn"):
        in_thread(lambda: put("fp32_precision", "tf32"))
        assert backends.fp32_precision == "tf32"
        assert explain.precision_of("matmul").precision == "tf32"


def test_tasks_run_at_their_own_precisions() -> None:
    async def work(precision: str) -> list[str]:
        seen = []
        with backends.flags(fp32_precision=precision):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(explain.precision_of("matmul").precision)
        await asyncio.sleep(0)
        return [*seen, backends.fp32_precision]

    async def main() -> list[list[str]]:
        return list(await asyncio.gather(work("tf32"), work("bf16"), work("ieee")))

    assert asyncio.run(main()) == [[precision] * 3 + ["none"] for precision in ("tf32", "bf16", "ieee")]


# Snapshots


@given(st.dictionaries(st.sampled_from(stored), st.integers(0, 20)))
def test_snapshots_travel(chosen: dict[str, int]) -> None:
    backends.restore(Snapshot(()))
    default = readings()
    for path, index in chosen.items():
        put(path, values_of(rows[path])[index % len(values_of(rows[path]))])
    saved, before = backends.snapshot(), readings()
    for copy in (pickle.loads(pickle.dumps(saved)), Snapshot.from_json(saved.to_json())):
        assert copy == saved
        assert hash(copy) == hash(saved)
        backends.restore(Snapshot(()))
        assert readings() == default
        with copy:
            assert readings() == before
        assert readings() == default
        backends.restore(copy)
        assert readings() == before


def test_a_snapshot_holds_what_is_in_force_here() -> None:
    with backends.flags(fp32_precision="tf32"):
        saved = backends.snapshot()
    assert in_thread(lambda: [saved.__enter__(), backends.fp32_precision][1]) == "tf32"
    with saved, backends.flags(emulate="cuda"):
        assert (backends.fp32_precision, backends.emulate) == ("tf32", "cuda")
    backends.emulate = "xla"
    with saved:
        assert backends.emulate is None
    assert backends.emulate == "xla"


def test_bad_snapshots_are_refused() -> None:
    with pytest.raises(RuntimeError, match="bogus"):
        Snapshot.from_json(json.dumps({"fp32_precision": "bogus"}))
    with pytest.raises(TypeError, match=r"restore\(\): saved must be a Snapshot"):
        backends.restore({"fp32_precision": "tf32"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"opt_einsum.strategy must not be a function, got <built-in function len>"):
        Snapshot({"opt_einsum.strategy": len}.items()).to_json()
    assert Snapshot({"fp32_precision": "tf32"}.items()) != Snapshot(())
    assert "fp32_precision='tf32'" in repr(Snapshot({"fp32_precision": "tf32"}.items()))


# The environment, and freezing


@every_row
def test_environment_names_are_distinct(path: str) -> None:
    assert rows[path].environment == "MINITORCH_" + path.upper().replace(".", "_")
    assert [row.environment for row in rows.values()].count(rows[path].environment) == 1


def test_environment_sets_flags() -> None:
    printed = python(
        "from minitorch_backends import backends as b\n"
        "print(b.fp32_precision, b.cuda.matmul.allow_tf32, b.mkldnn.matmul.fp32_precision, b.xla.mat_mul_precision)",
        MINITORCH_FP32_PRECISION="ieee",
        MINITORCH_CUDA_MATMUL_ALLOW_TF32=" True ",
        MINITORCH_MKLDNN_MATMUL_FP32_PRECISION="bfx9",
        MINITORCH_XLA_MAT_MUL_PRECISION="high",
    )
    assert printed.out == "ieee True bf16x9 high\n"


def test_bad_environment_is_refused_by_name() -> None:
    printed = python("import minitorch_backends", MINITORCH_FP32_PRECISION="tf23")
    assert "MINITORCH_FP32_PRECISION='tf23' is not understood" in printed.error
    assert "ValueError" in printed.error


def test_every_flag_freezes() -> None:
    printed = python(
        "import minitorch_backends as mt\n"
        "from minitorch_backends import backends as b\n"
        "from minitorch_backends.flags import rows\n"
        "saved = b.snapshot()\n"
        "assert not b.flags_frozen()\n"
        "b.disable_global_flags(); b.disable_global_flags()\n"
        "assert b.flags_frozen()\n"
        "for path, row in rows.items():\n"
        "    *groups, name = path.split('.')\n"
        "    group = b\n"
        "    for each in groups: group = getattr(group, each)\n"
        "    value = next(each for each in row.choices.examples if each != row.default)\n"
        "    for attempt in (value, 'bogus'):\n"
        "        try: setattr(group, name, attempt)\n"
        "        except RuntimeError as error: assert str(error).startswith('not allowed to set minitorch_backends.')\n"
        "        else: raise AssertionError(path)\n"
        "    assert getattr(group, name) == row.default\n"
        "    with group.flags(**{name: value}):\n"
        "        assert getattr(group, name) == value and b.flags_frozen()\n"
        "        try: setattr(group, name, value)\n"
        "        except RuntimeError: pass\n"
        "        else: raise AssertionError(path)\n"
        "for setter in (lambda: mt.set_float32_matmul_precision('high'), lambda: b.xla.set_mat_mul_precision('high'),\n"
        "               lambda: b.restore(saved)):\n"
        "    try: setter()\n"
        "    except RuntimeError as error: assert 'not allowed' in str(error)\n"
        "    else: raise AssertionError(setter)\n"
        "with saved: print('frozen')\n"
    )
    assert printed.out == "frozen\n", printed.error


# XLA


def test_xla_names() -> None:
    assert backends.xla.get_mat_mul_precision() == "default"
    for name, precision in XLA_PRECISIONS.items():
        assert backends.xla.set_mat_mul_precision(name) is None
        assert backends.xla.get_mat_mul_precision() == name == backends.xla.mat_mul_precision
        assert explain.precision_of("matmul").precision == precision
    for bad in ("bf16", "HIGH", "", None, 3):
        with pytest.raises(ValueError, match=r"set_mat_mul_precision.*must be one of 'default', 'high', 'highest'"):
            backends.xla.set_mat_mul_precision(bad)  # type: ignore[arg-type]
    assert backends.xla.get_mat_mul_precision() == "highest"


# Flags as data


@pytest.mark.parametrize(
    ("group", "path", "value"),
    [
        ("", "cuda.matmul.allow_tf32", True),
        ("", "mkldnn.conv.fp32_precision", "bfx9"),
        ("cuda", "matmul.fp32_precision", "tf32"),
        ("cudnn", "rnn.fp32_precision", "bfx9"),
    ],
)
def test_flags_of_groups_below_are_named_by_their_paths(group: str, path: str, value: Any) -> None:
    def read(path: str) -> Any:
        return functools.reduce(getattr, path.split("."), backends)

    whole = f"{group}.{path}" if group else path
    before, scope = read(whole), read(group).flags if group else backends.flags
    with scope(**{path: value}):
        assert read(whole) == {"bfx9": "bf16x9"}.get(value, value)
    assert read(whole) == before
    with pytest.raises(TypeError, match=r"\(did you mean '.*'\?\)"):
        scope(**{path + "s": value})
    with pytest.raises(TypeError, match="set_flags"):
        backends.cuda.set_flags(_matmul=True, **{"_matmul.allow_tf32": True})


# Permission


def test_nothing_set_means_ieee() -> None:
    assert explain.precision_of("matmul").precision == "ieee"


def test_unknown_product_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'bogus'; expected one of matmul, conv, rnn, or the name of an op"):
        explain.precision_of("bogus")
    with pytest.raises(ValueError, match=r"'matmull'; .* \(did you mean 'matmul'\?\)"):
        explain.precision_of("matmull")


OF_STACKS = {
    "cuda": "ieee", "mkldnn": "ieee", "xla": "bf16",
    "ort-cuda": "tf32", "mlx": "tf32", "rocm": "ieee", "jax-tpu": "bf16",
}  # fmt: skip
"""The precision of products by default."""


@pytest.mark.parametrize(("emulated", "precision"), OF_STACKS.items())
def test_emulation_brings_the_defaults_of_a_family(emulated: str, precision: str) -> None:
    backends.emulate = emulated
    choice = explain.precision_of("matmul")
    assert choice.precision == precision
    assert emulated in choice.decided_by


def test_flags_that_are_set_hold_in_place_of_a_stack_s_defaults() -> None:
    assert OF_STACKS.keys() == STACKS.keys()
    backends.emulate, backends.cuda.matmul.fp32_precision = "ort-cuda", "ieee"
    assert explain.precision_of("matmul").precision == "ieee"
    assert explain.precision_of("conv").precision == "tf32"
    backends.emulate = "rocm"
    assert explain.precision_of("conv").precision == "ieee"


def test_emulation_ignores_the_other_families() -> None:
    backends.mkldnn.matmul.fp32_precision = "bf16"
    backends.cuda.matmul.fp32_precision = "tf32"
    backends.xla.set_mat_mul_precision("highest")
    found = {}
    for emulated in (None, "cuda", "mkldnn", "xla"):
        backends.emulate = emulated
        found[emulated] = explain.precision_of("matmul").precision
    assert found == {None: "bf16", "cuda": "tf32", "mkldnn": "bf16", "xla": "bf16x6"}


def test_the_flag_that_decides_is_named() -> None:
    backends.fp32_precision = "tf32"
    assert (
        explain.precision_of("matmul").decided_by == "fp32_precision = 'tf32', inherited by cuda.matmul.fp32_precision"
    )
    backends.mkldnn.matmul.fp32_precision = "bf16"
    assert explain.precision_of("matmul").decided_by == "mkldnn.matmul.fp32_precision = 'bf16'"


def permission(values: dict[str, str]) -> str:
    """The rule of permission, written out: from the values that were set, the fastest that a family allows."""

    def opinion(path: str) -> str:
        for each in (path, rows[path].inherits, rows[rows[path].inherits or path].inherits):
            value = values.get(each or "", "none")
            if value != "none":
                return value if rows[path].choices.has(value) else "none"
        return "none"

    allowed = [opinion(flags["matmul"]) for family, flags in FAMILIES.items() if family != "xla"]
    if "xla.mat_mul_precision" in values:
        allowed.append(XLA_PRECISIONS[values["xla.mat_mul_precision"]])
    ranked = sorted((each for each in allowed if each != "none"), key=FASTEST_FIRST.index)
    return ranked[0] if ranked else "ieee"


def legal_values(path: str) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(st.just(path), st.sampled_from(values_of(rows[path])))


speaking = [*precisions, "xla.mat_mul_precision"]


@given(st.lists(st.one_of(*map(legal_values, speaking)), max_size=6, unique_by=lambda pair: pair[0]), st.randoms())
def test_permission_does_not_depend_on_the_order_of_setting(pairs: list[tuple[str, str]], random: Any) -> None:
    found = set()
    for _ in range(4):
        random.shuffle(pairs)
        backends.restore(Snapshot(()))
        for path, value in pairs:
            put(path, value)
        found.add(explain.precision_of("matmul").precision)
        with Snapshot(()), backends.flags(**{path: value for path, value in pairs if "." not in path}):
            scoped = {path: value for path, value in pairs if "." not in path}
            assert explain.precision_of("matmul").precision == permission(scoped)
    assert found == {permission(dict(pairs))}


def test_every_pair_of_families_runs_at_the_faster_precision() -> None:
    order = [name for name in FASTEST_FIRST if name != "bf16"]
    for first, second in itertools.product(order, repeat=2):
        backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision = first, second
        faster = min(first, second, key=FASTEST_FIRST.index)
        assert explain.precision_of("matmul").precision == faster


@pytest.mark.parametrize(("name", "meant"), [("RTX Blackwell", "rtx_blackwell"), ("A-100", "a100")])
def test_suggestions_ignore_case_and_punctuation(name: str, meant: str) -> None:
    with pytest.raises(RuntimeError, match=rf"\(did you mean '{meant}'\?\)"):
        backends.profile = name
