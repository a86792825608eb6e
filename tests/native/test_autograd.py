"""Backward passes, hooks and custom functions, with what upstream torch 2.15.0 gives for the same lines."""

import re

import pytest

torch = pytest.importorskip("torch")


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def rounded(t):
    return [round(v, 3) for v in t.flatten().tolist()]


def test_products_and_reductions():
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    (x @ w.t()).exp().sum().backward()
    assert rounded(x.grad) == [1.009, 7.429, -6.842, -0.485, 0.71, -1.236]
    assert rounded(w.grad)[:3] == [11.541, -3.551, -17.142]


def test_second_derivatives_come_from_the_formulas():
    x = leaf(1.0, 2.0, 3.0)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert (g.tolist(), h.tolist()) == ([3.0, 12.0, 27.0], [6.0, 12.0, 18.0])


def test_names_and_edges():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    mul = y.grad_fn.next_functions[0][0]
    assert (y.grad_fn.name(), mul.name()) == ("SumBackward0", "MulBackward0")
    accumulate = mul.next_functions[0][0]
    assert accumulate.name() == "torch::autograd::AccumulateGrad"
    assert accumulate.variable is x
    assert y.grad_fn is y.grad_fn
    assert mul._saved_self is x
    assert type(mul) is torch._C._functions.MulBackward0


def test_written_saved_tensor_is_refused():
    z = leaf(1.0, 2.0).exp()
    z.add_(1)
    message = "[torch.FloatTensor [2]], which is output 0 of Exp, is at version 1; expected version 0 instead."
    with pytest.raises(RuntimeError, match=re.escape(message)):
        z.sum().backward()


def test_backward_twice_is_refused_and_kept_on_request():
    x = leaf(1.0)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.ones(3).backward(), "element 0 of tensors does not require grad and does not have a grad_fn"),
        (lambda x: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
        (
            lambda x: torch.autograd.grad((x * 2).sum(), torch.ones(2)),
            "One of the differentiated Tensors does not",
        ),
        (
            lambda x: torch.autograd.grad((x * 2).sum(), torch.ones(2, requires_grad=True)),
            "The differentiated Tensor at index 0 appears to not have been used in the graph.",
        ),
        (lambda x: x.add_(1), "a leaf Variable that requires grad is being used in an in-place operation."),
        (lambda x: x.view(-1).add_(1), "a view of a leaf Variable that requires grad is being used in an in-place"),
        (lambda x: (x * 1).unbind()[0].add_(1), "Output 0 of Unbind is a view and is being modified inplace."),
        (lambda x: torch.add(x, 1, out=torch.ones(2)), "functions with out=... arguments don't support automatic"),
    ],
)
def test_misuse_raises_upstreams_error(call, message):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call(leaf(1.0, 2.0))


def test_writes_through_views():
    p = leaf(1.0, 1.0, 1.0, 1.0)
    q = p * 3
    r = q[1:3]
    r.mul_(5)
    assert (q.grad_fn.name(), r.grad_fn.name()) == ("torch::autograd::CopySlices", "AsStridedBackward0")
    q.sum().backward()
    assert p.grad.tolist() == [3.0, 15.0, 15.0, 3.0]
    p.grad = None
    q = p * 3
    q.view(2, 2)[0].mul_(torch.tensor([2.0, 3.0]))
    (q * q).sum().backward()
    assert p.grad.tolist() == [72.0, 162.0, 18.0, 18.0]


def test_hooks_see_and_replace_gradients():
    p, log = leaf(1.0, 1.0), []
    handle = p.register_hook(lambda g: log.append(g.tolist()) or g * 2)
    p.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
    q = p * 3
    q.retain_grad()
    q.register_hook(lambda g: g + 1)
    q.sum().backward()
    assert log == [[6.0, 6.0], ("accumulated", [12.0, 12.0])]
    assert (p.grad.tolist(), q.grad.tolist()) == ([12.0, 12.0], [2.0, 2.0])
    handle.remove()
    log.clear()
    q = p * 3
    q.grad_fn.register_hook(lambda inputs, outputs: log.append(("post", inputs[0].tolist(), inputs[1])))
    q.grad_fn.register_prehook(lambda outputs: log.append(("pre", outputs[0].tolist())))
    q.sum().backward()
    assert log[:2] == [("pre", [1.0, 1.0]), ("post", [3.0, 3.0], None)]
    assert p.grad.tolist() == [15.0, 15.0]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x * ctx.k, None


class SinCos(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, to_sin, to_cos):
        (x,) = ctx.saved_tensors
        return to_sin * x.cos() - to_cos * x.sin()


def test_custom_functions():
    p = leaf(1.0, 2.0)
    y = Scaled.apply(p, 3)
    assert (y.grad_fn.name(), type(y.grad_fn).__name__) == ("ScaledBackward", "ScaledBackward")
    y.sum().backward()
    assert p.grad.tolist() == [6.0, 12.0]
    (g,) = torch.autograd.grad(Scaled.apply(p, 3).sum(), p, create_graph=True)
    assert torch.autograd.grad(g.sum(), p)[0].tolist() == [6.0, 6.0]
    s, _ = SinCos.apply(p)
    (g,) = torch.autograd.grad(s.sum(), p, retain_graph=True)
    assert rounded(g) == [0.54, -0.416]
    assert not g.requires_grad
    t = leaf(1.0, 1.0)
    (g,) = torch.autograd.grad(s, p, t, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
        g.sum().backward()


def test_custom_function_with_too_few_gradients():
    class Bad(Scaled):
        @staticmethod
        def backward(ctx, grad):
            return grad

    y = Bad.apply(leaf(1.0), 2)
    with pytest.raises(RuntimeError, match="BadBackward returned an incorrect number of gradients"):
        y.sum().backward()


def test_saved_tensor_hooks():
    seen = []

    def pack(t):
        seen.append(t.tolist())
        return t * 1

    p = leaf(1.0, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 10):
        y = (p * p).sum()
    y.backward()
    assert seen == [[1.0, 2.0], [1.0, 2.0]]
    assert p.grad.tolist() == [20.0, 40.0]


def test_deep_graphs_use_no_stack():
    p = leaf(1.0)
    y = p
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert p.grad.tolist() == [1.0]


def test_graphs_are_freed():
    import gc
    import weakref

    p = leaf(1.0, 2.0)
    y = Scaled.apply(p * 1, 2)
    context, out = weakref.ref(y.grad_fn), weakref.ref(y)
    z = y.exp()
    del y
    assert (context() is None, out() is None) == (False, True)
    del z
    gc.collect()
    assert context() is None


# Each optimizer's losses over five steps of a small network with dropout, as upstream prints them.
TRAJECTORIES = {
    "SGD": [0.75858, 0.74064, 0.49685, 0.41259, 0.43259],
    "AdamW": [0.75858, 0.78109, 0.5949, 0.53308, 0.58847],
    "Adam": [0.75858, 0.78114, 0.59493, 0.53306, 0.58849],
    "RMSprop": [0.75858, 0.65254, 0.47387, 0.39932, 0.38253],
    "Adagrad": [0.75858, 0.78114, 0.60696, 0.54669, 0.61207],
}
SETTINGS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "AdamW": {"lr": 1e-2}, "Adam": {"lr": 1e-2, "foreach": False}}


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_training_follows_upstreams_losses(name):
    from torch import nn

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = getattr(torch.optim, name)(model.parameters(), **SETTINGS.get(name, {}))
    x, y = torch.randn(16, 4), torch.randint(2, (16,))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    # Other orders of summation move a loss of one by some units of its last place in each step.
    assert losses == pytest.approx(TRAJECTORIES[name], abs=2e-5)
