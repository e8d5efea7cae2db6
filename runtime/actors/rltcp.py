"""Our actor-system base, `thespian.system.rltcp`: the admin of a run as a watched child of the launcher.

The stock base detaches its admin with a double fork, so that it outlives its starter, attaches to any admin that
already answers on the port, waits 5 s at most for a new one, and sets TZ in the environment of its host. Ours starts
the admin as an ordinary child on a socket that already listens: the port can neither be taken by nor belong to others.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from dataclasses import replace
from typing import Any, Final

from setproctitle import setproctitle
from thespian.actors import ActorAddress
from thespian.system.messages.admin import (
    PendingActorResponse,
    QueryAck,
    QueryExists,
    SystemShutdown,
    SystemShutdownCompleted,
)
from thespian.system.messages.multiproc import EndpointConnected
from thespian.system.multiprocCommon import MultiProcAdmin, _startLogger
from thespian.system.multiprocTCPBase import ActorSystemBase as StockTCPBase
from thespian.system.systemBase import systemBase
from thespian.system.transport import ReceiveEnvelope

from runtime.actors import deathwatch
from runtime.actors.frames import KEY_BYTES
from runtime.actors.spawning import ProcessFactory, RunProcess, RunSettings, forget_child
from runtime.actors.sweep import kill_life, run_processes, sweep_run, wait_until_gone
from runtime.actors.transport import Endpoint, LoopbackAddress, RLTransport, listen_on_loopback
from runtime.errors import TrainingError

START_S_MAX: Final = 20.0
CLOSE_S_MAX: Final = 10.0
REAP_S: Final = 0.2
_REPLY_SLICE_S: Final = 1.0


class ActorSystemError(TrainingError):
    """The actor system could not be started, or is lost."""


def new_settings(run_id: str, **others: Any) -> RunSettings:
    """Settings of a run with a fresh marker; others are fields of RunSettings, `key` is random if not given."""
    values: dict[str, Any] = {
        "marker": f"{run_id}-{secrets.token_hex(6)}",
        "launcher": deathwatch.life_of(os.getpid()),
        "key": secrets.token_bytes(KEY_BYTES),
        **others,
    }
    return RunSettings(run_id=run_id, **values)


class RunAdmin(MultiProcAdmin):  # type: ignore[misc,unused-ignore]
    """Thespian's admin, which also notices a child that dies before it has reported, and survives its logger."""

    def __init__(
        self, endpoint: Endpoint, capabilities: dict[str, Any], log_defs: Any, factory: ProcessFactory
    ) -> None:
        super().__init__(RLTransport(endpoint), endpoint.admin, capabilities, log_defs, factory)
        self.logDefs = log_defs  # the name under which Thespian looks for it when it restarts a logger

    def h_LoggerConnected(self, envelope: Any) -> bool:  # noqa: N802
        """Log through the logger that is there now; the stock admin would keep the way through the one before it."""
        self._reset_logging()
        return bool(super().h_LoggerConnected(envelope))

    def childDied(self) -> bool:  # noqa: N802
        """Tell who asked for an actor that its process ended while starting; the stock admin leaves them waiting."""
        unborn = [
            child
            for child in getattr(self, "_child_procs", [])
            if not hasattr(child, "childRealAddr") and not child.childProc.is_alive()
        ]
        super().childDied()
        if isinstance(self._pendingChildren, dict):  # Thespian makes it a list when it shuts down
            for child in unborn:
                for request in self._pendingChildren.pop(child.childNum, []):
                    self._sendPendingActorResponse(
                        request,
                        None,
                        errorCode=PendingActorResponse.ERROR_Invalid_ActorClass,
                        errorStr="its process ended while it was starting; the log of the run says why",
                    )
        return True


def run_admin(
    endpoint: Endpoint, starter: Any, capabilities: dict[str, Any], log_defs: Any, settings: RunSettings
) -> None:
    """The life of the admin's process; `starter` hears when it is ready."""
    settings = replace(settings, admin_pid=os.getpid())
    factory = ProcessFactory(settings)
    admin = RunAdmin(replace(endpoint, settings=settings), capabilities, log_defs, factory)
    admin.addrOfStarter = starter
    setproctitle(f"unity-rl admin (run {settings.run_id})")
    signal.signal(signal.SIGCHLD, admin.signalChildDied)
    _startLogger(RLTransport, admin.transport, admin, capabilities, log_defs, factory)
    admin.transport.enableRXPauseFlowControl(False)
    admin.run()


class ActorSystemBase(StockTCPBase):  # type: ignore[misc,unused-ignore]
    """The launcher's end of our actor system."""

    transportType = RLTransport  # noqa: N815 - Thespian looks for this name

    def __init__(
        self,
        system: Any,
        logDefs: Any = None,
        *,
        settings: RunSettings | None = None,
        start_s_max: float = START_S_MAX,
    ) -> None:
        """Start an admin and wait until it answers.

        system: anything with a dict `capabilities`, which is completed. Raises ActorSystemError if the admin does not
        come up within `start_s_max` seconds, or if a port that the capabilities ask for is taken.
        """
        settings = settings or new_settings("actors")
        deadline = time.monotonic() + start_s_max
        self.mpcontext = ProcessFactory(settings)
        self.loggers = 0
        """How many loggers the admin has had: it says so to who started it, at the start and after each loss of one."""
        listener = _admin_listener(system.capabilities.get("Admin Port", 0))
        with listener:
            system.capabilities.update(_capabilities(listener.getsockname()[1]))
            admin_address = ActorAddress(LoopbackAddress(listener.getsockname()[1]))
            self.transport = RLTransport(Endpoint(settings, admin=admin_address))
            # The constructors in between would attach to a foreign admin and change our environment.
            super(systemBase, self).__init__(admin_address)
            self.admin_process = self._start_admin(listener, system.capabilities, logDefs)
        try:
            self._await_admin(deadline, start_s_max)
        except BaseException:
            self.abandon()
            raise

    def _run_transport(self, *arguments: Any, **options: Any) -> Any:
        """As Thespian's, which hides what the admin says of itself from those who wait for answers."""
        received = super()._run_transport(*arguments, **options)
        if isinstance(received, ReceiveEnvelope) and isinstance(received.message, EndpointConnected):
            self.loggers += 1
        return received

    def _start_admin(self, listener: socket.socket, capabilities: dict[str, Any], log_defs: Any) -> RunProcess:
        settings = self.mpcontext.settings
        endpoint = Endpoint(settings, admin=self.adminAddr, listener=listener.fileno())
        process: RunProcess = self.mpcontext.Process(
            target=run_admin,
            args=(endpoint, self.transport.myAddress, dict(capabilities), log_defs, settings),
            name="admin",
        )
        process.passed_fds = (listener.fileno(),)
        # Out of the terminal's process group: its signals are for the launcher.
        process.is_session_leader = True
        process.start()
        forget_child(process)
        return process

    def _await_admin(self, deadline: float, start_s_max: float) -> None:
        self.transport.set_watch([self.admin_process.sentinel])
        try:
            self._await(EndpointConnected, deadline, start_s_max)
            self._tx_to_admin(QueryExists())
            self._await(QueryAck, deadline, start_s_max)
        finally:
            self.transport.set_watch([])

    def _await(self, kind: type, deadline: float, start_s_max: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            reply = self._run_transport(min(left, _REPLY_SLICE_S))
            if isinstance(reply, ReceiveEnvelope) and isinstance(reply.message, kind):
                return
            if not self.admin_process.is_alive():
                code = self.admin_process.exitcode
                raise ActorSystemError(
                    f"the admin of the actor system ended at once with code {code}; see the run's log"
                )
        raise ActorSystemError(f"the actor system was not ready within {start_s_max:g} s; is the machine overloaded?")

    def shutdown(self, deadline_s: float = CLOSE_S_MAX) -> None:
        """End every process of the system within `deadline_s`: in order as long as that works, then by SIGKILL.

        Returns when they are gone; the system cannot be used after that.
        """
        marker = self.mpcontext.settings.marker
        deadline = time.monotonic() + deadline_s
        # Two thirds of the time for the orderly way: what then still runs does not react, and is killed at once.
        orderly = time.monotonic() + deadline_s * 2 / 3
        try:
            if self._shut_down_in_order(orderly):
                wait_until_gone(run_processes(marker), orderly - time.monotonic())
        finally:
            self._kill_others(marker)
            sweep_run(marker)
            self.admin_process.kill()
            self.admin_process.join(max(1.0, deadline - time.monotonic()))
            self.transport.close()

    def _kill_others(self, marker: str) -> None:
        """Kill all but the admin, which is still there to take note of its children's ends and leaves no zombies."""
        others = [life for life in run_processes(marker) if life.pid != self.admin_process.pid]
        for life in others:
            kill_life(life)
        if others:
            wait_until_gone(others, 1.0)
            self.admin_process.join(REAP_S)

    def _shut_down_in_order(self, deadline: float) -> bool:
        """Ask the admin to end everything; whether it has done so in time."""
        if not self.admin_process.is_alive():
            return False
        self.transport.set_watch([self.admin_process.sentinel])
        self._tx_to_admin(SystemShutdown())
        while (left := deadline - time.monotonic()) > 0:
            reply = self._run_transport(left)
            if isinstance(reply, ReceiveEnvelope) and isinstance(reply.message, SystemShutdownCompleted):
                return True
            if not self.admin_process.is_alive():
                return True
        return False

    def abandon(self) -> None:
        """Kill the admin, which ends all others, and close our end; may be called again."""
        self.admin_process.kill()
        self.admin_process.join(5.0)
        self.transport.close()


def _admin_listener(port: int) -> socket.socket:
    try:
        return listen_on_loopback(port)
    except OSError as error:
        raise ActorSystemError(f"cannot listen on 127.0.0.1:{port} for the actor system: {error}") from error


def _capabilities(port: int) -> dict[str, Any]:
    return {
        "Admin Port": port,
        "Process Startup Method": "spawn",
        "AllowRemoteActorSources": "no",
        "Thespian ActorSystem Name": "rltcp",
        "Thespian ActorSystem Version": 1,
        "Thespian Watch Supported": os.name != "nt",
        "Python Version": tuple(sys.version_info),
    }


# Thespian looks for a base by name in its own package.
sys.modules["thespian.system.rltcp"] = sys.modules[__name__]
