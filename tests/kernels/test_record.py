"""Records: fields by name, in Python and in compiled code."""

from typing import NamedTuple

import numpy as np
import pytest

from minitorch_backends.kernels.block.tags import constant
from minitorch_backends.kernels.runtime.jit import njit
from minitorch_backends.kernels.runtime.raw_memory import behind
from minitorch_backends.kernels.runtime.record import Address, Bytes, Count, Record, Tag


class Two(NamedTuple):
    factor = 2


class Three(NamedTuple):
    factor = 3


class Inner(Record):
    rows: Count
    row: Bytes


class Outer(Record):
    tag: Tag
    place: Address
    inner: Inner
    found: int


@njit
def weigh(outer):
    outer.found = constant(outer.tag, "factor") * outer.inner.rows
    last = behind(outer, 1)
    last.found = outer.place
    return outer.inner.row


class Pair(Record):
    first: Inner
    second: Inner


@njit
def difference(rows, row):
    inner = Inner(row=row, rows=rows)
    pair = Pair(first=inner, second=Inner(rows=inner.row, row=inner.rows))
    inner.rows = 0
    return pair.first.rows - pair.second.rows


def _outer(tag):
    return Outer(tag=tag, place=Address(5), inner=Inner(rows=Count(7), row=Bytes(11)), found=0)


def test_compiled_code_loads_and_stores_fields_by_name_and_is_compiled_for_each_tag():
    for tag, factor in ((Two(), 2), (Three(), 3)):
        rows = np.repeat(_outer(tag).memory[None], 2, 0)
        outer = type(_outer(tag)).at(rows[0])
        assert weigh(outer) == 11
        assert outer.found == factor * 7
        assert rows[1].tolist() == [5, 7, 11, 5]
    assert len(weigh.signatures) == 2


def test_compiled_code_makes_records_by_name():
    assert difference(7, 11) == 7 - 11


def test_a_record_is_read_by_name_and_is_its_address():
    outer = _outer(Two())
    assert (outer.place, outer.inner.rows, outer.inner.row, outer.tag) == (5, 7, 11, Two())
    assert int(outer) == outer.memory.ctypes.data
    assert int(outer.inner) == int(outer) + 8
    with pytest.raises(AttributeError, match="Outer has no field 'rows'"):
        _ = outer.rows
    with pytest.raises(TypeError, match="unhashable"):
        hash(outer)


@pytest.mark.parametrize("fields", [{"rows": 1}, {"rows": 1, "row": 2, "column": 3}, {}])
def test_names_of_fields_are_checked(fields):
    with pytest.raises(TypeError, match=r"Inner\(\): fields must be rows, row, got"):
        Inner(**fields)


def test_a_field_does_not_hide_what_records_have():
    with pytest.raises(TypeError, match="names that records do not use themselves"):

        class Hidden(Record):
            words: Count
