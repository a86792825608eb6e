"""`fcntl` where CPython was built without it (Pyodide 0.29), as far as it means something without other processes.

filelock warns and falls back to lock files when it is missing, and a lock file on a mounted folder outlives the page
that made it. A lock here excludes other descriptions of the same file in this process; it ends with its descriptor.
"""

import errno
import os

LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL = range(5)
FD_CLOEXEC = 1

# The descriptors that hold a lock, by file, and whether they hold it alone.
_holders: dict[tuple[int, int], dict[int, bool]] = {}


def _number(fd: object) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _still_holds(fd: int, file: tuple[int, int]) -> bool:
    """Whether `fd` is still open on `file`: closing a descriptor gives its lock up."""
    try:
        return _identity(fd) == file
    except OSError:
        return False


def flock(fd: object, operation: int, /) -> None:
    """Locks or unlocks the file behind `fd`. A lock that nobody else could ever give up is refused, not waited for."""
    fd = _number(fd)
    file = _identity(fd)
    holders = {held: alone for held, alone in _holders.get(file, {}).items() if _still_holds(held, file)}
    if operation & LOCK_UN:
        holders.pop(fd, None)
    else:
        alone = bool(operation & LOCK_EX)
        if any(other != fd and (alone or exclusive) for other, exclusive in holders.items()):
            if operation & LOCK_NB:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            raise OSError(errno.EDEADLK, os.strerror(errno.EDEADLK))
        holders[fd] = alone
    _holders[file] = holders
    if not holders:
        del _holders[file]


def lockf(fd: object, cmd: int, len: int = 0, start: int = 0, whence: int = 0, /) -> None:
    """Record locks exclude other processes only, and there are none."""
    _identity(_number(fd))


def fcntl(fd: object, cmd: int, arg: object = 0, /) -> int:
    """Not available."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def ioctl(fd: object, request: int, arg: object = 0, mutate_flag: bool = True, /) -> int:
    """Not available."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
