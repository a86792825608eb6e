"""What is measured: the cases of each group. A case is prepared once in a process and then run as often as asked."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Case:
    """A thing to time: `make` prepares it and gives the code to repeat."""

    name: str
    make: object
    threads: int = 1
    # What runs on one thread is timed by CPU time, which other processes disturb less; the rest by the wall.
    cpu: bool = False


def _dispatch():
    """Calls on tiny tensors: what they cost is the way to the kernel and back."""

    def call(name, code, **names):
        def make():
            scope = {"torch": torch, "F": F, **names}
            return eval(f"lambda: {code}", scope)

        return Case(name, make, cpu=True)

    x, y = torch.ones(4), torch.ones(4)
    m, w = torch.ones(4, 4), torch.ones(4, 4)
    i = torch.ones(1)

    def module():
        linear = nn.Linear(4, 4).requires_grad_(False)
        return lambda: linear(m)

    return [
        call("x.add(y)", "x.add(y)", x=x, y=y),
        call("x + y", "x + y", x=x, y=y),
        call("x * 2.0", "x * 2.0", x=x),
        call("x.add_(y)", "x.add_(y)", x=torch.zeros(4), y=torch.zeros(4)),
        call("torch.add(x, y, alpha=2)", "torch.add(x, y, alpha=2)", x=x, y=y),
        call("torch.relu(x)", "torch.relu(x)", x=x),
        call("x.sum()", "x.sum()", x=x),
        call("m.view(2, 8)", "m.view(2, 8)", m=m),
        call("m.transpose(0, 1)", "m.transpose(0, 1)", m=m),
        call("m[:, 1]", "m[:, 1]", m=m),
        call("m[1]", "m[1]", m=m),
        call("F.linear(m, w)", "F.linear(m, w)", m=m, w=w),
        Case("nn.Linear(4, 4)(m)", module, cpu=True),
        call("torch.mm(m, w)", "torch.mm(m, w)", m=m, w=w),
        call("torch.cat((m, w))", "torch.cat((m, w))", m=m, w=w),
        call("torch.empty(4, 4)", "torch.empty(4, 4)"),
        call("i.item()", "i.item()", i=i),
        call("m.size(0)", "m.size(0)", m=m),
        call("m.shape", "m.shape", m=m),
        call("x.to(torch.float64)", "x.to(torch.float64)", x=x),
    ]


# (rows of the input, width of the input, width of the output) of a Llama of SmolLM2-135M's shape.
PRODUCTS = [(n, k, m) for n in (1, 6, 128, 512) for k, m in ((576, 576), (576, 1536), (1536, 576))]
PRODUCTS += [(1, 576, 49152)]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def _gemm():
    """Products of those shapes."""

    def product(kind, threads, n, k, m):
        def make():
            x, w = torch.randn(n, k).to(DTYPES[kind]), torch.randn(m, k).to(DTYPES[kind])
            return lambda: F.linear(x, w)

        return Case(f"({n}, {k}) x ({k}, {m}) {kind}", make, threads, cpu=threads == 1)

    return [product(kind, 1, *shape) for kind in DTYPES for shape in PRODUCTS]


def _llama(kind):
    """A Llama of SmolLM2-135M's shape with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_theta=100000,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).to(DTYPES[kind]).eval()


def _model():
    """Prefill and decoding."""
    models = {}

    def model(kind):
        if kind not in models:
            models.clear()
            models[kind] = _llama(kind)
        return models[kind]

    def prefill(kind, threads, length):
        def make():
            llama, ids = model(kind), (torch.arange(length) * 97 % 49152).view(1, length)

            def run():
                with torch.no_grad():
                    llama(ids, logits_to_keep=1)

            return run

        return Case(f"prefill {length} {kind}, threads={threads}", make, threads, cpu=threads == 1)

    def decode(kind, threads, length):
        def make():
            llama, ids = model(kind), (torch.arange(length) * 97 % 49152).view(1, length)
            with torch.no_grad():
                cache = llama(ids, use_cache=True).cache
            token = ids[:, :1]

            def run():
                with torch.no_grad():
                    llama(token, cache=cache, use_cache=True)
                cache.crop(-1)

            return run

        return Case(f"decode after {length} {kind}, threads={threads}", make, threads, cpu=threads == 1)

    cases = []
    for kind in DTYPES:
        for threads in (1, 2):
            cases += [prefill(kind, threads, length) for length in (6, 128, 512)] + [decode(kind, threads, 128)]
    return cases


GROUPS = {"dispatch": _dispatch, "gemm": _gemm, "model": _model}
