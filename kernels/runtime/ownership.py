"""Whether files that this process would obey could have been written by another user."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path


def refuse_what_others_can_write(folder: Path) -> None:
    """Raise PermissionError if a user other than this one and root could write to `folder`, or replace it.

    A sticky folder on the path (such as /tmp) is safe: only owners can replace its entries.
    """
    places = {folder, Path(os.path.realpath(folder))}
    for path in {level for place in places for level in (place, *place.parents)}:
        found = os.lstat(path)
        sticky = path not in places and found.st_mode & stat.S_ISVTX
        if reason := danger(path, found, bool(sticky)):
            raise PermissionError(reason)


def danger(path: Path, found: os.stat_result, sticky: bool = False) -> str | None:
    """A sentence if a user other than this one and root may have written a file, or could; else None. What lies in a
    sticky folder is its owners'."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user (uid {found.st_uid})"
    mode = 0 if sticky or stat.S_ISLNK(found.st_mode) else found.st_mode
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private_group(found.st_gid)):
        return f"other users can write to {path} (mode {stat.S_IMODE(mode):o})"
    return None


@functools.cache
def _is_private_group(group: int) -> bool:
    """Whether a group has no members but the user and root, as in that which many systems make with each user.

    A group of others cannot be told from their having no entry in the system's tables; so a group without one is not
    private.
    """
    import grp
    import pwd

    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    users = [each for each in pwd.getpwall() if each.pw_gid == group or each.pw_name in members]
    return all(each.pw_uid in (0, os.geteuid()) for each in users) and members <= {each.pw_name for each in users}
