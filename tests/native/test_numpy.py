"""NumPy arrays, buffers and DLPack capsules over the memory of tensors and the other way, with upstream's answers."""

import array
import gc
import weakref

import numpy as np
import pytest
import torch

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways_share_memory(name):
    a = np.array([[1, 0, 3], [4, 5, 6]], dtype=name)
    t = torch.from_numpy(a.T)
    assert t.dtype is getattr(torch, name) and t.shape == (3, 2) and t.stride() == (1, 3)
    assert t.tolist() == a.T.tolist()
    a[0, 1] = 1
    assert t[1, 0].item() == a[0, 1]
    back = t.numpy()
    assert back.dtype == a.dtype and back.strides == a.T.strides and back.base is t
    assert back.ctypes.data == a.ctypes.data == t.data_ptr()
    back[0, 0] = 0
    assert a[0, 0] == 0
    assert torch.tensor(a).data_ptr() != a.ctypes.data
    assert torch.as_tensor(a).data_ptr() == a.ctypes.data
    if name != "uint64":
        assert torch.tensor(a[0, 0]).dtype is t.dtype


def test_owners_live_as_long_as_the_memory_is_used():
    class Array(np.ndarray):
        pass

    a = np.arange(3).view(Array)
    alive = weakref.ref(a)
    t = torch.from_numpy(a)
    del a
    gc.collect()
    assert alive() is not None and t.tolist() == [0, 1, 2]
    del t
    gc.collect()
    assert alive() is None
    b = torch.arange(3).numpy()
    gc.collect()
    assert b.tolist() == [0, 1, 2]


def test_arrays_that_tensors_cannot_share():
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        torch.from_numpy(np.arange(4)[::-1])
    with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
        torch.from_numpy(np.zeros(2, dtype=[("a", "i4"), ("b", "i2")])["a"])
    with pytest.raises(ValueError, match="byte order different from the native byte order"):
        torch.from_numpy(np.array([1], dtype=">i4"))
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type numpy\.str_\. The only supported types"):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match=r"expected np\.ndarray \(got list\)"):
        torch.from_numpy([1])
    fixed = np.arange(3)
    fixed.flags.writeable = False
    torch._C._set_warnAlways(True)
    try:
        with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
            torch.from_numpy(fixed)
    finally:
        torch._C._set_warnAlways(False)
    assert torch.from_numpy(np.broadcast_to(np.float32(1), (2, 3)).copy()).shape == (2, 3)
    assert torch.from_numpy(np.zeros((0, 3))).shape == (0, 3)


def test_tensors_that_arrays_cannot_share():
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
        torch.ones(2, requires_grad=True).numpy()
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        torch.ones(2).cfloat().conj().numpy()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        torch.ones(2, device="meta").numpy()
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        torch.ones(2).bfloat16().numpy()
    assert torch.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    assert torch.tensor([1 + 2j]).conj().numpy(force=True).tolist() == [1 - 2j]
    t = torch.ones(2)
    t.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100)
    assert torch.empty(0, 3).numpy().shape == (0, 3)


def test_numpy_takes_tensors():
    assert np.asarray(torch.arange(3), dtype=np.float32).tolist() == [0, 1, 2]
    assert isinstance(np.float32(2) + torch.ones(2), torch.Tensor)
    assert (np.ones(2) == torch.ones(2)).tolist() == [True, True]
    assert np.concatenate([torch.ones(1), np.ones(1)]).tolist() == [1, 1]


def test_scalars_are_numbers():
    assert torch.tensor(np.float64(1.5)).dtype is torch.float64
    assert torch.tensor([1, np.float16(2)]).dtype is torch.float16
    assert torch.ones(np.int64(2), np.int32(3)).shape == (2, 3)
    assert torch.full((1,), np.float32(3)).tolist() == [3]
    assert (torch.ones(2, dtype=torch.int) * np.uint16(3)).dtype is torch.int32
    with pytest.raises(TypeError, match=r"must be tuple of ints, not numpy\.float32"):
        torch.ones(np.float32(1))


def test_arrays_as_indices():
    x = torch.arange(5)
    assert x[np.array([0, 3])].tolist() == [0, 3]
    assert x[np.array([True, False, True, False, False])].tolist() == [0, 2]
    assert x[np.int64(1) : np.int64(3)].tolist() == [1, 2]
    assert x[np.array(2)].item() == 2
    assert x[np.array([1.0])].tolist() == [1]


def test_tensor_of_sequences():
    assert torch.tensor([[1, 2.5], [True, 3]]).tolist() == [[1, 2.5], [1, 3]]
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]
    assert torch.tensor([1.9], dtype=torch.int32).tolist() == [1]
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8 without overflow"):
        torch.tensor([300], dtype=torch.int8)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.tensor([2**63])
    with pytest.raises(ValueError, match=r"expected sequence of length 1 at dim 1 \(got 2\)"):
        torch.tensor([[1], [2, 3]])
    with pytest.raises(TypeError, match="self-referential lists are incompatible"):
        knot = [1]
        knot.append(knot)
        torch.tensor(knot)
    with pytest.raises(RuntimeError, match="Could not infer dtype of NoneType"):
        torch.tensor([None])
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        torch.tensor([torch.ones(2), torch.ones(2)])
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        torch.tensor(torch.ones(2))


def test_asarray():
    a = np.arange(2)
    assert torch.asarray(a).data_ptr() == a.ctypes.data
    x = torch.ones(2)
    assert torch.asarray(x) is x
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.asarray(bytearray(b"\1\2\3\4"), dtype=torch.int16).tolist() == [513, 1027]
    assert torch.asarray(array.array("f", [1, 2])).dtype is torch.float32
    assert torch.asarray(x.untyped_storage(), dtype=torch.float).data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Long' into dtype 'Int'"):
        torch.asarray(a, dtype=torch.int32, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        torch.asarray([1], copy=False)


def test_frombuffer():
    buffer = bytearray(b"\1\2\3\4")
    t = torch.frombuffer(buffer, dtype=torch.uint8, offset=1)
    t.fill_(9)
    assert bytes(buffer) == b"\x01\x09\x09\x09"
    assert torch.frombuffer(buffer, dtype=torch.int16, count=1).shape == (1,)
    for arguments, text in [
        ({"offset": 1, "dtype": torch.int16}, "must be a multiple of element size"),
        ({"count": 3, "dtype": torch.int16}, "must not be greater than actual buffer length"),
        ({"count": 0, "dtype": torch.int16}, "must not be 0"),
        ({"offset": 4, "dtype": torch.uint8}, "must be non-negative and no greater than buffer length"),
    ]:
        with pytest.raises(ValueError, match=text):
            torch.frombuffer(buffer, **arguments)
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        torch.frombuffer(3, dtype=torch.uint8)


def test_dlpack():
    x = torch.arange(6.0).view(2, 3)
    y = torch.from_dlpack(x.t())
    assert y.stride() == (1, 3) and y.data_ptr() == x.data_ptr()
    a = np.from_dlpack(x)
    a[0, 0] = 7
    assert x[0, 0].item() == 7
    assert torch.from_dlpack(a).data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    capsule = x.__dlpack__(max_version=(1, 0))
    assert torch.from_dlpack(capsule).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        torch.from_dlpack(capsule)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        torch.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        torch.ones(1, device="meta").__dlpack__()
    # Capsules that nobody consumes give their memory back.
    for _ in range(3):
        x.__dlpack__()
        x.__dlpack__(max_version=(1, 0))
    for name in ("bfloat16", "complex32", "float8_e4m3fn", "bool"):
        dtype = getattr(torch, name)
        one = torch.zeros(2, dtype=torch.uint8 if dtype.itemsize == 1 else torch.int16).view(torch.uint8)
        exported = one[: dtype.itemsize].view(dtype) if dtype.itemsize <= 4 else one
        assert torch.from_dlpack(exported.__dlpack__()).dtype is dtype
