"""`torch.version`: the version of torch that is followed, and of libraries that are not used."""

from . import VERSION as __version__  # noqa: F401

debug = False
cuda = hip = xpu = git_version = None
