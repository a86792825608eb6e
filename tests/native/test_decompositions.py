"""Operators without a kernel here run through the tree's decompositions, counted, and refuse by name without one."""

import pytest


def test_a_decomposition_stands_in_for_a_kernel_and_is_counted():
    import torch

    def used(name):
        return torch._C._torchnative_decompositions().get(name, 0)

    x = torch.arange(6.0).view(2, 3)
    before = used("aten::rot90")
    assert torch.rot90(x).tolist() == [[2.0, 5.0], [1.0, 4.0], [0.0, 3.0]]
    if torch._C._dispatch_has_computed_kernel_for_dispatch_key("aten::rot90", "CPU"):
        assert used("aten::rot90") == before
    else:
        assert used("aten::rot90") == before + 1
    assert torch.rot90(torch.empty(2, 3, device="meta")).shape == (3, 2)


def test_the_parts_of_a_decomposition_record_the_graph():
    import torch

    x = torch.arange(6.0).view(2, 3).requires_grad_()
    (torch.rot90(x) * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [[5.0, 3.0, 1.0], [6.0, 4.0, 2.0]]


def test_modes_see_the_operator_and_not_its_parts():
    import torch
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.arange(6.0).view(2, 3)
    with Mode():
        torch.rot90(x)
    assert seen == ["rot90"]
    with torch.device("meta"):
        assert torch.rot90(x).device.type == "cpu"


def test_without_a_decomposition_the_operator_is_refused_by_name():
    import torch

    x = torch.ones(2)
    with pytest.raises(NotImplementedError, match=r"aten::_weight_int8pack_mm.*CPU.*torch.float32"):
        torch.ops.aten._weight_int8pack_mm(x, x, x)
