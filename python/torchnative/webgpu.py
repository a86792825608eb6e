"""The module `torch.webgpu`: the device `webgpu`, in the manner of upstream's modules of devices."""

import sys

import torch

_core = getattr(torch._C, "_webgpu", None)


def _autoload():
    """Gives the out-of-tree device its name and its methods. Run by torch at the end of its import; opens no device."""
    if _core is None:
        return
    torch.utils.rename_privateuse1_backend("webgpu")
    torch._register_device_module("webgpu", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend()
    _core.activate()
    _print_from_the_cpu()


def _print_from_the_cpu():
    """Lets tensors print with one readback: upstream's formatter looks at the elements one by one, in doubles."""
    form = torch._tensor_str
    contents = form._tensor_str

    def _tensor_str(self, indent):
        return contents(self.cpu() if self.device.type == "webgpu" else self, indent)

    form._tensor_str = _tensor_str


def unavailable_reason():
    """Why the device cannot be used, or None when it can."""
    return "this build has no webgpu device" if _core is None else _core.reason()


def is_available():
    """Whether there is an adapter; opens the device."""
    return unavailable_reason() is None


def device_count():
    """One where this build has the device; whether there is an adapter shows at first use, or by `is_available`."""
    return int(_core is not None)


def is_initialized():
    """Whether the device has been used."""
    return _core is not None and _core.stats()["reserved"] > 0


def current_device():
    """The one device there is."""
    return 0


def set_device(device):
    """Accepts the one device there is.

    Raises:
        RuntimeError: for another index.
    """
    index = device if isinstance(device, int) else torch.device(device).index or 0
    if index > 0:
        raise RuntimeError(f"webgpu: there is one device, but got index {index}")


class device:
    """Does nothing: there is one device. For `with torch.webgpu.device(0)`."""

    def __init__(self, device):
        set_device(device)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


_generators = []


def _generator():
    if not _generators:
        _generators.append(torch.Generator(device="webgpu"))
    return _generators[0]


def manual_seed(seed):
    """Seeds the device's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed):
    """Seeds the generator of the one device."""
    manual_seed(seed)


def initial_seed():
    """The seed of the device's generator."""
    return _generator().initial_seed()


def get_rng_state(device=None):
    """The state of the device's generator."""
    return _generator().get_state()


def set_rng_state(state, device=None):
    """Puts the device's generator into a state that `get_rng_state` gave."""
    _generator().set_state(state)


def _is_in_bad_fork():
    return False


def get_amp_supported_dtype():
    """The dtypes that autocast may compute in."""
    return [torch.float16, torch.bfloat16]


def synchronize(device=None):
    """Waits until the device has done all its work."""
    _core.synchronize()


def stats():
    """Counters since the start or `reset_stats`: dispatches, submits, pipelines, readbacks, bytes, memory."""
    return _core.stats()


def reset_stats():
    """Sets the counters to zero."""
    _core.reset_stats()


def reset():
    """Gives the device up with all that its tensors hold, after it was lost or work on it failed.

    The next use opens it anew. Tensors from before raise RuntimeError when they are used.
    """
    _core.reset()


def adapter_info():
    """What the adapter calls itself: vendor, device, driver and the like, as far as it says so."""
    return _core.adapter_info()


class _Properties:
    """What `get_device_properties` gives: `name`, `total_memory`, and the limits in use as attributes."""

    def __init__(self, info, limits):
        self.name = info.get("name") or info.get("description") or info.get("vendor") or "webgpu"
        #: Bytes of memory, which no WebGPU tells: None.
        self.total_memory = None
        self.__dict__.update(limits)

    def __repr__(self):
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"_WebGpuDeviceProperties({fields})"


def get_device_properties(device=None):
    """The adapter's name and the limits in use."""
    set_device(0 if device is None else device)
    return _Properties(adapter_info(), limits())


def get_device_name(device=None):
    """The adapter's name."""
    return get_device_properties(device).name


def limits():
    """The limits of the adapter that are in use."""
    return _core.limits()


def memory_allocated(device=None):
    """Bytes that tensors hold, in whole slices."""
    return _core.stats()["allocated"]


def memory_reserved(device=None):
    """Bytes of the buffers that tensors are placed in."""
    return _core.stats()["reserved"]


def max_memory_allocated(device=None):
    """The most bytes that tensors held since the start or `reset_stats`."""
    return _core.stats()["peak"]


def empty_cache():
    """Destroys buffers that hold nothing."""
    _core.empty_cache()


async def read(tensor):
    """The tensor's copy on the CPU, contiguous, awaited: works where Python cannot be suspended.

    In a page this is the way to read from a callback of JavaScript; elsewhere it is `tensor.cpu()`. Open the device
    first, by `await torch.webgpu.open()` or by any use from `runPythonAsync`.

    Raises:
        RuntimeError: the device is lost, or work that the tensor depends on failed.
    """
    tensor = tensor.detach()
    if sys.platform != "emscripten" or tensor.device.type != "webgpu":
        return tensor.cpu().contiguous()
    from ._emscripten import webgpu as bridge

    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    if tensor.numel():
        reading = _core.begin_read(tensor.contiguous())
        await bridge.last_read()
        reading.finish(result)
    return result


async def open():
    """Opens the adapter without suspending the caller. In a page this comes before the first use in a callback.

    Raises:
        RuntimeError: there is no adapter; the message says why.
    """
    if sys.platform == "emscripten":
        from ._emscripten import webgpu as bridge

        try:
            await bridge.open_async()
        except Exception as error:
            raise RuntimeError(f"webgpu: {getattr(error, 'message', error)}") from None
    if (reason := unavailable_reason()) is not None:
        raise RuntimeError(reason)
