"""`torch.library`: operators and kernels from Python."""

import pytest


def test_a_custom_operator_with_a_fake_and_a_derivative():
    import torch

    @torch.library.custom_op("torchnative_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x.detach() * k

    scaled.register_fake(lambda x, k=2: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, g: (g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
    )
    y = torch.ones(2)
    assert scaled(y).tolist() == [2.0, 2.0]
    assert torch.ops.torchnative_test.scaled(y, 3).tolist() == [3.0, 3.0]
    assert torch.ops.torchnative_test.scaled.default(y, k=3).tolist() == [3.0, 3.0]
    assert scaled(y.to("meta")).shape == (2,)
    x = torch.ones(2, requires_grad=True)
    (scaled(x, 3) * 2).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_custom_operator_that_writes_its_argument_counts_the_write():
    import torch

    @torch.library.custom_op("torchnative_test::bump", mutates_args={"x"})
    def bump(x: torch.Tensor) -> None:
        x.add_(1)

    z = torch.ones(2)
    assert bump(z) is None
    assert (z.tolist(), z._version) == ([2.0, 2.0], 2)


def test_libraries_define_implement_and_override():
    import torch

    lib = torch.library.Library("torchnative_test2", "FRAGMENT")
    lib.define("add_to(Tensor x, Tensor(a!) y, float s=1.5) -> Tensor")
    lib.impl("add_to", lambda x, y, s=1.5: y.add_(x * s).clone(), "CPU")
    ops = torch.ops.torchnative_test2
    y = torch.ones(2)
    assert ops.add_to(y, torch.ones(2)).tolist() == [2.5, 2.5]
    with pytest.raises(RuntimeError, match=r"^torchnative_test2::add_to\(\) is missing value for argument 'y'"):
        ops.add_to(y)
    with pytest.raises(
        RuntimeError, match=r"Expected a value of type 'Tensor' for argument 'y' but instead found type 'int'"
    ):
        ops.add_to(y, 3)
    with pytest.raises(RuntimeError, match=r"^Unknown keyword argument 'q' for operator"):
        ops.add_to(y, torch.ones(2), q=2)
    with pytest.raises(AttributeError):
        _ = ops.absent
    lib.define("tripled(Tensor x) -> Tensor")
    lib.impl("tripled", lambda x: x * 3, "CompositeImplicitAutograd")
    x = torch.ones(2, requires_grad=True)
    ops.tripled(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    lib.define("parts(Tensor[] xs) -> Tensor[]")
    lib.impl("parts", lambda xs: [a + 1 for a in xs], "CompositeExplicitAutograd")
    assert [a.tolist() for a in ops.parts([y, y])] == [[2.0, 2.0], [2.0, 2.0]]
    override = torch.library.Library("aten", "IMPL")
    override.impl("sinh", lambda x: x * 100, "CPU")
    assert torch.sinh(y).tolist() == [100.0, 100.0]
    override._destroy()
    assert torch.sinh(torch.zeros(1)).tolist() == [0.0]


def test_a_rule_for_a_mode_and_an_operator():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    lib = torch.library.Library("torchnative_test3", "FRAGMENT")
    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", lambda x: x.clone(), "CPU")
    torch.library.register_torch_dispatch(
        "torchnative_test3::same", Mode, lambda mode, func, types, args, kwargs: args[0] + 41, lib=lib
    )
    with Mode():
        assert torch.ops.torchnative_test3.same(torch.ones(1)).tolist() == [42.0]
    assert torch.ops.torchnative_test3.same(torch.ones(1)).tolist() == [1.0]
