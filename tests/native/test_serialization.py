"""Checkpoints: written and read back, read as upstream wrote them, damaged, hostile; copies and pickles of tensors."""

import copy
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch

DATA = Path(__file__).resolve().parents[1] / "data"


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def again(value, **options):
    return torch.load(io.BytesIO(saved(value)), **options)


@pytest.mark.parametrize("name", ["upstream.pt", "upstream_legacy.pt"])
def test_upstreams_files(name):
    for options in ({}, {"weights_only": False}, {"mmap": True} if name == "upstream.pt" else {}):
        r = torch.load(DATA / name, **options)
        assert r["base"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert r["row"].data_ptr() == r["base"][1].data_ptr()
        assert r["half"].dtype is torch.bfloat16 and r["half"].tolist() == [1, 1]
        assert isinstance(r["w"], torch.nn.Parameter) and r["w"].requires_grad


def test_archives_are_aligned_zip_files_with_checksums():
    raw = saved({"a": torch.arange(3.0), "b": torch.ones(5, dtype=torch.int8)})
    archive = zipfile.ZipFile(io.BytesIO(raw))
    assert archive.testzip() is None
    assert archive.read("archive/byteorder") == b"little" and archive.read("archive/version") == b"3\n"
    assert archive.read("archive/.format_version") == b"1" and archive.read("archive/.storage_alignment") == b"64"
    reader = torch._C.PyTorchFileReader(io.BytesIO(raw))
    for entry in archive.infolist():
        name = entry.filename.removeprefix("archive/")
        names, extra = struct.unpack("<HH", raw[entry.header_offset + 26 : entry.header_offset + 30])
        start = entry.header_offset + 30 + names + extra
        assert start % 64 == 0 and reader.get_record_offset(name) == start
        assert reader.get_record_header_offset(name) == entry.header_offset
        assert reader.get_record_offset_no_read(entry.header_offset, name, entry.file_size, 64) == start
        assert reader.get_record(name) == archive.read(entry.filename)
    torch.serialization.set_crc32_options(False)
    try:
        assert again(torch.ones(2)).tolist() == [1, 1]
    finally:
        torch.serialization.set_crc32_options(True)


DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e5m2 float8_e4m3fn"
).split()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_geometry(name):
    x = torch.arange(6).view(2, 3).t().to(getattr(torch, name))[1:]
    y = again(x)
    assert (y.dtype, y.shape, y.stride(), y.storage_offset()) == (x.dtype, x.shape, x.stride(), x.storage_offset())
    assert y.tolist() == x.tolist()


def test_what_a_tensor_is_besides_its_numbers():
    assert again(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]
    assert again(torch.tensor([1 + 2j]).conj().imag).tolist() == [-2]
    a, b = again([x := torch.arange(6.0), x[2:]])
    assert b.data_ptr() == a.data_ptr() + 8
    assert again(torch.ones(2, requires_grad=True)).requires_grad
    assert again(torch.ones(2, device="meta")).is_meta
    assert again(torch.ones(2), map_location="meta").is_meta
    assert again(torch.Size([1, 2])) == (1, 2)
    with pytest.raises(RuntimeError, match=r"torch\.cuda\.is_available\(\) is False"):
        again(torch.ones(2), map_location="cuda")


def test_mapped_files(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.arange(4.0)}, path)
    w = torch.load(path, mmap=True)["w"]
    w.fill_(7)
    assert torch.load(path)["w"].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        legacy = tmp_path / "legacy.pt"
        torch.save(torch.ones(1), legacy, _use_new_zipfile_serialization=False)
        torch.load(legacy, mmap=True)


def test_archives_packed_again_by_others(tmp_path):
    source = zipfile.ZipFile(io.BytesIO(saved(torch.arange(100.0))))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry))
    packed.seek(0)
    assert torch.load(packed).tolist() == list(range(100))


def test_legacy_format():
    base = torch.arange(6.0)
    raw = saved([base, base[2:]], _use_new_zipfile_serialization=False)
    a, b = torch.load(io.BytesIO(raw))
    assert a.tolist() == base.tolist() and b.data_ptr() == a.data_ptr() + 8
    for cut in range(0, len(raw) - 1, 37):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError, KeyError, IndexError, struct.error)):
            torch.load(io.BytesIO(raw[:cut]))


def test_damaged_archives():
    raw = saved({"a": torch.arange(3.0)})
    for size in (22, 100, 300, len(raw) // 2, len(raw) - 10, len(raw) - 1):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            torch._C.PyTorchFileReader(io.BytesIO(raw[:size]))
    with pytest.raises(RuntimeError, match="not a ZIP archive"):
        torch._C.PyTorchFileReader(io.BytesIO(b"PK\3\4abc"))
    with pytest.raises(RuntimeError, match="failed locating file nope: file not found"):
        torch._C.PyTorchFileReader(io.BytesIO(raw)).get_record("nope")
    # Any one byte wrong: an error or a wrong number, never more.
    for at in range(0, len(raw), 7):
        broken = bytearray(raw)
        broken[at] ^= 0xFF
        try:
            torch.load(io.BytesIO(bytes(broken)))
        except Exception as e:
            assert not isinstance(e, MemoryError)
    with pytest.raises(RuntimeError, match="open file failed because of errno 2"):
        torch._C.PyTorchFileReader("/nowhere/at/all")
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        torch.save(torch.ones(1), "/nowhere/at/all")


def test_writer_refuses_what_makes_no_archive():
    w = torch._C.PyTorchFileWriter(io.BytesIO())
    w.write_record("x", b"abc", 3)
    with pytest.raises(RuntimeError, match="Tried to serialize file twice: x"):
        w.write_record("x", b"abc", 3)
    with pytest.raises(ValueError, match="has 3 bytes, but 4 were to be written"):
        w.write_record("y", b"abc", 4)
    w.write_end_of_file()
    with pytest.raises(RuntimeError, match="finalized"):
        w.write_end_of_file()


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_weights_only_runs_nothing():
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        again(Hostile())
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(saved(Hostile(), _use_new_zipfile_serialization=False)))
    with pytest.raises(pickle.UnpicklingError):
        again(torch.nn.Linear(2, 3))
    assert isinstance(again(torch.nn.Linear(2, 3), weights_only=False), torch.nn.Linear)


def test_copies_and_pickles():
    x = torch.arange(6.0).view(2, 3)
    a, b, p = copy.deepcopy([x, x.t(), torch.nn.Parameter(x)])
    assert a.data_ptr() == b.data_ptr() != x.data_ptr() and b.stride() == (1, 3)
    assert isinstance(p, torch.nn.Parameter)
    assert copy.copy(x).data_ptr() == x.data_ptr() and copy.copy(x) is not x
    for protocol in range(2, 6):
        assert pickle.loads(pickle.dumps(x.t(), protocol)).tolist() == x.t().tolist()
    x.mark = 3
    assert pickle.loads(pickle.dumps(x)).mark == copy.deepcopy(x).mark == 3
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(torch.nn.Parameter(x) * 2)
    g = torch.Generator().manual_seed(3)
    torch.rand(5, generator=g)
    twin = pickle.loads(pickle.dumps(g))
    assert torch.equal(torch.rand(2, generator=g), torch.rand(2, generator=twin))
    for value in (torch.float16, torch.device("cpu"), torch.Size([2])):
        assert pickle.loads(pickle.dumps(value)) == value


def test_skipped_data(tmp_path):
    path = tmp_path / "empty.pt"
    with torch.serialization.skip_data():
        torch.save(torch.ones(3), path)
    assert torch.load(path).tolist() == [0, 0, 0]


def test_safetensors(tmp_path):
    files = pytest.importorskip("safetensors.torch")
    tensors = {n: torch.arange(10).to(getattr(torch, n)).view(2, 5) for n in ("int8", "int64", "bfloat16", "float32")}
    files.save_file(tensors, tmp_path / "x.safetensors")
    for loaded in (files.load_file(tmp_path / "x.safetensors"), files.load(files.save(tensors))):
        for name, t in tensors.items():
            assert loaded[name].dtype is t.dtype and torch.equal(loaded[name], t)
