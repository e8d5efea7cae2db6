"""`UnityEnvironment`: one player, driven synchronously, with the surface of the seed.

It is the same link that EnvWorkers use, on an asyncio loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np

from runtime.errors import UsageError
from runtime.experience.actions import ActionInfo, Actions
from runtime.experience.brains import AllBrainInfo, BrainParameters, EnvId, Incarnation
from runtime.messages import EnvAssignment
from runtime.players.base_environment import BaseUnityEnvironment
from runtime.players.factories import player_factory
from runtime.players.links import LinkLimits, PlayerHello, PlayerLink, PlayerReply
from runtime.players.side_channels import EngineSettings

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


class UnityEnvironment(BaseUnityEnvironment):
    """A Unity build, a bundled player (`fake:SCENE`), or, with file_name None, the Editor on port 5004.

    worker_id numbers the environment and is added to base_port. seed goes to the player. timeout_wait bounds, in
    seconds, start-up and each exchange. args (or additional_args): for the player's command line. A player's brains
    are known after the first reset.
    """

    def __init__(
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,  # noqa: FBT001, FBT002 - the seed's signature
        *,
        timeout_wait: float = 60.0,
        args: Sequence[str] = (),
        additional_args: Sequence[str] = (),
        log_folder: str | None = None,
        engine: EngineSettings | None = None,
        bind: str = "",
    ) -> None:
        if file_name is None and worker_id != 0:
            raise UsageError(
                f"worker_id {worker_id} without file_name: the Editor is one environment; use worker_id 0."
            )
        default_port = DEFAULT_EDITOR_PORT if file_name is None else BASE_ENVIRONMENT_PORT
        port = (default_port if base_port is None else base_port) + worker_id
        if worker_id < 0 or not 0 < port < 1 << 16:
            raise UsageError(f"worker_id {worker_id} on port {port}; expected a number from 0, and a port up to 65535.")
        if not -(1 << 31) <= seed < 1 << 31:
            raise UsageError(f"seed {seed}; expected an integer of 32 bits, which is all that the protocol carries.")
        self._worker_id = worker_id
        self._brains: dict[str, BrainParameters] = {}
        self._parameters: dict[str, float] = {}
        self._infos: AllBrainInfo | None = None
        factory = player_factory(
            file_name,
            engine=engine,
            log_folder=log_folder,
            args=(*args, *additional_args),
            no_graphics=no_graphics,
            bind=bind,
        )
        assignment = EnvAssignment(
            env_id=EnvId(worker_id),
            incarnation=Incarnation(0),
            seed=seed,
            port=port,
        )
        limits = LinkLimits(start_timeout_s=timeout_wait, step_timeout_s=timeout_wait)
        self._link: PlayerLink | None = factory.open_link(assignment, limits)
        self._loop = _LoopThread(f"UnityEnvironment {worker_id}")
        atexit.register(self.close)
        try:
            hello: PlayerHello = self._loop.run(self._link.start())
        except BaseException:
            self.close()
            raise
        self._brains = {each.brain_name: each for each in hello.brains}
        self._parameters = dict(hello.reset_parameters)

    @property
    def worker_id(self) -> int:
        """The environment's number."""
        return self._worker_id

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """All brains that the player has announced, by wire name."""
        return MappingProxyType(self._brains)

    @property
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The brains under our control: in protocol generation 2, all of them."""
        return self.brains

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        """The environment parameters that the player announced or was given."""
        return MappingProxyType(self._parameters)

    @property
    def global_done(self) -> bool:
        """True before the first reset; protocol generation 2 knows no end of all agents at once."""
        return self._infos is None

    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
        """The first observations after a reset. config: numbers by name, kept for later resets.

        Raises UsageError for values that are no numbers, and PlayerErrors.
        """
        for name, value in (config or {}).items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise UsageError(f"environment parameter {name!r} is {value!r}; expected a number.")
        self._parameters |= {name: float(value) for name, value in (config or {}).items()}
        return self._take(self._opened().reset(dict(self._parameters), train_mode=train_mode))

    def step(
        self, vector_action: Any = None, memory: Any = None, text_action: Any = None, value: Any = None
    ) -> AllBrainInfo:
        """The outcome of one env step.

        vector_action: an array (n, continuous + branches) for the n agents that wait, by brain name, or the array alone
        when there is one brain; None or a brain left out: zeros. The protocol carries no memory, text or value: they
        are taken for compatibility and not sent. Raises UsageError before the first reset, ShapeError and PlayerErrors.
        """
        link = self._opened()
        if self._infos is None:
            raise UsageError("the environment was stepped before its first reset; call reset() first.")
        return self._take(link.step(self._actions(self._infos, vector_action)))

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

    def _opened(self) -> PlayerLink:
        if self._link is None:
            raise UsageError("the environment is closed; open a new one.")
        return self._link

    def _take(self, work: Coroutine[Any, Any, PlayerReply]) -> AllBrainInfo:
        reply = self._loop.run(work)
        self._brains |= {each.brain_name: each for each in reply.brains}
        self._infos = reply.infos
        return reply.infos

    def _actions(self, infos: AllBrainInfo, given: Any) -> dict[str, Actions]:
        if given is not None and not isinstance(given, Mapping):
            if len(infos) != 1:
                raise UsageError(f"one action array for {len(infos)} brains; give a mapping from brain name to array.")
            given = {next(iter(infos)): given}
        chosen = dict(given or {})
        unknown = sorted(set(chosen) - set(infos))
        if unknown:
            raise UsageError(f"actions for unknown brains {unknown}; this player has {sorted(infos)}.")
        return {name: self._rows(name, len(info.decisions), chosen.get(name)) for name, info in infos.items()}

    def _rows(self, name: str, count: int, given: Any) -> Actions:
        spec = self._brains[name].action_spec
        width = spec.continuous_size + spec.discrete_size
        if given is None:
            return Actions.from_action_info(ActionInfo(np.zeros((count, width), np.float32)), spec)
        array = np.zeros((count, width), np.float32)
        with contextlib.suppress(ValueError, TypeError):
            array = np.asarray(given, np.float32)
            if array.size == count * width:
                return Actions.from_action_info(ActionInfo(array.reshape(count, width)), spec)
        raise UsageError(
            f"an action of shape {np.shape(given)} for brain {name!r}, where {count} agents wait; "
            f"expected {(count, width)}."
        )
