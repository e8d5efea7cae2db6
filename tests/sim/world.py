"""One simulated run: parts as processes that start, send, die and are started again, over the scheduler's links."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Hashable

from runtime.decisions import effects as fx
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.supervisor import SupervisorOptions
from runtime.experience.brains import EnvId
from runtime.messages import EnvAssignment, RestartPlayersRequest, StartWorker, StopRequest
from tests.sim.learner import SimLearner
from tests.sim.player import Counts, SimPlayer
from tests.sim.scenarios import Fault, Scenario
from tests.sim.scheduler import Scheduler
from tests.sim.shells import ControllerShell, HolderShell, Shell, SupervisorShell, WorkerShell

RUN = "sim"
EVENTS_MAX = 60_000
STEP_TIMEOUT_S = 5.0
START_TIMEOUT_S = 10.0
UNIQUE = (StartWorker, RestartPlayersRequest)


class Place:
    """The process of one part: a host for its shell, with addresses, timers and players of its own."""

    def __init__(self, world: SimRun, role: fx.Role, generation: int) -> None:
        self.world = world
        self.role = role
        self.generation = generation
        self.name = f"{role} #{generation}"
        self.is_alive = True
        self.is_frozen = False
        self.shell: Shell = world.shell_of(self)
        self.addresses: dict[fx.Role, Place] = {}
        self.players: list[SimPlayer] = []
        self._waiting: dict[fx.Role, list[object]] = {}
        self._timers: dict[Hashable, int] = {}
        self._numbers = 0
        self._free_at: dict[str, float] = {}

    @property
    def now_s(self) -> float:
        """Virtual seconds."""
        return self.world.scheduler.now_s

    def send(self, to: fx.Role, message: object) -> None:
        """To the address that this part knows, or kept until it knows one."""
        address = self.addresses.get(to)
        if address is None:
            self._waiting.setdefault(to, []).append(message)
        else:
            self.world.transmit(self, address, message)

    def reply(self, to: object, message: object) -> None:
        """To whoever sent a message before."""
        assert isinstance(to, Place)
        self.world.transmit(self, to, message)

    def introduced(self, role: fx.Role, address: Place) -> None:
        """Another part has started."""
        self.addresses[role] = address
        for message in self._waiting.pop(role, []):
            self.world.transmit(self, address, message)

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """Only the newest timer of a token counts."""
        self._numbers += 1
        number = self._timers[token] = self._numbers

        def fire() -> None:
            if self._timers.get(token) == number:
                del self._timers[token]
                self.shell.timer(token)

        self.after(delay_s, f"{self.name}: timer {token}", fire)

    def cancel_timer(self, token: Hashable) -> None:
        """Forget a timer."""
        self._timers.pop(token, None)

    def after(self, delay_s: float, label: str, action: Callable[[], None]) -> None:
        """Something that this process does later, if it is there."""
        self.world.scheduler.after(delay_s, label, self._if_able(action))

    def in_background(self, thread: str, action: Callable[[], None]) -> None:
        """A job of a thread: it ends when those before it have ended, and some time more."""
        took_s = self.world.rng.choice((0.0, 0.01, 0.5))
        done_s = self._free_at[thread] = max(self._free_at.get(thread, 0.0), self.now_s) + took_s
        self.after(done_s - self.now_s, f"{self.name}: job of {thread}", action)

    def report(self, level: str, text: str) -> None:
        """Into the run's lines."""
        self.world.lines.append(f"{level}: {text}")

    def spawn(self, role: fx.Role, generation: int) -> None:
        """Start a part."""
        self.world.spawn(role, generation)

    def kill(self, role: fx.Role, generation: int) -> None:
        """Kill a part."""
        self.world.kill(role, generation, "it was killed")

    def player(self, assignment: EnvAssignment) -> SimPlayer:
        """A new player of this worker."""
        player = SimPlayer(assignment.env_id, assignment.incarnation, assignment.seed, self.world.scenario.scene)
        self.players.append(player)
        self.world.players.append(player)
        return player

    def to_player(self, player: SimPlayer, label: str, action: Callable[[], None]) -> None:
        """On the link to the player."""
        self.world.scheduler.send((self.name, player_name(player)), label, action)

    def from_player(self, player: SimPlayer, label: str, action: Callable[[], None]) -> None:
        """On the link from the player."""
        self.world.scheduler.send((player_name(player), self.name), label, self._if_able(action))

    def _if_able(self, action: Callable[[], None]) -> Callable[[], None]:
        return lambda: action() if self.is_alive and not self.is_frozen else None


def player_name(player: SimPlayer) -> str:
    """A player's end of its links."""
    return f"player {player.env_id}.{player.incarnation}"


class SimRun:
    """One run under one seed. lines: what the operator is told. died: whether any process was lost."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        seed = scenario.seed if scenario.schedule_seed is None else scenario.schedule_seed
        self.rng = random.Random(f"schedule {seed}")
        self.scheduler = Scheduler(self.rng, jump_share=scenario.jump_share)
        self.learner = SimLearner(scenario.sizes)
        self.players: list[SimPlayer] = []
        self.lines: list[str] = []
        self.died = False
        self._faults = list(scenario.faults)
        self._children: dict[fx.Role, tuple[int, Place | None]] = {}
        self.supervisor = SupervisorShell.__new__(SupervisorShell)
        self._top = Place(self, fx.SUPERVISOR, 0)
        self.controller: ControllerShell | None = None

    # ---- running

    def run(self) -> SimRun:
        """Run to the end; AssertionError when an oracle objects or no end is reached."""
        self._top.shell.begin()
        while not self.supervisor.is_over:
            self._do_faults()
            assert self.scheduler.step(), "nothing can happen any more, and the run is not over"
            assert self.scheduler.events < EVENTS_MAX, "the run goes on and on"
        return self

    @property
    def counts(self) -> Counts:
        """What all players counted."""
        total = Counts()
        for each in self.players:
            total.add(each.counts)
        return total

    @property
    def untold_restarts(self) -> int:
        """News of losses that the controller has not read, or read after its end."""
        assert self.controller is not None
        dropped = self.controller.core.state.counters.dropped
        unread = self.scheduler.waiting((self._top.name, f"{fx.CONTROLLER} #0"))
        return unread + dropped.get("StartPlayer", 0) + dropped.get("WorkerFailed", 0)

    @property
    def has_begun(self) -> bool:
        """False when the run ended before its controller had said anything."""
        return self.supervisor.core.state.latest is not None

    @property
    def is_exact(self) -> bool:
        """True when no process was lost, and no step under way was given up."""
        restarts = self.scenario.restart_envs_at is not None and not self.scenario.is_sync
        return not (self.died or restarts or self.gave_up)

    @property
    def gave_up(self) -> int:
        """Steps under way that were given up at the end."""
        places = [place for _, place in self._children.values() if place is not None]
        engines = [place.shell.engine for place in places if isinstance(place.shell, WorkerShell)]
        return sum(each.gave_up for each in engines if each is not None)

    # ---- parts

    def shell_of(self, place: Place) -> Shell:
        """The shell of a new part."""
        scenario, role = self.scenario, place.role
        if role == fx.SUPERVISOR:
            self.supervisor = SupervisorShell(place, supervisor_options(scenario))
            return self.supervisor
        if role == fx.CONTROLLER:
            self.controller = ControllerShell(place, controller_options(scenario), self.learner)
            return self.controller
        return HolderShell(place, RUN) if role == fx.HOLDER else WorkerShell(place)

    def spawn(self, role: fx.Role, generation: int) -> None:
        """Start a part; its process takes a moment to come up."""
        self._children[role] = (generation, None)
        self._top.addresses.pop(role, None)

        def start() -> None:
            if self._children.get(role) != (generation, None):
                return
            place = Place(self, role, generation)
            self._children[role] = (generation, place)
            place.addresses[fx.SUPERVISOR] = self._top
            self.scheduler.send((place.name, self._top.name), "hello", lambda: self._greeted(place))
            place.shell.begin()

        self.scheduler.after(self.rng.choice((0.0, 0.1, 1.0)), f"start {role} #{generation}", start)

    def kill(self, role: fx.Role, generation: int, cause: str) -> None:
        """SIGKILL: what it sent may arrive in part, what it did not read is gone, its players go with it."""
        held = self._children.get(role)
        if held is None or held[0] != generation or held[1] is None or not held[1].is_alive:
            return
        place = held[1]
        place.is_alive, self.died = False, True
        for link in self.scheduler.links_of(place.name):
            kept = self.rng.randint(0, self.scheduler.waiting(link)) if link[0] == place.name else 0
            self.scheduler.cut(link, kept)
        for player in place.players:
            player.is_alive = False
        self.scheduler.send((f"watch of {place.name}", self._top.name), "exited", lambda: self._exited(place, cause))

    def _exited(self, place: Place, cause: str) -> None:
        held = self._children.get(place.role)
        if held is None or held[0] != place.generation:
            return
        del self._children[place.role]
        self._top.addresses.pop(place.role, None)
        self._top.shell.receive(fx.PartExited(place.role, place.generation, cause), None)

    def _greeted(self, place: Place) -> None:
        held = self._children.get(place.role)
        if held is None or held[1] is not place:
            return
        self._top.introduced(place.role, place)
        for role, known in list(self._top.addresses.items()):
            if role == place.role:
                everybody = dict(self._top.addresses)
                self._introduce(known, everybody)
            else:
                self._introduce(known, {place.role: place})
        self._top.shell.receive(fx.PartReady(place.role, place.generation, 1), None)

    def _introduce(self, to: Place, addresses: dict[fx.Role, Place]) -> None:
        def introduce() -> None:
            for role, address in addresses.items():
                to.introduced(role, address)

        self.scheduler.send((self._top.name, to.name), "introduction", introduce)

    # ---- messages

    def transmit(self, source: Place, target: Place, message: object) -> None:
        """One message on the link between two processes; lost when the target is gone."""
        if not target.is_alive:
            return
        label = type(message).__name__
        link = (source.name, target.name)

        def deliver() -> None:
            if not target.is_alive or target.is_frozen:
                return
            target.shell.receive(message, source)
            if self.rng.random() < self.scenario.duplicates and not isinstance(message, UNIQUE):
                if self.rng.random() < 0.5:
                    target.shell.receive(message, source)
                else:
                    self.scheduler.send(link, f"{label} again", lambda: target.shell.receive(message, source))

        self.scheduler.send(link, label, deliver)

    # ---- faults

    def _do_faults(self) -> None:
        while self._faults and self._faults[0].at <= self.scheduler.events:
            self._do(self._faults.pop(0))
        if self.scheduler.events == self.scenario.stop_at_event != 0:
            stop = StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=20.0)
            self.scheduler.send(("launcher", self._top.name), "stop", lambda: self._top.shell.receive(stop, None))

    def _do(self, fault: Fault) -> None:
        if fault.kind == "clog":
            links = self.scheduler.busy_links()
            if links:
                self.scheduler.clog(self.rng.choice(links), self.rng.uniform(0.1, 1.0))
        elif fault.kind in {"player", "hang"}:
            players = [each for each in self.players if each.is_alive]
            if players:
                self._lose(self.rng.choice(players), hangs=fault.kind == "hang")
        else:
            self._lose_part(fault)

    def _lose_part(self, fault: Fault) -> None:
        kind = fault.kind if fault.kind in {"holder", "controller"} else "worker"
        alive = [
            place
            for _, place in self._children.values()
            if place is not None and place.is_alive and not place.is_frozen and place.role.kind == kind
        ]
        if not alive:
            return
        place = self.rng.choice(alive)
        if fault.kind == "freeze":
            place.is_frozen, self.died = True, True
        else:
            self.kill(place.role, place.generation, "it crashed")

    def _lose(self, player: SimPlayer, *, hangs: bool) -> None:
        """A player dies, or never answers again."""
        self.died = True
        if hangs:
            player.hangs = True
            return
        player.is_alive = False
        name = player_name(player)
        for link in self.scheduler.links_of(name):
            kept = self.rng.randint(0, self.scheduler.waiting(link)) if link[0] == name else 0
            self.scheduler.cut(link, kept)
        for _, place in self._children.values():
            if place is not None and player in place.players and isinstance(place.shell, WorkerShell):
                engine = place.shell.engine
                if engine is not None:
                    place.from_player(player, "connection broken", functools.partial(engine.lose, player))


def supervisor_options(scenario: Scenario) -> SupervisorOptions:
    """Environments are numbered over the workers; nothing limits restarts."""
    numbers = iter(range(scenario.environments))
    return SupervisorOptions(
        run=RUN,
        worker_envs=tuple(tuple(EnvId(next(numbers)) for _ in range(count)) for count in scenario.worker_envs),
        template=StartWorker(
            run=RUN,
            worker=0,
            environments=(),
            env_factory=b"",
            run_seed=7,
            start_timeout_s=START_TIMEOUT_S,
            step_timeout_s=STEP_TIMEOUT_S,
            block_steps_max=scenario.block_steps_max,
        ),
        ports={},
        limits=scenario.limits,
    )


def controller_options(scenario: Scenario) -> ControllerOptions:
    """What the scenario asks of its controller."""
    return ControllerOptions(
        run=RUN,
        environments=scenario.environments,
        is_sync=scenario.is_sync,
        block_steps_max=scenario.block_steps_max,
        restart_envs_at=scenario.restart_envs_at,
        idle_steps=40,
    )
