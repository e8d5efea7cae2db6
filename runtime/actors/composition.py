"""Which part a role is, and what it is made from: the same under every system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from runtime.actors.controller_start import ControllerStart
from runtime.actors.parts import Host, Part
from runtime.decisions.effects import Role
from runtime.decisions.supervisor import SupervisorOptions

NAMES: Final = {"controller": "TrainerController", "holder": "PolicyHolder", "supervisor": "Supervisor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that the parts of one run are made from.

    controller: None where the loop is held elsewhere. profile: the folder for samples of where time goes, or None.
    """

    run: str
    supervisor: SupervisorOptions
    controller: ControllerStart | None
    profile: str | None = None

    def without_controller(self) -> RunPlan:
        """The same without what only the TrainerController needs."""
        return replace(self, controller=None)


def build_part(role: Role, plan: RunPlan, host: Host, report: Callable[[str, str], None]) -> Part:
    """The part of this role. Modules are loaded only by the process that needs them."""
    begin_profile(plan, name_of(role))
    match role.kind:
        case "supervisor":
            from runtime.actors.supervisor_part import SupervisorPart  # noqa: PLC0415 - see above

            return SupervisorPart(host, plan.supervisor)
        case "controller":
            from runtime.actors.controller_part import ControllerPart  # noqa: PLC0415

            assert plan.controller is not None
            return ControllerPart(host, plan.controller)
        case "holder":
            from runtime.actors.holder_part import HolderPart  # noqa: PLC0415

            return HolderPart(host, plan.run, report)
        case "worker":
            from runtime.actors.worker_part import WorkerPart  # noqa: PLC0415

            return WorkerPart(host, role.number, report)
        case _:
            msg = f"{role} is not a part that can be built"
            raise ValueError(msg)


def begin_profile(plan: RunPlan, name: str) -> None:
    """Look at this process from now on, if the run asks for it and nobody began before."""
    if plan.profile is not None:
        from runtime.profiling import sampler  # noqa: PLC0415 - as in build_part

        sampler.begin(name, plan.profile)


def end_profile(plan: RunPlan) -> None:
    """Write what was seen of this process since the last time, if the run asks for it."""
    if plan.profile is not None:
        from runtime.profiling import sampler  # noqa: PLC0415 - as in build_part

        sampler.end()


def name_of(role: Role) -> str:
    """What a part is called where people read it."""
    return f"EnvWorker {role.number}" if role.kind == "worker" else NAMES[role.kind]
