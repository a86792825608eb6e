"""The core on wasm: operators, errors, memory, and that nothing ends the interpreter."""

import math
import pickle

import torch
from harness import raises


def test_operators():
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert (x @ x.T).tolist() == [[14.0, 38.0, 62.0], [38.0, 126.0, 214.0], [62.0, 214.0, 366.0]]
    assert x.sum(0).tolist() == [12.0, 15.0, 18.0, 21.0]
    assert torch.softmax(torch.zeros(2, 4), -1).tolist() == [[0.25] * 4] * 2
    assert x[1:, ::2].tolist() == [[4.0, 6.0], [8.0, 10.0]]
    assert torch.where(x > 5, x, -x)[0].tolist() == [-0.0, -1.0, -2.0, -3.0]
    assert torch.cat([x, x], 1).shape == (3, 8)
    assert x.topk(2).indices.tolist() == [[3, 2]] * 3
    assert repr(torch.tensor([1.5, 2])) == "tensor([1.5000, 2.0000])"


def test_dtypes():
    assert torch.tensor([2**53 + 1]).item() == 2**53 + 1
    assert (torch.tensor([2**62]) * 2).item() == -(2**63)
    assert torch.tensor([1.0, 2.0], dtype=torch.bfloat16).add(0.5).tolist() == [1.5, 2.5]
    assert torch.tensor([1.0], dtype=torch.float16).dtype is torch.float16
    assert torch.tensor([True, False]).logical_not().tolist() == [False, True]
    assert torch.tensor([1.0]).double().div(3).item() == 1 / 3


def test_random_streams():
    torch.manual_seed(0)
    assert torch.rand(3).tolist() == [0.49625658988952637, 0.7682217955589294, 0.08847743272781372]
    torch.manual_seed(0)
    assert torch.randperm(8).tolist() == [4, 0, 7, 3, 2, 5, 1, 6]
    assert torch.randn(3).tolist() == [0.16421625018119812, 0.3057610094547272, 0.20998091995716095]
    assert torch.bernoulli(torch.full((6,), 0.5)).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def test_autograd():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.sin() * x**2).sum().backward()
    expected = [math.cos(v) * v * v + 2 * v * math.sin(v) for v in (1.0, 2.0, 3.0)]
    assert all(abs(a - b) < 1e-5 for a, b in zip(x.grad.tolist(), expected, strict=True))


def test_training_step():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    data, target = torch.randn(16, 4), torch.randn(16, 1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for step, expected in ((0, 0.94419545), (1, 0.80996138), (19, 0.50601774)):
        assert abs(losses[step] - expected) < 1e-5, losses


def test_a_panic_is_an_exception():
    kept = torch.ones(3)
    for _ in range(3):
        try:
            torch._C._torchnative_panic("on purpose")
        except BaseException as error:
            assert type(error).__name__ == "PanicException", type(error)
            assert "on purpose" in str(error)
        else:
            raise AssertionError("no panic")
    assert kept.sum().item() == 3.0


def test_errors_have_upstreams_classes():
    x = torch.ones(2, 3)
    raises(RuntimeError, lambda: x @ x)
    raises(RuntimeError, lambda: x + torch.ones(4), "The size of tensor a (3) must match the size of tensor b (4)")
    raises(TypeError, lambda: torch.add(x, "two"), "add()")
    raises(IndexError, lambda: x[5])
    raises(IndexError, lambda: x.sum(7), "Dimension out of range")
    raises(RuntimeError, lambda: x.view(5), "shape '[5]' is invalid for input of size 6")
    raises(ValueError, lambda: torch.tensor([[1], [1, 2]]))
    assert x.sum().item() == 6.0


def test_memory_that_is_not_there():
    kept = torch.arange(5)
    for size in ((2**40,), (2**31, 2**31), (2**20, 2**13)):
        try:
            torch.empty(size)
        except (RuntimeError, MemoryError):
            pass
        else:
            raise AssertionError(f"{size} was allocated")
    assert kept.tolist() == [0, 1, 2, 3, 4]
    assert torch.empty(2**20).numel() == 2**20


def test_memory_that_runs_out_inside_the_core():
    kept = torch.arange(5)
    for _ in range(2):
        raises(MemoryError, torch._C._torchnative_exhaust, "not enough memory")
    blocks = []
    try:
        while True:
            blocks.append(torch.zeros(2**26))
    except (RuntimeError, MemoryError) as error:
        assert "memory" in str(error)
    assert 8 <= len(blocks) < 17, len(blocks)
    del blocks
    assert kept.sum().item() == 10 and torch.ones(2**26).sum().item() == 2**26


def test_sizes_past_32_bits():
    meta = torch.empty(2**33, 2, device="meta")
    assert meta.numel() == 2**34 and meta.stride() == (2, 1) and (meta + 1).shape == (2**33, 2)
    assert meta[2**32 :, 1].storage_offset() == 2**33 + 1
    assert meta.untyped_storage().nbytes() == 2**36
    one = torch.ones(1)
    wide = one.expand(2**33)
    assert wide.numel() == 2**33 and wide[2**32 + 7].item() == 1.0
    # What CPython counts items in has 32 bits here.
    raises(OverflowError, lambda: len(wide))
    assert wide.view(2**31, 4).shape == (2**31, 4) and wide[-3:].tolist() == [1.0, 1.0, 1.0]
    refused = (RuntimeError, MemoryError)
    for work in (
        wide.contiguous,
        lambda: wide + 1,
        lambda: torch.zeros(2**33),
        lambda: torch.arange(2**33),
        lambda: torch.empty(2**30, dtype=torch.float64),
        lambda: torch.empty_strided((2,), (2**33,)),
        lambda: torch.empty(0).resize_(2**33),
        lambda: torch.zeros(4).as_strided((2,), (2**32,)),
        lambda: torch.zeros(2**62, 2**62),
        lambda: one.repeat(2**33),
        lambda: torch.randperm(2**33),
        lambda: torch.cat([wide, wide]),
    ):
        try:
            result = work()
        except refused:
            continue
        raise AssertionError(f"made {tuple(result.shape)}")
    assert torch.empty(0, 2**40).numel() == 0
    raises(TypeError, lambda: torch.empty(2**64))
    raises(RuntimeError, lambda: torch.empty(-1))
    assert one.item() == 1.0


def test_memory_is_given_back():
    # 4 GiB in all: without reuse the heap would overflow.
    for _ in range(64):
        torch.ones(2**24)


def test_deep_recursion_is_an_error():
    def down(n):
        return down(n + 1) + torch.ones(1)

    raises(RecursionError, lambda: down(0))
    assert torch.ones(1).item() == 1.0


def test_save_and_load():
    state = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor([1, 2]), "h": torch.ones(2, dtype=torch.bfloat16)}
    torch.save(state, "/tmp/state.pt")
    for options in ({}, {"mmap": True}):
        loaded = torch.load("/tmp/state.pt", weights_only=True, **options)
        assert all(torch.equal(state[k], loaded[k]) and state[k].dtype is loaded[k].dtype for k in state)
    with open("/tmp/state.pt", "rb") as whole, open("/tmp/broken.pt", "wb") as file:
        file.write(whole.read()[:200])
    raises(RuntimeError, lambda: torch.load("/tmp/broken.pt"))
    assert torch.equal(pickle.loads(pickle.dumps(state["w"])), state["w"])


def test_one_thread():
    assert torch.get_num_threads() >= 1
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
