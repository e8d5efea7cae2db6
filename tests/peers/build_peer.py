"""Builds a released ML-Agents client or trainer in a folder of its own: `python tests/peers/build_peer.py PEER FOLDER`.

The releases pin Pythons and libraries of their time. They run on a current Python with the versions chosen here, which
is why their own requirements are not looked at. The generated protobuf classes of 1.1.0 are written anew from their own
descriptors by a compiler that knows the fast backend, and its exporter is told to use the method it was written for.
A folder in which the same recipe was finished before is left as it is.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

COMMAND_TIMEOUT_S = 3600.0
MARK = "peer.txt"
OLD_LIBRARIES = ("protobuf==3.20.3", "grpcio==1.62.3", "numpy==1.23.5", "pillow", "cloudpickle", "setuptools<80")
CLIENT_LIBRARIES = (*OLD_LIBRARIES, "pyyaml", "filelock", "gym==0.26.2")
TRAINER_LIBRARIES = (
    *("h5py<3.12", "six", "attrs", "cattrs==1.5.0", "huggingface_hub<0.25", "tensorboard"),
    *("numpy==1.23.5", "protobuf==3.20.3", "setuptools<80"),
)
COMPILER = ("grpcio-tools==1.62.3", "setuptools<80")
FAST_PROTOBUF = "protobuf==4.25.8"
MESSAGES = "mlagents_envs/communicator_objects"

# Run by the peer: writes its descriptors, each after those it needs, and prints the names of their files.
DESCRIBE = """\
import importlib, pathlib, sys
from google.protobuf import descriptor_pb2
import mlagents_envs.communicator_objects as package
known, ordered = {}, []
for path in sorted(pathlib.Path(package.__file__).parent.glob("*_pb2.py")):
    descriptor = importlib.import_module(package.__name__ + "." + path.stem).DESCRIPTOR
    known[descriptor.name] = descriptor
def add(name):
    for needed in known[name].dependencies:
        if needed.name in known:
            add(needed.name)
    if name not in ordered:
        ordered.append(name)
for name in known:
    add(name)
files = descriptor_pb2.FileDescriptorSet()
for name in ordered:
    known[name].CopyToProto(files.file.add())
pathlib.Path(sys.argv[1]).write_bytes(files.SerializeToString())
print(*ordered)
"""


def run(*command: str | Path) -> str:
    """What a command prints; its failure ends this script with what it complained about."""
    ran = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install(folder: Path, *options: str) -> None:
    """Installs into a virtual environment."""
    run(python_of(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options)


def install_release(folder: Path, *packages: str) -> None:
    """Installs released packages without what they say they need."""
    install(folder, "--no-deps", "--ignore-requires-python", *packages)


def library_of(folder: Path) -> Path:
    """Where its packages are."""
    asked = run(python_of(folder), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    return Path(asked.strip())


def regenerate_messages(folder: Path) -> None:
    """Writes the client's protobuf classes anew, and installs the library that reads them."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        names = run(python_of(folder), "-c", DESCRIBE, work / "descriptors").split()
        venv.create(work / "compiler", with_pip=True)
        install(work / "compiler", *COMPILER)
        (work / "out").mkdir()
        compiler = (python_of(work / "compiler"), "-m", "grpc_tools.protoc")
        run(*compiler, f"--descriptor_set_in={work / 'descriptors'}", f"--python_out={work / 'out'}", *names)
        for file in (work / "out" / MESSAGES).glob("*_pb2.py"):
            shutil.copy(file, library_of(folder) / MESSAGES / file.name)
    install(folder, FAST_PROTOBUF)


def build_client(folder: Path) -> None:
    """The client of 1.1.0."""
    install_release(folder, "mlagents-envs==1.1.0", "pettingzoo==1.15.0")
    install(folder, *CLIENT_LIBRARIES)
    regenerate_messages(folder)


def build_trainer(folder: Path) -> None:
    """The trainer of 1.1.0, with PyTorch: about 1 GB."""
    install_release(folder, "mlagents-envs==1.1.0", "pettingzoo==1.15.0")
    install(folder, *CLIENT_LIBRARIES)
    install(folder, "torch==2.13.0")
    install_release(folder, "mlagents==1.1.0", "onnx==1.15.0")
    install(folder, *TRAINER_LIBRARIES)
    regenerate_messages(folder)
    exporter = library_of(folder) / "mlagents/trainers/torch_entities/model_serialization.py"
    text = exporter.read_text(encoding="utf-8")
    exporter.write_text(text.replace("opset_version=", "dynamo=False, opset_version="), encoding="utf-8")


def build_old_client(folder: Path, version: str) -> None:
    """A client of 2019."""
    install_release(folder, f"mlagents-envs=={version}")
    install(folder, *OLD_LIBRARIES)


def build(peer: str, folder: Path) -> None:
    """Builds the peer of this name."""
    kind, _, version = peer.partition("-")
    if kind == "trainer":
        build_trainer(folder)
    elif version == "1.1.0":
        build_client(folder)
    else:
        build_old_client(folder, version)


def main(argv: Sequence[str]) -> int:
    """Builds one peer, unless it is there."""
    parser = argparse.ArgumentParser(description="Build a released ML-Agents client or trainer.")
    parser.add_argument("peer", choices=("client-1.1.0", "client-0.9.3", "client-0.8.2", "trainer-1.1.0"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args(argv)
    recipe = f"{arguments.peer}, Python {sys.version.split()[0]}\n{Path(__file__).read_text(encoding='utf-8')}"
    mark = arguments.folder / MARK
    if not mark.is_file() or mark.read_text(encoding="utf-8") != recipe:
        venv.create(arguments.folder, with_pip=True, clear=True)
        build(arguments.peer, arguments.folder)
        mark.write_text(recipe, encoding="utf-8")
    sys.stdout.write(f"{arguments.peer} is in {arguments.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
