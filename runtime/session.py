"""A training run from outside: start it, watch it, stop it. What `runtime.train` and embedding programs use.

session = TrainingSession(settings, learner_factory, resumable=...)
session.start()
while not (status := session.poll(0.25)).exit_reason: ...
session.close()
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runtime.actors.run_system import ProcessSystem, RunSystem, log_file_in
from runtime.errors import PortInUseError, StorageError, UsageError
from runtime.learner import LearnerFactory
from runtime.messages import Status, StopRequest
from runtime.results import RunSummary, told_totals, write_atomically, write_json_atomically
from runtime.run_directory import RunDirectory, RunPaths, claim_run_directory, initial_checkpoints
from runtime.seeds import player_seed
from runtime.session_plan import Launch, check_demonstrations, make_plan, player_target, recording
from runtime.settings.model import Editor, RunSettings
from runtime.settings.writing import recorded_player_seeds, recorded_seed, to_yaml

if TYPE_CHECKING:
    from runtime.players.ports import PortClaim

STOP_S: Final = 7.5
SILENT_S: Final = 20.0

PeekRunState = Callable[[Sequence[Path]], Mapping[str, object]]


class TrainingSession:
    """One run.

    peek: reads the `run_state` of the first loadable checkpoint without loading a learning library. worker_silence_s:
    an EnvWorker that says nothing for this long is taken for hung, and started again.
    """

    def __init__(
        self,
        settings: RunSettings,
        learner_factory: LearnerFactory,
        *,
        peek: PeekRunState,
        worker_silence_s: float = 15.0,
    ) -> None:
        self._settings = settings
        self._factory = learner_factory
        self._peek = peek
        self._worker_silence_s = worker_silence_s
        self._launched_s = time.monotonic()
        self._launched_at = time.time()
        self._directory: RunDirectory | None = None
        self._ports: PortClaim | None = None
        self._system: RunSystem | None = None
        self._last: Status | None = None
        self._heard_s = self._launched_s
        self._incarnations: dict[int, int] = {}
        self._earlier_seeds: dict[int, list[int]] = {}
        self._earlier_configuration = b""
        self._has_written = False
        self._notes: list[str] = []
        self._is_closed = False

    @property
    def run_id(self) -> str:
        """The id that was claimed."""
        return self._the_directory.run_id

    @property
    def launched_s(self) -> float:
        """Monotonic seconds when the session was made."""
        return self._launched_s

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self._the_directory.paths.root

    def has_checkpoint(self) -> bool:
        """Whether the run's folder holds a checkpoint to go on from."""
        return bool(self._the_directory.paths.checkpoint_folders())

    @property
    def settings(self) -> RunSettings:
        """The settings, with the seed and the ports that are used."""
        return self._settings

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about the start: a claimed number, a stale lock, another block of ports."""
        return tuple(self._notes)

    @property
    def _the_directory(self) -> RunDirectory:
        assert self._directory is not None, "start() comes first"
        return self._directory

    def start(self) -> None:
        """Claim the folder and start all parts. Raises TrainingErrors; nothing is left running or locked then."""
        settings = self._settings
        player_target(settings)  # a missing executable or a bad URL is said before anything is touched
        doubts = check_demonstrations(settings)
        to = recording(settings)
        if to is not None:
            to.require_room()
        try:
            self._settings = self._with_free_ports(settings)
            self._directory = claim_run_directory(settings)
            self._notes.extend((*self._directory.notes, *doubts))
            self._launch()
        except BaseException:
            self.close()
            raise

    def _launch(self) -> None:
        directory = self._the_directory
        settings = self._settings = self._with_recorded_seed(directory)
        shutil.rmtree(directory.paths.profile, ignore_errors=True)  # samples of a run that was killed
        folders = directory.paths.checkpoint_folders() if settings.checkpoints.resume else ()
        run_state = self._peek(folders) if folders else {}
        first_incarnation = 1 + max(_incarnations(run_state).values(), default=-1)
        launch = Launch(
            settings=settings,
            run_id=directory.run_id,
            paths=directory.paths,
            launched_s=self._launched_s,
            launched_at=self._launched_at,
            first_incarnation=first_incarnation,
            learner_factory=self._factory,
            resume=() if settings.checkpoints.inference else folders,
            initialize=folders if settings.checkpoints.inference and folders else initial_checkpoints(settings),
            worker_silence_s=self._worker_silence_s,
        )
        self._incarnations = dict.fromkeys(range(settings.environment.num_envs), first_incarnation)
        self._first_incarnation = first_incarnation
        if settings.checkpoints.resume:
            # Seeds of incarnations after the checkpoint are given again: what those players did is forgotten.
            recorded = recorded_player_seeds(directory.paths.configuration)
            self._earlier_seeds = {env_id: seeds[:first_incarnation] for env_id, seeds in recorded.items()}
            self._keep_earlier(directory.paths)
        if not self._earlier_configuration:
            self._write_configuration()
        self._reopen_summary()
        if settings.actor_system == "inline":
            from runtime.actors.inline import InlineSystem  # noqa: PLC0415 - only one of the systems is loaded

            self._system = InlineSystem(make_plan(launch, marker=f"{directory.run_id}-inline"))
            return
        from runtime.actors.system import open_actor_system  # noqa: PLC0415

        handle = open_actor_system(run_id=directory.run_id, log_file=log_file_in(directory.paths.run_logs))
        try:
            self._system = ProcessSystem(handle, make_plan(launch, marker=handle.marker))
        except BaseException:
            handle.close()
            raise

    def _with_recorded_seed(self, directory: RunDirectory) -> RunSettings:
        settings = self._settings
        if not settings.checkpoints.resume or settings.environment.seed_given:
            return settings
        seed = recorded_seed(directory.paths.configuration)
        if seed is None:
            return settings
        return replace(settings, environment=replace(settings.environment, seed=seed))

    def _with_free_ports(self, settings: RunSettings) -> RunSettings:
        """The settings with a base port whose whole block is free; one that was asked for must be."""
        from runtime.players.places import Place  # noqa: PLC0415 - needed for players on sockets only
        from runtime.players.ports import claim_ports, usable_addresses  # noqa: PLC0415

        env = settings.environment
        if player_target(settings).is_in_memory:
            if env.message_bytes_max > 0:
                self._notes.append("--message-bytes-max has no effect on players in memory: it is a limit of sockets")
            return settings
        block = range(env.base_port, env.base_port + env.num_envs)
        if env.is_base_port_fixed or isinstance(env.target, Editor):
            for env_id, port in enumerate(block):
                usable_addresses(env.bind or "", port, Place(env_id))
            self._ports = claim_ports(block, env.bind or "")
            return settings
        base = env.base_port
        while (claim := claim_ports(range(base, base + env.num_envs), env.bind or "")) is None:
            base += env.num_envs
            if base + env.num_envs > PORT_MAX:
                msg = f"no block of {env.num_envs} free ports from {env.base_port} on; give one with --base-port"
                raise PortInUseError(msg)
        self._ports = claim
        if base != env.base_port:
            last = base + env.num_envs - 1
            served = f"port {base}" if last == base else f"ports {base} to {last}"
            self._notes.append(f"port {env.base_port} is busy; players are served from {served}")
        return replace(settings, environment=replace(env, base_port=base))

    def _write_configuration(self) -> None:
        if self._settings.checkpoints.inference and self._settings.checkpoints.resume:
            return  # the file tells how the run was trained
        seed = self._settings.environment.seed
        seeds = dict(self._earlier_seeds)
        for env_id, last in self._incarnations.items():
            new = [player_seed(seed, env_id, each) for each in range(self._first_incarnation, last + 1)]
            seeds[env_id] = [*seeds.get(env_id, []), *new]
        self._has_written = True
        text = to_yaml(self._settings, player_seeds=seeds)
        write_atomically(self._the_directory.paths.configuration, text.encode())

    def poll(self, timeout_s: float = 0.5) -> Status | None:
        """How the run is; None when no answer came in time. A lost system is a status with an exit reason.

        The exit reason stays empty while the run goes on.
        """
        system = self._system
        assert system is not None, "start() comes first"
        status = system.status(timeout_s)
        if status is not None:
            self._heard_s = time.monotonic()
            self._last = status
            self._incarnations.update({each.env_id: max(0, each.incarnation) for each in status.environments})
            if status.first_step_s is not None and not self._has_written:
                # What it goes on from has been restored: only now is the new configuration the run's.
                self._write_last_seeds()
            return status
        cause = system.lost()
        silent_s = time.monotonic() - self._heard_s
        if not cause and silent_s > SILENT_S:
            cause = f"the Supervisor has said nothing for {silent_s:.0f} s"
        return self._lost_status(cause) if cause else None

    def warnings(self) -> tuple[str, ...]:
        """Sentences about what was lost beside the run's parts, and replaced, as heard by `poll`; each one once."""
        return () if self._system is None else self._system.warnings()

    def _lost_status(self, cause: str) -> Status:
        text = f"{cause}; the last save, if there is one, stands for --resume"
        last = self._last or _no_status(self._the_directory.run_id)
        return replace(last, exit_reason="trainer_failure", exit_code=4, cause=text)

    def request_stop(self, reason: str, *, saves: bool = True) -> None:
        """Ask the run to end: `interrupted` or `terminated`. It saves first, within the deadline."""
        if self._system is not None:
            run = self._last.run if self._last is not None else self.run_id
            self._system.request_stop(StopRequest(run=run, reason=reason, saves=saves, deadline_s=STOP_S))

    def close(self, deadline_s: float = 10.0) -> None:
        """End everything that still runs, release the folder. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._system is not None:
                self._system.close(deadline_s)
                self._write_last_seeds()
        finally:
            if self._ports is not None:
                self._ports.release()
            if self._directory is not None:
                self._directory.release()

    def profile(self) -> str:
        """Writes the report on where the time went, after `close`; its table, empty when none was asked for."""
        if not self._settings.profile:
            return ""
        from runtime.profiling import sampler  # noqa: PLC0415 - rarely asked for
        from runtime.profiling.report import write_report  # noqa: PLC0415

        sampler.end()  # where all actors were in this process
        paths = self._the_directory.paths
        try:
            return write_report(paths.profile, paths.run_logs)
        except OSError as error:
            return f"The profile could not be written: {error}. Free some space, or look at {paths.profile}."

    def _keep_earlier(self, paths: RunPaths) -> None:
        """Remember what a run that is refused must leave as it was, and keep the summary of a training."""
        with contextlib.suppress(OSError):
            self._earlier_configuration = paths.configuration.read_bytes()
        if self._settings.checkpoints.inference and not paths.training_summary.exists():
            with contextlib.suppress(OSError):
                write_atomically(paths.training_summary, paths.summary.read_bytes())

    def _reopen_summary(self) -> None:
        """A run that goes on has not ended: what its earlier part wrote must not be taken for this one's end."""
        path = self._the_directory.paths.summary
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return
        write_json_atomically(path, {**document, "exit_reason": None})

    def record_exit(self, reason: str) -> None:
        """Complete summary.json where the TrainerController could not: the reason, and the totals told last."""
        path = self._the_directory.paths.summary
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError):
            document = RunSummary(run_id=self.run_id, seed=self._settings.environment.seed).to_json()
        if document.get("exit_reason") is None:
            elapsed_s = time.monotonic() - self._launched_s
            told = {} if self._last is None else told_totals(document, self._last, elapsed_s)
            write_json_atomically(path, {**document, **told, "exit_reason": reason, "elapsed_s": elapsed_s})

    def _write_last_seeds(self) -> None:
        if self._was_refused():
            return
        try:
            self._write_configuration()
        except StorageError as error:
            self._notes.append(str(error))

    def _was_refused(self) -> bool:
        """Whether a run was to go on with a configuration that does not fit it, and took no step."""
        last = self._last
        is_refused = last is not None and last.exit_code == UsageError.exit_code and last.first_step_s is None
        return is_refused and bool(self._earlier_configuration)


PORT_MAX: Final = 65_535


def _incarnations(run_state: Mapping[str, object]) -> dict[str, int]:
    found = run_state.get("incarnations", {})
    return {str(key): int(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def _no_status(run: str) -> Status:
    return Status(
        run=run,
        env_steps=0,
        agent_steps=0,
        decisions=0,
        lost_steps={},
        unreported_steps_max=0,
        brains=(),
        environments=(),
        worker_restarts={},
        dropped_messages={},
        lines=(),
        first_step_s=None,
    )
