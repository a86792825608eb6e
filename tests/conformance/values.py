"""Tensors and the arguments of operators in a form that one torch writes and another reads.

A tensor is kept with its whole storage, so that strides, offsets, overlaps and sharing survive the trip.
"""

import torch

# Kinds of values that mean the same on both sides.
PLAIN = (type(None), bool, int, float, complex, str, bytes)
NAMED = (torch.dtype, torch.layout, torch.memory_format)
NO_LIMIT = float("inf")


class CannotEncode(TypeError):
    """A value without a neutral form: a function, a module, an object of the test suite."""


def storage_bytes(tensor):
    """The bytes of a tensor's storage."""
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    # A copy: what NumPy has seen can no longer grow.
    return flat.clone().numpy().tobytes()


class Encoder:
    """Writes values; storages are written once and named by their number."""

    def __init__(self, limit=NO_LIMIT):
        self.storages = {}
        self.data = []
        self.left = limit

    def tensor(self, t):
        if t.layout is not torch.strided or t.is_quantized or t.is_nested:
            raise CannotEncode(f"a tensor of layout {t.layout}")
        if type(t) not in (torch.Tensor, torch.nn.Parameter):
            raise CannotEncode(f"a tensor of type {type(t).__name__}")
        t = t.detach()
        flags = (t.is_conj(), t.is_neg())
        plain = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), t.storage_offset(), t.size(), t.stride())
        key = (t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
        number = self.storages.get(key) if key[1] else None
        if number is None:
            self.left -= key[1]
            if self.left < 0:
                raise CannotEncode("more bytes than are kept")
            number = len(self.data)
            self.data.append(storage_bytes(plain))
            self.storages[key] = number
        where = (tuple(t.size()), t.stride(), t.storage_offset())
        return ("tensor", str(t.dtype), *where, number, flags)

    def value(self, v):
        if isinstance(v, torch.Tensor):
            return (*self.tensor(v), v.requires_grad)
        if isinstance(v, torch.Size):
            return ("size", tuple(v))
        if isinstance(v, tuple):
            return ("tuple", [self.value(x) for x in v])
        if isinstance(v, list):
            return ("list", [self.value(x) for x in v])
        if isinstance(v, dict):
            return ("dict", [(self.value(k), self.value(x)) for k, x in v.items()])
        if isinstance(v, slice):
            return ("slice", [self.value(v.start), self.value(v.stop), self.value(v.step)])
        if isinstance(v, NAMED):
            return ("named", str(v))
        if isinstance(v, torch.device):
            return ("device", str(v))
        if v is Ellipsis:
            return ("ellipsis",)
        if type(v) in PLAIN:
            return ("plain", v)
        if type(v).__module__ == "numpy" and hasattr(v, "item") and getattr(v, "ndim", 1) == 0:
            return ("plain", v.item())
        raise CannotEncode(type(v).__name__)


class Decoder:
    """Reads values; storages are made anew, and shared where they were."""

    def __init__(self, data):
        self.data = data
        self.made = {}

    def storage(self, number):
        if number not in self.made:
            data = self.data[number]
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            # Storages of their own, which may grow.
            self.made[number] = flat.clone().untyped_storage()
        return self.made[number]

    def tensor(self, e):
        _, dtype, size, stride, offset, number, (conj, neg), *grad = e
        t = torch.empty(0, dtype=named(dtype)).set_(self.storage(number), offset, size, stride)
        if conj:
            t = torch._conj(t)
        if neg:
            t = torch._neg_view(t)
        if grad and grad[0] and (t.is_floating_point() or t.is_complex()):
            t.requires_grad_()
        return t

    def value(self, e):
        kind = e[0]
        if kind == "tensor":
            return self.tensor(e)
        if kind == "size":
            return torch.Size(e[1])
        if kind == "tuple":
            return tuple(self.value(x) for x in e[1])
        if kind == "list":
            return [self.value(x) for x in e[1]]
        if kind == "dict":
            return {self.value(k): self.value(x) for k, x in e[1]}
        if kind == "slice":
            return slice(*(self.value(x) for x in e[1]))
        if kind == "named":
            return named(e[1])
        if kind == "device":
            return torch.device(e[1])
        if kind == "ellipsis":
            return Ellipsis
        return e[1]


def named(text):
    """`torch.float32` from its name."""
    return getattr(torch, text.removeprefix("torch."))


def flatten(v):
    """The tensors and numbers of a result, in order."""
    if isinstance(v, dict):
        return [x for item in v.values() for x in flatten(item)]
    if isinstance(v, (tuple, list)):
        return [x for item in v for x in flatten(item)]
    return [v]


def tensors(v):
    """The tensors among them."""
    return [x for x in flatten(v) if isinstance(x, torch.Tensor)]
