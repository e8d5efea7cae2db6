"""`python -m runtime.record_demo SCENE FILE`: what the expert of a bundled scene does, as a `.demo` file."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from runtime.errors import StorageError, TrainingError, UsageError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo, BrainInfo, BrainParameters, EnvId, Incarnation
from runtime.interrupts import INTERRUPTED, raise_again
from runtime.messages import EnvAssignment
from runtime.players.demonstration_recorder import DemonstrationRecorder
from runtime.players.factories import MemoryPlayerFactory, fake_spec
from runtime.players.links import LinkLimits, PlayerLink

SCENES_PLAYED = ("basic", "balance", "teacher")
"""Those with a behavior in `fakeunity.experts`."""
RECORDS_MAX = 1_000_000
"""An expert that never ends an episode fills no disk."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record, and return the exit code: 0 recorded, 2 wrong usage, 3 the scene failed, 5 FILE cannot be written.

    130 after Ctrl-C: no file is left then.
    """
    options = _parser().parse_args(argv)
    scene = options.scene if options.scene.startswith("fake:") else f"fake:{options.scene}"
    generation: Literal[1, 2] = 1 if options.format == "2019" else 2
    try:
        raise_again()  # a recording that was begun is removed
        path, records = record(
            scene, Path(options.file), episodes=options.episodes, seed=options.seed, generation=generation
        )
    except TrainingError as error:
        print(f"[ERROR] {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("[INFO] Interrupted: nothing was written.", file=sys.stderr)
        return INTERRUPTED
    print(f"Wrote {path}: {options.episodes} episodes, {records} records")
    return 0


def record(scene: str, path: Path, *, episodes: int, seed: int = 0, generation: Literal[1, 2] = 2) -> tuple[Path, int]:
    """Where the recording is, and its records: `episodes` episodes of the first agent of `scene`, `fake:NAME[?k=v]`.

    seed: of the player. generation: 1 for the files of ML-Agents 0.8 to 0.10. Raises UsageError for a scene without an
    expert and for a folder, StorageError when the file cannot be written.
    """
    if episodes < 1:
        raise UsageError(f"{episodes} episodes; expected at least 1.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; expected the file to write. Name one in it: {path / 'NAME.demo'}.")
    fake_spec(scene)  # a wrong name is a mistake of the user's, not of the player's
    try:
        return asyncio.run(_recorded(scene, path, episodes, seed, generation))
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. Name a file in a folder of yours."
        ) from error


async def _recorded(scene: str, path: Path, episodes: int, seed: int, generation: Literal[1, 2]) -> tuple[Path, int]:
    assignment = EnvAssignment(env_id=EnvId(0), incarnation=Incarnation(0), seed=seed, port=0)
    link = MemoryPlayerFactory(target=scene).open_link(assignment, LinkLimits())
    try:
        brains = {each.brain_name: each for each in (await link.start()).brains}
        reply = await link.reset({}, train_mode=True)
        brains |= {each.brain_name: each for each in reply.brains}
        brain = _known(brains.values(), scene)
        recorder = DemonstrationRecorder(path, brain, generation=generation)
        try:
            await _follow(link, reply.infos, brain, recorder, episodes)
        except BaseException:
            recorder.close().unlink()  # half a recording would be taken for a whole one
            raise
        return recorder.close(), recorder.steps
    finally:
        await link.close()


async def _follow(
    link: PlayerLink, infos: AllBrainInfo, brain: BrainParameters, recorder: DemonstrationRecorder, episodes: int
) -> None:
    """Steps the scene and records its first agent, until that has ended so many episodes."""
    first, ended = infos[brain.brain_name].decisions.agents[:1], 0
    while recorder.steps < RECORDS_MAX:
        ended += int(np.isin(infos[brain.brain_name].terminals.agents, first).sum())
        actions = {name: _done_by_expert(name, info) for name, info in infos.items() if len(info.decisions)}
        is_last = ended >= episodes
        recorder.follow(infos[brain.brain_name], None if is_last else actions.get(brain.brain_name, _nothing(brain)))
        if is_last:
            return
        await asyncio.sleep(0)  # a player in memory answers at once: only here can Ctrl-C end the recording
        infos = (await link.step(actions)).infos
    raise UsageError(f"{ended} of {episodes} episodes have ended within {RECORDS_MAX} steps; ask for fewer.")


def _known(brains: Iterable[BrainParameters], scene: str) -> BrainParameters:
    from fakeunity.experts import EXPERTS  # noqa: PLC0415 - scenes are only loaded where needed

    found = [each for each in brains if each.behavior_name in EXPERTS]
    if not found:
        raise UsageError(
            f"nobody knows how to play {scene!r}; expected {', '.join(SCENES_PLAYED)}. Record a player of your own "
            "with ML-Agents' DemonstrationRecorder."
        )
    return found[0]


def _done_by_expert(name: str, info: BrainInfo) -> Actions:
    from fakeunity.experts import EXPERTS  # noqa: PLC0415 - as above

    chosen = EXPERTS[name.partition("?")[0]](info.decisions.observations)  # type: ignore[arg-type] # vectors
    return Actions(chosen.continuous, chosen.discrete.astype(np.int32))


def _nothing(brain: BrainParameters) -> Actions:
    spec = brain.action_spec
    return Actions(np.zeros((0, spec.continuous_size), np.float32), np.zeros((0, spec.discrete_size), np.int32))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.record_demo",
        description="Record what the expert of a bundled scene does, as demonstrations to learn from.",
        epilog="Exit code: 0 recorded, 2 wrong usage, 3 the scene failed, 5 FILE cannot be written, 130 Ctrl-C.",
    )
    parser.add_argument("scene", metavar="SCENE", help=f"{', '.join(SCENES_PLAYED)}; or fake:SCENE?k=v&k=v")
    parser.add_argument("file", metavar="FILE", help="file to write; a name that is taken gets _0, _1, ... appended")
    parser.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes of one agent (default 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the player (default 0)")
    parser.add_argument(
        "--format", choices=("2019", "today"), default="today", help="2019: for trainers of ML-Agents 0.8 to 0.10"
    )
    return parser


def command() -> NoReturn:
    """The command line's entrance."""
    sys.exit(main())


if __name__ == "__main__":
    command()
