"""A user's environment object is driven like a player: checked, timed, and quoted when it fails."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import cloudpickle
import numpy as np
import numpy.typing as npt
import pytest

from runtime.errors import (
    EnvironmentFactoryError,
    PlayerContentError,
    PlayerDiedError,
    PlayerError,
    PlayerProtocolError,
    PlayerTimeoutError,
    UsageError,
)
from runtime.experience.brains import (
    ActionSpec,
    AllBrainInfo,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    TerminalRows,
    empty_rows,
)
from runtime.players.environment import BaseUnityEnvironment
from runtime.players.factories import ObjectPlayerFactory, UnityPlayerFactory, as_player_factory
from runtime.players.links import LinkLimits, PlayerFactory
from tests.support.player_links import Driver, assignment
from tests.support.player_messages import simple_brain

Result = TypeVar("Result")
BRAIN = simple_brain(actions=ActionSpec(1, (2,)))
LIMITS = LinkLimits(start_timeout_s=10.0, step_timeout_s=10.0, close_timeout_s=5.0)


def decisions(value: float = 0.5, *, agents: tuple[int, ...] = (7,)) -> DecisionRows:
    count = len(agents)
    zeros = np.zeros(count, np.float32)
    observations = (np.full((count, 2), value, np.float64),)
    ids = np.array(agents)
    return DecisionRows(ids, observations, zeros, None, np.zeros(count, np.int32), zeros)  # type: ignore[arg-type] # a user's dtypes


class Cell(BaseUnityEnvironment):
    """One agent; remembers what it was asked."""

    def __init__(self, worker_id: int) -> None:
        self.asked: list[Any] = [("made", worker_id)]  # `Any`: calls of several shapes
        self.is_done = False
        self.rows = decisions()
        self.failure: BaseException | None = None
        self.blocks_on: threading.Event | None = None
        self.brains: dict[str, Any] = {"Bot": BRAIN}  # `Any`: wrong ones too

    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
        self.asked.append(("reset", config, train_mode))
        return {"Bot": BrainInfo(self.rows, empty_rows(BRAIN)[1])}

    def step(
        self, vector_action: Any = None, memory: Any = None, text_action: Any = None, value: Any = None
    ) -> AllBrainInfo:
        self.asked.append(("step", vector_action, memory, text_action, value))
        if self.blocks_on is not None:
            self.blocks_on.wait(30.0)
        if self.failure is not None:
            raise self.failure
        return {"Bot": BrainInfo(self.rows, empty_rows(BRAIN)[1])}

    @property
    def external_brains(self) -> Mapping[str, BrainParameters]:
        return self.brains

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        return {"size": 3.0}

    @property
    def global_done(self) -> bool:
        return self.is_done

    def close(self) -> None:
        self.asked.append(("close",))


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30.0))


async def live(cell: Cell, change: Callable[[Cell], None], limits: LinkLimits = LIMITS) -> Driver:
    """Start, reset, change the object, step; then close, whatever happened."""
    link = ObjectPlayerFactory(lambda worker_id: cell).open_link(assignment(5, incarnation=2, port=0), limits)  # noqa: ARG005 - a factory takes one
    driver = Driver(link)
    try:
        await driver.begin({"size": 4.0})
        change(cell)
        await driver.steps(1)
    finally:
        await link.close()
    return driver


def failure_of(change: Callable[[Cell], None], kind: type[PlayerError] = EnvironmentFactoryError) -> str:
    with pytest.raises(kind) as caught:
        run(live(Cell(5), change))
    assert type(caught.value) is kind
    assert (caught.value.env_id, caught.value.incarnation) == (5, 2)
    return str(caught.value)


def setting(**fields: object) -> Callable[[Cell], None]:
    def change(cell: Cell) -> None:
        for name, value in fields.items():
            setattr(cell, name, value)

    return change


def test_an_object_is_reset_stepped_and_closed_as_in_the_seed() -> None:
    cell = Cell(5)
    driver = run(live(cell, setting()))
    assert cell.asked[1] == ("reset", {"size": 4.0}, True)
    name, actions, memory, text, value = cell.asked[2]
    assert name == "step"
    assert actions["Bot"].shape == (1, 2)
    assert memory == text == value == {"Bot": None}
    assert cell.asked[-1] == ("close",)
    assert driver.reply is not None
    observation = driver.reply.infos["Bot"].observations[0]
    assert observation.dtype == np.float32
    assert driver.reply.infos["Bot"].agents == ["$5-7"]


class BareCell(Cell):
    """Tells of no parameters, and may take some all the same."""

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        return {}


def test_an_object_that_tells_of_no_parameters_may_have_any() -> None:
    link = ObjectPlayerFactory(BareCell).open_link(assignment(4, port=0), LIMITS)

    async def life() -> None:
        assert (await link.start()).reset_parameters is None
        await link.close()

    run(life())


def test_the_hello_carries_brains_and_reset_parameters() -> None:
    link = ObjectPlayerFactory(Cell).open_link(assignment(4, port=0), LIMITS)

    async def life() -> None:
        hello = await link.start()
        assert (hello.pid, hello.reset_parameters, hello.brains) == (0, {"size": 3.0}, (BRAIN,))
        await link.close()
        await link.close()

    run(life())


def test_an_object_that_says_global_done_is_reset_instead_of_stepped() -> None:
    cell = Cell(5)
    run(live(cell, setting(is_done=True)))
    assert [each[0] for each in cell.asked] == ["made", "reset", "reset", "close"]


def test_c05_an_exception_is_quoted_with_class_text_and_traceback() -> None:
    text = failure_of(setting(failure=ValueError("no such map")))
    assert text.startswith(
        "environment 5 (incarnation 2), env step 1: the environment object raised ValueError: no such map\n"
    )
    assert "in step" in text
    assert "raise self.failure" in text


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration("x"), TimeoutError(), RuntimeError("r")]
)
def test_any_exception_is_the_objects_own(error: BaseException) -> None:
    assert f"the environment object raised {type(error).__name__}" in failure_of(setting(failure=error))


def test_an_exception_of_the_factory_is_quoted() -> None:
    def factory(worker_id: int) -> Cell:
        raise KeyError(worker_id)

    link = ObjectPlayerFactory(factory).open_link(assignment(5, port=0), LIMITS)
    with pytest.raises(EnvironmentFactoryError, match="raised KeyError: 5"):
        run(link.start())
    run(link.close())


def test_a_players_loss_inside_the_object_stays_a_loss() -> None:
    text = failure_of(setting(failure=PlayerDiedError("the game crashed")), PlayerDiedError)
    assert text == "environment 5 (incarnation 2), env step 1: the game crashed"


def test_an_object_that_does_not_return_is_reported_after_the_limit() -> None:
    release = threading.Event()
    limits = replace(LIMITS, step_timeout_s=0.2, close_timeout_s=0.1)
    with pytest.raises(PlayerTimeoutError, match=r"has not returned for 0\.2 s.*--step-timeout"):
        run(live(Cell(5), setting(blocks_on=release), limits))
    release.set()


NAN = decisions(float("nan"))


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        (NAN, PlayerContentError, "agent 7: observation 0 .* at index 0 is nan"),
        (
            replace(decisions(), observations=(np.zeros((1, 3), np.float32),)),
            PlayerContentError,
            r"shape \(1, 3\), expected \(1, 2\)",
        ),
        (replace(decisions(), observations=()), PlayerContentError, "0 observations, expected 1"),
        (replace(decisions(), rewards=np.array([np.inf], np.float32)), PlayerContentError, "reward"),
        (decisions(agents=(1, 1)), PlayerProtocolError, "asks for two decisions"),
        (replace(decisions(), action_masks=np.zeros((1, 2), np.bool_)), PlayerContentError, "forbid all actions"),
    ],
)
def test_rows_that_must_not_reach_training_are_refused(rows: DecisionRows, kind: type[PlayerError], words: str) -> None:
    def change(cell: Cell) -> None:
        cell.rows = rows

    with pytest.raises(kind, match=rf"environment 5 \(incarnation 2\), env step 1: brain 'Bot'.*{words}"):
        run(live(Cell(5), change))


def test_a_brain_that_changes_is_refused() -> None:
    assert "redefined" in failure_of(setting(brains={"Bot": simple_brain()}))


def test_brain_parameters_of_another_class_are_named() -> None:
    assert "external_brains['New'] is a dict" in failure_of(setting(brains={"Bot": BRAIN, "New": {}}))


def test_rows_of_a_brain_that_is_not_announced_are_refused() -> None:
    class Stranger(Cell):
        def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
            return {"Else": BrainInfo(*empty_rows(BRAIN))}

    with pytest.raises(PlayerProtocolError, match="rows of brain 'Else'"):
        run(live(Stranger(5), setting()))


def test_terminal_rows_and_masks_pass_unchanged() -> None:
    class Ending(Cell):
        def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> AllBrainInfo:  # noqa: FBT001, FBT002 - the seed's signature
            one = np.ones(1, np.float32)
            end = TerminalRows(
                np.array([3]), (np.ones((1, 2), np.float32),), one, np.array([True]), np.zeros(1, np.int32), one
            )
            masks: npt.NDArray[np.bool_] = np.array([[True, False]])
            return {"Bot": BrainInfo(replace(decisions(), action_masks=masks), end)}

    link = ObjectPlayerFactory(Ending).open_link(assignment(5, port=0), LIMITS)

    async def life() -> BrainInfo:
        await link.start()
        reply = await link.reset({}, train_mode=False)
        await link.close()
        return reply.infos["Bot"]

    info = run(life())
    assert (info.terminals.agents.tolist(), info.max_reached) == ([3], [True])
    assert info.action_masks is not None
    assert info.action_masks.tolist() == [[True, False]]


def test_a_factory_of_any_kind_becomes_a_player_factory_that_travels() -> None:
    wrapped = as_player_factory(Cell)
    assert isinstance(wrapped, PlayerFactory)
    assert wrapped.is_blocking
    copy = cloudpickle.loads(cloudpickle.dumps(as_player_factory(lambda worker_id: worker_id)))
    assert copy.env_factory(3) == 3
    unity = UnityPlayerFactory(target="fake:basic")
    assert as_player_factory(unity) is unity
    with pytest.raises(UsageError, match="an environment factory of type int"):
        as_player_factory(3)  # type: ignore[arg-type] # a user's mistake
