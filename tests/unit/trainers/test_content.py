"""What must not reach training is refused with its exact place, and nothing of its block is kept."""

from dataclasses import replace

import numpy as np
import pytest

from runtime.errors import InternalError, PlayerContentError
from runtime.experience.columns import StepBlock
from tests.support.experience_streams import Act, Row, Step, block_of, small_brain, small_learner
from trainers.learner import PPOLearner

BRAIN = small_brain()
OTHER = small_brain("Other")
STEPS = [
    Step((), (Row(agent=4), Row(agent=5))),
    Step((Act(agent=4), Act(agent=5)), (Row(agent=4), Row(agent=5, reward=1.0))),
]


def block(*, is_reset: bool = False) -> StepBlock:
    steps = STEPS[:1] if is_reset else STEPS
    names = {"Other": STEPS, "Walker": steps} if not is_reset else {"Walker": steps}
    return block_of(names, [BRAIN, OTHER], env_id=3, incarnation=2, first_step=10, is_reset=is_reset)


def spoil(name: str, index: tuple[int, ...], value: float, *, is_reset: bool = False) -> StepBlock:
    sound = block(is_reset=is_reset)
    columns = sound.brains["Walker"]
    if name.startswith("observation"):
        arrays = [each.copy() for each in columns.observations]
        arrays[int(name[-1])][index] = value
        spoiled = replace(columns, observations=tuple(arrays))
    else:
        array = getattr(columns, name).copy()
        array[index] = value
        spoiled = replace(columns, **{name: array})
    return replace(sound, brains={**sound.brains, "Walker": spoiled})


@pytest.mark.parametrize(
    ("spoiled", "text"),
    [
        pytest.param(
            spoil("observation 1", (3, 1), np.nan),
            r"environment 3 \(incarnation 2\): brain 'Walker', agent 5: observation 1 index 1 is nan at env step 12",
            id="observation",
        ),
        pytest.param(spoil("rewards", (0,), np.inf), "agent 4: reward is inf at env step 11", id="reward"),
        pytest.param(spoil("group_rewards", (2,), -np.inf), "agent 4: group reward is -inf at env step 12", id="group"),
        pytest.param(spoil("continuous", (1, 0), np.nan), "agent 5: action index 0 is nan at env step 12", id="action"),
        pytest.param(
            spoil("observation 0", (1, 2), np.nan, is_reset=True),
            "agent 5: observation 0 index 2 is nan in the reply to a reset",
            id="reset",
        ),
    ],
)
def test_a_value_that_is_not_finite_is_named_and_nothing_of_the_block_is_kept(spoiled: StepBlock, text: str) -> None:
    learner = small_learner(brains=[BRAIN, OTHER])
    assert isinstance(learner, PPOLearner)
    with pytest.raises(PlayerContentError, match=text) as caught:
        learner.accept(spoiled)
    assert (caught.value.env_id, caught.value.incarnation) == (3, 2)
    assert all(each.steps == each.buffered == 0 for each in learner.progress().values())
    assert not any(behavior.streams for behavior in learner._behaviors.values())
    learner.accept(block())
    assert learner.progress()["Walker"].steps == 2


def test_a_wrong_shape_is_refused() -> None:
    sound = block()
    columns = sound.brains["Walker"]
    wide = replace(columns, observations=(np.zeros((4, 9), np.float32), columns.observations[1]))
    few = replace(columns, observations=columns.observations[:1])
    learner = small_learner(brains=[BRAIN, OTHER])
    with pytest.raises(PlayerContentError, match=r"observation 0 with shape \(9,\); expected \(3,\)"):
        learner.accept(replace(sound, brains={"Walker": wide}))
    with pytest.raises(PlayerContentError, match="sent 1 observations; expected 2"):
        learner.accept(replace(sound, brains={"Walker": few}))


def test_actions_of_another_shape_or_an_unknown_brain_are_our_own_bug() -> None:
    sound = block()
    thin = replace(sound.brains["Walker"], continuous=np.zeros((2, 1), np.float32))
    learner = small_learner(brains=[BRAIN])
    with pytest.raises(InternalError, match="carries actions of shapes"):
        learner.accept(replace(sound, brains={"Walker": thin}))
    with pytest.raises(InternalError, match="'Other', which was not added"):
        learner.accept(sound)
