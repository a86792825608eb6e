"""Unmodified `import torch` on this core, with values that upstream torch 2.15.0 prints for the same lines."""

import subprocess
import sys

import pytest


def test_import_is_free_of_warnings():
    command = [sys.executable, "-W", "error", "-c", "import torch"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_version_and_devices():
    from importlib.metadata import version

    import torch

    assert torch.__version__ == version("torch") == "2.15.0"
    assert not torch.cuda.is_available()


def test_views_and_products():
    import torch

    x = torch.arange(6.0).view(2, 3)
    assert (x + 1).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert (x * 2.0).sum().item() == 30.0
    assert x.t().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert (x @ x.t()).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    assert (x.stride(), x.t().is_contiguous()) == ((3, 1), False)
    assert torch.cat([x, x], 1).shape == torch.Size([2, 6])
    assert (torch.mean(x, dim=1).tolist(), torch.var(x).item()) == ([1.0, 4.0], 3.5)


def test_indexing_reads_and_writes_through_views():
    import torch

    x = torch.arange(6.0).view(2, 3)
    assert (x[:, 1].tolist(), x[x > 2].tolist()) == ([1.0, 4.0], [3.0, 4.0, 5.0])
    x[0, 1:] = 9
    assert x.tolist() == [[0.0, 9.0, 9.0], [3.0, 4.0, 5.0]]
    assert x[1]._base is x._base


def test_random_streams():
    import torch

    torch.manual_seed(0)
    assert torch.rand(3).tolist() == [0.49625658988952637, 0.7682217955589294, 0.08847743272781372]
    assert torch.randn(2).tolist() == [0.3643381893634796, 0.13439632952213287]


def test_errors_are_upstreams():
    import torch

    with pytest.raises(TypeError, match=r"^add\(\): argument 'other' \(position 1\) must be Tensor, not str$"):
        torch.ones(2).add("s")
    with pytest.raises(RuntimeError, match=r"^The size of tensor a \(3\) must match the size of tensor b \(4\)"):
        torch.ones(2, 3) + torch.ones(4)


def test_a_missing_operator_refuses_by_name():
    import torch

    refusal = r"'aten::_mps_convolution' .*'CPU' backend \(dtypes: torch.float32\)"
    with pytest.raises(NotImplementedError, match=refusal):
        torch.ops.aten._mps_convolution.default(torch.ones(1, 1, 3), torch.ones(1, 1, 1), None, [0], [1], [1], 1)


def test_logsumexp_rounds_at_every_step():
    import torch

    x = (torch.arange(6.0).view(2, 3) - 3) * 0.75
    assert x.to(torch.bfloat16).logsumexp(1).tolist() == [-0.22265625, 2.03125]


def test_a_number_taken_from_a_tensor_loses_nothing():
    import torch

    z = torch.tensor(1 + 2j)
    for take, name in ((int, "int64_t"), (float, "double")):
        with pytest.raises(RuntimeError, match=f"^value cannot be converted to type {name} without overflow$"):
            take(z)
    assert (int(torch.tensor(-2.75)), float(torch.tensor(3)), complex(z)) == (-2, 3.0, 1 + 2j)
    with pytest.raises(NotImplementedError, match="two bool tensors"):
        torch.tensor(True) - torch.tensor(True)
