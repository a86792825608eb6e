"""What `torch` and `transformers` import and ask of `torch._C` exists, and what is absent says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MODULES = {
    "core": """torch.nn torch.optim torch.utils.data torch.distributions torch.fx torch.func torch.autograd torch.amp
        torch.linalg torch.fft torch.special torch.signal torch.sparse torch.nested torch.masked torch.library
        torch.overrides torch.random torch.hub torch.package torch.futures torch.monitor torch.multiprocessing
        torch.accelerator torch.cpu torch.cuda torch.mps torch.xpu torch.mtia torch.backends torch.numa""",
    "tools": """torch.jit torch.onnx torch.profiler torch.export torch.distributed torch.compiler torch.testing
        torch.ao.quantization torch.quantization torch.utils.checkpoint torch.utils.benchmark torch.utils.dlpack
        torch.utils.flop_counter torch.utils.mobile_optimizer torch.utils.model_zoo torch.utils.cpp_extension
        torch.utils._pytree torch.utils.hooks torch.utils.collect_env torch.utils.module_tracker torch.utils.weak
        torch.optim.swa_utils torch.nn.parallel torch.nn.attention.flex_attention torch.autograd.functional
        torch.autograd.gradcheck torch.autograd.graph torch.autograd.forward_ad torch.autograd.profiler""",
    "compiler": """torch._dynamo torch._inductor torch._export torch._functorch.aot_autograd
        torch._functorch.eager_transforms torch._subclasses torch._prims torch._refs torch._decomp
        torch.fx.experimental.symbolic_shapes torch.fx.experimental.proxy_tensor""",
    "transformers": """transformers.models.llama.modeling_llama transformers.models.qwen3.modeling_qwen3
        transformers.models.gpt2.modeling_gpt2 transformers.models.bert.modeling_bert
        transformers.models.vit.modeling_vit transformers.models.whisper.modeling_whisper
        transformers.models.mixtral.modeling_mixtral transformers.models.mamba.modeling_mamba
        transformers.trainer transformers.pipelines transformers.generation.streamers""",
}
PROGRAM = """
import importlib, sys, warnings
for name in sys.argv[1:]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
    for warning in seen:
        print(f"{name}: {warning.category.__name__}: {warning.message}")
"""


@pytest.mark.parametrize("group", MODULES)
def test_modules_import_without_warnings(group):
    command = [sys.executable, "-c", PROGRAM, *MODULES[group].split()]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_every_name_of_the_extension_exists():
    import importlib

    import torch

    missing = []
    table = (ROOT / "core" / "torch_c" / "src" / "generated" / "surface.tsv").read_text().splitlines()
    for row in (line.split("\t") for line in table if line[0] in "FCEV"):
        module, name = row[1:3]
        # The tree takes this one away once it has used it.
        if not hasattr(importlib.import_module(module), name) and name != "autograd_compiler":
            missing.append(f"{module}.{name}")
    assert missing == []
    assert torch._C._dynamo.compiled_autograd.is_cache_empty()


def test_absent_hardware_is_absent():
    import torch

    for module in (torch.cuda, torch.xpu, torch.mps, torch.mtia):
        assert (module.is_available(), module.device_count()) == (False, 0)
    assert (torch.version.cuda, torch.backends.cudnn.is_available()) == (None, False)
    with pytest.raises(AssertionError, match=r"^Torch not compiled with CUDA enabled$"):
        torch.ones(1).cuda()


def test_there_is_no_accelerator_unless_a_device_is_loaded():
    # Devices outside torch's tree are loaded at the end of its import, unless that is turned off.
    code = """
import torch
assert (torch.accelerator.is_available(), torch.accelerator.current_accelerator()) == (False, None)
try:
    torch.Stream()
except RuntimeError as e:
    print(e)
"""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    assert done.stdout == "Cannot access accelerator device when none is available.\n"


def test_streams_and_events_of_the_cpu():
    import torch

    stream, event = torch.Stream(device="cpu"), torch.Event(device="cpu")
    assert repr(stream) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0"
    assert repr(event) == "torch.Event device_type=cpu, device_index=-1, event_flag=0, event_id=0"
    assert (stream.query(), event.query(), stream == torch.Stream(device="cpu")) == (True, True, True)
    with pytest.raises(RuntimeError, match=r"^cpu backend doesn't support events\.$"):
        event.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(event)


def test_regions_can_be_marked_while_nobody_records():
    import torch

    with torch.autograd.profiler.record_function("region") as region:
        assert region.name == "region"
    assert not torch.autograd.profiler.kineto_available()
    assert torch.profiler.supported_activities() == set()


def test_compiling_refuses_and_eager_code_marked_for_it_runs():
    import torch

    with pytest.raises(NotImplementedError, match=r"torch\.compile is not implemented"):
        torch.compile(lambda x: x)(torch.ones(1))
    assert torch.compiler.disable(lambda x: x + 1)(torch.ones(1)).item() == 2
    assert not torch.compiler.is_compiling()


def test_arguments_of_module_to():
    import torch

    parse = torch._C._nn._parse_to
    assert parse() == (None, None, False, None)
    assert parse("cpu", torch.float16, True) == (torch.device("cpu"), torch.float16, True, None)
    assert parse(torch.float16, memory_format=torch.channels_last) == (None, torch.float16, False, torch.channels_last)
    assert parse(torch.ones(1, dtype=torch.int8)) == (torch.device("cpu"), torch.int8, False, None)
    with pytest.raises(RuntimeError, match=r"^\.to\(\) does not accept copy argument$"):
        parse(torch.float16, copy=True)
    with pytest.raises(
        TypeError, match=r"^to\(\) received an invalid combination of arguments - got \(other=Tensor, \)"
    ):
        parse(other=torch.ones(1))
    model = torch.nn.Linear(2, 3).to(torch.float64)
    assert (model.weight.dtype, model.weight.is_leaf) == (torch.float64, True)
