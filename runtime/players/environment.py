"""`UnityEnvironment`: one player, driven synchronously by code of one's own.

It is the same link that EnvWorkers use, on an asyncio loop in a thread of its own. Two manners of driving it live side
by side: that of the seed (`reset` and `step` give `AllBrainInfo`, actions are arguments of `step`), and the newer one
of low-level code for ML-Agents (`behavior_specs`, `get_steps`, `set_actions`, then `step()`).
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np

from runtime.errors import UsageError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo, BrainParameters, EnvId, Incarnation
from runtime.messages import EnvAssignment
from runtime.players.base_env import (
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    DecisionSteps,
    TerminalSteps,
    unknown_behavior,
)
from runtime.players.base_environment import BaseUnityEnvironment
from runtime.players.behavior_views import behavior_spec, steps_of
from runtime.players.channels import SideChannel
from runtime.players.factories import LinkExtras, player_factory
from runtime.players.given_actions import by_brain, keeping, no_actions, rows_fitting, rows_from, with_row
from runtime.players.guards import NonFinite
from runtime.players.links import LinkLimits, PlayerHello, PlayerLink, PlayerReply
from runtime.players.recording import RecordTo
from runtime.players.side_channels import EngineSettings
from runtime.players.versions import GEN1_VERSIONS

__all__ = ["BaseUnityEnvironment", "UnityEnvironment"]

BASE_ENVIRONMENT_PORT = 5005
DEFAULT_EDITOR_PORT = 5004
Result = TypeVar("Result")


class _LoopThread:
    """An asyncio loop in a daemon thread, for callers that wait."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`. An interrupt of the waiting thread cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class UnityEnvironment(BaseUnityEnvironment, BaseEnv):
    """A Unity build, a bundled player (`fake:SCENE`), or, with file_name None, the Editor on port 5004.

    worker_id numbers the environment and is added to base_port. seed goes to the player. timeout_wait bounds, in
    seconds, start-up and each exchange. args (or additional_args): for the player's command line. side_channels: for
    this environment alone. nonfinite: what becomes of NaN and infinities, `refuse` or `zero`. record: a new file for
    every message, which `fake:replay?file=FILE` plays again. Brains of players of communicator 1.x are known after the
    first reset.
    """

    def __init__(
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,  # noqa: FBT001, FBT002 - the seed's signature
        *,
        no_graphics_monitor: bool = False,
        timeout_wait: float = 60.0,
        args: Sequence[str] = (),
        additional_args: Sequence[str] | None = None,
        side_channels: Sequence[SideChannel] | None = None,
        log_folder: str | None = None,
        num_areas: int = 1,
        engine: EngineSettings | None = None,
        bind: str = "",
        nonfinite: NonFinite = "refuse",
        record: str | Path | None = None,
    ) -> None:
        assignment = _assignment(file_name, worker_id, base_port, seed)
        self._worker_id = worker_id
        self._log_folder = log_folder
        self._brains: dict[str, BrainParameters] = {}
        self._watched: dict[str, BrainParameters] = {}
        self._parameters: dict[str, float] = {}
        self._reply: PlayerReply | None = None
        self._set: dict[str, Actions] = {}
        channels = tuple(side_channels or ())
        factory = player_factory(
            file_name,
            engine=engine,
            log_folder=log_folder,
            args=(*args, *(additional_args or ())),
            no_graphics=no_graphics,
            no_graphics_monitor=no_graphics_monitor,
            num_areas=num_areas,
            bind=bind,
            extras=LinkExtras(
                nonfinite=nonfinite,
                watches=True,
                make_channels=lambda _: channels,
                open_tap=None if record is None else _recording(str(record), file_name),
            ),
        )
        limits = LinkLimits(start_timeout_s=timeout_wait, step_timeout_s=timeout_wait)
        self._link: PlayerLink | None = factory.open_link(assignment, limits)
        self._loop = _LoopThread(f"UnityEnvironment {worker_id}")
        atexit.register(self.close)
        try:
            self._hello: PlayerHello = self._loop.run(self._link.start())
        except BaseException:
            self.close()
            raise
        self._brains = {each.brain_name: each for each in self._hello.brains}
        self._watched = {each.brain_name: each for each in self._hello.watched}
        self._parameters = dict(self._hello.reset_parameters or {})

    # ---- what is known of the player

    @property
    def worker_id(self) -> int:
        """The environment's number."""
        return self._worker_id

    @property
    def academy_name(self) -> str:
        """The name that the player gives itself."""
        return self._hello.academy

    @property
    def logfile_path(self) -> str:
        """The player's log file; empty without a log_folder."""
        return "" if self._log_folder is None else str(Path(self._log_folder) / f"Player-{self._worker_id}.log")

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """All brains that the player has announced, by wire name."""
        return MappingProxyType({**self._brains, **self._watched})

    @property
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The brains under our control: all but those that a player of API-8 to API-10 only shows."""
        return MappingProxyType(self._brains)

    @property
    def brain_names(self) -> list[str]:
        """Wire names of all brains."""
        return list(self.brains)

    @property
    def external_brain_names(self) -> list[str]:
        """Wire names of the brains under our control."""
        return list(self._brains)

    @property
    def number_brains(self) -> int:
        """How many brains there are."""
        return len(self.brains)

    @property
    def number_external_brains(self) -> int:
        """How many brains are under our control."""
        return len(self._brains)

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        """The environment parameters that the player announced or was given."""
        return MappingProxyType(self._parameters)

    @property
    def global_done(self) -> bool:
        """True before the first reset, and when a player of API-8 or API-9 has ended all its agents at once."""
        return self._reply is None or self._reply.global_done

    # ---- both manners

    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
        """The first observations after a reset. config: numbers by name, kept for later resets.

        Raises UsageError for values that are no numbers, and for names that a player of API-8 to API-10 did not
        announce; and PlayerErrors.
        """
        for name, value in (config or {}).items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise UsageError(f"environment parameter {name!r} is {value!r}; expected a number.")
            told = self._hello.reset_parameters or {}
            if self._hello.protocol in GEN1_VERSIONS and name not in told:
                raise UsageError(f"environment parameter {name!r} is unknown to the player; it has {sorted(told)}.")
        self._parameters |= {name: float(value) for name, value in (config or {}).items()}
        return self._take(self._opened().reset(dict(self._parameters), train_mode=train_mode))

    def step(
        self, vector_action: Any = None, memory: Any = None, text_action: Any = None, value: Any = None
    ) -> AllBrainInfo:
        """The outcome of one env step.

        vector_action: an array (n, continuous + branches) for the n agents that wait, by brain name, or the array alone
        when there is one brain. A brain left out: the actions set before, else zeros. memory (n, m), text_action (n
        texts) and value (n,), in the same form, go to players of API-8 to API-10; others have no place for them, and
        they are not sent. Without any argument a step before the first reset is a reset. Raises UsageError when
        arguments come before a reset that is due, ShapeError and PlayerErrors.
        """
        link = self._opened()
        if self.global_done and vector_action is not None:
            why = "was stepped before its first reset" if self._reply is None else "has ended all its agents"
            raise UsageError(f"the environment {why}; call reset() first.")
        if self._reply is None:
            return self.reset()
        actions = self._actions(self._reply.infos, vector_action)
        kept = {"memories": memory, "texts": text_action, "values": value}
        if self._hello.protocol in GEN1_VERSIONS and any(each is not None for each in kept.values()):
            given = {field: by_brain(list(actions), each) for field, each in kept.items()}
            actions = {name: keeping(rows, name, given) for name, rows in actions.items()}
        return self._take(link.step(actions))

    def close(self) -> None:
        """Ends the player. A second call does nothing."""
        link, self._link = self._link, None
        if link is None:
            return
        atexit.unregister(self.close)
        self._loop.run(link.close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the newer manner

    @property
    def behavior_specs(self) -> BehaviorMapping:
        """The behaviors under our control that are known so far, by wire name."""
        return MappingProxyType({name: behavior_spec(brain) for name, brain in self._brains.items()})

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """What the agents of a behavior showed since the last step. Raises UsageError for an unknown behavior."""
        brain = self._brain(behavior_name)
        if self._reply is None:
            spec = behavior_spec(brain)
            return DecisionSteps.empty(spec), TerminalSteps.empty(spec)
        return steps_of(brain, self._reply.infos[behavior_name])

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Sets the actions of all agents of a behavior that wait. Raises UsageError for another number or width."""
        self._set[behavior_name] = rows_fitting(self._brain(behavior_name), action, len(self._waiting(behavior_name)))

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Sets the action of one agent. Raises UsageError for an agent that does not wait, or another width."""
        brain, agents = self._brain(behavior_name), self._waiting(behavior_name)
        if agent_id not in agents:
            raise UsageError(f"agent {agent_id} of behavior {behavior_name!r} waits for no action; {agents[:20]} do.")
        rows = self._set.get(behavior_name) or no_actions(brain, len(agents))
        self._set[behavior_name] = with_row(rows, agents.index(agent_id), rows_fitting(brain, action, 1))

    # ---- inside

    def _brain(self, name: str) -> BrainParameters:
        if name not in self._brains:
            raise unknown_behavior(name, self._brains)
        return self._brains[name]

    def _waiting(self, name: str) -> list[int]:
        known = self._brain(name).brain_name
        return [] if self._reply is None else self._reply.infos[known].decisions.agents.tolist()

    def _opened(self) -> PlayerLink:
        if self._link is None:
            raise UsageError("the environment is closed; open a new one.")
        return self._link

    def _take(self, work: Coroutine[Any, Any, PlayerReply]) -> AllBrainInfo:
        reply = self._loop.run(work)
        self._brains |= {each.brain_name: each for each in reply.brains}
        self._reply = reply
        self._set = {}
        return {**reply.infos, **reply.watched}

    def _actions(self, infos: AllBrainInfo, given: Any) -> dict[str, Actions]:
        chosen = by_brain(list(infos), given)
        actions = {}
        for name, info in infos.items():
            brain, count = self._brains[name], len(info.decisions)
            if chosen.get(name) is not None:
                actions[name] = rows_from(brain, count, chosen[name])
            else:
                actions[name] = self._set.get(name) or no_actions(brain, count)
        return actions


def _recording(file: str, file_name: str | None) -> RecordTo:
    """The recording of one player. Raises UsageError for a file that is there already, or for no folder."""
    record_to = RecordTo(file=file, environments=1, first_incarnation=0, target=file_name or "Editor")
    record_to.require_room()
    return record_to


def _assignment(file_name: str | None, worker_id: int, base_port: int | None, seed: int) -> EnvAssignment:
    """The environment's number, port and seed. Raises UsageError for numbers that cannot be."""
    if file_name is None and worker_id != 0:
        raise UsageError(f"worker_id {worker_id} without file_name: the Editor is one environment; use worker_id 0.")
    default_port = DEFAULT_EDITOR_PORT if file_name is None else BASE_ENVIRONMENT_PORT
    port = (default_port if base_port is None else base_port) + worker_id
    if worker_id < 0 or not 0 < port < 1 << 16:
        raise UsageError(f"worker_id {worker_id} on port {port}; expected a number from 0, and a port up to 65535.")
    if not -(1 << 31) <= seed < 1 << 31:
        raise UsageError(f"seed {seed}; expected an integer of 32 bits, which is all that the protocol carries.")
    return EnvAssignment(env_id=EnvId(worker_id), incarnation=Incarnation(0), seed=seed, port=port)
