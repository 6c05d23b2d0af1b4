"""What is saved to a path: whole or not at all, into what is there, by everything in the package that writes files."""

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import lab
from minitorch_backends.kernels.conv.tuner import BenchmarkCache
from minitorch_backends.kernels.runtime import files
from minitorch_backends.lab.store import Store
from tests.support.processes import python
from tests.support.sweep_functions import sums

posix = pytest.mark.skipif(os.name != "posix", reason="modes, pipes and hard links are of POSIX")


def _capture(path: Path) -> None:
    with lab.capture(path):
        mt.ones(3, 3) @ mt.ones(3, 3)


def _safetensors(path: Path) -> None:
    pytest.importorskip("safetensors")
    from minitorch_backends.interop import safetensors

    safetensors.save_file({"x": mt.arange(5)}, path)


def _csv(path: Path) -> None:
    lab.sweep(sums, over={"n": [2], "scale": [1.0]}, flags=[{}], seeds=1, progress=False).to_csv(path)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "save": lambda path: mt.save(mt.arange(5), path),
    "capture": _capture,
    "safetensors": _safetensors,
    "csv": _csv,
    "tuner": lambda path: BenchmarkCache().save(path),
    "write_file": lambda path: files.write_file(path, "text"),
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    return WRITERS[request.param]


@posix
def test_mode_and_links_stay(write: Callable[[Path], Any], tmp_path: Path):
    umask = os.umask(0o027)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "file").touch(0o600)
    (tmp_path / "link").symlink_to("file")
    os.link(tmp_path / "file", tmp_path / "other")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "other").samefile(tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert (tmp_path / "file").stat().st_size > 0
    assert {each.name for each in tmp_path.iterdir()} == {"new", "file", "link", "other"}


@posix
def test_a_pipe_is_written_into(write: Callable[[Path], Any], tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe)
        sent = os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert sent
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_folder_is_refused(write: Callable[[Path], Any], tmp_path: Path):
    with pytest.raises(OSError, match="must not be a folder"):
        write(tmp_path)
    with pytest.raises(OSError, match="absent"):
        write(tmp_path / "absent" / "file")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_after_a_failure(tmp_path: Path):
    (tmp_path / "there").write_text("old")

    def fail(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    for path in (tmp_path / "there", tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            files.write_file(path, fail)
    with pytest.raises(KeyboardInterrupt):  # several files: all or none
        files.write_files({tmp_path / "first": lambda file: file.write(b"1"), tmp_path / "there": fail})
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text(encoding="utf-8") == "old"


@posix
def test_a_mapped_file_with_another_name_is_refused(tmp_path: Path):
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not list mapped files")
    mt.save(mt.arange(10000), tmp_path / "a.pt")
    mapped = mt.load(tmp_path / "a.pt", mmap=True)
    os.link(tmp_path / "a.pt", tmp_path / "b.pt")
    with pytest.raises(OSError, match="save to another path"):
        mt.save(mt.zeros(2), tmp_path / "b.pt")
    assert mt.equal(mapped, mt.arange(10000))


def test_mapped_files_have_names_in_any_encoding(tmp_path: Path):
    """Without UTF-8, as under cron, the list of mapped files is not text in the encoding of the process."""
    code = f"""
import mmap, os
import minitorch_backends as mt
with open({os.fsencode(tmp_path)!r} + b"/d\\xc3\\xbc.bin", "wb+") as file:
    file.write(b"content")
    file.flush()
    mapped = mmap.mmap(file.fileno(), 0)
mt.save([1], {str(tmp_path / "one.pt")!r})
os.link({str(tmp_path / "one.pt")!r}, {str(tmp_path / "two.pt")!r})
mt.save([2], {str(tmp_path / "one.pt")!r})
print(mt.load({str(tmp_path / "two.pt")!r}))
"""
    printed = python(code, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (printed.out, printed.error) == ("[2]\n", "")


def test_threads_save_to_one_path(tmp_path: Path):
    errors, path, values = [], tmp_path / "shared.pt", [mt.full((20000,), float(i)) for i in range(3)]

    def work(value: mt.Tensor) -> None:
        try:
            for _ in range(15):
                mt.save(value, path)
                found = mt.load(path)
                assert found.shape == (20000,)
                assert (found == found[0]).all()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_process_is_in_nobodys_way(tmp_path: Path):
    path = tmp_path / "run.pt"
    child = os.fork()
    if child == 0:
        try:
            files.write_file(path, lambda file: (file.write(b"half"), file.flush(), time.sleep(60)))
        finally:
            os._exit(1)
    deadline = time.monotonic() + 60
    while not any(each.stat().st_size for each in tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not path.exists()
    mt.save(mt.ones(3), path)
    assert mt.equal(mt.load(path), mt.ones(3))


def test_the_manifest_of_a_store_is_whole(tmp_path: Path):
    Store(tmp_path, {"function": "f"})
    assert json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["function"] == "f"
    assert [each.name for each in tmp_path.iterdir()] == ["manifest.json"]
