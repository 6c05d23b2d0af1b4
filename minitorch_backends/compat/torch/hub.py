"""`torch.hub`: files of weights are downloaded and read, models are loaded from local folders only."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]{8,})\.")

_dir: str | None = None


def _get_torch_home() -> str:
    """The folder of torch's files: $TORCH_HOME, by default ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return str(Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser())


def get_dir() -> str:
    """The folder of downloaded files: that of `set_dir`, or `hub` below the folder of torch's files."""
    return _dir or str(Path(_get_torch_home()) / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloaded files in another folder."""
    global _dir
    _dir = os.fspath(Path(d).expanduser())


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file. Raises RuntimeError, and leaves no file, when its SHA-256 does not begin with `hash_prefix`."""
    if urlparse(url).scheme not in ("http", "https", "file"):
        raise ValueError(f"download_url_to_file(): url must be one of http, https or file, got {url!r}")
    part, digest = Path(f"{dst}.part"), hashlib.sha256()
    try:
        with urllib.request.urlopen(url) as source, part.open("wb") as target:
            while block := source.read(1 << 20):
                digest.update(block)
                target.write(block)
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f"download_url_to_file(): hash must begin with {hash_prefix!r}, got {digest.hexdigest()!r}"
            )
        part.replace(dst)
    finally:
        part.unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """Download a checkpoint once, to `model_dir` or `get_dir()`/checkpoints, and load it as `load` does."""
    from ...serialization import load as read

    folder = Path(model_dir or f"{get_dir()}/checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or Path(urlparse(url).path).name
    if not (folder / name).exists():
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(folder / name), found and found[1], progress)
    return read(folder / name, map_location=map_location, weights_only=weights_only)


load_url = load_state_dict_from_url


class tqdm:
    """An iterable, or a counter, without the progress bar of the package of this name."""

    def __init__(self, iterable: Any = (), **options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Any:
        return iter(self._iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Without effect."""


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call a function of `hubconf.py` in a local folder, with `source="local"`.

    Raises RuntimeError for another source: code of others is not downloaded and run.
    """
    if source != "local":
        raise RuntimeError(
            f"hub.load(): source must be 'local', got {source!r}; clone the repository and name its folder"
        )
    spec: Any = importlib.util.spec_from_file_location("hubconf", Path(repo_or_dir) / "hubconf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, model)(*args, **kwargs)
