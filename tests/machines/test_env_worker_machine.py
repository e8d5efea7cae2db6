"""The EnvWorker through any history, legal or not: one exchange per player, no step beyond credit, no wait alone."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime.decisions import effects as fx
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.env_worker_state import TRANSITIONS, Phase
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import EnvGrant, HolderRestarted, PlayerLost, PolicyUpdate, ResetRequest, StartPlayer, Stopped
from tests.support import builders_messages as make
from tests.support.builders_messages import OTHER_RUN, RUN, WALKER, assignment, brain, env_grant, policy, reset_request
from tests.support.player_model import Player

ENVS = (0, 1)
NAMES = (WALKER, "Late")

envs = st.sampled_from((*ENVS, 7))
shifts = st.sampled_from((0, 0, 0, 0, -1, 1))
versions = st.integers(0, 4)


class EnvWorkerMachine(RuleBasedStateMachine):
    """Drives a worker of two environments; `players`, `granted` and `dropped` are the model."""

    def __init__(self) -> None:
        super().__init__()
        self.core = EnvWorkerCore(make.start_worker(assignment(each) for each in ENVS), pid=1)
        self.players = {each: Player() for each in ENVS}
        self.granted: dict[str, int] = {}
        self.installed: dict[str, list[int]] = {}
        self.timers: set[Hashable] = set()
        self.dropped = 0
        self.finished = 0
        self.is_stopping = False
        self.now_s = 0.0
        self.perform(self.core.begin())

    # ---- handing over

    def take(self, message: object) -> bool:
        """Hand a message over; False when it was refused, which must leave the state as it was."""
        if not isinstance(message, fx.PlayerReplied | fx.PlayerStepped):
            for player in self.players.values():
                player.own = 0
        before = self.core.state
        try:
            effects = self.core.handle(message, self.now_s)
        except ActorProtocolError:
            assert self.core.state is before
            return False
        self.perform(effects)
        return True

    def perform(self, effects: tuple[object, ...]) -> None:
        """What the shell would do, in the model."""
        for effect in effects:
            match effect:
                case fx.StepPlayer(env_id, incarnation, step, chosen, own=own):
                    self.begin_step(self.players[env_id], incarnation, step, dict(chosen))
                    self.may_go_on(self.players[env_id], own)
                case fx.ResetPlayer(env_id, incarnation, reset_id):
                    player = self.players[env_id]
                    self.begin(player, "reset", incarnation)
                    assert reset_id > player.reset_id
                    player.reset_id = reset_id
                case fx.OpenPlayer(new):
                    self.players[new.env_id] = Player(incarnation=new.incarnation)
                case fx.ClosePlayer(env_id, incarnation):
                    assert self.players[env_id].incarnation == incarnation
                    self.players[env_id].in_flight = ""
                case fx.SendBlocks(env_ids):
                    for env_id in env_ids:
                        assert self.players[env_id].open_steps > 0, "a block without steps was sent"
                        self.players[env_id].open_steps = 0
                case fx.SetTimer(token):
                    self.timers.add(token)
                case fx.CancelTimer(token):
                    self.timers.discard(token)
                case fx.Send(fx.CONTROLLER, PlayerLost() as lost):
                    player = self.players[lost.env_id]
                    assert not player.is_lost_told, "a loss was told twice"
                    assert not player.open_steps, "a loss was told before the steps that were taken"
                    player.is_lost_told = True
                case fx.Send(fx.CONTROLLER, Stopped()):
                    self.finished += 1
                case _:
                    pass

    def begin(self, player: Player, what: str, incarnation: int) -> None:
        """An exchange begins; never while another is in flight."""
        assert not player.in_flight, f"a {what} was begun while a {player.in_flight} was in flight"
        assert player.incarnation == incarnation
        player.in_flight = what

    def begin_step(self, player: Player, incarnation: int, step: int, chosen: dict[str, int]) -> None:
        """A step begins: within its credit, with the versions granted, which never fall."""
        self.begin(player, "step", incarnation)
        assert not self.is_stopping
        assert step == player.taken < player.until, "a step beyond the grant"
        assert player.arrived >= player.more_at, "more agents act than the controller is known to know of"
        for name, version in chosen.items():
            assert version == self.granted[name], "a step with another version than the one granted"
            assert version in self.installed[name], "a step with a version that is not there"
            assert version >= player.acted.get(name, 0), "an environment acted with an older version than before"
            player.acted[name] = version

    def may_go_on(self, player: Player, own: int) -> None:
        """Steps of its own stay within the credit, and leave the end of a block to the machine."""
        assert player.taken + own < player.until
        assert own == 0 or player.open_steps + own < self.core.state.block_steps
        player.own = own

    def stale(self, env_id: int, incarnation: int) -> bool:
        """Whether a message about this environment comes too late or for nobody."""
        return env_id not in self.players or self.players[env_id].incarnation != incarnation

    def about(self, env_id: int, shift: int) -> tuple[EnvId, Incarnation]:
        """An environment and an incarnation near its present one."""
        now = self.players[env_id].incarnation if env_id in self.players else 0
        return EnvId(env_id), Incarnation(now + shift)

    def phase(self, env_id: int) -> Phase:
        return self.core.state.slots[EnvId(env_id)].phase

    def fact(self, env_id: int, message: object, *, is_stale: bool) -> bool:
        """Hand over a fact about an environment: stale ones are counted, others go by the table."""
        if is_stale:
            self.dropped += 1
            assert self.take(message)
            return False
        is_legal = (self.phase(env_id), type(message)) in TRANSITIONS
        told, is_failure = self.players[env_id].is_lost_told, isinstance(message, fx.PlayerFailed)
        self.dropped += is_legal and is_failure and told
        assert self.take(message) == is_legal
        return is_legal

    # ---- players

    @rule(env_id=envs, shift=shifts)
    def a_player_connects(self, env_id: int, shift: int) -> None:
        target = self.about(env_id, shift)
        is_stale = self.stale(*target)
        if not is_stale and self.phase(env_id) is Phase.OPENING:
            self.players[env_id].in_flight = ""
        self.fact(env_id, fx.PlayerConnected(*target, 9, {}, (brain(),)), is_stale=is_stale)

    @rule(env_id=envs, shift=shifts, late=st.booleans(), waiting=st.integers(0, 2))
    def a_player_replies(self, env_id: int, shift: int, late: bool, waiting: int) -> None:  # noqa: FBT001 - drawn
        target = self.about(env_id, shift)
        is_stale = self.stale(*target)
        shown = pending = dict.fromkeys(NAMES if late else NAMES[:1], waiting)
        if not is_stale and self.phase(env_id) in {Phase.RESETTING, Phase.STEPPING}:
            player = self.players[env_id]
            pending = {**self.core.state.slots[EnvId(env_id)].pending, **pending}
            if player.in_flight == "step":
                player.taken, player.open_steps = player.taken + 1, player.open_steps + 1
            else:
                player.until = player.taken
            player.own = 0
            if player.in_flight == "step" and sum(pending.values()) > player.agents:
                player.more_at = player.taken
            player.in_flight = ""
            player.agents = max(player.agents, sum(pending.values()))
        self.fact(env_id, fx.PlayerReplied(*target, shown), is_stale=is_stale)

    @rule(env_id=envs, steps=st.integers(1, 3))
    def a_player_steps_on_its_own(self, env_id: int, steps: int) -> None:
        player = self.players.get(env_id)
        if player is None or player.in_flight != "step" or player.own < steps:
            return
        player.taken, player.open_steps = player.taken + steps, player.open_steps + steps
        player.own -= steps
        self.fact(env_id, fx.PlayerStepped(*self.about(env_id, 0), steps), is_stale=False)

    @rule(env_id=envs, shift=shifts, unreported=st.integers(0, 2))
    def a_player_fails(self, env_id: int, shift: int, unreported: int) -> None:
        target = self.about(env_id, shift)
        is_stale = self.stale(*target)
        failed = fx.PlayerFailed(*target, "step", "died", "it has ended", unreported)
        self.fact(env_id, failed, is_stale=is_stale)

    @rule(env_id=envs, shift=shifts)
    def a_player_is_closed(self, env_id: int, shift: int) -> None:
        target = self.about(env_id, shift)
        self.fact(env_id, fx.PlayerClosed(*target), is_stale=self.stale(*target))

    @initialize(times=st.integers(0, 8))
    def all_goes_well_at_first(self, times: int) -> None:
        for env_id in ENVS:
            self.all_goes_well(env_id, times)

    @rule(env_id=st.sampled_from(ENVS), times=st.integers(1, 6))
    def all_goes_well(self, env_id: int, times: int) -> None:
        """Whatever brings an environment on, so that histories reach its steps often."""
        for _ in range(times):
            self.goes_on(env_id)

    def goes_on(self, env_id: int) -> None:
        """The next thing in the life of an environment that nothing happens to."""
        match self.phase(env_id):
            case Phase.OPENING:
                self.a_player_connects(env_id, 0)
            case Phase.CONNECTED:
                self.a_reset_is_asked_for(env_id, 0, 1)
            case Phase.RESETTING | Phase.STEPPING:
                self.a_player_replies(env_id, 0, late=False, waiting=1)
            case Phase.LOST:
                self.a_player_is_to_be_started(env_id, 1)
            case Phase.CLOSING:
                self.a_player_is_closed(env_id, 0)
            case Phase.IDLE:
                newest = max(self.granted.get(WALKER, 0), *self.installed.get(WALKER, [0]))
                self.a_policy_comes(WALKER, newest)
                self.steps_are_granted(
                    env_ids=[env_id],
                    shift=0,
                    reset_shift=0,
                    more=3,
                    missing=0,
                    chosen={WALKER: newest},
                    block_steps=2,
                    gathers=True,
                )
            case Phase.CLOSED:
                pass

    # ---- the controller

    @rule(env_id=envs, shift=shifts, rise=st.integers(-1, 2))
    def a_reset_is_asked_for(self, env_id: int, shift: int, rise: int) -> None:
        target = self.about(env_id, shift)
        is_stale = self.stale(*target)
        if is_stale:
            reset_id = rise
        else:
            player = self.players[env_id]
            reset_id = player.newest_reset + rise
            is_legal = (self.phase(env_id), ResetRequest) in TRANSITIONS
            is_over = self.phase(env_id) in {Phase.LOST, Phase.CLOSING, Phase.CLOSED}
            if is_legal and (rise <= 0 or is_over):
                self.dropped += 1
            elif is_legal:
                player.newest_reset = reset_id
        self.fact(env_id, reset_request(*target, reset_id), is_stale=is_stale)

    @rule(
        env_ids=st.lists(envs, min_size=1, max_size=2, unique=True),
        shift=shifts,
        reset_shift=shifts,
        more=st.integers(-2, 4),
        missing=st.integers(0, 2),
        chosen=st.dictionaries(st.sampled_from(NAMES), versions, max_size=2),
        block_steps=st.integers(1, 4),
        gathers=st.booleans(),
    )
    def steps_are_granted(
        self,
        *,
        env_ids: list[int],
        shift: int,
        reset_shift: int,
        more: int,
        missing: int,
        chosen: dict[str, int],
        block_steps: int,
        gathers: bool,
    ) -> None:
        grants, stale, refused, credit = [], 0, False, {}
        for env_id in env_ids:
            target = self.about(env_id, shift)
            player = self.players.get(env_id)
            known = player.reset_id if player else 0
            until = max(0, player.taken + more) if player else more
            arrived = max(0, player.taken - missing) if player else 0
            about = {"incarnation": target[1], "reset_id": known + reset_shift}
            grants.append(env_grant(env_id, until=until, accepted=arrived, **about))
            if self.stale(*target) or reset_shift:
                stale += 1
            elif (self.phase(env_id), EnvGrant) not in TRANSITIONS:
                refused = True
            else:
                credit[env_id] = (until, arrived)
        if not refused:
            self.dropped += stale
            for name, version in chosen.items():
                self.granted[name] = max(version, self.granted.get(name, version))
            for env_id, (until, arrived) in credit.items():
                player = self.players[env_id]
                player.until, player.arrived = max(player.until, until), max(player.arrived, arrived)
        message = make.step_grant(*grants, versions=chosen, block_steps=block_steps, gathers=gathers)
        assert self.take(message) != refused

    # ---- policies

    @rule(name=st.sampled_from(NAMES), version=versions)
    def a_policy_comes(self, name: str, version: int) -> None:
        have = self.installed.get(name, [])
        if version in have or (have and version < min(have)):
            self.dropped += 1
        else:
            self.installed[name] = sorted([*have, version])[-3:]
        self.take(policy(version, name))

    @rule()
    def the_holder_is_started_again(self) -> None:
        self.take(HolderRestarted(run=RUN, incarnation=Incarnation(1)))

    # ---- the Supervisor

    @rule(env_id=envs, rise=st.integers(-1, 1))
    def a_player_is_to_be_started(self, env_id: int, rise: int) -> None:
        known = self.players.get(env_id)
        incarnation = (known.incarnation if known else 0) + rise
        if self.is_stopping or (known is not None and rise <= 0):
            self.dropped += 1
        message: StartPlayer = make.start_player(env_id, incarnation)
        assert self.take(message)

    @precondition(lambda self: max(each.taken for each in self.players.values()) > 0)
    @rule()
    def the_worker_is_to_stop(self) -> None:
        self.dropped += self.is_stopping
        self.is_stopping = True
        assert self.take(make.stop_request())

    # ---- time, and what is for nobody

    @rule(data=st.data(), seconds=st.floats(0, 6))
    def a_timer_fires(self, data: st.DataObject, seconds: float) -> None:
        token = data.draw(st.sampled_from(sorted(self.timers, key=repr)))
        self.timers.discard(token)
        self.now_s += seconds
        assert self.take(fx.TimerFired(token))

    @rule()
    def an_unknown_timer_fires(self) -> None:
        self.dropped += 1
        assert self.take(fx.TimerFired(("lunch", 1)))

    @rule()
    def a_message_of_another_run_comes(self) -> None:
        self.dropped += 1
        assert self.take(PolicyUpdate(run=OTHER_RUN, behavior=WALKER, version=9, kind="onnx", body=b""))

    @rule()
    def a_message_for_somebody_else_comes(self) -> None:
        assert not self.take(make.status())

    # ---- what always holds

    @invariant()
    def counters_equal_the_models(self) -> None:
        state = self.core.state
        assert state.dropped == self.dropped
        for env_id, player in self.players.items():
            slot = state.slots[EnvId(env_id)]
            found = (slot.taken, slot.until_step, slot.open_steps, slot.assignment.incarnation)
            assert found == (player.taken, player.until, player.open_steps, player.incarnation)
            assert slot.agents_told == player.agents, "more agents wait than the controller was told of"

    @invariant()
    def every_wait_has_a_timer(self) -> None:
        state = self.core.state
        assert "heartbeat" in self.timers
        assert all(("policy", name) in self.timers for name in state.asked)
        for slot in state.slots.values():
            if slot.phase is not Phase.IDLE or self.is_stopping:
                continue
            player = self.players[slot.env_id]
            if slot.has_credit and player.arrived < player.more_at:
                continue  # the controller answers what it is told of more agents
            missing = [name for name in slot.pending if self.granted.get(name) not in self.installed.get(name, [])]
            if slot.has_credit:
                assert missing, "an environment with all that it needs stands still"
                # A version that was overtaken comes no more: the grant of the newer one does, and releases the wait.
                newest = {name: max(versions) for name, versions in self.installed.items() if versions}
                asked = [n for n in missing if n in self.granted and self.granted[n] > newest.get(n, -1)]
                assert all(state.asked[name][0] == self.granted[name] for name in asked)
            elif slot.open_steps:
                assert "gather" in self.timers, "finished steps wait and nothing will send them"

    @invariant()
    def a_worker_finishes_once_when_nothing_is_open(self) -> None:
        assert self.finished <= 1
        phases = {slot.phase for slot in self.core.state.slots.values()}
        if self.is_stopping:
            assert bool(self.finished) == (phases <= {Phase.LOST, Phase.CLOSED})


TestEnvWorkerMachine = EnvWorkerMachine.TestCase
