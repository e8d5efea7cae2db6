"""The PolicyHolder through any history: versions only rise, and every subscriber gets each newer one once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.decisions.effects import InstallPolicy, Reply
from runtime.decisions.policy_holder import From, PolicyHolderCore
from runtime.errors import ActorProtocolError
from runtime.messages import PolicyRequest, PolicyUpdate
from tests.support.builders_messages import OTHER_RUN, RUN, policy, status, stop_request

names = st.sampled_from(("A", "B"))
addresses = st.sampled_from(("a", "b", "c"))
workers = st.integers(-1, 1)
versions = st.integers(0, 5)
# ModelProto.graph in two pieces, and the first of them.
WHOLE, ACTS = b"\x3a\x02ab\x3a\x01c", b"\x3a\x02ab"


class PolicyHolderMachine(RuleBasedStateMachine):
    """`newest` by behavior, `subscribers` as (worker, address, only_acts) and `dropped` are the model."""

    def __init__(self) -> None:
        super().__init__()
        self.core = PolicyHolderCore(RUN)
        self.newest: dict[str, int] = {}
        self.subscribers: list[tuple[int, str, bool]] = []
        self.got: dict[tuple[str, str], int] = {}
        self.dropped = 0

    def take(self, message: object, sender: str = "controller") -> tuple[object, ...]:
        return self.core.handle(From(sender, message), 0.0)

    def note(self, effects: tuple[object, ...]) -> list[tuple[object, int]]:
        """The updates that were sent; none is older than what its receiver had."""
        sent = []
        for effect in effects:
            if isinstance(effect, Reply) and isinstance(effect.message, PolicyUpdate):
                update, key = effect.message, (str(effect.to), effect.message.behavior)
                assert update.version >= self.got.get(key, 0)
                only_acts = {address: acts for _, address, acts in self.subscribers}[str(effect.to)]
                assert update.body == (ACTS if only_acts else WHOLE)
                self.got[key] = update.version
                sent.append((effect.to, update.version))
        return sent

    @rule(name=names, version=versions)
    def a_version_is_published(self, name: str, version: int) -> None:
        is_new = version > self.newest.get(name, -1)
        update = replace(policy(version, name), body=WHOLE)
        effects = self.take(update)
        if is_new:
            self.newest[name] = version
            assert effects[0] == InstallPolicy(update)
            assert self.note(effects) == [(address, version) for _, address, _ in self.subscribers]
        else:
            self.dropped += 1
            assert effects == ()

    @rule(name=names, version=versions, worker=workers, sender=addresses, only_acts=st.booleans())
    def somebody_asks(self, name: str, version: int, worker: int, sender: str, *, only_acts: bool) -> None:
        replaced = [each for each in self.subscribers if each[1] == sender or (worker >= 0 and each[0] == worker)]
        self.subscribers = [each for each in self.subscribers if each not in replaced]
        self.subscribers.append((worker, sender, only_acts))
        request = PolicyRequest(run=RUN, behavior=name, version=version, worker=worker, only_acts=only_acts)
        sent = self.note(self.take(request, sender))
        newest = self.newest.get(name, -1)
        assert sent == ([(sender, newest)] if newest >= version else [])

    @rule(name=names)
    def a_message_of_another_run_comes(self, name: str) -> None:
        self.dropped += 1
        assert self.take(PolicyUpdate(run=OTHER_RUN, behavior=name, version=99, kind="onnx", body=b"")) == ()

    @rule()
    def a_stop_comes(self) -> None:
        assert self.take(stop_request()) == ()

    @rule()
    def a_message_for_somebody_else_comes(self) -> None:
        before = self.core.state
        with pytest.raises(ActorProtocolError):
            self.take(status())
        assert self.core.state is before

    @invariant()
    def the_state_equals_the_model(self) -> None:
        state = self.core.state
        assert {name: each.version for name, each in state.policies.items()} == self.newest
        assert list(state.subscribers) == self.subscribers
        assert state.dropped == self.dropped


TestPolicyHolderMachine = PolicyHolderMachine.TestCase
