"""Records how upstream answers calls with unusual arguments: `argument_errors.tsv`.

Each row is an expression, the class of what it raises (or `-`), and the message or the repr of the result. Of long
messages the beginning is kept.
"""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import torch

EXPRESSIONS = r"""
torch.device('foo')
torch.device('metal')
x[[True, False]]
x[[True, False], [1, 2]]
x[[[0, 1], [1, 2]]]
x[[slice(None), 1]]
x[True, False]
torch.add(1, 'a')
x.view('a')
torch.ones('a')
torch.zeros(2, dtype=3)
x.sum(dim='a')
torch.nn.functional.linear(x)
torch.linspace(1)
x.add(x, x, x)
torch.matmul(x)
torch.full((2,), 1, foo=1)
torch.add(x, 1, alpha='a')
torch.max(x, 1, 2, 3)
x.transpose(0)
x.permute(0, 'a')
x.expand(2, 2.5)
x.reshape(2, 2.5)
torch.sum(x, dim=1, keepdim=3.0)
torch.empty(1.5)
torch.div(x, x, rounding_mode=1)
x.clamp('a')
torch.where(x, x)
torch.nn.functional.conv2d(x, x, x, 'b')
torch.arange('a')
torch.normal('a')
torch.topk(x, 'a')
torch.ones(['a'])
torch.ones([1, 'a'])
x.permute(['a'])
x.permute([0, 1.5])
torch.zeros(2, dtype=3, foo=1)
x.view('a', foo=1, bar=2)
torch.ones(i1)
torch.ones(i1, i1)
torch.ones([i1, 2])
torch.ones([i0, 2])
torch.ones(2, i0)
torch.ones(2.0, 3)
torch.ones(2, 3.0)
torch.ones(True)
torch.ones(2, True)
torch.ones([True, 2])
torch.ones(np.int64(2), np.int32(3))
torch.ones(np.array([2, 3]))
torch.ones(torch.tensor([2, 3]))
x.sum([0, 'a'])
x.sum(['a'])
x.sum(dim=[0, 1.0])
torch.stack(x, 0)
torch.stack([x, 'a'])
x.view(2.0, 3)
x.view([2.0, 3])
x.view(2, 3, foo=1)
x.flip('a')
x.flip(0, 'a')
x.roll('a', 1)
torch.nn.functional.pad(x, 'a')
torch.tile(x, (1, 'a'))
x.squeeze('a')
x.squeeze((0, 'a'))
x.softmax('a')
x.softmax(0, 1)
x.gather(1, 2)
x.scatter(1, 2, 3)
torch.zeros((2,), out=3)
torch.full((2,), 'a')
torch.full('a', 1)
torch.addmm(x, x)
torch.addmm(x, x, x, beta='a')
x.to('cpu', 3, 4, 5, 6)
x.to(3.5)
torch.tensor(1, dtype=3)
torch.tensor(1, foo=2)
torch.tensor()
x.new_zeros('a')
x.masked_fill(x, 'a')
torch.clamp(x, min='a')
torch.clamp(x, min='a', max=2)
torch.std(x, unbiased=1)
torch.std(x, 1, 2, 3)
x.argmax('a')
torch.bernoulli(x, 'a')
x.normal_('a')
x.uniform_(0, 'a')
x.random_('a')
torch.rand('a')
torch.rand(2, generator=3)
torch.norm(x, 'a', 'b')
torch.einsum(1, x)
torch.conv1d(x)
torch.conv1d(x, x, stride='a')
torch.batch_norm(x)
torch.embedding(1, 2)
torch.embedding(x)
torch._C._nn.gelu(1)
torch._C._nn.linear(1, 2)
torch.relu(3)
torch.sin()
torch.sin(1)
torch.sin(x, x)
torch.sin(x, foo=1)
torch.sin(input=1)
x.sin(1)
x.add()
x.add('a')
x + 'a'
'a' + x
x @ 3
x == 'a'
x < 'a'
x.eq('a')
torch.eq(x, 'a')
torch.pow('a', x)
x ** 'a'
torch.remainder('a', x)
x.expand('a')
x.expand(2, -1, foo=2)
x.unflatten(0, 'a')
x.unsqueeze(1.5)
x.narrow(0, 'a', 1)
torch.arange(1, 2, 3, 4, 5)
torch.arange()
torch.linspace(0, 1, 'a')
torch.eye('a')
torch.eye(2.5)
torch.randn(2, dtype='float32')
torch.randn(2, device=3.5)
torch.randn(2, layout='a')
torch.randn(2, requires_grad='a')
torch.randn(2, pin_memory='a')
x.clone(memory_format=3)
x.contiguous(memory_format='a')
x.item(3)
x.backward('a')
x.requires_grad_('a')
x.copy_('a')
x.fill_('a')
x.set_('a')
x.resize_('a')
x.type(3)
x.type('foo')
x.size('a')
x.stride('a')
x.numpy(3)
x.dim(3)
x.detach(3)
x.data_ptr(3)
x.element_size(1)
x.is_contiguous(3)
x.apply_(3)
x.map_(x, 3)
x.new_tensor()
x.as_strided('a', 1)
torch.as_tensor(x, dtype=3)
torch.from_numpy(3)
torch.frombuffer(3)
torch.is_tensor()
torch.set_default_dtype(3)
torch.set_num_threads('a')
torch.manual_seed('a')
torch.promote_types(1, 2)
torch.result_type(1)
torch.result_type('a', x)
torch.finfo(3)
torch.iinfo('a')
torch.Size('a')
torch.Size([1.5])
torch.Generator('foo')
x.clone().apply_(lambda v: v + 1)
r.apply_(abs)
x.clone().apply_(lambda v: 'a')
x.bool().apply_(lambda v: not v)
x.clone().map_(x, lambda a, b: a + b)
x.clone().map_(x[0], lambda a, b: a + b)
x.clone().map_(torch.ones(4), lambda a, b: a)
r.map_(r, lambda a, b: a)
x.clone().map_(r, lambda a, b: a)
x.clone().map2_(x, x, lambda a, b, c: a + b + c)
x.clone().map_(3, abs)
x.apply_()
x.map_(x)
x.to('meta').apply_(abs)
x.expand(2, 2, 3).apply_(abs)
x.clone().apply_(lambda v: 1j)
(x + 1j).apply_(lambda v: v * 1j)
x.to(torch.bfloat16).apply_(lambda v: v + 0.1)
x.size(0, 1)
x.size(foo=1)
x.size(dim=0)
x.size(1.5)
x.stride(0, 1)
x.contiguous(3)
x.contiguous(torch.preserve_format)
x.is_contiguous(torch.channels_last)
x.requires_grad_(1)
x.requires_grad_(True, 2)
x.copy_()
x.copy_(x, 3)
x.copy_(src=x)
x.copy_(other=x)
x.copy_(3)
x.copy_(x, non_blocking=True)
x.cpu(3)
x.cpu(memory_format=torch.preserve_format)
x.retain_grad(1)
x.numel(1)
x.get_device(1)
x._is_view(1)
x.ndimension(1)
x.untyped_storage(1)
x.as_subclass(3)
x.as_subclass()
x.new_tensor(1, 2)
x.type(1, 2, 3)
x.__bool__(1)
x.__float__(1)
x.__add__()
x.__add__(1, 2)
x.numpy(force=3)
x.numpy(foo=1)
x.detach_(3)
x.half(1)
x.const_data_ptr(1)
x.numel(foo=1)
x.to()
x.to(torch.float64, torch.float32)
x.to('cpu', foo=1)
x.to(1j).dtype
x.to(x, x)
x.to(dtype=3)
v + 1
v * 2
v / 2
'a'
not v
a + b
a
a + b + c
1j
v * 1j
v + 0.1
c[[[0,1],[1,2]]]
c[[slice(None),1]]
c[[0,1]]
c[[[0,1]]]
c[[True,False]]
c[[torch.tensor([0,1]),torch.tensor([1,1])]]
c[[None,0]]
c[[Ellipsis,0]]
c[[0,[1]]]
c[[np.array([0,1]),1]]
c[[[0,1],slice(None)]]
c[[]]
c[[[]]]
c[['a']]
c[[1.5]]
c[[[True,False],[0]]]
c[(0,[1,2])]
c[[range(2)]]
c[range(2)]
c[np.array([0,1])]
c[[np.int64(1)]]
c[[torch.tensor(1)]]
c[([0,1],)]
c[[(0,1),(1,2)]]
c[list(range(40))]
c[[[0]]*33]
c[[[1,0],None]]
c['ab']
c[b'ab']
c[np.array([[0,1],[1,0]])]
c[np.array([[True,False]])]
c[{0:1}]
c[torch.Size([0,1])]
c[np.float32(1.0)]
c[[[True,False],[True,False]]]
c[([0,[1]],)]
c[[True,1]]
filled(c, [[0,1],[1,2]])
filled(c, [slice(None),1])
filled(c, [0,1])
filled(c, [[0,1]])
filled(c, [True,False])
filled(c, [torch.tensor([0,1]),torch.tensor([1,1])])
filled(c, [None,0])
filled(c, [Ellipsis,0])
filled(c, [0,[1]])
filled(c, [np.array([0,1]),1])
filled(c, [[0,1],slice(None)])
filled(c, [])
filled(c, [[]])
filled(c, ['a'])
filled(c, [1.5])
filled(c, [[True,False],[0]])
filled(c, (0,[1,2]))
filled(c, [range(2)])
filled(c, range(2))
filled(c, np.array([0,1]))
filled(c, [np.int64(1)])
filled(c, [torch.tensor(1)])
filled(c, ([0,1],))
filled(c, [(0,1),(1,2)])
filled(c, list(range(40)))
filled(c, [[0]]*33)
filled(c, [[1,0],None])
filled(c, 'ab')
filled(c, b'ab')
filled(c, np.array([[0,1],[1,0]]))
filled(c, np.array([[True,False]]))
filled(c, {0:1})
filled(c, torch.Size([0,1]))
filled(c, np.float32(1.0))
filled(c, [[True,False],[True,False]])
filled(c, ([0,[1]],))
filled(c, [True,1])
"""
LONGEST = 1200


def filled(tensor, key):
    """A copy of the tensor with sevens at the key."""
    copy = tensor.clone()
    copy[key] = 7
    return copy.flatten().tolist()


def answer(expression):
    """The class of the error, and the text."""
    names = {
        "torch": torch,
        "np": np,
        "filled": filled,
        "x": torch.arange(6.0).view(2, 3),
        "c": torch.arange(24.0).view(2, 3, 4),
        "r": torch.ones(2, requires_grad=True),
        "i0": torch.tensor(1),
        "i1": torch.tensor([1]),
    }
    try:
        return "-", repr(eval(expression, names))
    except Exception as error:
        return type(error).__name__, str(error)[:LONGEST]


def main():
    """Writes the table."""
    warnings.simplefilter("ignore")
    lines = ["# Written by vendor/golden/argument_errors.py"]
    for expression in EXPRESSIONS.strip().splitlines():
        lines.append("\t".join((expression, *map(json.dumps, answer(expression)))))
    (Path(os.environ["TORCHNATIVE_DATA"]) / "argument_errors.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
