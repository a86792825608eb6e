"""What `micropip.install` leaves behind, and that the import is clean. Runs first: torch is imported once."""

import importlib
import importlib.metadata as metadata
import importlib.util
import sys
import warnings
import zipfile

from harness import needs_transformers, raises


def test_torch_is_a_distribution():
    assert metadata.version("torch") == "2.15.0"
    assert metadata.distribution("torch").metadata["Name"] == "torch"
    assert metadata.version("torchnative") == __import__("torchnative").__version__
    assert "torch" in metadata.packages_distributions()
    assert metadata.version("tokenizers") == "0.23.3"
    assert metadata.version("safetensors") == "0.8.0"


def test_record_lists_what_is_there():
    files = metadata.distribution("torch").files
    assert any(str(file) == "torch/__init__.pyc" for file in files)
    missing = [str(file) for file in files if not file.locate().exists()]
    assert not missing, missing[:5]


async def test_a_later_install_that_requires_torch_is_satisfied():
    import micropip

    info = "needs_torch-1.0.dist-info"
    with zipfile.ZipFile("/tmp/needs_torch-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("needs_torch.py", "answer = 42\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: needs-torch\nVersion: 1.0\nRequires-Dist: torch>=2.6\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    await micropip.install("emfs:/tmp/needs_torch-1.0-py3-none-any.whl")
    assert __import__("needs_torch").answer == 42


def unsatisfied(*roots):
    """The requirements of the installed packages, from `roots` on, that what is installed does not meet."""
    from packaging.requirements import Requirement

    bad, todo, seen = [], list(roots), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for line in metadata.distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                bad.append((name, requirement.name, "missing"))
                continue
            if requirement.specifier.contains(version, prereleases=True):
                todo.append(requirement.name)
            else:
                bad.append((name, str(requirement), version))
    return sorted(bad)


def test_requirements_of_torch_are_met():
    assert unsatisfied("torch", "torchnative") == []


@needs_transformers
def test_requirements_of_transformers_are_met():
    assert unsatisfied("transformers", "torch") == []


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
