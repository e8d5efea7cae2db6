"""Writes the `*_pb2.py` modules and type stubs from the schemas beside it: `python -m runtime.players.wire.generate`.

The output is checked in; a test compares it with what this script writes now. It needs grpcio-tools of the version
named below, which only developers install: another version may emit code that older protobuf runtimes refuse.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

GRPCIO_TOOLS = "1.76.0"
GENERATE_S = 120.0
WIRE = Path(__file__).resolve().parent
ROOT = WIRE.parents[2]
SCHEMAS = ("communicator", "communicator_gen1")
GENERATED = tuple(f"{schema}_pb2{suffix}" for schema in SCHEMAS for suffix in (".py", ".pyi"))


class GeneratorError(RuntimeError):
    """The generator is absent, of another version, or refused the schema."""


def generate(folder: Path) -> tuple[Path, ...]:
    """Paths of the generated files under `folder`, in the order of GENERATED. Raises GeneratorError."""
    try:
        found = version("grpcio-tools")
    except PackageNotFoundError as error:
        raise GeneratorError(f"grpcio-tools is not installed; pip install grpcio-tools=={GRPCIO_TOOLS}") from error
    if found != GRPCIO_TOOLS:
        raise GeneratorError(
            f"grpcio-tools is {found}, the checked-in classes come from {GRPCIO_TOOLS}; "
            f"pip install grpcio-tools=={GRPCIO_TOOLS}"
        )
    schemas = [str(WIRE / f"{schema}.proto") for schema in SCHEMAS]
    arguments = [f"--proto_path={ROOT}", f"--python_out={folder}", f"--pyi_out={folder}", *schemas]
    # In a process of its own: beside a loaded gRPC or TensorFlow, the generator's native code crashes.
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GENERATE_S, check=False)
    if done.returncode != 0:
        raise GeneratorError(f"the generator refused one of {', '.join(schemas)}: {done.stderr.strip()}")
    return tuple(folder / WIRE.relative_to(ROOT) / name for name in GENERATED)


def main() -> int:
    """Exit code: 0 when every file was written, 1 otherwise with the reason on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = generate(Path(folder))
        except GeneratorError as error:
            print(error, file=sys.stderr)
            return 1
        for file in files:
            (WIRE / file.name).write_bytes(file.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
