"""A chat answer from a checkpoint folder, streamed by unmodified transformers.

    python xtask/py/demo.py CHECKPOINT [--prompt TEXT] [--max-new-tokens N] [--dtype NAME] [--sample] [--seed N]

`generate` runs on a thread of its own while this one prints what arrives. Where threads do not exist (Pyodide),
`stream` generates on the calling thread and prints from inside.
"""

import argparse
import os
import sys
import time
from threading import Thread

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer, TextStreamer

THREADS = sys.platform != "emscripten"


def load(checkpoint, dtype="float32"):
    """The model and the tokenizer in the folder `checkpoint`."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=getattr(torch, dtype)).eval()
    return model, tokenizer


def encode(tokenizer, prompt):
    """The token ids of a chat in which the user says `prompt`, as `generate` takes them."""
    chat = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)


class Counting(TextStreamer):
    """Prints as it goes, and counts."""

    def __init__(self, tokenizer, write):
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.write = write

    def on_finalized_text(self, text, stream_end=False):
        """Passes on what is ready."""
        self.write(text)


def stream(model, tokenizer, prompt, write, *, max_new_tokens=64, sample=False, seed=0):
    """Generates the answer to `prompt`, handing each piece of text to `write`, and returns its token ids."""
    inputs = encode(tokenizer, prompt)
    settings = {**inputs, "max_new_tokens": max_new_tokens, "do_sample": sample}
    torch.manual_seed(seed)
    if not THREADS:
        settings["streamer"] = Counting(tokenizer, write)
        result = model.generate(**settings)
    else:
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        outcome = {}

        def work():
            try:
                outcome["result"] = model.generate(**settings, streamer=streamer)
            except BaseException as error:
                outcome["error"] = error
                streamer.end()

        thread = Thread(target=work)
        thread.start()
        for text in streamer:
            write(text)
        thread.join()
        if "error" in outcome:
            raise outcome["error"]
        result = outcome["result"]
    return result[0, inputs["input_ids"].shape[1] :].tolist()


def main(words):
    """Reads the command line, prints the answer and, on standard error, how fast it came."""
    parser = argparse.ArgumentParser(description="Stream a chat answer from a checkpoint folder.")
    parser.add_argument("checkpoint")
    parser.add_argument("--prompt", default="What is gravity?")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    start = time.perf_counter()
    model, tokenizer = load(options.checkpoint, options.dtype)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, {options.dtype}"
    print(f"» {note}, loaded in {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    first = None

    def write(text):
        nonlocal first
        if text and first is None:
            first = time.perf_counter()
        print(text, end="", flush=True)

    start = time.perf_counter()
    settings = {"max_new_tokens": options.max_new_tokens, "sample": options.sample, "seed": options.seed}
    ids = stream(model, tokenizer, options.prompt, write, **settings)
    seconds = time.perf_counter() - start
    print(flush=True)
    rate = f"{len(ids)} tokens in {seconds:.2f} s, {len(ids) / seconds:.1f} a second"
    begun = f", the first text after {first - start:.2f} s" if first is not None else ""
    print(f"» {rate}{begun}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
