"""Faults that people met in Pyodide: threads, 64-bit integers in JavaScript, files that must last."""

import os
import tempfile
import threading

import torch
from harness import needs_transformers


def test_file_locks():
    """Pyodide 0.29 has no `fcntl`; ours excludes as the system's does, inside the one process there is."""
    import fcntl

    path = "/tmp/locked"
    with open(path, "w") as first, open(path) as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(first, fcntl.LOCK_UN)
        fcntl.flock(second.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(second, fcntl.LOCK_UN)
    from filelock import FileLock

    with FileLock("/tmp/other.lock"):
        assert os.path.exists("/tmp/other.lock")


@needs_transformers
def test_sharded_checkpoint_loads_without_threads():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, **sizes))
    folder = tempfile.mkdtemp()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len([f for f in os.listdir(folder) if f.endswith(".safetensors")]) > 1
    loaded = LlamaForCausalLM.from_pretrained(folder)
    pairs = zip(model.state_dict().values(), loaded.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert loaded(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 64)
    # Recorded from upstream: the same seed gives the same weights, and these tokens.
    assert loaded(torch.tensor([[1, 2, 3]])).logits.argmax(-1).tolist() == [[33, 48, 50]]


def test_threads_and_workers_fail_as_exceptions():
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        assert "thread" in str(error)
    else:
        raise AssertionError("a thread was started")
    try:
        list(torch.utils.data.DataLoader(torch.arange(4), batch_size=2, num_workers=1))
    except (ImportError, OSError, RuntimeError) as error:
        assert str(error)
    else:
        raise AssertionError("a worker was started")
    assert torch.arange(4).sum().item() == 6


def test_numpy_shares_memory_and_crosses_to_javascript_exactly():
    from pyodide.ffi import to_js

    tensor = torch.tensor([2**53 + 1, -1, 7])
    array = tensor.numpy()
    assert str(array.dtype) == "int64" and array.tolist() == [9007199254740993, -1, 7]
    assert array.ctypes.data == tensor.data_ptr()
    array[2] = 8
    assert tensor.tolist() == [9007199254740993, -1, 8]
    crossed = to_js(memoryview(array))
    assert crossed.constructor.name == "BigInt64Array" and crossed.length == 3
    assert int(crossed[0]) == 9007199254740993 and int(crossed[1]) == -1
    assert to_js(tensor[1].item()) == -1 and to_js(tensor.tolist())[2] == 8
    assert to_js(torch.ones(2).numpy()).constructor.name == "Float32Array"
    assert torch.from_numpy(array.copy()).dtype is torch.int64
    assert torch.frombuffer(bytearray(b"\x01\0\0\0\0\0\0\x80"), dtype=torch.int64).item() == -9223372036854775807
    assert torch.tensor(memoryview(array)).tolist() == [9007199254740993, -1, 8]


async def test_a_checkpoint_outlives_the_interpreter():
    """In a page the folder is an IndexedDB mount, here one of the host: written by Python alone, then synced."""
    import asyncio

    import pyodide_js

    path = "/persist/state.pt"
    torch.save({"w": torch.arange(70000, dtype=torch.float32) / 7}, path)
    synced = asyncio.get_running_loop().create_future()
    pyodide_js.FS.syncfs(False, lambda error=None, *_: synced.set_result(error))
    assert not await synced
    assert os.path.getsize(path) > 280000
    loaded = torch.load(path)["w"]
    assert loaded[-1].item() == 9999.857421875
    assert abs(loaded.double().sum().item() - 349995000) <= 1
