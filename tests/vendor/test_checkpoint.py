"""The unpacked checkpoint is what transformers reads from the GGUF file."""

import hashlib

#: Of the files upstream's transformers saved after `from_pretrained(..., gguf_file=...)` in float32.
SAVED = {
    "model.safetensors": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    "tokenizer.json": "bf346d64f6f0fbcefb4c1b6928a98241467dff36c6fbae5fe1785c4ff90667f4",
    "chat_template.jinja": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
}


def test_the_files_are_those_transformers_saves(checkpoint):
    for name, expected in SAVED.items():
        with open(checkpoint / name, "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == expected, name
