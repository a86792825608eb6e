"""The module `torch.webgpu`: the device `webgpu`, in the manner of upstream's modules of devices."""

import torch

_core = getattr(torch._C, "_webgpu", None)


def _autoload():
    """Gives the out-of-tree device its name and its methods. Run by torch at the end of its import; opens no device."""
    if _core is None:
        return
    import sys

    torch.utils.rename_privateuse1_backend("webgpu")
    torch._register_device_module("webgpu", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend()
    _core.activate()
    _print_in_floats()


def _print_in_floats():
    """Lets tensors print: upstream's formatter works in doubles but on devices it knows to have none."""
    form = torch._tensor_str
    wide = form.tensor_totype

    def tensor_totype(t):
        return t.to(dtype=torch.float) if t.device.type == "webgpu" else wide(t)

    form.tensor_totype = tensor_totype


def unavailable_reason():
    """Why the device cannot be used, or None when it can."""
    return "this build has no webgpu device" if _core is None else _core.reason()


def is_available():
    """Whether there is an adapter; opens the device."""
    return unavailable_reason() is None


def device_count():
    """One, or none without an adapter."""
    return int(is_available())


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
    """The tensor's copy on the CPU, awaited: works where Python cannot be suspended.

    In a page this is the way to read from a callback of JavaScript; elsewhere it is `tensor.cpu()`.

    Raises:
        RuntimeError: the device is lost, or work that the tensor depends on failed.
    """
    return tensor.cpu()
