"""Every reader of foreign bytes answers with what it declares, in bounded time and memory."""

import importlib.util
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.fake_targets import FAKE_TARGETS
from tests.fuzz.run import ALL_TARGETS, execute, fuzz

ROOT = Path(__file__).parents[2]
EXECUTIONS = 300
SECONDS_MAX = 5.0
# What an input may cost beyond some times its own size: protobuf objects, and one decoded picture.
BYTES_MAX = 32 << 20
TIMES_MAX = 200


@st.composite
def nearly_right(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A seed with a few changes: bytes overwritten, left out, said again, made up, taken from another seed."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        at, size = draw(st.integers(0, len(data))), draw(st.integers(0, 40))
        match draw(st.sampled_from(["flip", "cut", "repeat", "insert", "splice", "number"])):
            case "flip" if at < len(data):
                data[at] ^= draw(st.integers(1, 255))
            case "cut":
                del data[at : at + size]
            case "repeat":
                data[at:at] = data[at : at + size] * draw(st.integers(1, 50))
            case "splice":
                other = draw(st.sampled_from(seeds))
                begin = draw(st.integers(0, len(other)))
                data[at : at + size] = other[begin : begin + size]
            case "number":
                data[at : at + 5] = draw(st.sampled_from([b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80" * 5]))
            case _:
                data[at:at] = draw(st.binary(max_size=20))
    return bytes(data)


@pytest.mark.parametrize("name", FAKE_TARGETS)
def test_a_target_takes_bytes_that_it_begins_with(name: str) -> None:
    assert any(execute(FAKE_TARGETS[name], seed) for seed in FAKE_TARGETS[name].seeds)


@pytest.mark.parametrize("name", FAKE_TARGETS)
def test_seeded_mutations_are_taken_or_refused_as_declared(name: str) -> None:
    taken, slowest_s = fuzz(FAKE_TARGETS[name], executions=EXECUTIONS, seed=1)
    assert taken < EXECUTIONS, "the mutations never do any harm"
    assert slowest_s < SECONDS_MAX


@pytest.mark.parametrize("name", ALL_TARGETS)
@given(data=st.data())
def test_any_bytes_are_answered_in_bounded_time_and_memory(name: str, data: st.DataObject) -> None:
    target = ALL_TARGETS[name]
    body = data.draw(st.binary(max_size=200) | nearly_right(target.seeds))
    execute(target, target.seeds[0])  # what is made once, at the first use, is not the input's
    tracemalloc.start()
    try:
        began = time.process_time()
        execute(target, body)
        spent_s = time.process_time() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent_s < SECONDS_MAX
    assert peak < BYTES_MAX + TIMES_MAX * len(body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_TARGETS)
def test_a_short_coverage_guided_run_finds_nothing(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (pip install 'actor-ml-runtime[fuzz]')")
    flags = ["--atheris", "-runs=2000", "-max_total_time=60", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", name, *flags],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
