"""Shells of the simulated parts: they carry out effects as the real ones do, with oracles beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from runtime.decisions import effects as fx
from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions, ControllerPhase
from runtime.decisions.policy_holder import From, PolicyHolderCore
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions, status_of
from runtime.messages import StartWorker, Status, StepGrant, StepsTaken
from tests.sim.engine import EngineHost, SimEngine
from tests.sim.learner import SimLearner


class SimHost(EngineHost, Protocol):
    """What carries a simulated part."""

    def reply(self, to: object, message: object) -> None:
        """As `Host.reply`."""

    def spawn(self, role: fx.Role, generation: int) -> None:
        """As `Host.spawn`."""

    def kill(self, role: fx.Role, generation: int) -> None:
        """As `Host.kill`."""

    def in_background(self, thread: str, action: Callable[[], None]) -> None:
        """A job of the part's thread of that name is done some time later, jobs of one thread in order."""


class Shell(Protocol):
    """One simulated part."""

    def begin(self) -> None:
        """Called first."""

    def receive(self, message: object, sender: object) -> None:
        """Called with each message."""

    def timer(self, token: Hashable) -> None:
        """Called when a timer is due."""


def perform_common(host: SimHost, effect: object) -> bool:
    """What every part can do; False for anything else."""
    match effect:
        case fx.Send(to, message):
            host.send(to, message)
        case fx.Reply(to, message):
            host.reply(to, message)
        case fx.SetTimer(token, delay_s):
            host.set_timer(token, delay_s)
        case fx.CancelTimer(token):
            host.cancel_timer(token)
        case fx.Report(level, text):
            host.report(level, text)
        case _:
            return False
    return True


class SupervisorShell:
    """Starts and kills the other parts. is_over: the Supervisor has finished."""

    def __init__(self, host: SimHost, options: SupervisorOptions) -> None:
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
            match effect:
                case fx.SpawnPart(role, generation):
                    self._host.spawn(role, generation)
                case fx.KillPart(role, generation):
                    self._host.kill(role, generation)
                case fx.Finish():
                    self.is_over = True
                case _:
                    assert perform_common(self._host, effect), effect


class HolderShell:
    """Keeps policies."""

    def __init__(self, host: SimHost, run: str) -> None:
        self._host = host
        self.core = PolicyHolderCore(run)

    def begin(self) -> None:
        """Nothing yet."""

    def receive(self, message: object, sender: object) -> None:
        """A policy, or a request for one."""
        for effect in self.core.handle(From(sender, message), self._host.now_s):
            if not isinstance(effect, fx.InstallPolicy):
                assert perform_common(self._host, effect), effect

    def timer(self, token: Hashable) -> None:
        """There are none."""


class WorkerShell:
    """Players start when StartWorker arrives."""

    def __init__(self, host: SimHost) -> None:
        self._host = host
        self.engine: SimEngine | None = None

    def begin(self) -> None:
        """Nothing yet."""

    def receive(self, message: object, sender: object) -> None:
        """Messages before the first StartWorker are lost, as in the real part."""
        if self.engine is not None:
            self.engine.deliver(message)
        elif isinstance(message, StartWorker):
            self.engine = SimEngine(message, self._host)
            self.engine.begin()

    def timer(self, token: Hashable) -> None:
        """A timer of the engine's."""
        assert self.engine is not None
        self.engine.deliver(fx.TimerFired(token))


class ControllerShell:
    """The TrainerController with its learner, and the oracle of its ledger.

    delivered: agent steps of every block that arrived while the run went on, once each, by (env, incarnation, first).
    """

    def __init__(self, host: SimHost, options: ControllerOptions, learner: SimLearner) -> None:
        self._host = host
        self._learner = learner
        self.core = ControllerCore(options)
        self.delivered: dict[tuple[int, int, int], int] = {}
        self.saves: list[dict[str, object]] = []
        self._granted: dict[tuple[int, int], int] = {}
        self._facts: deque[object] = deque()
        self._is_handling = False

    def begin(self) -> None:
        """Set the timers."""
        self._perform_all(self.core.begin())

    def receive(self, message: object, sender: object) -> None:
        """A message from another part."""
        if isinstance(message, StepsTaken) and self.core.state.phase is not ControllerPhase.ENDED:
            for block in message.blocks:
                key = (int(block.env_id), int(block.incarnation))
                self.delivered[*key, block.first_step] = block.agent_steps
                assert block.first_step + block.steps <= self._granted[key], f"{key} took more than it was granted"
        self._feed(message)
        self._check_ledger()

    def timer(self, token: Hashable) -> None:
        """A timer of the machine's."""
        self._feed(fx.TimerFired(token))

    def _check_ledger(self) -> None:
        """Whatever arrived was accepted once, or declared lost once, or is kept for the round's end."""
        state = self.core.state
        counters = state.counters
        held = sum(block.agent_steps for blocks in state.round_blocks.values() for block in blocks)
        lost = sum(counters.lost.values())
        arrived = sum(self.delivered.values())
        assert arrived == counters.agent_steps + held + lost, (
            f"{arrived} agent steps arrived; {counters.agent_steps} were accepted, {held} are kept, {lost} are lost"
        )
        assert counters.unreported_max >= 0

    def _feed(self, fact: object) -> None:
        self._facts.append(fact)
        if self._is_handling:
            return
        self._is_handling = True
        while self._facts:
            self._perform_all(self.core.handle(self._facts.popleft(), self._host.now_s))
        self._is_handling = False

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Send) and isinstance(effect.message, StepGrant):
                self._check_grant(effect.message)
            if not perform_common(self._host, effect):
                self._perform(effect)

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

    def _check_grant(self, message: StepGrant) -> None:
        longest = 2 * self.core.state.options.block_steps_max
        for each in message.grants:
            key = (int(each.env_id), int(each.incarnation))
            self._granted[key] = max(self._granted.get(key, 0), each.until_step)
            assert each.until_step - each.accepted_step <= longest, "a window longer than two blocks"

    def _perform(self, effect: object) -> None:
        learner = self._learner
        match effect:
            case fx.AcceptBlocks(blocks):
                for block in blocks:
                    learner.accept(block)
                self._facts.append(fx.BlocksAccepted(learner.progress()))
            case fx.StartUpdate(behavior):
                finish = learner.begin_update(behavior)
                self._host.in_background("learner", lambda: self._feed(fx.UpdateFinished(finish(), learner.progress())))
            case fx.AddBrain(brain):
                release = learner.add_brain(brain)
                self._facts.append(fx.BrainAdded(brain, release, learner.progress(), 50))
            case fx.WarmUp():
                self._host.in_background("learner", lambda: None)
            case fx.CutTrajectories(env_id):
                learner.cut(env_id)
            case fx.StartSave(run_state, is_final):
                self.saves.append(dict(run_state))
                self._host.in_background("storage", lambda: self._feed(fx.SaveFinished(is_final)))
            case fx.PushStatus():
                self._host.send(fx.SUPERVISOR, self._status())
            case fx.WriteSummary() | fx.Finish():
                pass
            case _:
                raise AssertionError(effect)
