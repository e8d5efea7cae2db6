"""A behavior that a save knows and no player shows holds nobody up."""

from __future__ import annotations

from runtime.decisions.effects import worker_role
from runtime.messages import StepGrant
from tests.support.bench_controller import freely
from tests.support.builders_messages import block, progress, sent, steps_taken


def test_collection_goes_on_though_the_buffer_of_a_behavior_that_has_not_come_back_is_full() -> None:
    bench = freely(1)
    bench.progress = {**progress(), **progress("Late", buffered=100, is_ready=True)}
    effects: tuple[object, ...] = ()
    while bench.env().received < bench.env().until and not sent(effects, StepGrant, worker_role(0)):
        effects = bench.take(steps_taken(block(first=bench.env().received)))
    assert sent(effects, StepGrant, worker_role(0))
