"""The PolicyHolder: the newest version of each behavior, sent to whoever has asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.decisions.effects import InstallPolicy, Reply
from runtime.decisions.policy_holder import SUBSCRIBERS_MAX, Choose, From, PolicyHolderCore
from runtime.errors import ActorProtocolError
from runtime.experience.brains import BrainInfo, empty_rows
from runtime.messages import ActionReply, ActionRequest, PolicyRequest, PolicyUpdate
from tests.support.builders_messages import OTHER_RUN, RUN, WALKER, brain, policy, stop_request, worker_ready


def request(version: int = 0, *, worker: int = -1, behavior: str = WALKER) -> PolicyRequest:
    return PolicyRequest(run=RUN, behavior=behavior, version=version, worker=worker)


def bodies(effects: tuple[object, ...]) -> list[bytes]:
    messages = [each.message for each in effects if isinstance(each, Reply)]
    return [each.body for each in messages if isinstance(each, PolicyUpdate)]


def action_request(behavior: str = WALKER) -> ActionRequest:
    spec = brain(behavior)
    info = BrainInfo(*empty_rows(spec))
    return ActionRequest(run=RUN, request_id=5, behavior=behavior, brain_info=info, action_spec=spec.action_spec)


def holder(*policies: object) -> PolicyHolderCore:
    core = PolicyHolderCore(RUN)
    for each in policies:
        core.handle(From("controller", each), 0.0)
    return core


def test_a_request_is_answered_with_the_newest_version_that_is_new_enough() -> None:
    core = holder(policy(1), policy(3))
    assert core.handle(From("a", request(2)), 0.0) == (Reply("a", policy(3)),)


def test_a_request_for_a_later_version_is_answered_when_it_comes() -> None:
    core = holder(policy(1))
    assert core.handle(From("a", request(2)), 0.0) == ()
    assert core.handle(From("controller", policy(2)), 0.0) == (InstallPolicy(policy(2)), Reply("a", policy(2)))


def test_who_asked_once_gets_all_that_follow_once_each() -> None:
    core = holder()
    for _ in range(2):
        core.handle(From("a", request()), 0.0)
    core.handle(From("b", request()), 0.0)
    assert core.handle(From("controller", policy(0)), 0.0)[1:] == (Reply("a", policy(0)), Reply("b", policy(0)))


def test_an_older_version_that_comes_late_is_dropped_and_counted() -> None:
    core = holder(policy(2))
    assert core.handle(From("controller", policy(2)), 0.0) == ()
    assert core.handle(From("controller", policy(1)), 0.0) == ()
    assert core.state.dropped == 2
    assert core.state.policies[WALKER].version == 2


def test_a_worker_that_was_started_again_replaces_its_predecessor() -> None:
    core = holder()
    core.handle(From("old", request(worker=0)), 0.0)
    core.handle(From("other", request(worker=1)), 0.0)
    core.handle(From("new", request(worker=0)), 0.0)
    assert core.state.subscribers == ((1, "other", False), (0, "new", False))


def test_who_only_acts_gets_what_acts() -> None:
    update = replace(policy(3), body=b"\x3a\x02ab\x3a\x01c")
    core = holder(update)
    first = core.handle(From("acts", replace(request(worker=0), only_acts=True)), 0.0)
    other = core.handle(From("judges", request(worker=1)), 0.0)
    later = core.handle(From("controller", replace(update, version=4)), 0.0)
    assert bodies(first + other) == bodies(later) == [b"\x3a\x02ab", update.body]


def test_a_policy_written_by_hand_is_passed_on_whole() -> None:
    update = replace(policy(3), kind="policy", body=b"\x3a\x02ab\x3a\x01c")
    assert bodies(holder(update).handle(From("acts", replace(request(), only_acts=True)), 0.0)) == [update.body]


def test_the_newest_subscribers_stay_when_there_are_too_many() -> None:
    core = holder()
    for number in range(SUBSCRIBERS_MAX + 3):
        core.handle(From(number, request()), 0.0)
    assert len(core.state.subscribers) == SUBSCRIBERS_MAX
    assert core.state.subscribers[-1] == (-1, SUBSCRIBERS_MAX + 2, False)
    assert core.state.subscribers[0] == (-1, 3, False)


def test_actions_are_chosen_with_the_version_that_is_there() -> None:
    asked = action_request()
    assert holder(policy(4)).handle(From("a", asked), 0.0) == (Choose("a", asked, 4),)


@pytest.mark.parametrize(("known", "names"), [((), "none"), ((policy(0, "B"), policy(0, "A")), "A, B")])
def test_actions_without_a_policy_are_refused_with_what_there_is(known: tuple[object, ...], names: str) -> None:
    (effect,) = holder(*known).handle(From("a", action_request()), 0.0)
    assert isinstance(effect, Reply)
    assert isinstance(effect.message, ActionReply)
    assert (effect.to, effect.message.request_id, effect.message.version) == ("a", 5, -1)
    assert effect.message.refusal == f"no policy of behavior 'Walker' has been published; there are: {names}"


def test_messages_of_another_run_are_dropped_and_counted() -> None:
    core = holder(policy(0))
    foreign = PolicyRequest(run=OTHER_RUN, behavior=WALKER, version=0)
    assert core.handle(From("a", foreign), 0.0) == ()
    assert (core.state.dropped, core.state.subscribers) == (1, ())


def test_a_stop_asks_nothing_of_the_holder() -> None:
    assert holder().handle(From("a", stop_request()), 0.0) == ()


def test_a_message_for_somebody_else_is_refused_and_changes_nothing() -> None:
    core = holder(policy(0))
    before = core.state
    with pytest.raises(ActorProtocolError, match="the PolicyHolder was sent WorkerReady, which is not for it"):
        core.handle(From("a", worker_ready()), 0.0)
    assert core.state == before
