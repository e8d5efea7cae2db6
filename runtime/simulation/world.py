"""One simulated run: parts as processes that start, send, die and are started again, over the scheduler's links."""

from __future__ import annotations

from runtime.decisions import effects as fx
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.ledger import Counters
from runtime.decisions.supervisor import SupervisorOptions
from runtime.experience.brains import EnvId
from runtime.messages import StartWorker, StopRequest
from runtime.simulation.disk import Generation, SimDisk
from runtime.simulation.draws import Draws
from runtime.simulation.engine import Cells, Seat
from runtime.simulation.errors import CrashError, InvariantError
from runtime.simulation.faults import FaultMaker
from runtime.simulation.learner import SimLearner
from runtime.simulation.oracle import Oracle
from runtime.simulation.places import Place
from runtime.simulation.resuming import check_incarnations, check_restored, counters_of, lessons_of
from runtime.simulation.scenarios import RUN, Scenario
from runtime.simulation.scheduler import Endpoint, Link, Scheduler, TraceEntry
from runtime.simulation.shells import ControllerShell, HolderShell, Shell, SupervisorShell, WorkerShell

# Beyond the last fault: this is what LIVE means here.
LIVE_EVENTS_MAX = 6_000
LIVE_S_MAX = 400.0
STOP_DEADLINE_S = 20.0
# How long a process takes to see that its parent is gone.
BEREAVED_S = (0.0005, 0.05, 1.0)


class World:
    """One run under one seed. lines: what the operator is told. died: whether any process was lost.

    resumed: the generation that this run goes on from; its learner must have been restored from it.
    """

    def __init__(
        self, scenario: Scenario, draws: Draws, learner: SimLearner, disk: SimDisk, *, resumed: Generation | None = None
    ) -> None:
        self.scenario = scenario
        self.draws = draws
        self.learner = learner
        self.disk = disk
        self.resumed = resumed
        self.cells: Cells | None = None
        self.scheduler = Scheduler(draws, strategy=scenario.strategy, deviation=scenario.deviation, seed=scenario.seed)
        versions = {name: each.version for name, each in learner.behaviors.items()}
        base = Counters() if resumed is None else counters_of(resumed)
        lessons = {} if resumed is None else lessons_of(resumed)
        self.oracle = Oracle(scenario, base, versions, learner.steps, lessons)
        self.faults = FaultMaker(self)
        self.seats: list[Seat] = []
        self.lines: list[str] = []
        self.died = False
        self.is_launcher_gone = False
        self.is_supervisor_gone = False
        self.children: dict[fx.Role, tuple[int, Place | None]] = {}
        self.engines: list[WorkerShell] = []
        self.places: list[Place] = []
        self.controller: ControllerShell | None = None
        self.supervisor: SupervisorShell
        self.top = Place(self, fx.SUPERVISOR, 0)
        self.places.append(self.top)
        self._watch = Endpoint("watch")
        self._launcher = Endpoint("launcher")
        self.stop_asked = False

    @property
    def trace(self) -> list[TraceEntry]:
        """Everything that happened, in order."""
        return self.scheduler.trace

    @property
    def is_over(self) -> bool:
        """True when the run has ended, or everything was killed."""
        if self.is_supervisor_gone:
            return not self.children
        return self.supervisor.is_over or self.is_launcher_gone

    def run(self) -> None:
        """Run to the end. Raises InvariantError."""
        scheduler, draws, faults = self.scheduler, self.draws, self.faults
        self._begin()
        safety, stop_event = self.scenario.safety_events, self.scenario.stop_event
        is_safe, deadline_s = True, 0.0
        while not self.is_over:
            value = draws.take()
            try:
                if is_safe:
                    if value < faults.share and faults.left:
                        faults.happen(value)
                        continue
                    if faults.share and faults.left and value <= 1.0:
                        value = (value - faults.share) / (1.0 - faults.share)
                if not scheduler.step(value):
                    raise InvariantError("LIVE", "nothing can happen any more, and the run is not over")
            except CrashError:
                self.faults.crashed()
            if stop_event and scheduler.events >= stop_event:
                stop_event = 0
                self.ask_to_stop()
            if is_safe and scheduler.events >= safety:
                is_safe, deadline_s = False, scheduler.now_s + LIVE_S_MAX
                self._calm_down()
            elif not is_safe and (scheduler.events > safety + LIVE_EVENTS_MAX or scheduler.now_s > deadline_s):
                raise InvariantError("LIVE", "no fault happens any more, and the run goes on and on")

    def _begin(self) -> None:
        if self.scenario.crash_kind == "supervisor":
            self.faults.arm(self.top, self.scenario.crash_effect)
        try:
            self.top.shell.begin()
        except CrashError:
            self.faults.crashed()

    def forget(self) -> None:
        """Take this run apart when nobody looks at it any more: what refers to itself in circles is not freed alone."""
        for place in self.places:
            place.forget()
        self.scheduler.forget()
        self.oracle.forget()
        vars(self).clear()

    def _calm_down(self) -> None:
        self.scheduler.heal()
        if self.scenario.is_lossy and self.faults.dropped:
            # Nobody sends again what the transport lost; but a run can always be ended.
            self.ask_to_stop()

    def ask_to_stop(self) -> None:
        """The launcher asks the run to end."""
        self.stop_asked = True
        stop = StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=STOP_DEADLINE_S)
        link = self.scheduler.link(self._launcher, self.top)
        self.scheduler.send(link, (self._tell_top, stop, None, False))

    def _tell_top(self, message: object, _: object) -> None:
        if self.top.is_alive:
            self.top.shell.receive(message, None)

    # ---- parts

    def shell_of(self, place: Place) -> Shell:
        """The shell of a new part."""
        scenario, role = self.scenario, place.role
        if role == fx.SUPERVISOR:
            self.supervisor = SupervisorShell(place, supervisor_options(scenario, self.first_incarnation))
            return self.supervisor
        if role == fx.CONTROLLER:
            resumed = None if self.resumed is None else self.resumed.run_state
            options = controller_options(scenario, self.first_incarnation)
            self.controller = ControllerShell(place, options, self.learner, self.disk, resumed=resumed)
            if self.resumed is not None:
                check_restored(self.controller.core.state, self.resumed)
                check_incarnations(self.resumed, self.first_incarnation)
            return self.controller
        if role == fx.HOLDER:
            return HolderShell(place, RUN)
        shell = WorkerShell(place)
        self.engines.append(shell)
        return shell

    @property
    def first_incarnation(self) -> int:
        """Of all players: above every one that the save knows, as the session computes it."""
        if self.resumed is None:
            return 0
        incarnations = self.resumed.run_state["incarnations"]
        assert isinstance(incarnations, dict)
        return 1 + max((int(each) for each in incarnations.values()), default=-1)

    def seated(self, place: Place, seat: Seat) -> None:
        """A worker is told to open a player."""
        key = (seat.player.env_id, seat.player.incarnation)
        if key in self.oracle.players:
            raise InvariantError("ID", f"{key} is opened twice")
        self.oracle.players[key] = seat.player
        self.seats.append(seat)

    def claimed(self, seat: Seat) -> None:
        """A player is launched, on the port of its environment."""
        for other in self.seats:
            if other is not seat and other.player.env_id == seat.player.env_id and other.player.is_alive:
                raise InvariantError("OWNER", f"{seat.end.name} is launched while {other.end.name} lives")

    def spawn(self, role: fx.Role, generation: int) -> None:
        """Start a part; its process takes a moment to come up."""
        self.children[role] = (generation, None)
        self.top.addresses.pop(role, None)
        self.oracle.restarts.spawned(str(role), generation, self.scheduler.now_s)
        self.scheduler.at(self.draws.choose(self.scenario.start_s), self._start, role, generation)

    def _start(self, role: fx.Role, generation: int) -> None:
        if self.children.get(role) != (generation, None):
            return
        if not self.top.is_alive:
            del self.children[role]  # a process that comes up and finds its parent gone ends at once
            return
        place = Place(self, role, generation)
        self.children[role] = (generation, place)
        self.places.append(place)
        if role.kind == self.scenario.crash_kind and not generation and not role.number:
            self.faults.arm(place, self.scenario.crash_effect)
        place.addresses[fx.SUPERVISOR] = self.top
        self.scheduler.note(place.name, "starts")
        self.scheduler.send(self.scheduler.link(place, self.top), (self._greeted, place, None, False))
        place.shell.begin()

    def end_part(self, role: fx.Role, generation: int) -> None:
        """The Supervisor ends a part that it takes for hung."""
        if not self.faults.hides_parts:
            raise InvariantError("ISOLATE", f"{role} is ended although nothing kept it from being heard")
        self.kill(role, generation, "it was killed")

    def kill(self, role: fx.Role, generation: int, cause: str) -> None:
        """SIGKILL: what it sent may arrive in part, what it did not read is gone, its players go with it."""
        held = self.children.get(role)
        if held is None or held[0] != generation or held[1] is None or not held[1].is_alive:
            return
        place = held[1]
        place.is_alive, self.died = False, True
        self.scheduler.note(place.name, "dies")
        self._cut_links(place)
        for seat in place.seats:
            seat.player.is_alive = False
        if place.shell is self.controller:
            self.disk.crash(self.draws)
        link = self.scheduler.link(self._watch, self.top)
        self.scheduler.send(link, (self._exited, place, cause, False))

    def lose_supervisor(self) -> None:
        """The Supervisor dies; each of its children sees that a little later, and ends. What starts now never runs."""
        if not self.top.is_alive:
            return
        self.top.is_alive, self.died, self.is_supervisor_gone = False, True, True
        self.scheduler.note(self.top.name, "dies")
        self._cut_links(self.top)
        for _, place in self.children.values():
            if place is not None:
                self.scheduler.at(self.draws.choose(BEREAVED_S), self._bereaved, place)

    def _bereaved(self, place: Place, _: object) -> None:
        self.kill(place.role, place.generation, "its parent is gone")
        self.children.pop(place.role, None)

    def lose_player(self, seat: Seat, place: Place) -> None:
        """A player dies; its worker learns of it when the connection breaks."""
        seat.player.is_alive, self.died = False, True
        self._cut_links(seat.end)
        self.scheduler.note(seat.end.name, "dies")
        shell = place.shell
        if isinstance(shell, WorkerShell) and shell.engine is not None:
            link = self.scheduler.link(seat.end, place)
            self.scheduler.send(link, (self._broken, (place, seat), None, False))

    @staticmethod
    def _broken(what: tuple[Place, Seat], _: object) -> None:
        place, seat = what
        if place.is_alive and isinstance(place.shell, WorkerShell) and place.shell.engine is not None:
            place.shell.engine.lose(seat)

    def _cut_links(self, gone: Endpoint) -> None:
        for link in gone.incoming:
            self.scheduler.cut(link, 0)
        for link in gone.outgoing.values():
            self.scheduler.cut(link, self._kept(link))

    def _kept(self, link: Link) -> int:
        """How much of what a process sent before it died still arrives: all of it, ordinarily."""
        count = len(link.queue)
        if not count:
            return 0
        value = self.draws.take()
        kept = count if value > 1.0 else int(value * (count + 1))
        if kept < count:
            self.draws.deviate()
        return kept

    def _exited(self, place: Place, cause: str) -> None:
        held = self.children.get(place.role)
        if not self.top.is_alive or held is None or held[0] != place.generation:
            return
        del self.children[place.role]
        self.top.addresses.pop(place.role, None)
        self.top.shell.receive(fx.PartExited(place.role, place.generation, cause), None)

    def _greeted(self, place: Place, _: object) -> None:
        held = self.children.get(place.role)
        if not self.top.is_alive or held is None or held[1] is not place:
            return
        self.top.introduced(place.role, place)
        for role, known in list(self.top.addresses.items()):
            introduced = dict(self.top.addresses) if role == place.role else {place.role: place}
            link = self.scheduler.link(self.top, known)
            self.scheduler.send(link, (self._introduce, known, introduced, False))
        self.top.shell.receive(fx.PartReady(place.role, place.generation, 1), None)

    @staticmethod
    def _introduce(to: Place, addresses: dict[fx.Role, Place]) -> None:
        if to.is_alive:
            for role, address in addresses.items():
                to.introduced(role, address)


def supervisor_options(scenario: Scenario, first_incarnation: int) -> SupervisorOptions:
    """Environments are numbered over the workers."""
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
            start_timeout_s=2 * scenario.step_timeout_s,
            step_timeout_s=scenario.step_timeout_s,
            block_steps_max=scenario.block_steps_max,
        ),
        ports={},
        limits=scenario.limits,
        first_incarnation=first_incarnation,
        silence_s=scenario.silence_s,
    )


def controller_options(scenario: Scenario, first_incarnation: int) -> ControllerOptions:
    """What the scenario asks of its controller."""
    return ControllerOptions(
        run=RUN,
        environments=scenario.environments,
        is_sync=scenario.is_sync,
        block_steps_max=scenario.block_steps_max,
        restart_envs_at=scenario.restart_envs_at or None,
        stop_at=scenario.stop_at or None,
        idle_steps=40,
        lessons=scenario.lessons,
        resampling_interval=scenario.resampling_interval or None,
        first_incarnation=first_incarnation,
    )
