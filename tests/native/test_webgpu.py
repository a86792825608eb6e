"""The device `webgpu` against the CPU. Each test asserts by the device's counters that the device did the work."""

import copy
import io
import math
import pickle
import subprocess
import sys
import warnings

import pytest
import torch

#: WGSL lets `log` and others err by a few units in the last place, and `exp(x)` by 3 + 2|x| of them; inputs here are
#: below 4 in magnitude.
ULPS = 16
EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ALL = [*FLOATS, *INTS, torch.bool]


def make(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * 8 - 4).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype == torch.int64:
        return torch.randint(-(2**62), 2**62, shape, generator=generator)
    low, high = (0, 200) if dtype == torch.uint8 else (-100, 100)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def same(f, *args, ulps=0, dispatches=1):
    """Runs `f` on the CPU and on the device and compares results, dtypes, sizes and strides."""
    expected = f(*args)
    moved = [a.to("webgpu") if isinstance(a, torch.Tensor) else a for a in args]
    torch.webgpu.reset_stats()
    got = f(*moved)
    stats = torch.webgpu.stats()
    assert stats["dispatches"] >= dispatches, stats
    assert stats["readbacks"] == 0, stats
    assert got.device == torch.device("webgpu:0")
    assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
    rtol = ulps * EPSILON.get(expected.dtype, 0)
    torch.testing.assert_close(got.cpu(), expected, rtol=rtol, atol=rtol, equal_nan=True)


def test_there_is_an_adapter():
    assert torch.webgpu.unavailable_reason() is None, "mesa-vulkan-drivers brings a software adapter"


def test_import_opens_nothing_and_names_the_device():
    assert torch.device("webgpu").type == "webgpu"
    assert torch._C._get_privateuse1_backend_name() == "webgpu"
    t = torch.ones(2, device="webgpu")
    assert t.is_webgpu and t.device == torch.device("webgpu:0") and torch.ones(2).webgpu().is_webgpu
    assert torch.accelerator.current_accelerator() == torch.device("webgpu")


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (1000,)])
def test_there_and_back(dtype, shape):
    x = make(shape, dtype)
    torch.webgpu.reset_stats()
    y = x.to("webgpu")
    assert torch.equal(y.cpu(), x)
    stats = torch.webgpu.stats()
    assert stats["bytes_up"] == stats["bytes_down"] == x.numel() * x.itemsize
    assert stats["readbacks"] == 1


@pytest.mark.parametrize("dtype", ALL)
def test_views_are_read_and_written_in_place(dtype):
    x = make((6, 7), dtype)
    y = x.to("webgpu")
    for view in (
        lambda t: t[1:4, ::2],
        lambda t: t.t(),
        lambda t: t[2],
        lambda t: t[:, 3:],
        lambda t: t.diagonal(),
        lambda t: t[0].expand(3, 7),
    ):
        same(lambda t, view=view: view(t).contiguous(), x, dispatches=0)
        assert torch.equal(view(y).cpu(), view(x))
    a, b = x.clone(), y.clone()
    for t in (a, b):
        t[1:5, 1::3].copy_(t[:4, 0:2])
        t[:, 6].fill_(1)
        t[5].zero_()
    assert torch.equal(b.cpu(), a)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_conversions(source, target):
    x = make((5, 9), source, seed=3)
    if target == torch.uint8:
        x = x.abs() if source != torch.bool else x
    same(lambda t: t.to(target), x, dispatches=0 if source == target else 1)
    same(lambda t: t.t()[1:].to(target), x, dispatches=0)


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16])
def test_floats_are_rounded_to_nearest_even(target):
    bits = torch.randint(-(2**31), 2**31, (4096,), generator=torch.Generator().manual_seed(0)).to(torch.int32)
    edges = torch.tensor([0.0, -0.0, math.inf, -math.inf, 65504.0, 65519.0, 65520.0, 2.0**-24, 2.0**-25, 3 * 2.0**-26])
    x = torch.cat([bits.view(torch.float32), edges])
    x = x[x.isnan().logical_not() & ((x.abs() > 1e-37) | (x == 0))]
    got = x.to("webgpu").to(target).cpu()
    assert torch.equal(got.view(torch.int16), x.to(target).view(torch.int16))


def test_long_to_float_is_rounded_once():
    x = torch.cat([make((999,), torch.int64), torch.tensor([0, 1, -1, 2**24 + 1, -(2**63), 2**63 - 1, 2**40 + 2**16])])
    same(lambda t: t.float(), x)
    y = torch.tensor([0.0, -0.9, 1.5, 2.0**40 + 2.0**20, -(2.0**62), 16777216.0])
    same(lambda t: t.long(), y)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"])
def test_pairs(name, dtype):
    f = getattr(torch, name)
    x, y = make((4, 1, 6), dtype, 1), make((5, 6), dtype, 2)
    if name == "sub" and dtype == torch.bool:
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors is not supported"):
            f(x.to("webgpu"), y.to("webgpu"))
        return
    # A product and a sum in one step may be fused, which rounds once less.
    same(f, x, y, ulps=1)
    same(f, x.transpose(0, 2), y[:1].t(), ulps=1)
    same(f, y, y[:, :1], ulps=1)


@pytest.mark.parametrize("name", "exp log sqrt rsqrt sin cos tanh sigmoid neg abs reciprocal".split())
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions(name, dtype):
    x = make((33, 3), dtype)
    same(getattr(torch, name), x.abs() + 1 if name in ("log", "sqrt", "rsqrt") else x, ulps=ULPS)


def test_nan_and_infinity():
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0])
    y = torch.tensor([1.0, math.nan, math.inf, -math.inf, 0.0, math.nan])
    for f in (torch.add, torch.mul, torch.maximum, torch.minimum, torch.eq, torch.lt, torch.ne):
        same(f, x, y)
    same(torch.amax, x[1:], 0)
    same(lambda t: t.masked_fill(t > 0, -math.inf), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bool])
@pytest.mark.parametrize("dims", [None, [0], [1], [-1], [0, 2], [0, 1, 2]])
def test_sums(dtype, dims):
    x = make((7, 70, 3), dtype)
    # 1470 terms added in another order: their sum's error grows like the square root of their number.
    f = (lambda t: t.sum()) if dims is None else (lambda t: t.sum(dims))
    if dtype.is_floating_point:
        x = x.abs()
    same(f, x, ulps=64)
    same(lambda t: f(t.transpose(0, 2)), x, ulps=64)


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_extremes(name, dtype):
    for dim in (0, 1, (0, 1)):
        same(lambda t, dim=dim: getattr(torch, name)(t, dim), make((9, 130), dtype))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (17, 33, 9), (64, 64, 64)])
def test_products(shape):
    m, k, n = shape
    a, b, c = make((m, k), torch.float32), make((k, n), torch.float32, 1), make((n,), torch.float32, 2)
    # k products of up to 16, each rounded, and as many sums.
    for f, args in [
        (torch.mm, (a, b)),
        (lambda x, y: x @ y.t().contiguous().t(), (a, b)),
        (lambda x, y, z: torch.addmm(z, x, y, beta=0.5, alpha=2), (a, b, c)),
        (torch.bmm, (a.expand(3, m, k), b.expand(3, k, n))),
    ]:
        expected = f(*args)
        torch.webgpu.reset_stats()
        got = f(*(t.to("webgpu") for t in args))
        assert torch.webgpu.stats()["dispatches"] > 0
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=32 * 2 * k * 2.0**-24)


def test_indices():
    x = make((5, 4, 6), torch.float32)
    i = torch.tensor([[4, 0], [2, 2]])
    same(lambda t, i: torch.index_select(t, 0, i.flatten()), x, i)
    same(lambda t, i: t[i], x, i)
    same(lambda t, i: t[:, :, i], x, i)
    same(lambda t, i: t[-i - 1], x, i)
    same(lambda t, i: torch.gather(t, 0, i[:, :, None].expand(2, 2, 3)), x, i)
    same(lambda t, i: torch.scatter(t, 0, i[:, :, None].expand(2, 2, 3), 7.0), x, i)
    same(lambda t: t.tril(1), x)
    same(lambda t: t.triu(-1), x)
    same(lambda t: torch.cat([t, t[:, 1:]], 1), x)
    same(lambda t: torch.stack([t, t + 1], 2), x)


def test_masks():
    x = make((5, 6), torch.float32)
    y = x.to("webgpu")
    assert torch.equal(y[y > 0].cpu(), x[x > 0])
    assert torch.equal(y[y[:, 0] > 0].cpu(), x[x[:, 0] > 0])
    same(lambda t: torch.where(t > 0, t, -1.0), x)
    same(lambda t: t.masked_fill(t > 0, 3), x)


def test_an_index_out_of_range_is_reported():
    weight = torch.ones(3, 2, device="webgpu")
    for bad in (3, -1, 2**32):
        out = torch.nn.functional.embedding(torch.tensor([bad], device="webgpu"), weight)
        with pytest.raises(RuntimeError, match="index out of range in aten::index_select"):
            out.cpu()
    assert weight.sum().item() == 6


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_and_its_gradient(log, dim):
    f = torch.log_softmax if log else torch.softmax
    x = make((4, 9, 5), torch.float32)
    same(lambda t: f(t, dim), x, ulps=ULPS)
    grads = []
    for device in ("cpu", "webgpu"):
        t = x.to(device, copy=True).requires_grad_()
        (f(t, dim) * x.to(device)).sum().backward()
        grads.append(t.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=64 * 2.0**-23)


def test_backward():
    x, y = make((3, 4), torch.float32), make((4,), torch.float32, 1)
    a, b = x.to("webgpu").requires_grad_(), y.to("webgpu").requires_grad_()
    (a * b).sum().backward()
    assert torch.equal(a.grad.cpu(), y.expand(3, 4))
    torch.testing.assert_close(b.grad.cpu(), x.sum(0), rtol=0, atol=3 * 4 * 2.0**-23)


def test_copies_files_and_printing():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to("webgpu")
    for other in (copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert other.device == y.device and other.data_ptr() != y.data_ptr() and torch.equal(other.cpu(), x)
    file = io.BytesIO()
    torch.save({"t": y, "view": y[1]}, file)
    for where in (None, "cpu", "webgpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["t"].device == torch.device(where or "webgpu", None if where == "cpu" else 0)
        assert torch.equal(loaded["t"].cpu(), x)
        assert loaded["view"].untyped_storage().data_ptr() == loaded["t"].untyped_storage().data_ptr()
    text = repr(x)
    assert repr(y) == f"{text[:-1]}, device='webgpu:0')"
    assert repr(y[0].long()) == "tensor([0, 1, 2], device='webgpu:0')"


def test_seeding_is_quiet_and_kept():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(7)
    assert torch.webgpu.initial_seed() == 7
    state = torch.webgpu.get_rng_state()
    torch.manual_seed(8)
    torch.webgpu.set_rng_state(state)
    assert torch.webgpu.initial_seed() == 7


def test_what_is_missing_refuses_by_name():
    y = torch.ones(2, 2, device="webgpu")
    with pytest.raises(NotImplementedError, match=r"webgpu.*float64"):
        torch.ones(2, dtype=torch.float64, device="webgpu")
    with pytest.raises(NotImplementedError, match=r"webgpu.*complex64"):
        torch.ones(2, dtype=torch.complex64).to("webgpu")
    with pytest.raises(NotImplementedError, match=r"random numbers.*webgpu.*float32"):
        torch.rand(2, device="webgpu")
    with pytest.raises(NotImplementedError, match="_linalg_svd"):
        torch.linalg.svd(y)
    with pytest.raises(RuntimeError, match="at least two devices, webgpu:0 and cpu"):
        y + torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="passes what the adapter can bind"):
        torch.empty(10**11, device="webgpu")
    with pytest.raises(RuntimeError, match="there is one device"):
        torch.ones(2, device="webgpu:1")
    with pytest.raises(NotImplementedError, match="storages on device 'webgpu:0'"):
        y.untyped_storage()[0]
    assert y.sum().item() == 4


def test_nothing_of_no_size():
    y = torch.ones(0, 3, device="webgpu")
    assert (y + 1).shape == (0, 3) and y.sum().item() == 0 and y.cpu().tolist() == []


def test_memory_is_reused():
    y = torch.ones(1000, device="webgpu")
    torch.webgpu.synchronize()
    before = torch.webgpu.memory_allocated()
    reserved = torch.webgpu.memory_reserved()
    for _ in range(300):
        y = y * 1.0
    torch.webgpu.synchronize()
    assert (torch.webgpu.memory_allocated(), torch.webgpu.memory_reserved()) == (before, reserved)
    assert torch.equal(y.cpu(), torch.ones(1000))


def test_work_is_batched():
    y = torch.ones(8, device="webgpu")
    torch.webgpu.synchronize()
    torch.webgpu.reset_stats()
    for _ in range(100):
        y = y + 1
    assert torch.webgpu.stats()["submits"] == 0
    assert y.cpu().tolist() == [101.0] * 8
    stats = torch.webgpu.stats()
    assert (stats["dispatches"], stats["submits"], stats["readbacks"]) == (100, 1, 1)


def test_a_lost_device_is_an_error_until_it_is_reset():
    x = torch.arange(5.0, device="webgpu")
    torch._C._webgpu._lose()
    with pytest.raises(RuntimeError, match="webgpu"):
        x.cpu()
    # What the device held is gone, and nothing of it is given for good.
    for use in (x.cpu, x.exp, lambda: torch.ones(3, device="webgpu").cpu()):
        with pytest.raises(RuntimeError, match=r"torch\.webgpu\.reset\(\)"):
            use()
    torch.webgpu.reset()
    assert (torch.ones(3, device="webgpu") * 2).tolist() == [2, 2, 2]
    for use in (x.cpu, x.exp, x.exp_):
        with pytest.raises(RuntimeError, match="lost when the device was reset"):
            use()
    del use, x
    assert torch.ones(2, device="webgpu").sum().item() == 2


def test_printing_reads_once():
    x = torch.tensor([[1.5, -2], [float("nan"), 1e-3]], device="webgpu")
    torch.webgpu.reset_stats()
    text = repr(x)
    assert text.replace(", device='webgpu:0'", "") == repr(x.cpu())
    torch.webgpu.reset_stats()
    assert "..." in repr(torch.zeros(100, 100, device="webgpu"))
    assert torch.webgpu.stats()["readbacks"] == 1


def test_properties_and_limits():
    properties = torch.webgpu.get_device_properties()
    assert properties.name == torch.webgpu.get_device_name() and properties.name
    assert properties.max_buffer_size == torch.webgpu.limits()["max_buffer_size"] > 0
    assert torch.webgpu.adapter_info()["backend"]
    with pytest.raises(RuntimeError, match="there is one device"):
        torch.webgpu.get_device_properties(1)


def test_optimizers_open_no_device():
    program = (
        "import torch; p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2);"
        "torch.optim.AdamW([p]).step(); assert torch.webgpu.device_count() == 1;"
        "assert not torch.webgpu.is_initialized()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_llama_runs_and_learns():
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
    )
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 100, (2, 7))
    expected = model(ids, labels=ids)
    expected.loss.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    model = model.to("webgpu")
    torch.webgpu.reset_stats()
    got = model(ids.to("webgpu"), labels=ids.to("webgpu"))
    got.loss.backward()
    stats = torch.webgpu.stats()
    assert stats["dispatches"] > 100 and stats["readbacks"] == 0, stats
    # Sums of up to 128 terms of order 0.1 in another order, through two layers.
    torch.testing.assert_close(got.logits.cpu(), expected.logits, rtol=0, atol=128 * 0.1 * 2.0**-23)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad.cpu(), grads[name], rtol=0, atol=128 * 0.1 * 2.0**-23)
