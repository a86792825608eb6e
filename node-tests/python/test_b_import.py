"""`import torch` is clean, and what the platform lacks is supplied. torch is imported once, so this comes first."""

import importlib
import importlib.metadata as metadata
import importlib.util
import sys
import warnings

from harness import needs_transformers, raises


def test_import_is_silent_and_ships_bytecode():
    assert "torch" not in sys.modules
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch
    assert [str(w.message) for w in caught] == []
    assert torch.__version__ == "2.15.0"
    assert torch.__file__.endswith("/torch/__init__.pyc")
    assert torch._C.__file__.endswith("/torch/_C.abi3.so")
    assert not torch.cuda.is_available()


def test_submodules_import():
    names = """nn optim utils.data distributions fx func export distributed testing autograd.forward_ad linalg fft
    special sparse nested jit onnx quantization ao.quantization multiprocessing package profiler masked amp library hub
    nn.utils.parametrize nn.attention.flex_attention utils.checkpoint utils.cpp_extension _dynamo""".split()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in names:
            __import__(f"torch.{name}")


@needs_transformers
def test_transformers_sees_torch():
    import torch
    import transformers

    assert transformers.is_torch_available()
    assert torch.__version__.split("+")[0] == metadata.version("torch")


def test_missing_modules_are_supplied():
    import multiprocessing.queues
    import multiprocessing.resource_tracker
    import multiprocessing.shared_memory

    import torch.multiprocessing  # noqa: F401

    raises(ImportError, lambda: importlib.import_module("multiprocessing.synchronize"), "sem_open")
    raises(OSError, lambda: multiprocessing.shared_memory.SharedMemory("x", create=True, size=8))


def test_what_needs_threads_is_off():
    import os

    for name in ("HF_DEACTIVATE_ASYNC_LOAD", "HF_HUB_DISABLE_TELEMETRY", "DISABLE_SAFETENSORS_CONVERSION"):
        assert os.environ[name] == "1"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if importlib.util.find_spec("tqdm"):
            from tqdm import tqdm

            with open(os.devnull, "w") as nowhere:
                list(tqdm(range(3), file=nowhere))
    assert [str(w.message) for w in caught] == []


def test_source_is_there_where_it_is_read():
    import inspect

    import torch._inductor.config

    assert "install_config_module" in inspect.getsource(torch._inductor.config)
    assert torch._dynamo.list_backends(exclude_tags=()), "no backend was found by its file"
