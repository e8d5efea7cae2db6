"""A Lamport diagram in text: one column per process, one row per event, an arrow for each message that arrives."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.messages import Status, WorkerAlive
from runtime.simulation.describing import describe_entry
from runtime.simulation.scheduler import Endpoint, TraceEntry

ROWS_MAX = 45
_QUIET_TIMERS = frozenset({"heartbeat", "status", "watch"})
_ORDER = ("launcher", "fault", "watch", "supervisor", "controller", "holder", "worker", "player")


def is_routine(what: object) -> bool:
    """Heartbeats, status, and the news of addresses: they are counted, not drawn."""
    match what:
        case Status() | WorkerAlive():
            return True
        case ("timer", str(token)):
            return token in _QUIET_TIMERS
        case _:
            return isinstance(what, Endpoint)


def lamport_diagram(trace: Sequence[TraceEntry], rows_max: int = ROWS_MAX) -> str:
    """The newest `rows_max` events, and every fault before them; routine events are left out."""
    told = [entry for entry in trace if not is_routine(entry[3])]
    first = max(0, len(told) - rows_max)
    chosen = [entry for index, entry in enumerate(told) if index >= first or entry[1] == "fault"]
    names = sorted({name for entry in chosen for name in entry[1:3] if name != "fault"}, key=_place)
    columns = {name: index for index, name in enumerate(names)}
    width = max((len(name) for name in names), default=0) + 2
    head = " " * 10 + "".join(name.center(width) for name in names)
    lines = [head.rstrip(), *(_row(entry, columns, width) for entry in chosen)]
    left_out = len(trace) - len(chosen)
    return "\n".join(
        [*lines, f"({left_out} events before these, or of heartbeats, status and addresses, are left out)"]
    )


def _place(name: str) -> tuple[int, str]:
    kind = name.partition(" ")[0]
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), name)


def _row(entry: TraceEntry, columns: dict[str, int], width: int) -> str:
    now_s, source, target, _ = entry
    middle = width // 2
    cells = list(("|".rjust(middle + 1).ljust(width)) * len(columns))
    if source == "fault":
        return f"{now_s:9.4f} " + "".join(cells) + f"  *** {describe_entry(entry)}"
    begin, end = (columns[name] * width + middle for name in (source, target))
    for at in range(min(begin, end) + 1, max(begin, end)):
        cells[at] = "-"
    cells[begin] = "o"
    if begin != end:
        cells[end] = ">" if end > begin else "<"
    return f"{now_s:9.4f} " + "".join(cells) + f"  {describe_entry(entry)}"
