"""Steps that a shell takes with a player without asking its machine each time.

After most replies a machine could say but one thing: go on as before. So it says in advance how often that will hold as
long as the player shows the same agents and nobody says anything else, and is told afterwards how often it did. Any
other message ends the permission, before the machine hears it: what it decides next, it decides knowing everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runtime.decisions.effects import PlayerReplied, PlayerStepped
from runtime.messages import EnvAssignment


@dataclass(slots=True)
class OwnSteps:
    """Of one player. left: replies that may still be answered unasked. untold: those that were, unknown to the machine.

    pending: agents that waited when the machine heard of them last, by brain.
    """

    left: int = 0
    untold: int = 0
    pending: Mapping[str, int] = field(default_factory=dict)

    def take(self, pending: Mapping[str, int], *, has_news: bool) -> bool:
        """Whether a reply with these agents may be answered with the next step at once; otherwise the machine hears it.

        has_news: the player announced something.
        """
        if self.left > 0 and not has_news and pending == self.pending:
            self.left -= 1
            self.untold += 1
            return True
        self.pending = pending
        return False


def told_before(message: object, players: Iterable[tuple[EnvAssignment, OwnSteps]]) -> list[PlayerStepped]:
    """What the machine must hear before `message`. Ends all permissions, unless it is one player's reply."""
    facts = []
    is_reply = isinstance(message, PlayerReplied)
    for one, own in players:
        if own.untold:
            facts.append(PlayerStepped(one.env_id, one.incarnation, own.untold))
            own.untold = 0
        if not is_reply:
            own.left = 0
    return facts
