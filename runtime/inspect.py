"""`python -m runtime.inspect MODEL.onnx`: what Unity will see in a model file, and a run of it on random input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from runtime.errors import TrainingError, UsageError

if TYPE_CHECKING:
    from runtime.acting.unity_model import Trial, UnityModel

REFUSED = 1
ROWS = (1, 4)
SENTIS_ENDINGS = {
    ".nn": "a model of Barracuda, which Unity's packages of 2019 load",
    ".pt": "a checkpoint of PyTorch",
    ".sentis": "a model that Unity has imported already",
    ".tflite": "a model of TensorFlow Lite",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Inspect, and return the exit code: 0 Unity takes the model, 1 it would not, 2 this is no model."""
    options = _parser().parse_args(argv)
    try:
        if options.seed < 0:
            raise UsageError(f"--seed {options.seed} is negative; expected a whole number from 0 on.")
        body = _read(Path(options.model))
        # Loading the libraries takes longer than to see that there is no file.
        from runtime.acting.unity_model import contract_faults, read_model, try_model  # noqa: PLC0415

        model = read_model(body, Path(options.model).name)
        faults = contract_faults(model)
        trials = [try_model(model, rows=rows, seed=options.seed) for rows in ROWS]
    except TrainingError as error:
        print(f"[ERROR] {error}", file=sys.stderr)
        return error.exit_code
    for line in report(model, faults, trials):
        print(line)
    return REFUSED if faults or any(trial.faults for trial in trials) else 0


def report(model: UnityModel, faults: Sequence[str], trials: Sequence[Trial]) -> Iterator[str]:
    """The lines that are printed."""
    written = f"ONNX opset {model.opset}, IR {model.ir_version}, by {model.producer}"
    yield f"{model.name}: {model.size_bytes} bytes, {written}"
    yield f"version: {_version(model)}"
    for each in model.observations:
        yield f"observation: {each}{_meaning(each.shape)}"
    yield f"memory: {model.memory_size or 'none'}"
    yield f"continuous actions: {model.continuous_size or 'none'}"
    yield f"discrete actions: {_branches(model.branches)}"
    for each in model.inputs:
        yield f"input: {each}"
    for each in model.outputs:
        yield f"output: {each}{' (constant)' if each.name in model.constants else ''}"
    if faults:
        yield f"Unity would not take it: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}"
        yield from (f"  {fault}" for fault in faults)
    else:
        yield "Unity takes it: names, types, shapes and version are those that it expects"
    for trial in trials:
        yield f"run on random input for {trial.rows} {'agent' if trial.rows == 1 else 'agents'}:"
        yield from (f"  {name}: {low:.6g} to {high:.6g}" for name, (low, high) in trial.ranges.items())
        yield from (f"  wrong: {fault}" for fault in trial.faults)


def _version(model: UnityModel) -> str:
    from runtime.acting.unity_model import VERSIONS  # noqa: PLC0415 - see main

    if model.version is None:
        return "none"
    return f"{model.version} ({VERSIONS.get(model.version, 'unknown to Unity')})"


def _meaning(shape: tuple[int | str, ...]) -> str:
    match shape:
        case (_, _):
            return " (a vector)"
        case (_, things, size):
            return f" (up to {things} things of {size} numbers)"
        case (_, channels, height, width):
            return f" (an image: {channels} channels, {height} high, {width} wide)"
        case _:
            return ""


def _branches(branches: tuple[int, ...]) -> str:
    if not branches:
        return "none"
    return f"{len(branches)} {'branch' if len(branches) == 1 else 'branches'}, of {', '.join(map(str, branches))}"


def _read(path: Path) -> bytes:
    if path.suffix in SENTIS_ENDINGS:
        raise UsageError(f"{path} is {SENTIS_ENDINGS[path.suffix]}; expected an ONNX model (.onnx).")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}; expected an ONNX model, such as results/RUN/BRAIN.onnx.") from None
    except IsADirectoryError:
        models = sorted(each.name for each in path.glob("*.onnx"))
        found = f"models in it: {', '.join(models)}" if models else "there is no model in it"
        raise UsageError(f"{path} is a folder; expected an ONNX model; {found}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.inspect",
        description="Show what Unity will see in a model: inputs, outputs, actions, versions; and run it on noise.",
        epilog="Exit code: 0 Unity takes the model, 1 it would not, or its outputs are wrong, 2 this is no model.",
    )
    parser.add_argument("model", metavar="MODEL.onnx", help="model file, such as results/RUN/BRAIN.onnx")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random input (0)")
    return parser


def command() -> NoReturn:
    """The command line's entrance."""
    sys.exit(main())


if __name__ == "__main__":
    command()
