"""The PolicyHolder as a part: keeps policies, passes them on, and chooses actions for whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from runtime.actors.parts import Host, perform_common
from runtime.decisions.effects import InstallPolicy
from runtime.decisions.policy_holder import Choose, From, PolicyHolderCore
from runtime.errors import InternalError, TrainingError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.messages import ActionReply, ActionRequest, PolicyUpdate

if TYPE_CHECKING:
    from runtime.acting.replica import PolicyReplica


class HolderPart:
    """Policies are made ready to act with only when somebody asks for actions: fan-out costs no onnxruntime."""

    def __init__(self, host: Host, run: str, report: Callable[[str, str], None]) -> None:
        self._host = host
        self._report = report
        self._core = PolicyHolderCore(run)
        self._newest: dict[str, PolicyUpdate] = {}
        self._replica: PolicyReplica | None = None

    def begin(self) -> None:
        """Nothing to do before the first policy."""

    def receive(self, message: object, sender: object) -> None:
        """A policy, or a request for one or for actions."""
        for effect in self._core.handle(From(sender, message), self._host.now_s()):
            match effect:
                case InstallPolicy(update):
                    self._newest[update.behavior] = update
                case Choose(to, request, version):
                    self._host.reply(to, self._chosen(request, version))
                case _ if not perform_common(self._host, effect, self._report):
                    msg = f"a PolicyHolder cannot perform {type(effect).__name__}"
                    raise InternalError(msg)

    def timer(self, token: Hashable) -> None:
        """This part sets none."""

    def close(self) -> None:
        """Nothing is left running."""

    def _chosen(self, request: ActionRequest, version: int) -> ActionReply:
        try:
            if self._replica is None:
                from runtime.acting.replica import PolicyReplica  # noqa: PLC0415 - numpy, for who asks for actions

                self._replica = PolicyReplica(request.seed)
            if not self._replica.has(request.behavior, version):
                self._replica.install(self._newest[request.behavior])
            brain = _brain_of(request)
            acted = self._replica.act(
                brain, version, request.brain_info, incarnation=0, step=request.step, seed=request.seed
            )
        except TrainingError as error:
            return _reply(request, version, None, str(error))
        return _reply(request, version, acted, "")

    @property
    def versions(self) -> dict[str, int]:
        """The newest version of each behavior."""
        return {name: update.version for name, update in self._newest.items()}


def _reply(request: ActionRequest, version: int, acted: object, refusal: str) -> ActionReply:
    info = getattr(acted, "action_info", None)
    return ActionReply(
        run=request.run,
        request_id=request.request_id,
        behavior=request.behavior,
        version=version,
        action_info=info,
        refusal=refusal,
    )


def _brain_of(request: ActionRequest) -> BrainParameters:
    """The brain as its rows show it; the action spec travels with the request."""
    rows = request.brain_info.decisions
    specs = tuple(ObservationSpec(tuple(each.shape[1:])) for each in rows.observations)
    spec: ActionSpec = request.action_spec
    return BrainParameters(BrainName(request.behavior), specs, spec)
