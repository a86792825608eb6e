"""The way from the core to WebGPU: loads the executor and waits for what it reads."""

from importlib.resources import files

from pyodide.code import run_js
from pyodide.ffi import JsException, can_run_sync, run_sync, to_js

ASYNC = (
    "the webgpu device waits for the GPU, and Python cannot be suspended here: run the code with pyodide.runPythonAsync (not "
    "runPython) in a browser with JSPI, or read tensors with `await torchnative.webgpu.read(tensor)`"
)
_opened = None


def _load():
    import pyodide_js

    source = files(__package__).joinpath("executor.js").read_text()
    return run_js(source)(pyodide_js._module)


async def open_async():
    """Opens the adapter, unless that was done, and returns the executor."""
    global _opened
    if _opened is None:
        _opened = await _load()()
    return _opened


def open():
    """Opens the adapter and returns the executor.

    Raises:
        RuntimeError: there is no adapter, or Python cannot wait for one here.
    """
    if _opened is not None:
        return _opened
    return wait(open_async())


def wait(awaitable):
    """Suspends Python until the awaitable is done; gives its result.

    Raises:
        RuntimeError: Python cannot be suspended here, or the awaitable fails.
    """
    if not can_run_sync():
        if hasattr(awaitable, "close"):
            awaitable.close()
        raise RuntimeError(ASYNC)
    try:
        return run_sync(awaitable)
    except JsException as error:
        raise RuntimeError(str(error.message)) from None


def read(executor, slices, address):
    """Copies slices (buffer, offset and size of each, in one list) to `address`, suspending Python until they are there.

    Raises:
        RuntimeError: Python cannot be suspended here, or earlier work failed.
    """
    if not can_run_sync():
        raise RuntimeError(ASYNC)
    number = executor.start(to_js(slices))
    wait(executor.wait(number))
    executor.take(number, address)


def closed():
    """Forgets the executor: the next use opens the adapter anew."""
    global _opened
    if _opened is not None:
        _opened.close()
    _opened = None
