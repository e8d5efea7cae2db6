"""Grants that travel with a new policy: the PolicyHolder passes them on, so that an EnvWorker hears of both at once.

Only a worker whose environments have all acted already is known to the PolicyHolder. Whatever becomes of a grant on
that road (a PolicyHolder that dies, or hangs), it is given again, straight to the worker: grants may come twice.
"""

from __future__ import annotations

from runtime.decisions.collecting import grant_again
from runtime.decisions.controller_state import ControllerState
from runtime.decisions.effects import HOLDER, Role, Send
from runtime.decisions.frozen import replace
from runtime.messages import PolicyUpdate, StepGrant

Effects = tuple[object, ...]
Decision = tuple[ControllerState, Effects]


def ride(state: ControllerState, effects: Effects) -> Decision:
    """The same effects, with the grants that follow a PolicyUpdate inside of it, where they may."""
    last = max((at for at, each in enumerate(effects) if _policy_in(each)), default=-1)
    policy = _policy_in(effects[last]) if last >= 0 else None
    if policy is None:
        return state, effects
    given, rest = dict[Role, StepGrant](), list[object]()
    for each in effects[last + 1 :]:
        if isinstance(each, Send) and isinstance(each.message, StepGrant):
            given[each.to] = _merged(given.get(each.to), each.message)
        else:
            rest.append(each)
    riding = {to.number: grant for to, grant in given.items() if _is_known(state, to.number)}
    straight = tuple(Send(to, grant) for to, grant in given.items() if to.number not in riding)
    carrier = Send(HOLDER, replace(policy, grants=riding))
    state = replace(state, riding={**state.riding, **dict.fromkeys(riding, 0)})
    return state, (*effects[:last], carrier, *rest, *straight)


def _policy_in(effect: object) -> PolicyUpdate | None:
    return effect.message if isinstance(effect, Send) and isinstance(effect.message, PolicyUpdate) else None


def _is_known(state: ControllerState, worker: int) -> bool:
    """True when every environment of the worker has acted: it has asked the PolicyHolder for policies."""
    return all(each.received > 0 for each in state.envs.values() if each.worker == worker)


def _merged(older: StepGrant | None, newer: StepGrant) -> StepGrant:
    """Two grants of one worker as one: of an environment in both, the newer one counts."""
    if older is None:
        return newer
    renewed = {each.env_id for each in newer.grants}
    return replace(newer, grants=(*(each for each in older.grants if each.env_id not in renewed), *newer.grants))


def grant_riders(state: ControllerState, *, waited_periods: int = 0) -> Decision:
    """Give the workers whose grants have ridden for so long theirs once more, without the PolicyHolder."""
    late = frozenset(worker for worker, periods in state.riding.items() if periods >= waited_periods)
    state = replace(state, riding={worker: n + 1 for worker, n in state.riding.items() if worker not in late})
    if not late:
        return state, ()
    again = grant_again(state)
    return state, tuple(each for each in again if isinstance(each, Send) and each.to.number in late)
