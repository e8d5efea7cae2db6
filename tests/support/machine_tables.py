"""What each machine does in each of its phases with each kind of message, found by running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runtime.decisions.effects import Reply, Send
from runtime.errors import ActorProtocolError

Effects = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Seat:
    """One machine in one phase. take: hands it a message; phase: its phase now; dropped: messages it has dropped."""

    take: Callable[[object], Effects]
    phase: Callable[[], str]
    dropped: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine to be tabulated.

    phases: a fresh one in each phase, by the phase's name. messages: by what the table calls them. never: (phase,
    message) for answers of the machine's own shell to what it does not ask in that phase.
    """

    title: str
    module: str
    about: str
    phases: Mapping[str, Callable[[], Seat]]
    messages: Mapping[str, object]
    never: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Cell:
    """What a message does in a phase. after: the phase then; "" when the message was refused."""

    after: str
    effects: tuple[str, ...] = ()
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """All cells of a machine, by (phase, message); messages of others that it refuses in every phase."""

    machine: Machine
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def tabulated(machine: Machine, others: Mapping[str, object]) -> Table:
    """Runs the machine. others: messages that are for somebody else."""
    cells = {
        (phase, name): run(begin(), message)
        for phase, begin in machine.phases.items()
        for name, message in machine.messages.items()
        if (phase, name) not in machine.never
    }
    own = {type(message).__name__ for message in machine.messages.values()}
    strange = {type(message).__name__: message for message in others.values()}
    refused = tuple(
        name
        for name, message in sorted(strange.items())
        if name not in own and all(not run(begin(), message).after for begin in machine.phases.values())
    )
    return Table(machine, cells, refused)


def run(seat: Seat, message: object) -> Cell:
    """Hands one message to a seat, and tells what came of it."""
    before, phase = seat.dropped(), seat.phase()
    try:
        effects = seat.take(message)
    except ActorProtocolError:
        assert (seat.dropped(), seat.phase()) == (before, phase), "a refused message changed the machine"
        return Cell("")
    names = tuple(dict.fromkeys(map(name_of, effects)))
    return Cell(seat.phase(), names, is_dropped=seat.dropped() > before)


def name_of(effect: object) -> str:
    """What the table calls an effect: a message by its name and its receiver."""
    match effect:
        case Send(to, message):
            return f"{type(message).__name__} → {to.kind}"
        case Reply(_, message):
            return f"{type(message).__name__} → asker"
        case _:
            return type(effect).__name__


def diagram(table: Table) -> str:
    """The changes of phase as a mermaid state diagram."""
    numbers = {phase: f"s{number}" for number, phase in enumerate(table.machine.phases)}
    arrows: dict[tuple[str, str], list[str]] = {}
    for (phase, name), cell in table.cells.items():
        if cell.after and cell.after != phase:
            arrows.setdefault((phase, cell.after), []).append(name)
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{phase}" as {number}' for phase, number in numbers.items()]
    lines.append(f"    [*] --> {next(iter(numbers.values()))}")
    lines += [f"    {numbers[a]} --> {numbers[b]}: {'<br>'.join(names)}" for (a, b), names in arrows.items()]
    ends = [phase for phase in numbers if not any(a == phase for a, _ in arrows)]
    lines += [f"    {numbers[phase]} --> [*]" for phase in ends]
    return "\n".join([*lines, "```"])


def grid(table: Table) -> str:
    """The cells, one line per message and one column per phase."""
    phases = tuple(table.machine.phases)
    lines = [f"| | {' | '.join(phases)} |", f"|---|{'---|' * len(phases)}"]
    for name in table.machine.messages:
        cells = (_text(phase, table.cells.get((phase, name))) for phase in phases)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _text(phase: str, cell: Cell | None) -> str:
    if cell is None:
        return "never"
    if not cell.after:
        return "refused"
    parts = [f"**{cell.after}**"] if cell.after != phase else []
    parts += ["dropped"] if cell.is_dropped else []
    parts += [", ".join(cell.effects)] if cell.effects else []
    return ": ".join(parts) or "noted"
