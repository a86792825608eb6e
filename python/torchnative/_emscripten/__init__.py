"""What upstream's tree and the packages round it expect of a platform and Pyodide has not.

`torch._C` calls `prepare` before it fills itself, so an unmodified `import torch` is enough. There are no threads, no
processes and no semaphores here: what would start a thread on its own is turned off, and the modules of the standard
library that Pyodide leaves out are supplied where something imports them without need. Nothing the user set is
overridden, and what asks for a thread explicitly still gets Python's own RuntimeError.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

# Read by transformers, huggingface_hub and tokenizers, most of them at import.
DEFAULTS = {
    # Weights are otherwise read by a pool of threads.
    "HF_DEACTIVATE_ASYNC_LOAD": "1",
    # Sent from a thread of its own.
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # A checkpoint without safetensors otherwise starts a thread that asks the hub to convert it.
    "DISABLE_SAFETENSORS_CONVERSION": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

# Modules of the standard library that Pyodide lacks, as files in `stdlib/`.
SUPPLIED = ("_multiprocessing", "_posixshmem", "fcntl")


class Supplied(importlib.abc.MetaPathFinder):
    """Finds the supplied modules. It stands last, so a Pyodide that brings one of its own wins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in SUPPLIED:
            return None
        location = os.path.join(os.path.dirname(__file__), "stdlib", fullname + ".py")
        return importlib.util.spec_from_file_location(fullname, location)


class Adjusted(importlib.abc.Loader):
    """A loader that runs `then` on the module another loader has just filled."""

    def __init__(self, loader: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self.loader = loader
        self.then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module looks as if nothing had stood between.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.then(module)


class Adjusting(importlib.abc.MetaPathFinder):
    """Sees certain modules imported later, to adjust each once."""

    def __init__(self, pending: dict[str, Callable[[ModuleType], None]]) -> None:
        self.pending = pending

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        then = self.pending.pop(fullname, None)
        if then is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = Adjusted(spec.loader, then)
                return spec
        return None


def _no_monitor(module: ModuleType) -> None:
    """tqdm would try to start a thread that watches its bars, and warn that it cannot."""
    module.tqdm.monitor_interval = 0


def _no_telemetry(module: ModuleType) -> None:
    """For a huggingface_hub imported before torch, which has read its environment already."""
    if os.environ.get("HF_HUB_DISABLE_TELEMETRY") == DEFAULTS["HF_HUB_DISABLE_TELEMETRY"]:
        module.HF_HUB_DISABLE_TELEMETRY = True


ADJUST = {"tqdm.std": _no_monitor, "huggingface_hub.constants": _no_telemetry}


def prepare() -> None:
    """Sets the process up, once."""
    if any(isinstance(finder, Supplied) for finder in sys.meta_path):
        return
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    sys.meta_path.append(Supplied())
    pending = dict(ADJUST)
    for name in ADJUST:
        if name in sys.modules:
            pending.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, Adjusting(pending))
