"""Fake tensors: shapes, dtypes and devices without data."""

import pytest


def test_operators_on_fake_tensors_give_shapes_on_any_device():
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(2, 3)
        assert repr(x + 1) == "FakeTensor(..., size=(2, 3))"
        gpu = torch.ones(2, 3, device="cuda") @ torch.ones(3, 4, device="cuda")
        assert repr(gpu) == "FakeTensor(..., device='cuda:0', size=(2, 4))"
        assert (x.to("cuda").device.type, torch.tensor([1, 2]).dtype) == ("cuda", torch.int64)
        assert repr(torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)).shape) == (
            "torch.Size([1, 4, 6, 6])"
        )
        assert x.mean(1).expand(4, 2).stride() == (0, 1)
        assert isinstance(x.softmax(1), FakeTensor)
        assert torch.tensor(3).item() == 3


def test_what_depends_on_data_is_refused():
    import torch
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    with FakeTensorMode():
        with pytest.raises(DataDependentOutputException):
            torch.ones(1).item()
        with pytest.raises(DynamicOutputShapeException):
            torch.ones(4).nonzero()
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.ones(2, device="cuda") + torch.ones(2)


def test_real_tensors_become_fake_and_keep_geometry_and_graph():
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    mode = FakeTensorMode()
    t = mode.from_tensor(torch.arange(6).view(2, 3).t())
    assert (t.shape, t.stride(), t.dtype) == ((3, 2), (1, 3), torch.int64)
    p = mode.from_tensor(torch.nn.Parameter(torch.ones(2, 3)))
    assert repr(p) == "Parameter(FakeTensor(..., size=(2, 3), requires_grad=True))"
    with mode:
        (p * 2).sum().backward()
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        y = net(torch.ones(5, 3))
        assert (y.shape, y.requires_grad) == ((5, 2), True)
    assert (type(p.grad), p.grad.shape) == (FakeTensor, (2, 3))
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        p + torch.ones(2, 3)
