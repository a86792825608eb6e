"""What torchnative adds beside `torch`. `import torch` alone needs none of it."""

from importlib.metadata import version as _version

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    # Read on demand: the metadata lookup costs more than the rest of this module.
    if name == "__version__":
        return _version("torchnative")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
