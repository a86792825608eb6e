"""`__torch_dispatch__` of modes and subclasses: what they are asked, and with which arguments."""

import pytest


def recording_mode(log):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append((str(func), types, kwargs))
            return func(*args, **(kwargs or {}))

    return Recording


def wrapper_class(log):
    import torch

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            r = torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
            )
            r.inner = inner
            return r

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            from torch.utils._pytree import tree_map_only

            log.append(str(func))
            args, kwargs = tree_map_only(cls, lambda w: w.inner, (args, kwargs or {}))
            return tree_map_only(torch.Tensor, cls, func(*args, **kwargs))

        def __repr__(self):
            return f"Wrapper({self.inner.tolist()})"

    return Wrapper


def test_a_mode_sees_operators_below_composites_with_their_arguments():
    import torch

    log = []
    x = torch.ones(2)
    with recording_mode(log)():
        x + 1
        torch.zeros(2, dtype=torch.int8)
        torch.tensor([1, 2])
        x.to(torch.float64)
        x[0].item()
        torch.nn.functional.linear(x.view(1, 2), x.view(1, 2))
        x.clone(memory_format=torch.contiguous_format)
        assert x.tolist() == [1.0, 1.0]
        assert x.shape == (2,)
    cpu = torch.device("cpu")
    assert log == [
        ("aten.add.Tensor", (), {}),
        ("aten.zeros.default", (), {"dtype": torch.int8, "device": cpu, "pin_memory": False}),
        ("aten.lift_fresh.default", (), {}),
        ("aten._to_copy.default", (), {"dtype": torch.float64}),
        ("aten.select.int", (), {}),
        ("aten._local_scalar_dense.default", (), {}),
        ("aten.view.default", (), {}),
        ("aten.view.default", (), {}),
        ("aten.t.default", (), {}),
        ("aten.mm.default", (), {}),
        ("aten.clone.default", (), {"memory_format": torch.contiguous_format}),
    ]


def test_modes_nest_and_are_off_inside_of_themselves():
    import torch

    outer, inner = [], []
    with recording_mode(outer)(), recording_mode(inner)():
        assert torch._C._len_torch_dispatch_stack() == 2
        x = torch.ones(2)
        repr(x)
        x.add_(1)
    assert [name for name, *_ in inner] == ["aten.ones.default", "aten.add_.Tensor"] == [n for n, *_ in outer]
    assert torch._C._len_torch_dispatch_stack() == 0
    del outer[:]
    with recording_mode(outer)(), torch._C._DisableTorchDispatch():
        torch.ones(2)
    assert outer == []


def test_a_number_stays_a_number_in_the_arguments():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(args[1:])
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Mode():
        x + 1
        x * 2.5
        x.mean(dim=0, keepdim=True)
        x.sum(0)
        x.softmax(0)
    assert seen == [(1,), (2.5,), ([0], True), ([0],), (0, False)]


def test_a_wrapper_has_geometry_and_no_data():
    import torch

    log = []
    wrapper = wrapper_class(log)
    w = wrapper(torch.tensor([1.0, 2.0]))
    assert (w.shape, w.dtype, w.device.type, w.stride(), w.numel()) == ((2,), torch.float32, "cpu", (1,), 2)
    assert repr(w + 1) == "Wrapper([2.0, 3.0])"
    assert repr(torch.add(1, w)) == "Wrapper([2.0, 3.0])"
    assert repr(torch.cat([w, w])) == "Wrapper([1.0, 2.0, 1.0, 2.0])"
    assert repr(w.detach()) == "Wrapper([1.0, 2.0])" == repr(w.data)
    assert (w[1].item(), float(w[0]), bool(w[0])) == (2.0, 1.0, True)
    assert [repr(part) for part in w.split(1)] == ["Wrapper([1.0])", "Wrapper([2.0])"]
    assert log[:5] == [
        "aten.add.Tensor",
        "aten.add.Tensor",
        "aten.cat.default",
        "aten.detach.default",
        "aten.detach.default",
    ]
    assert w.contiguous() is w
    assert type(w).__torch_function__ is torch._C._disabled_torch_function_impl
    with pytest.raises(RuntimeError, match=r"\.tolist\(\) is not supported for tensor subclasses, got Wrapper"):
        w.tolist()
    with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported for tensor subclasses"):
        w.numpy()


def test_who_may_be_a_wrapper():
    import torch

    class Plain(torch.Tensor):
        pass

    class Declines(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Lies(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "x"

    with pytest.raises(TypeError, match="Plain must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Plain, (2,))
    with pytest.raises(TypeError, match=r"cls must be a type \(got int\)"):
        torch.Tensor._make_wrapper_subclass(3, (2,))
    t = torch.Tensor._make_wrapper_subclass(Declines, (2, 3), strides=(1, 2), dtype=torch.int64, device="meta")
    assert (t.stride(), t.dtype, t.device.type) == ((1, 2), torch.int64, "meta")
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch._ops.aten.sin.default'"):
        t.sin()
    with pytest.raises(RuntimeError, match="Unable to cast x to Tensor"):
        torch.Tensor._make_wrapper_subclass(Lies, (2,)).sin()
    with pytest.raises(RuntimeError, match="Cannot subclass _TensorBase directly"):

        class Direct(torch._C.TensorBase):
            pass


def test_a_mode_must_not_be_a_classmethod():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return 3

    with Mode(), pytest.raises(RuntimeError, match="as a classmethod is not supported"):
        torch.ones(2)


def test_the_stack_of_modes():
    import torch

    with pytest.raises(RuntimeError, match="trying to pop from empty mode stack"):
        torch._C._pop_torch_dispatch_stack(None)
    with pytest.raises(RuntimeError, match="Tried to get stack at idx that's too big"):
        torch._C._get_dispatch_stack_at(0)
    key = torch._C._TorchDispatchModeKey.FAKE
    assert torch._C._get_dispatch_mode(key) is None
    assert torch._C._unset_dispatch_mode(key) is None
    with pytest.raises(RuntimeError, match=r"Attempted to unset FakeTensorMode, but there wasn't one active."):
        torch._C._pop_torch_dispatch_stack(key)


def test_guards_end_in_any_order():
    import torch

    log = []
    with recording_mode(log)():
        guard = torch._C._DisableFuncTorch()
        with torch.utils._python_dispatch._disable_current_modes():
            late = torch._C._DisableFuncTorch()
        del guard, late
        torch.ones(1)
    assert len(log) == 1
