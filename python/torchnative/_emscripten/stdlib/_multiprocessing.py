"""`_multiprocessing` as CPython builds it where there are no semaphores: `multiprocessing` can be imported, and its
`synchronize` raises the ImportError that the standard library has for this case."""

import errno
import os

flags: dict[str, int] = {}


def sem_unlink(name: str) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
