"""What happened, in words that depend on nothing but the run: for traces, hashes and diagrams."""

from __future__ import annotations

from runtime.decisions import effects as fx
from runtime.experience.columns import StepBlock
from runtime.messages import (
    BrainsFound,
    EnvGrant,
    EnvReset,
    HolderRestarted,
    PlayerLost,
    PolicyRequest,
    PolicyUpdate,
    ResetRequest,
    StartPlayer,
    StartWorker,
    StepGrant,
    StepsTaken,
    Stopped,
    StopRequest,
    WorkerFailed,
    WorkerReady,
)
from runtime.simulation.engine import Exchange
from runtime.simulation.scheduler import Endpoint, Link, TraceEntry


def describe_entry(entry: TraceEntry) -> str:
    """What happened in one event; an exchange is a question on its way to a player and an answer on its way back."""
    _, source, _, what = entry
    if isinstance(what, Exchange) and source.startswith("player"):
        return f"answer to {what}"
    return describe(what)


def describe(what: object) -> str:
    """One short text."""
    match what:
        case str():
            return what
        case Exchange():
            return str(what)
        case ("timer", token):
            return f"timer {_token(token)}"
        case ("job", thread):
            return f"{thread} is done"
        case StepsTaken(blocks=blocks):
            return "StepsTaken " + " ".join(_block(each) for each in blocks)
        case EnvReset(first=first):
            return f"EnvReset {first.env_id}.{first.incarnation}"
        case StepGrant(grants=grants, versions=versions):
            return f"StepGrant {_credit(grants)} {_versions(dict(versions))}"
        case Endpoint():
            return f"hello of {what.name}"
        case tuple() | Link():
            return "connection broken"
        case _:
            return _message(what)


def _credit(grants: tuple[EnvGrant, ...]) -> str:
    return " ".join(f"{each.env_id}.{each.incarnation}<{each.until_step}" for each in grants)


def _message(what: object) -> str:
    name = type(what).__name__
    match what:
        case PolicyUpdate(grants=riding):
            credit = " ".join(f"({worker}: {_credit(grant.grants)})" for worker, grant in sorted(riding.items()))
            return f"{name} {what.behavior} {what.version} {credit}".rstrip()
        case PolicyRequest():
            return f"{name} {what.behavior} {what.version}"
        case WorkerReady() | ResetRequest() | BrainsFound():
            return f"{name} {what.env_id}.{what.incarnation}"
        case PlayerLost():
            return f"{name} {what.env_id}.{what.incarnation} {what.kind}"
        case StartPlayer():
            return f"{name} {what.environment.env_id}.{what.environment.incarnation}"
        case StartWorker():
            return f"{name} " + " ".join(f"{each.env_id}.{each.incarnation}" for each in what.environments)
        case WorkerFailed():
            return f"{name} {what.worker}"
        case HolderRestarted():
            return f"{name} {what.incarnation}"
        case Stopped():
            return f"{name} {what.part} {what.exit_reason}".rstrip()
        case StopRequest():
            return f"{name} {what.reason}"
        case _:
            return name


def _block(block: StepBlock) -> str:
    key = f"{block.env_id}.{block.incarnation}"
    return f"{key}[{block.first_step}+{block.steps}] {_versions(dict(block.versions))}".rstrip()


def _versions(versions: dict[str, int]) -> str:
    return " ".join(f"{name}@{version}" for name, version in sorted(versions.items()))


def _token(token: object) -> str:
    if isinstance(token, tuple):
        return " ".join(str(each) if isinstance(each, str | int | fx.Role) else type(each).__name__ for each in token)
    return str(token)
