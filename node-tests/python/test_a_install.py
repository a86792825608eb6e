"""What `micropip.install` leaves behind, before anything imports torch."""

import importlib.metadata as metadata
import zipfile

from harness import needs_transformers


def test_torch_is_a_distribution():
    assert metadata.version("torch") == "2.15.0"
    assert metadata.distribution("torch").metadata["Name"] == "torch"
    assert metadata.version("torchnative") == __import__("torchnative").__version__
    assert "torch" in metadata.packages_distributions()
    assert metadata.version("tokenizers") == "0.23.3"
    assert metadata.version("safetensors") == "0.8.0"


def test_record_lists_what_is_there():
    files = metadata.distribution("torch").files
    assert any(str(file) == "torch/__init__.pyc" for file in files)
    missing = [str(file) for file in files if not file.locate().exists()]
    assert not missing, missing[:5]


async def test_a_later_install_that_requires_torch_is_satisfied():
    import micropip

    info = "needs_torch-1.0.dist-info"
    with zipfile.ZipFile("/tmp/needs_torch-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("needs_torch.py", "answer = 42\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: needs-torch\nVersion: 1.0\nRequires-Dist: torch>=2.6\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    await micropip.install("emfs:/tmp/needs_torch-1.0-py3-none-any.whl")
    assert __import__("needs_torch").answer == 42


def unsatisfied(*roots):
    """The requirements of the installed packages, from `roots` on, that what is installed does not meet."""
    from packaging.requirements import Requirement

    bad, todo, seen = [], list(roots), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for line in metadata.distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                bad.append((name, requirement.name, "missing"))
                continue
            if requirement.specifier.contains(version, prereleases=True):
                todo.append(requirement.name)
            else:
                bad.append((name, str(requirement), version))
    return sorted(bad)


def test_requirements_of_torch_are_met():
    assert unsatisfied("torch", "torchnative") == []


@needs_transformers
def test_requirements_of_transformers_are_met():
    assert unsatisfied("transformers", "torch") == []
