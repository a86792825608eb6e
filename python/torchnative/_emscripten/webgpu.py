"""The way from the core to WebGPU: loads the executor and waits for what it reads."""

from importlib.resources import files

from pyodide.code import run_js
from pyodide.ffi import JsException, can_run_sync, run_sync, to_js

ASYNC = (
    "the webgpu device waits for the GPU, and Python cannot be suspended here: run the code with "
    "pyodide.runPythonAsync (not runPython) in a browser with JSPI, or read tensors with "
    "`await torchnative.webgpu.read(tensor)`"
)
_opened = None
_last = None


class NotHereError(RuntimeError):
    """Python cannot be suspended here; the device is as it was."""

    refused = True


async def open_async():
    """Opens the adapter, unless that was done, and returns the executor."""
    global _opened
    if _opened is None:
        import pyodide_js

        source = files(__package__).joinpath("executor.js").read_text()
        _opened = await run_js(source)(pyodide_js._module)()
    return _opened


def open():
    """Opens the adapter and returns the executor.

    Raises:
        RuntimeError: there is no adapter, or Python cannot wait for one here.
    """
    return _opened if _opened is not None else _wait(open_async())


def _wait(awaitable):
    if not can_run_sync():
        if hasattr(awaitable, "close"):
            awaitable.close()
        raise NotHereError(ASYNC)
    try:
        return run_sync(awaitable)
    except JsException as error:
        raise RuntimeError(str(error.message)) from None


def start(executor, slices):
    """Begins to read slices (buffer, offset and size of each, in one list) and gives the read's number.

    Raises:
        JsException: earlier work failed.
    """
    global _last
    _last = executor.start(to_js(slices))
    return _last


async def last_read():
    """Waits for the read that was begun last, without suspending the caller."""
    await _opened.wait(_last)


def finish(executor, number, address):
    """Copies what was read to `address`, suspending Python until it is there.

    Raises:
        NotHereError: it is not there yet, and Python cannot be suspended here.
        RuntimeError: the device was lost or earlier work failed.
    """
    if not executor.settled(number):
        if not can_run_sync():
            executor.cancel(number)
        _wait(executor.wait(number))
    executor.take(number, address)


def closed():
    """Forgets the executor: the next use opens the adapter anew."""
    global _opened
    if _opened is not None:
        _opened.close()
    _opened = None
