"""The checked-in protobuf classes are what the generator writes now."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from runtime.players.wire import generate


def installed_grpcio_tools() -> str:
    try:
        return version("grpcio-tools")
    except PackageNotFoundError:
        return "absent"


@pytest.mark.skipif(
    installed_grpcio_tools() != generate.GRPCIO_TOOLS,
    reason=f"grpcio-tools is {installed_grpcio_tools()}, the comparison needs {generate.GRPCIO_TOOLS}",
)
@pytest.mark.parametrize("name", generate.GENERATED)
def test_generated_file_equals_what_the_generator_writes_now(name: str, tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in generate.generate(tmp_path)}
    assert (generate.WIRE / name).read_text() == fresh[name], "run: python -m runtime.players.wire.generate"
