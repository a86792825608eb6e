"""`__torch_function__`: who is asked, in which order, and what everyone is told."""

import pytest


def logging_class(log):
    import torch

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs)

    return Logged


def test_methods_functions_dunders_and_properties_are_overridden():
    import torch

    log = []
    x = torch.tensor([1.0, 2.0]).as_subclass(logging_class(log))
    assert log == []
    results = [x.add(1), torch.add(x, 1), x + 1, 1 + x, x == 1, x != 1, x[0], x.to(torch.float64), x.T]
    assert log == ["add", "add", "add", "add", "__eq__", "ne", "__getitem__", "to", "__get__"]
    assert all(type(r) is type(x) for r in results)
    del log[:]
    assert (x.shape, x.dim(), x.stride(0), x.tolist()) == (torch.Size([2]), 1, 1, [1.0, 2.0])
    x[0] = 5
    x.requires_grad = False
    del x.grad
    assert log == ["__get__", "dim", "stride", "tolist", "__setitem__", "__set__", "__delete__"]
    del log[:]
    torch.ops.aten.add(x, x)
    torch.ops.aten.add.Tensor(x, x)
    torch.ops.aten.cat([x, x])
    assert log == ["add", "add.Tensor", "cat"]


def test_subclasses_are_asked_before_their_bases_and_each_class_once():
    import torch

    order = []

    class A:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append((cls.__name__, [t.__name__ for t in types]))
            return NotImplemented

    class B(A):
        pass

    class C:
        __torch_function__ = classmethod(lambda cls, *a, **k: (order.append(cls.__name__), NotImplemented)[1])

    with pytest.raises(TypeError) as e:
        torch.cat([A(), C(), B(), A()])
    names = ["B", "A", "C"]
    assert order == [("B", names), ("A", names), "C"]
    assert str(e.value).startswith(
        "Multiple dispatch failed for 'torch.cat'; all __torch_function__ handlers returned NotImplemented:\n\n"
        "  - tensor subclass <class '"
    )
    assert str(e.value).endswith("\n\nFor more information, try re-running with TORCH_LOGS=not_implemented")
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch.nn.gelu'"):
        torch._C._nn.gelu(A())
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch.Tensor.add'"):
        torch.ones(2).add(A())
    with pytest.raises(TypeError, match="unsupported operand type"):
        torch.ones(2) + A()


def test_objects_that_override_stand_for_any_argument():
    import torch

    class A:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, kwargs and list(kwargs)

    y = torch.ones(2)
    assert y.sum(A()) == ("sum", None)
    assert torch.full((2,), A()) == ("full", None)
    assert torch.zeros(2, dtype=A()) == ("zeros", ["dtype"])
    assert torch.zeros((2, A())) == ("zeros", None)
    assert y.view(1, A()) == ("view", None)
    assert y[0, A()] == ("__getitem__", None)
    assert y.index_put_([A()], y) == ("index_put_", None)
    with pytest.raises(TypeError, match='missing 1 required positional arguments: "other"'):
        torch.add(A(), nope=A())


def test_modes_nest_and_are_off_inside_of_themselves():
    import torch
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__, types))
            return func(*args, **(kwargs or {}))

    with Mode("outer"), Mode("inner"):
        torch.ones(2)
        with torch._C.DisableTorchFunction():
            torch.ones(3)
    assert seen == [("inner", "ones", ()), ("outer", "ones", ())]
    assert torch._C._len_torch_function_stack() == 0


def test_a_device_is_a_mode_for_factories():
    import torch

    with torch.device("meta"):
        made = [torch.ones(2), torch.tensor([1]), torch.empty(2), torch.nn.Linear(2, 3).weight]
        assert [t.device.type for t in made] == ["meta"] * 4
        assert torch.ones(2, device="cpu").device.type == "cpu"
    assert torch.ones(2).device.type == "cpu"
    torch.set_default_device("meta")
    try:
        assert torch.zeros(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).device.type == "cpu"


def test_overrides_can_be_switched_off_and_skipped_once():
    import torch

    log = []
    x = torch.ones(2).as_subclass(logging_class(log))
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
        assert not torch._C._is_torch_function_enabled()
    assert torch._C._disabled_torch_function_impl(torch.add, (type(x),), (x, 1)).tolist() == [2.0, 2.0]
    assert log == []
    assert type(torch.overrides.redispatch_function(torch.add, (type(x),), (x, 1), {})) is torch.Tensor
    assert log == []
    with pytest.raises(RuntimeError, match="doesn't use has_torch_function"):
        torch._C._skip_one_hop_torch_function(lambda *a: 3, (), (x,), {})
    assert torch.overrides.has_torch_function_unary(x)
    assert not torch.overrides.has_torch_function_variadic(1, torch.ones(1), torch.nn.Parameter(torch.ones(1)))


def test_parameters_do_not_override():
    import torch

    p = torch.nn.Parameter(torch.ones(2))
    assert (type(p), p.requires_grad, type(p + 1)) == (torch.nn.Parameter, True, torch.Tensor)
