"""`python -m fakeunity`: runs a player, lists the scenes, installs an executable.

Exit codes: 0 the trainer asked to stop or is gone, 1 trouble, 2 usage, 3 the trainer deviates from a recording, 4 the
recording ends and the trainer goes on, 130 interrupted (while it loads, the signal itself ends it).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from fakeunity.arguments import PLAYER_KEYS, Arguments, split_arguments
from fakeunity.errors import ConnectError, SpecError, TrainerMistakeError
from fakeunity.faults.plan import Who
from fakeunity.install import install
from fakeunity.protocols import NEWEST, PROTOCOLS
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import REPLAY, PlayerSpec, from_options, integer, parse_url
from runtime.interrupts import raise_again

BASE_PORT = 5005
CONNECT_S = 60
REFUSE_CONNECT_S = 5
DEVIATED, TAPE_ENDED = 3, 4
ENV_ID_VARIABLE = "FAKEUNITY_ENV_ID"
INCARNATION_VARIABLE = "FAKEUNITY_INCARNATION"

USAGE = """\
python -m fakeunity SCENE --mlagents-port N [options]   a player, as a Unity build would be one
                                                        (--port N where --protocol is API-8 to API-10)
python -m fakeunity install SCENE FILE [options]        writes an executable FILE that is such a player
python -m fakeunity replay FILE --mlagents-port N       the player in a recording, as `--record FILE` makes one
                  [--tolerant]                          (values of actions and seeds may differ)
python -m fakeunity --list                              the scenes

options: --agents K              agents of each behavior (1 to 1024)
         --seed S                mixed into every episode's randomness
         --delay-ms A-B          wall time before each answer
         --journal DIR           one JSON line per exchange in DIR/<env id>-<pid>.jsonl
         --protocol V            API-8, API-9, API-10, or 1.0.0 to 1.5.0 (the default)
         --layout hwc|chw        pictures with their channels last or first (1.5.0 knows both)
         --package V             the version of the Unity package that the player says it is
         --stack K               observations of the last K messages at once
         --academy-steps N       API-8 to API-10: the academy is done after so many steps
         --fault TEXT            what the player does wrong and when, as in 'crash:9@step=17' (may be given again)
         --fault-once DIR        remembers the faults with +once
         --incarnation N         for faults with +incarnation=N (default: $FAKEUNITY_INCARNATION, else 0)
         --env-id N              names the journal (default: $FAKEUNITY_ENV_ID, else the port - 5005)
         --connect-timeout-s N   how long to wait for the trainer's port (default 60)
         -logFile FILE           where the player writes its few lines ("-": standard output)
Other words with one dash, as Unity builds take them, are let pass.
"""


class _Log:
    """The player's few lines, to the file of -logFile or to standard error."""

    def __init__(self, log_file: str | None) -> None:
        self._file = sys.stdout if log_file == "-" else sys.stderr
        if log_file not in (None, "", "-"):
            path = Path(str(log_file))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", buffering=1)

    def line(self, text: str) -> None:
        """One line for whoever looks; if nobody can any more, the player goes on without."""
        _tell(self._file, text)

    def trouble(self, text: str) -> None:
        """A line that stands on standard error too, wherever the others go."""
        self.line(f"error: {text}")
        if self._file is not sys.stderr:
            _complain(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(text: str) -> None:
    _tell(sys.stderr, text)


def _tell(file: TextIO, text: str) -> None:
    """Writes one line, or sends this and all further ones nowhere if nobody reads there.

    What could not be written stays in the file's buffer: Python would try again when it ends, fail and exit with 120.
    """
    try:
        file.write(f"fakeunity: {text}\n")
        file.flush()
    except OSError:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, file.fileno())
            os.close(nowhere)


def main(argv: Sequence[str], *, installed: str | None = None) -> int:
    """Runs one command and gives its exit code; `installed` is the URL of the player that an installed file is."""
    try:
        arguments = split_arguments(argv)
        if "help" in arguments.flags:
            sys.stdout.write(USAGE)
            return 0
        if "version" in arguments.flags:
            _say(f"fakeunity, communicator {NEWEST}; also {', '.join(name for name in PROTOCOLS if name != NEWEST)}")
            return 0
        if "list" in arguments.flags:
            for card in SCENES.values():
                speaks = f"{card.since} to {NEWEST}" if card.since != NEWEST else NEWEST
                _say(f"{card.name:15} best reward {card.best_reward:5.2f}   {speaks:14} {card.sentence}")
            return 0
        if installed is None and arguments.words[:1] == ("install",):
            return _install(arguments)
        return _play(arguments, installed)
    except SpecError as error:
        _complain(f"{error}")
        return 2


def _split_options(arguments: Arguments) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Options that describe the player, and those that describe this one run of it."""
    run = [(key, value) for key, value in arguments.options if key in PLAYER_KEYS]
    if len(dict(run)) < len(run):
        raise SpecError(
            "one of --mlagents-port, --port, --env-id, --incarnation, --connect-timeout-s is given twice; give it once"
        )
    return [pair for pair in arguments.options if pair[0] not in PLAYER_KEYS], dict(run)


def _spec(scene: str, options: list[tuple[str, str]], base: PlayerSpec | None) -> PlayerSpec:
    spec = from_options(scene, options, base)
    if spec.link == "memory":
        raise SpecError("link=memory has no process of its own; it is for the trainer: --env 'fake:SCENE?link=memory'")
    return spec


def _install(arguments: Arguments) -> int:
    options, run = _split_options(arguments)
    if run:
        raise SpecError(f"--{next(iter(run)).replace('_', '-')} is given when the file is run, not when it is written")
    if len(arguments.words) != 3:
        raise SpecError(f"install takes a scene and a file, not {arguments.words[1:]}; see --help")
    _, scene, file = arguments.words
    spec = _spec(scene, options, None)
    try:
        install(spec, Path(file))
    except OSError as error:
        _complain(f"cannot write {file!r}: {error.strerror}; name a file in a folder that exists")
        return 1
    _say(f"wrote {file}: scene {spec.scene}, {spec.agents} agents, {spec.protocol}")
    return 0


def _play(arguments: Arguments, installed: str | None) -> int:
    base = None if installed is None else parse_url(installed)
    if base is None and not arguments.words:
        raise SpecError("no scene given; --list shows them, --help the rest")
    # Words after the scene are nobody's; Unity would not mind them either.
    scene = arguments.words[0] if base is None else base.scene
    options, run = _split_options(arguments)
    if scene == REPLAY:
        options = [*options, *_replay_options(arguments.words[1:] if base is None else (), arguments.flags)]
    spec = _spec(scene, options, base)
    port = _port(spec, run)
    connect_s = integer("--connect-timeout-s", run.get("connect_timeout_s", str(CONNECT_S)), 1, 86400)
    default_env = os.environ.get(ENV_ID_VARIABLE) or str(max(0, port - BASE_PORT))
    env_id = integer("--env-id", run.get("env_id", default_env), 0, 2**31 - 1)
    told = run.get("incarnation", os.environ.get(INCARNATION_VARIABLE) or "0")
    who = Who(env_id, integer("--incarnation", told, 0, 2**31 - 1))
    try:
        log = _Log(arguments.log_file)
        return _run(spec, log, port=port, connect_s=connect_s, who=who)
    except OSError as error:
        _complain(f"{error}")
        return 1


def _replay_options(words: tuple[str, ...], flags: frozenset[str]) -> list[tuple[str, str]]:
    """What stands on the command line without an option's name."""
    return [("file", word) for word in words[:1]] + [("tolerant", "yes")] * ("tolerant" in flags)


def _port(spec: PlayerSpec, run: Mapping[str, str]) -> int:
    """The trainer's port: each generation knows its own word for it and lets the other pass, as builds do."""
    if spec.scene == REPLAY and "port" in run and "mlagents_port" not in run:
        return integer("--port", run["port"], 1, 65535)
    if not spec.version.is_gen1:
        if "mlagents_port" not in run:
            raise SpecError("no --mlagents-port N: there is no trainer to play for, and no graphics to watch")
        return integer("--mlagents-port", run["mlagents_port"], 1, 65535)
    if "mlagents_port" in run and "port" not in run:
        raise SpecError(f"--mlagents-port came after {spec.protocol}; give --port N, as players of its time take it")
    return integer("--port", run.get("port", str(BASE_PORT)), 1, 65535)


def _run(spec: PlayerSpec, log: _Log, *, port: int, connect_s: int, who: Who) -> int:
    # numpy, protobuf and grpc take longer to load than a usage error should take to appear.
    from fakeunity import grpc_player  # noqa: PLC0415 - see above
    from fakeunity.cassettes.replay import DeviationError, TapeEndError  # noqa: PLC0415 - see above
    from fakeunity.cassettes.tape import CassetteError  # noqa: PLC0415 - see above
    from fakeunity.faults.process import ProcessBody, port_to_dial  # noqa: PLC0415 - see above
    from fakeunity.memory import open_player  # noqa: PLC0415 - see above

    what = f"recording {spec.file}" if spec.file is not None else f"scene {spec.scene}, {spec.agents} agents"
    log.line(f"{what}, {spec.protocol}, pid {os.getpid()}, env {who.env_id}")
    body = ProcessBody()
    port = port_to_dial(spec.faults, body, port)
    try:
        player = open_player(spec, env_id=who.env_id, incarnation=who.incarnation, body=body, report=log.line)
    except CassetteError as error:
        log.trouble(str(error))
        grpc_player.refuse(port, connect_s=min(connect_s, REFUSE_CONNECT_S))
        return 1
    try:
        raise_again()  # from here on there is a player to close
        grpc_player.run(player, port, connect_s=connect_s, report=log.line)
    except (ConnectError, TrainerMistakeError) as error:
        log.trouble(str(error))
        return DEVIATED if isinstance(error, DeviationError) else TAPE_ENDED if isinstance(error, TapeEndError) else 1
    except KeyboardInterrupt:
        return 130
    finally:
        player.close()
    return 0
