"""Builds sdist and wheel, installs the wheel where nothing else of ours is, and uses it from another folder."""

import argparse
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND_TIMEOUT_S = 300
PACKAGES = ("runtime", "trainers", "fakeunity")
MODULES = ("fakeunity", "fakeunity.testing.plugin", "fakeunity.testing.checks", "runtime.settings")


def run(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command there; its failure ends this script."""
    print("$", *command, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], cwd=folder, env=environment, check=True, timeout=COMMAND_TIMEOUT_S)


def expected_files() -> set[str]:
    """What the wheel must hold of our packages: code, types, wire definitions, configurations."""
    kept = {".py", ".pyi", ".proto", ".typed", ".yaml"}
    files = {path for name in PACKAGES for path in (ROOT / name).rglob("*")}
    return {path.relative_to(ROOT).as_posix() for path in files if path.suffix in kept or path.name == "py.typed"}


def check_contents(wheel: Path, sdist: Path) -> None:
    """Compare what the archives hold with what the packages are made of."""
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = sorted(expected_files() - names)
    strangers = sorted({name.split("/")[0] for name in names} - set(PACKAGES) - {_metadata_folder(names)})
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing_source = sorted({"LICENSE", "README.md", "pyproject.toml", *expected_files()} - packed)
    if missing or strangers or missing_source:
        sys.exit(f"wheel lacks {missing}, installs besides {strangers}; sdist lacks {missing_source}")
    print(f"{wheel.name}: {len(names)} files, licence and all {len(expected_files())} files of our packages among them")


def check_installed(wheel: Path, folder: Path) -> None:
    """Install the wheel alone in a new environment that sees this one's third parties, and use it from `folder`."""
    home = folder / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], folder)
    library = next((home / "lib").glob("python3*/site-packages"))
    (library / "third_parties.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run([python, "-c", _import_code(MODULES, home)], folder)
    run([python, "-m", "fakeunity", "--list"], folder)


def main() -> int:
    """Build, look inside, install, use."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        check_contents(wheel, sdist)
        check_installed(wheel, folder)
    return 0


def _import_code(modules: Iterable[str], home: Path) -> str:
    return (
        "import importlib\n"
        f"for name in {tuple(modules)!r}:\n"
        "    file = importlib.import_module(name).__file__\n"
        f"    assert file.startswith({str(home)!r}), file\n"
        "    print('imported', name)\n"
    )


def _metadata_folder(names: set[str]) -> str:
    licences = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    if len(licences) != 1:
        sys.exit(f"the wheel has {len(licences)} licences, expected 1")
    return licences[0].split("/")[0]


if __name__ == "__main__":
    sys.exit(main())
