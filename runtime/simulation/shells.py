"""Shells of the simulated parts: they carry out effects as the real ones do, under the eyes of the oracle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from runtime.decisions import effects as fx
from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.policy_holder import From, PolicyHolderCore
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions, status_of
from runtime.learner import PolicyRelease
from runtime.messages import StartWorker, Status
from runtime.simulation.disk import SimDisk
from runtime.simulation.engine import SimEngine
from runtime.simulation.errors import InvariantError
from runtime.simulation.learner import SimLearner
from runtime.simulation.places import Place


class Shell(Protocol):
    """One simulated part."""

    def begin(self) -> None:
        """Called first."""

    def receive(self, message: object, sender: object) -> None:
        """Called with each message."""

    def timer(self, token: Hashable) -> None:
        """Called when a timer is due."""


def perform_common(host: Place, effect: object) -> bool:
    """What every part can do; False for anything else."""
    # In the order of how often they come.
    if isinstance(effect, fx.Send):
        host.send(effect.to, effect.message)
    elif isinstance(effect, fx.SetTimer):
        host.set_timer(effect.token, effect.delay_s)
    elif isinstance(effect, fx.Reply):
        host.reply(effect.to, effect.message)
    elif isinstance(effect, fx.CancelTimer):
        host.cancel_timer(effect.token)
    elif isinstance(effect, fx.Report):
        host.report(effect.level, effect.text)
    else:
        return False
    return True


class SupervisorShell:
    """Starts and kills the other parts. is_over: the Supervisor has finished."""

    def __init__(self, host: Place, options: SupervisorOptions) -> None:
        self._host = host
        self.core = SupervisorCore(options)
        self.is_over = False

    def begin(self) -> None:
        """Start every part."""
        self._perform_all(self.core.begin())

    def receive(self, message: object, sender: object) -> None:
        """A message, or a fact about a part."""
        self._perform_all(self.core.handle(From(sender, message), self._host.now_s))

    def timer(self, token: Hashable) -> None:
        """A timer of the machine's."""
        self.receive(fx.TimerFired(token), None)

    @property
    def status(self) -> Status:
        """What the launcher would be told."""
        return status_of(self.core.state)

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            if self._host.crash_after >= 0:
                self._host.spend_effect()
            if perform_common(self._host, effect):
                continue
            if isinstance(effect, fx.SpawnPart):
                self._host.spawn(effect.role, effect.generation)
            elif isinstance(effect, fx.KillPart):
                self._host.kill(effect.role, effect.generation)
            elif isinstance(effect, fx.Finish):
                self.is_over = True
            else:
                raise InvariantError("EXIT", f"a Supervisor cannot perform {effect}")


class HolderShell:
    """Keeps policies."""

    def __init__(self, host: Place, run: str) -> None:
        self._host = host
        self.core = PolicyHolderCore(run)

    def begin(self) -> None:
        """Nothing yet."""

    def receive(self, message: object, sender: object) -> None:
        """A policy, or a request for one."""
        for effect in self.core.handle(From(sender, message), self._host.now_s):
            if self._host.crash_after >= 0:
                self._host.spend_effect()
            if not isinstance(effect, fx.InstallPolicy) and not perform_common(self._host, effect):
                raise InvariantError("EXIT", f"a PolicyHolder cannot perform {effect}")

    def timer(self, token: Hashable) -> None:
        """There are none."""


class WorkerShell:
    """Players start when StartWorker arrives."""

    def __init__(self, host: Place) -> None:
        self.place = host
        self.engine: SimEngine | None = None

    def begin(self) -> None:
        """Nothing yet."""

    def receive(self, message: object, sender: object) -> None:
        """Messages before the first StartWorker are lost, as in the real part."""
        if self.engine is not None:
            self.engine.deliver(message)
        elif isinstance(message, StartWorker):
            self.engine = SimEngine(message, self.place)
            self.engine.begin()

    def timer(self, token: Hashable) -> None:
        """A timer of the engine's."""
        assert self.engine is not None
        self.engine.deliver(fx.TimerFired(token))


class ControllerShell:
    """The TrainerController with its learner and its storage; the ledger is checked after every event."""

    def __init__(
        self,
        host: Place,
        options: ControllerOptions,
        learner: SimLearner,
        disk: SimDisk,
        *,
        resumed: Mapping[str, object] | None = None,
    ) -> None:
        self._host = host
        self._learner = learner
        self._disk = disk
        self.core = ControllerCore(options, resumed, learner.progress() if resumed is not None else {})
        self._facts: deque[object] = deque()
        self._is_handling = False

    def begin(self) -> None:
        """Set the timers."""
        self._perform_all(self.core.begin())

    def receive(self, message: object, sender: object) -> None:
        """A message from another part."""
        self._feed(message)

    def timer(self, token: Hashable) -> None:
        """A timer of the machine's."""
        self._feed(fx.TimerFired(token))

    def _feed(self, fact: object) -> None:
        self._facts.append(fact)
        if self._is_handling:
            return
        self._is_handling = True
        oracle, core = self._host.world.oracle, self.core
        while self._facts:
            effects = core.handle(self._facts.popleft(), self._host.now_s)
            if core.state.ending is not None and not oracle.grants.has_ended:
                oracle.grants.has_ended = True
                self._host.world.faults.come_thick()
            self._perform_all(effects)
            if not self._facts:
                oracle.ledger(core.state.counters)
        self._is_handling = False

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        host = self._host
        for effect in effects:
            if host.crash_after >= 0:
                host.spend_effect()
            if not perform_common(host, effect):
                self._perform(effect)

    def _perform(self, effect: object) -> None:
        learner, host = self._learner, self._host
        match effect:
            case fx.AcceptBlocks(blocks):
                host.world.oracle.accept(blocks)
                for block in blocks:
                    learner.accept(block)
                self._facts.append(fx.BlocksAccepted(learner.progress(), returns=learner.take_returns()))
            case fx.StartUpdate(behavior):
                took_s = host.world.draws.choose(host.world.scenario.update_s)
                host.in_background("learner", took_s, self._updated, learner.begin_update(behavior))
            case fx.AddBrain(brain):
                release = learner.add_brain(brain)
                interval = host.world.scenario.checkpoint_interval
                self._facts.append(fx.BrainAdded(brain, release, learner.progress(), interval))
            case fx.CutTrajectories(env_id):
                learner.cut(env_id)
            case fx.StartSave(run_state, is_final):
                self._save(run_state, is_final=is_final)
            case fx.PushStatus():
                host.send(fx.SUPERVISOR, self._status())
            case fx.WriteSummary() | fx.Finish() | fx.WarmUp():
                pass
            case _:
                raise InvariantError("EXIT", f"a TrainerController cannot perform {effect}")

    def _updated(self, finish: Callable[[], PolicyRelease], _: object) -> None:
        self._feed(fx.UpdateFinished(finish(), self._learner.progress()))

    def _save(self, run_state: Mapping[str, object], *, is_final: bool) -> None:
        world = self._host.world
        world.oracle.saved(run_state, self.core.state.counters, self._learner.steps, is_final=is_final)
        self._disk.begin(run_state, self._learner.snapshot())
        took_s = self._disk.took_s(world.draws, world.scenario.save_s)
        self._host.in_background("storage", took_s, self._saved, is_final)

    def _saved(self, is_final: bool, _: object) -> None:  # noqa: FBT001 - what the job was given
        self._feed(fx.SaveFinished(is_final, self._disk.end(self._host.world.draws)))

    def _status(self) -> Status:
        counters = self.core.state.counters
        return Status(
            run=self.core.state.options.run,
            env_steps=counters.env_steps,
            agent_steps=counters.agent_steps,
            decisions=counters.decisions,
            lost_steps=dict(counters.lost),
            unreported_steps_max=counters.unreported_max,
            brains=(),
            environments=(),
            worker_restarts={},
            dropped_messages=dict(counters.dropped),
            lines=(),
            first_step_s=None,
        )
