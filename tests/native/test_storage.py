"""Storages, the tensors over them, and the legacy tensor types, with what upstream answers."""

import copy
import gc

import pytest
import torch

U = torch.UntypedStorage


def test_one_object_a_storage_keeps_its_attributes():
    x = torch.arange(4.0)
    s = x.untyped_storage()
    assert s is x[1:].untyped_storage()
    s.mark = 3
    del s
    gc.collect()
    assert x.untyped_storage().mark == 3
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == 2


def test_storage_outlives_its_tensor_and_feels_its_writes():
    x = torch.zeros(2, dtype=torch.uint8)
    s = x.untyped_storage()
    x.fill_(7)
    del x
    assert s.tolist() == [7, 7]
    y = torch.empty(0, dtype=torch.uint8).set_(s)
    s[0] = 1
    assert y.tolist() == [1, 7]


def test_weak_references():
    s = U([1])
    w = s._weak_ref()
    assert not U._expired(w)
    assert U._new_with_weak_ptr(w) is s
    del s
    gc.collect()
    assert U._expired(w) and U._new_with_weak_ptr(w) is None
    U._free_weak_ref(w)
    with pytest.raises(RuntimeError):
        U._free_weak_ref(w)


def test_construction():
    assert U().nbytes() == 0
    assert U([300, True]).tolist() == [44, 1]
    assert U(3, device="meta").device == torch.device("meta")
    with pytest.raises(RuntimeError, match="Expected a sequence type, but got float"):
        U(1.5)
    with pytest.raises(RuntimeError, match="one of the items was of type str instead of int"):
        U(["a"])
    with pytest.raises(RuntimeError, match="negative number"):
        U(-1)
    with pytest.raises(RuntimeError, match="Cannot directly construct StorageBase"):
        torch._C.StorageBase(3)


def test_items_and_slices():
    s = U([1, 2, 3])
    assert s[-1] == 3
    part = s[1:]
    part[0] = 9
    assert s.tolist() == [1, 9, 3]
    with pytest.raises(IndexError, match="index 3 out of range for storage of size 3"):
        s[3]
    with pytest.raises(RuntimeError, match="only a step of 1 is supported"):
        s[::2]
    with pytest.raises(TypeError, match=r"can't index a torch\.UntypedStorage with str"):
        s["a"]
    with pytest.raises(NotImplementedError):
        U(3, device="meta")[0]


def test_copies_and_sizes():
    assert U(2).copy_(U([5, 6])).tolist() == [5, 6]
    with pytest.raises(RuntimeError, match="size does not match, self was 2 bytes but src was 3 bytes"):
        U(2).copy_(U([5, 6, 7]))
    s = U([1, 2])
    assert s.resize_(1) is s and s.tolist() == [1]
    assert copy.deepcopy(U([1, 2])).tolist() == [1, 2]
    assert U([1, 2, 3, 4])._byteswap(4) is None
    with pytest.raises(RuntimeError, match="elem_size must be 1, 2, 4, or 8"):
        U([1])._byteswap(3)


def test_from_buffer():
    assert U.from_buffer(b"\1\2\3\4", "big", dtype=torch.int16).tolist() == [2, 1, 4, 3]
    assert U.from_buffer(b"\1\2\3\4", "big", 1, dtype=torch.int16).tolist() == [2, 1]
    assert U.from_buffer(b"\1\2\0", "native", dtype=torch.bool).tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        U.from_buffer(b"\1\2\3", "big", dtype=torch.int16)
    with pytest.raises(ValueError, match="invalid byte_order"):
        U.from_buffer(b"\1\2", "foo", dtype=torch.int16)


def test_files(tmp_path):
    path = str(tmp_path / "bytes")
    with open(path, "wb") as f:
        f.write(bytes(range(10)))
    private = U.from_file(path, False, 10)
    private.fill_(7)
    assert private.filename is None
    shared = U.from_file(path, True, 4)
    assert shared.filename == path and shared.is_shared() and not shared.resizable()
    shared.fill_(9)
    with open(path, "rb") as f:
        assert f.read() == b"\x09\x09\x09\x09\x04\x05\x06\x07\x08\x09"
    assert torch.from_file(path, size=4, dtype=torch.uint8).tolist() == [9] * 4
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size <20>"):
        U.from_file(path, False, 20)
    with pytest.raises(RuntimeError, match="in read-only mode: No such file or directory"):
        U.from_file(path + "-", False, 3)
    with pytest.raises(RuntimeError, match="unable to mmap -3 bytes"):
        U.from_file(path, False, -3)
    with pytest.raises(RuntimeError, match="not resizable"):
        shared.resize_(100)


def test_shared_memory():
    s = U([1, 2])
    fd, size = s._share_fd_cpu_()
    assert (size, s.is_shared()) == (2, True)
    other = U._new_shared_fd_cpu(fd, size)
    other[0] = 9
    assert s.tolist() == [9, 2]
    named = U([3, 4])
    handle = named._share_filename_cpu_()
    other = U._new_shared_filename_cpu(*handle)
    other[1] = 8
    assert named.tolist() == [3, 8]
    del named, other
    gc.collect()
    with pytest.raises(RuntimeError, match="unable to open shared memory object"):
        U._new_shared_filename_cpu(*handle)
    with pytest.raises(RuntimeError, match="could not duplicate a shared memory file descriptor"):
        U._new_shared_fd_cpu(9999, 3)
    assert U(0)._share_fd_cpu_() == (-1, 0)


def test_set():
    x, y = torch.ones(3), torch.zeros(2)
    assert x.set_(y) is x and x.data_ptr() == y.data_ptr()
    z = torch.empty(0).set_(torch.ones(4).untyped_storage(), 0, (2, 2), (1, 2))
    assert z.stride() == (1, 2)
    with pytest.raises(RuntimeError, match="Could not set tensor of type int to a tensor of type float"):
        x.set_(torch.zeros(2, dtype=torch.int))
    with pytest.raises(RuntimeError, match="the devices must match"):
        x.set_(U(4, device="meta"))
    with pytest.raises(TypeError, match=r"invalid combination of arguments - got \(str\)"):
        x.set_("a")


def test_data():
    p = torch.nn.Parameter(torch.ones(3))
    p.data = torch.zeros(2)
    assert type(p) is torch.nn.Parameter and p.requires_grad and p.tolist() == [0, 0] and p._version == 0
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        p.data = torch.zeros(2, dtype=torch.int)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        p.data = torch.zeros(2, device="meta")
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        p.data = 3


def test_legacy_types():
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert isinstance(torch.ones(2), torch.FloatTensor)
    assert not isinstance(torch.ones(2, device="meta"), torch.FloatTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
    assert torch.sparse.LongTensor.layout is torch.sparse_coo
    assert len(torch._tensor_classes) == 38
    assert torch.LongTensor([1.5, 2]).tolist() == [1, 2]
    assert torch.FloatTensor(2, 3).shape == (2, 3)
    assert torch.ones(2, device="meta").type() == "torch.meta.FloatTensor"
    assert torch.ones(2).type("torch.IntTensor").dtype is torch.int32
    assert torch.ones(2, dtype=torch.int).new([1.5]).tolist() == [1]
    with pytest.raises(TypeError, match="expected TensorOptions"):
        torch.FloatTensor(torch.ones(2, dtype=torch.int))
    with pytest.raises(TypeError, match=r"torch\.cuda\.FloatTensor not available"):
        torch.cuda.FloatTensor(3)
    with pytest.raises(ValueError, match="invalid type: 'foo'"):
        torch.ones(2).type("foo")
    with pytest.raises(TypeError, match=r"immutable type 'torch\.FloatTensor'"):
        torch.FloatTensor.mark = 3
