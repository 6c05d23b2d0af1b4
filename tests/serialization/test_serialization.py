"""Checkpoints: what is saved comes back, and hostile files are refused in words before they cost anything."""

import io
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn, serialization
from minitorch_backends.serialization import saving
from minitorch_backends.tensor.dtypes import dtypes


def reload(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    mt.save(obj, file)
    return mt.load(file, **options)


def archive(pickled: bytes, records: dict[str, bytes] | None = None, **options: Any) -> io.BytesIO:
    """A file as torch would write it around a pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as made:
        for name, data in {"archive/data.pkl": pickled, **(records or {})}.items():
            made.writestr(name, data)
    return file


def tensor_pickle(
    size: str, stride: str, offset: int = 0, numel: int = 4, kind: str = "Float", key: str = "0"
) -> bytes:
    """A tensor on a storage, in the opcodes of protocol 0 and 2; `size` and `stride` are opcodes."""
    storage = f"(U\x07storagectorch\n{kind}Storage\nU{chr(len(key))}{key}U\x03cpu".encode("latin-1")
    storage += b"\x8a\x08" + struct.pack("<q", numel) + b"tQ"
    place = b"J" + struct.pack("<i", offset) + size.encode("latin-1") + stride.encode("latin-1")
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + place + b"\x89ccollections\nOrderedDict\n)RtR."


def test_values_dtypes_and_containers_come_back():
    plain = {"n": 3, "x": 1.5, "big": 2**70, "t": (1, None, True), "b": b"\x00\xff", "z": 1 - 2j, 7: [{1, 2}, "é"]}
    ordered = OrderedDict(plain, count=Counter("aab"), size=mt.Size([2, 3]), dtype=mt.bfloat16)
    assert reload(ordered) == ordered
    assert type(reload(ordered)["size"]) is mt.Size
    for dtype in dtypes.values():
        tensor = mt.tensor([[0, 1, 1], [1, 0, 1]])
        tensor = tensor.byte().view(dtype) if dtype.letter == "p" else tensor.to(dtype)
        for each in (tensor, tensor.t(), tensor[1], tensor[:0], tensor[0, 1], tensor[:1].expand(4, 3)):
            found = reload(each)
            assert (found.dtype, found.shape) == (dtype, each.shape)
            assert found.numpy().tolist() == each.numpy().tolist()
    assert reload(mt.tensor([1, 2, 3]).expand(2, 3)).stride() == (0, 1)


def test_shared_memory_strides_and_leaves_come_back():
    base = mt.arange(12.0).reshape(3, 4)
    weight = mt.nn.Parameter(base)
    found = reload({"base": base, "column": base[:, 1], "turned": base.t(), "w": weight, "again": weight})
    assert found["turned"].stride() == (1, 4)
    assert found["again"] is found["w"]
    assert type(found["w"]) is mt.nn.Parameter
    assert found["w"].requires_grad
    assert not found["base"].requires_grad
    found["base"][0, 1] = 50.0
    assert found["column"][0] == found["turned"][1, 0] == found["w"][0, 1] == 50.0
    assert found["column"]._version == found["base"]._version == 1
    reversed_ = mt.from_numpy(np.arange(4.0)[::-1])  # strides that the format does not have
    assert reload(reversed_).tolist() == [3.0, 2.0, 1.0, 0.0]
    with pytest.raises(RuntimeError, match=r"save\(\): tensors that share memory must have one dtype.*clone"):
        reload([base, base.view(mt.int32)])


def test_a_training_run_goes_on(tmp_path: Path):
    path = tmp_path / "run.pt"

    def start() -> tuple[mt.nn.Module, Any, mt.random.Generator]:
        mt.manual_seed(1)
        model = mt.nn.Sequential(mt.nn.Linear(3, 2), mt.nn.BatchNorm1d(2))
        return model, mt.optim.Adam(model.parameters(), amsgrad=True), mt.random.Generator()

    def step(model: mt.nn.Module, optimizer: Any, generator: mt.random.Generator) -> list[float]:
        optimizer.zero_grad()
        loss = (model(mt.randn(5, 3, generator=generator)) ** 3).sum()
        loss.backward()
        optimizer.step()
        return [float(loss), *(value for p in model.parameters() for value in p.flatten().tolist())]

    run = start()
    step(*run)
    mt.save([run[0].state_dict(), run[1].state_dict(), run[2].get_state()], path)
    expected = step(*run)
    model, optimizer, generator = start()
    state, moments, stream = mt.load(path, mmap=True)
    assert state._metadata["1"]["version"] == 2
    model.load_state_dict(state)
    optimizer.load_state_dict(moments)
    generator.set_state(stream)
    assert step(model, optimizer, generator) == expected


def test_a_mapped_file_is_private_and_may_be_replaced(tmp_path: Path):
    path = tmp_path / "x.pt"
    mt.save({"a": mt.arange(6), "empty": mt.empty(0)}, path)
    mapped = mt.load(path, mmap=True)
    mapped["a"][0] = 9
    assert mt.load(path)["a"][0] == 0
    mt.save(mapped, path)
    assert mt.load(path)["a"].tolist() == [9, 1, 2, 3, 4, 5]
    assert [each.name for each in tmp_path.iterdir()] == ["x.pt"]
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        mt.save({"a": lambda: 0}, path)
    assert mt.load(path)["a"][0] == 9, "a save that fails leaves the file as it was"


def test_objects_need_trust():
    linear = mt.nn.Linear(2, 1)
    for options in ({}, {"weights_only": True}, {"weights_only": None}):
        with pytest.raises(
            pickle.UnpicklingError, match=r"'minitorch_backends\.nn\.\w+\.Linear'.*nothing of it was run"
        ):
            reload(linear, **options)
    assert reload(linear, weights_only=False).weight.tolist() == linear.weight.tolist()
    with pytest.raises(pickle.UnpicklingError, match=r"a torch object, torch\.nn\.Linear"):
        mt.load(archive(b"\x80\x02ctorch.nn\nLinear\n."), weights_only=False)


def test_listed_classes_need_no_trust() -> None:
    file = io.BytesIO()
    mt.save(nn.Sequential(nn.Linear(2, 3), nn.Conv1d(3, 1, 1)), file)

    def load() -> Any:
        file.seek(0)
        return mt.load(file)

    classes: list[Any] = [nn.Sequential, nn.Linear, nn.Conv1d]
    with serialization.safe_globals(classes[:2]), pytest.raises(pickle.UnpicklingError, match=r"convolution\.Conv1d"):
        load()
    with serialization.safe_globals(classes[:2]):
        with serialization.safe_globals([(nn.Conv1d, "minitorch_backends.nn.convolution.Conv1d")]):
            assert load()[0](mt.ones(1, 2)).shape == (1, 3)
        assert serialization.get_safe_globals() == classes[:2]
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals(classes)
    serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError, match=r"container\.Sequential"):
        load()
    with pytest.raises(TypeError, match="safe_globals must be classes, functions or pairs"):
        serialization.add_safe_globals([3])  # type: ignore[list-item]


def test_devices():
    pickled = tensor_pickle("K\x04\x85", "K\x01\x85").replace(b"U\x03cpu", b"U\x06cuda:0")
    file = archive(pickled, {"archive/data/0": np.arange(4, dtype=np.float32).tobytes()})
    for location in ("cpu", {"cuda:0": "cpu"}, lambda storage, _: storage):
        assert mt.load(file, location).tolist() == [0.0, 1.0, 2.0, 3.0]
    for location in (None, {"cuda:1": "cpu"}, lambda *_: None, "cuda:0"):
        with pytest.raises(RuntimeError, match=r"got the device 'cuda:0'; use map_location='cpu'"):
            mt.load(file, location)
    with pytest.raises(TypeError, match="map_location must return the storage that it is given"):
        mt.load(file, lambda *_: 3)


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


def test_a_hostile_pickle_runs_nothing(tmp_path: Path):
    target = tmp_path / "run"
    for protocol in (0, 2, 4):
        hostile = archive(pickle.dumps([1, Call(Path.touch, target)], protocol))
        with pytest.raises(pickle.UnpicklingError, match=r"load\(\)"):
            mt.load(hostile)
    assert not target.exists()
    for name in (
        "os system",
        "posix system",
        "builtins eval",
        "builtins getattr",
        "torch load",
        "numpy.core.multiarray x",
    ):
        module, function = name.split()
        with pytest.raises(pickle.UnpicklingError, match=f"names '{module}.{function}', which weights_only=True"):
            mt.load(archive(f"\x80\x02c{module}\n{function}\nU\x04true\x85R.".encode("latin-1")))


@pytest.mark.parametrize(
    ("pickled", "words"),
    {
        "opcode": (b"\x80\x02(ios\nsystem\n.", "opcode INST"),
        "extension": (b"\x80\x02\x82\x01.", "opcode EXT1"),
        "call of a value": (b"\x80\x02U\x01a)R.", "calls a str"),
        "state of a list": (b"\x80\x02]}b.", "sets the state of a list"),
        "method of a dict": (b"\x80\x02ccollections\nOrderedDict\n)R}U\x05itemsK\x01sb.", "attribute 'items'"),
        "deep key": (b"\x80\x02}(K\x01\x85\x85K\x01u.", "keys must be text, numbers or flat tuples"),
        "no memo": (b"\x80\x02h\x07.", "damaged"),
        "no mark": (b"\x80\x02t.", "damaged"),
        "short tuple": (b"\x80\x02K\x01\x87.", "damaged"),
        "items of an int": (b"\x80\x02K\x01K\x02a.", "damaged"),
        "huge text": (b"\x80\x02X\xff\xff\xff\x7fabc.", "damaged"),
        "no end": (b"\x80\x02]", "damaged"),
        "persistent": (b"\x80\x02K\x01Q.", "persistent id that does not name a storage"),
        "bytes of an int": (b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "latin-1 text"),
    }.values(),
)  # fmt: skip
def test_a_damaged_pickle_is_refused(pickled: bytes, words: str):
    with pytest.raises(pickle.UnpicklingError, match=words):
        mt.load(archive(pickled))


def test_sizes_are_checked_before_memory_is_taken():
    data = {"archive/data/0": bytes(16)}
    huge = "\x8a\x08" + struct.pack("<q", 2**60).decode("latin-1")
    minus = "J" + struct.pack("<i", -1).decode("latin-1")
    many = "(" + 65 * "K\x01" + "t"
    for pickled, words in [
        (tensor_pickle(f"{huge}\x85", "K\x01\x85"), "the storage has 4"),
        (tensor_pickle("K\x04\x85", "K\x01\x85", offset=1), "need 5 elements"),
        (tensor_pickle("K\x02\x85", "K\x04\x85"), "need 5 elements"),
        (tensor_pickle("K\x02\x85", f"{minus}\x85"), "stride of a tensor must be a tuple of non-negative"),
        (tensor_pickle("K\x02\x85", "K\x01\x85", offset=-1), "offset of a tensor"),
        (tensor_pickle("K\x02", "K\x01\x85"), "size of a tensor"),
        (tensor_pickle(many, many), "at most 64 dimensions, got 65"),
        (tensor_pickle("K\x02K\x01\x86", "K\x01\x85"), "one stride for each dimension"),
        (tensor_pickle("K\x04\x85", "K\x01\x85", numel=2**58), "has 16 bytes"),
        (tensor_pickle("K\x04\x85", "K\x01\x85", key="../0"), "is not in the archive"),
        (b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.", "a quantized tensor"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            mt.load(archive(pickled, data))


def test_a_bad_archive_is_refused(tmp_path: Path):
    good = io.BytesIO()
    mt.save(mt.arange(100), good)
    content = good.getvalue()
    central = content.rindex(b"PK\x01\x02", 0, content.index(b"archive/data/0", content.index(b"PK\x01\x02")))
    declared = bytearray(content)
    declared[central + 20 : central + 28] = struct.pack("<II", 2**31, 2**31)
    for bad, words in [
        (content[:-1000], r"is truncated .*complete"),
        (content[: len(content) // 2], r"is truncated .*complete"),
        (bytes(declared), r"has 2147483648 bytes by its entry.*truncated"),
        (b"nothing", "is not a zip archive"),
        (b"", "is not a zip archive"),
        (bytes(257) + b"ustar" + bytes(512), "before version 0.1.10"),
        (archive(b"N.", {"archive/../../x": b""}).getvalue(), "outside the archive"),
        (archive(b"N.", {"/x": b""}).getvalue(), "outside the archive"),
        (archive(b"N.", compression=zipfile.ZIP_DEFLATED).getvalue(), "without compression"),
        (archive(b"N.", {"archive/byteorder": b"big"}).getvalue(), "byte order must be 'little', got 'big'"),
    ]:
        path = tmp_path / "bad.pt"
        path.write_bytes(bad)
        for mmap in (False, True):
            with pytest.raises(RuntimeError, match=words):
                mt.load(path, mmap=mmap)


class _OldPickler(saving._Pickler):
    def persistent_id(self, obj: Any) -> Any:
        found = super().persistent_id(obj)
        return found and (*found, None)


def old_file(obj: Any, order: bool = True) -> bytes:
    """A file as torch wrote it before version 1.6."""
    object_file = io.BytesIO()
    pickler = _OldPickler(object_file)
    pickler.dump(obj)
    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": order, "type_sizes": {"int": 4}}]
    storages = {each.key: each for each in pickler.storages.values()}
    parts = [*(pickle.dumps(each, 2) for each in head), object_file.getvalue(), pickle.dumps(sorted(storages), 2)]
    for key in sorted(storages):
        parts += [struct.pack("<q", storages[key].numel), storages[key].bytes.numpy().tobytes()]
    return b"".join(parts)


def test_the_format_from_before_torch_1_6(tmp_path: Path):
    base = mt.arange(12.0).reshape(3, 4)
    state = {"w": base, "view": base[1:, ::2], "t": base.T, "half": mt.ones(3).half(), "n": mt.tensor(7)}
    whole = {
        **state,
        "list": [mt.zeros(2), 3, "x"],
        "model": OrderedDict(p=nn.Parameter(mt.ones(2))),
        "empty": mt.ones(0),
    }
    (tmp_path / "old.pth").write_bytes(old_file(whole))
    for trusted in (False, True):
        found = mt.load(tmp_path / "old.pth", weights_only=not trusted)
        for name, tensor in state.items():
            assert mt.equal(found[name], tensor)
            assert found[name].stride() == tensor.stride()
        assert type(found["model"]["p"]) is nn.Parameter
        assert found["list"][1:] == [3, "x"]
        found["w"][1, 0] = 99
        assert found["view"][0, 0] == 99
    with pytest.raises(RuntimeError, match=r"needs the zip format.*old.pth"):
        mt.load(tmp_path / "old.pth", mmap=True)


def test_a_damaged_old_file_is_refused(tmp_path: Path):
    whole, path = old_file({"w": mt.arange(12.0), "x": mt.ones(3)}), tmp_path / "old.pth"
    for bad, words in [
        (whole[:-1], "ended within the storage"),
        (whole[:-60], "has another size than the object says|ended within"),
        (whole[:40], "damaged"),
        (old_file([mt.ones(2)], order=False), "byte order must be 'little'"),
        (whole.replace(b"K\x0c", b"K\xff", 1), "bytes does not fit into the file"),
    ]:
        path.write_bytes(bad)
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=words) as raised:
            mt.load(path)
        assert "old.pth" in str(raised.value)


def test_arguments_are_refused_in_words(tmp_path: Path):
    with pytest.raises(TypeError, match=r"save\(\): f must be a path or a file"):
        mt.save(1, 3)
    with pytest.raises(TypeError, match=r"load\(\): f must be a path or a binary file"):
        mt.load(3)
    with pytest.raises(ValueError, match=r"load\(\): f must be a path with mmap=True"):
        mt.load(io.BytesIO(), mmap=True)
