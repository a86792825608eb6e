"""`_posixshmem` where there is no shared memory: importable, and each call fails as a system without it fails."""

import errno
import os


def shm_open(path: str, flags: int, mode: int = 0o777) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)


def shm_unlink(path: str) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
