"""A user's environment object as a player: anything with the seed's `BaseUnityEnvironment` surface.

Its calls block, so they run in a thread of their own. What it returns is checked like what comes over the wire; what it
raises reaches the user with class, text and traceback.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import TypeVar

from runtime.errors import EnvironmentFactoryError, PlayerError, PlayerTimeoutError
from runtime.experience.actions import Actions
from runtime.experience.brains import AllBrainInfo, BrainParameters
from runtime.experience.parameters import ParameterValue, drawn_value
from runtime.messages import EnvAssignment
from runtime.players.base_environment import BaseUnityEnvironment
from runtime.players.links import LinkLimits, PlayerHello, PlayerReply
from runtime.players.object_rows import checked_infos
from runtime.players.places import Place
from runtime.players.replies import require_actions
from runtime.players.threads import BlockingThread, InterruptionError, OverdueError

Result = TypeVar("Result")
EnvFactory = Callable[[int], BaseUnityEnvironment]


class ObjectPlayerLink:
    """A `PlayerLink` to the object that `env_factory(worker_id)` returns."""

    def __init__(self, assignment: EnvAssignment, limits: LinkLimits, env_factory: EnvFactory) -> None:
        self._limits = limits
        self._env_factory = env_factory
        self._place = Place(assignment.env_id, assignment.incarnation)
        self._step = self._resets = 0
        self._thread: BlockingThread | None = None
        self._env: BaseUnityEnvironment | None = None
        self._brains: dict[str, BrainParameters] = {}
        self._waiting: AllBrainInfo = {}

    @property
    def pid(self) -> int:
        """0: whatever the object launched is its own business."""
        return 0

    async def start(self) -> PlayerHello:
        """Makes the object. Raises EnvironmentFactoryError with what it raised, or PlayerTimeoutError."""
        self._thread = BlockingThread(f"environment {self._place.env_id}")
        self._env = await self._call(
            lambda: self._env_factory(self._place.env_id), self._limits.start_timeout_s, "--timeout-wait"
        )
        env = self._env
        parameters, brains = await self._call(
            lambda: (dict(env.reset_parameters), dict(env.external_brains)),
            self._limits.start_timeout_s,
            "--timeout-wait",
        )
        self._brains = self._checked_brains(brains)
        told = parameters or None  # an object without any may take some all the same
        return PlayerHello(pid=0, protocol="object", reset_parameters=told, brains=tuple(self._brains.values()))

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        """Resets the object with these parameters; its first observations. Samplers are drawn from here."""
        env = self._opened()
        config = {name: drawn_value(value, reset=self._resets) for name, value in parameters.items()} or None
        self._resets += 1
        self._step = 0
        return await self._reply(lambda: env.reset(config, train_mode))

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        """One env step; an object that says `global_done` is reset instead, as in the seed."""
        env = self._opened()
        require_actions(actions, self._waiting, self._brains)
        arrays = {name: rows.to_array() for name, rows in actions.items()}
        self._step += 1
        return await self._reply(lambda: _step_or_reset(env, arrays))

    async def close(self) -> None:
        """Closes the object, within the limit. Never raises; a second call does nothing."""
        env, thread = self._env, self._thread
        self._env = self._thread = None
        if thread is None:
            return
        try:
            if env is not None:
                await thread.call(env.close, self._limits.close_timeout_s)
        except Exception:  # noqa: BLE001, S110 - an object that fails while it leaves has left
            pass
        finally:
            thread.stop()

    async def _reply(self, act: Callable[[], AllBrainInfo]) -> PlayerReply:
        env = self._opened()
        infos, brains = await self._call(
            lambda: (act(), dict(env.external_brains)),
            self._limits.step_timeout_s,
            "--step-timeout (or --timeout-wait)",
        )
        known = self._checked_brains(brains)
        reply = PlayerReply(
            infos=checked_infos(infos, known, Place(self._place.env_id, self._place.incarnation, self._step)),
            brains=tuple(brain for name, brain in known.items() if name not in self._brains),
        )
        self._brains, self._waiting = known, reply.infos
        return reply

    async def _call(self, function: Callable[[], Result], limit_s: float, option: str) -> Result:
        if self._thread is None:
            raise self._error(EnvironmentFactoryError, "the environment object is closed")
        try:
            return await self._thread.call(function, limit_s)
        except OverdueError as error:
            text = f"the environment object has not returned for {limit_s:.1f} s; see why, or raise {option}."
            raise self._error(PlayerTimeoutError, text) from error
        except PlayerError as error:
            raise self._error(type(error), str(error)) from error
        except Exception as error:
            raise self._raised(error) from error

    def _opened(self) -> BaseUnityEnvironment:
        if self._env is None:
            raise self._error(EnvironmentFactoryError, "the environment object is closed, or was never opened")
        return self._env

    def _checked_brains(self, brains: Mapping[str, BrainParameters]) -> dict[str, BrainParameters]:
        for name, brain in brains.items():
            if not isinstance(brain, BrainParameters):
                kind = type(brain).__name__
                raise self._error(
                    EnvironmentFactoryError,
                    f"external_brains[{name!r}] is a {kind}; expected runtime.experience.brains.BrainParameters.",
                )
            if name in self._brains and self._brains[name] != brain:
                raise self._error(EnvironmentFactoryError, f"brain {name!r} is redefined; a brain keeps its shapes.")
        return {**self._brains, **brains}

    def _raised(self, error: BaseException) -> PlayerError:
        cause = (error.__cause__ or error) if isinstance(error, InterruptionError) else error
        trace = "".join(traceback.format_exception(cause))
        text = f"the environment object raised {type(cause).__name__}: {cause}\n{trace}"
        return self._error(EnvironmentFactoryError, text)

    def _error(self, kind: type[PlayerError], text: str) -> PlayerError:
        place = self._place
        sentence = f"{place.environment}, env step {self._step}: {text}"
        return kind(sentence, env_id=place.env_id, incarnation=place.incarnation)


def _step_or_reset(env: BaseUnityEnvironment, actions: Mapping[str, object]) -> AllBrainInfo:
    if env.global_done:
        return env.reset()
    nothing = dict.fromkeys(actions)
    return env.step(actions, nothing, nothing, nothing)
