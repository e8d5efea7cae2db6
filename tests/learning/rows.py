"""The rows of the table of learning: what is trained, by whom, and what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import yaml

from fakeunity.scenes.catalogue import SCENES
from tests.learning.judgement import SHARE_OF_EXPERT, Beats, FinalNotLower, Goal, Reaches, ShareOfExpert, Steps

OURS: Final = "ours"
PEER: Final = "mlagents-learn"
Document = Mapping[str, Any]  # YAML


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way of training a row. after: only summaries after this text count, such as the last lesson's beginning.

    trainer: whose command is run. url: options of the player. document: the configuration file. shows_episodes: so many
    of the scene's expert are recorded before, in the file `DEMO`.
    """

    name: str
    document: Document
    trainer: Literal["ours", "peer"] = "ours"
    url: str = ""
    after: str = ""
    shows_episodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task. threshold: of the mean reward of every behavior. needs: what must exist before it can be measured.

    limit_s: seconds after which a run is given up.
    """

    name: str
    what: str
    scene: str
    threshold: float
    sides: Sequence[Side]
    goals: Sequence[Goal]
    agents: int = 1
    envs: int = 1
    limit_s: float = 900.0

    @property
    def is_there(self) -> bool:
        """False while the scene has not been built."""
        return self.scene in SCENES


def bundled(scene: str, **changes: Any) -> dict[str, Any]:  # YAML
    """The bundled configuration of a scene, every behavior with other values of its own settings."""
    document: dict[str, Any] = yaml.safe_load((files("runtime") / "configs" / f"{scene}.yaml").read_text())
    document.pop("env_settings", None)
    document["behaviors"] = {
        name: _changed(behavior, changes) for name, behavior in deepcopy(document["behaviors"]).items()
    }
    return document


def _changed(behavior: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:  # YAML
    """The settings with `changes` on top; a mapping lies over the one there, None takes a key away."""
    merged = {**behavior}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = _changed(merged.get(key, {}), value)
        else:
            merged[key] = value
    return merged


def _against_peer(document: Document) -> tuple[Side, ...]:
    return Side(name=OURS, document=document), Side(name=PEER, document=document, trainer="peer")


PEER_GOALS: Final[tuple[Goal, ...]] = (Reaches(OURS), Steps(OURS, PEER), FinalNotLower(OURS, PEER))
MEMORY: Final = "&link=memory"
DEMO: Final = "expert.demo"
HEIGHTS: Final = (0.0, 1.0, 2.0, 3.0, 4.0)


def _heights() -> dict[str, Any]:  # YAML
    """Lessons of `walljump`: a wall that grows as it is passed."""
    lessons = []
    for number, height in enumerate(HEIGHTS):
        lesson: dict[str, Any] = {"name": f"Height{number}", "value": height}
        if number + 1 < len(HEIGHTS):
            lesson["completion_criteria"] = {
                "behavior": "WallJump",
                "measure": "reward",
                "threshold": 0.8,
                "min_lesson_length": 100,
                "signal_smoothing": True,
            }
        lessons.append(lesson)
    return {"wall_height": {"curriculum": lessons}}


def _walljump() -> Row:
    plain = bundled("walljump", max_steps=120_000, summary_freq=4_000)
    constant = {**plain, "environment_parameters": {"wall_height": HEIGHTS[-1]}}
    lessons = {**plain, "environment_parameters": _heights()}
    last = f"wall_height: lesson {len(HEIGHTS) - 1} "
    return Row(
        name="walljump",
        what="the highest wall, with lessons that lead to it and without; only what was earned at the highest counts",
        scene="walljump",
        threshold=0.9,
        agents=16,
        sides=(
            Side(name="curriculum", document=lessons, url=MEMORY, after=last),
            Side(name="no curriculum", document=constant, url=MEMORY),
        ),
        goals=(Reaches("curriculum"), Beats("curriculum", "no curriculum")),
    )


def _hallway() -> Row:
    document = bundled("hallway")
    forgetful = bundled("hallway", network_settings={"memory": None})
    return Row(
        name="hallway",
        what="a sign at the entrance must be remembered: with an LSTM and without",
        scene="hallway",
        threshold=0.9,
        agents=8,
        sides=(*_against_peer(document), Side(name="feed-forward", document=forgetful, url=MEMORY)),
        goals=(*PEER_GOALS, Beats(OURS, "feed-forward")),
    )


def _vault() -> Row:
    document = bundled("vault")
    incurious = bundled("vault", reward_signals={"curiosity": None})
    return Row(
        name="vault",
        what="nothing pays before a chest behind two doors: with curiosity and without",
        scene="vault",
        threshold=0.9,
        agents=16,
        sides=(
            Side(name="curiosity", document=document, url=MEMORY),
            Side(name="no curiosity", document=incurious, url=MEMORY),
        ),
        goals=(Reaches("curiosity"), Beats("curiosity", "no curiosity")),
    )


def _cloning(name: str, what: str, row: Row) -> Row:
    """A row of which the expert's reward is the scene's best: the threshold is the share that is wanted."""
    expert = SCENES[row.scene].best_reward
    (side,) = row.sides
    return replace(
        row, name=name, what=what, threshold=SHARE_OF_EXPERT * expert, goals=(ShareOfExpert(side.name, expert),)
    )


def _clones() -> Iterator[Row]:
    alone: dict[str, Any] = {
        "trainer_type": "offline_bc",
        "hyperparameters": {"batch_size": 64, "learning_rate": 1e-3},
        "network_settings": {"hidden_units": 64, "num_layers": 2},
        "behavioral_cloning": {"demo_path": DEMO, "batches_per_epoch": 20},
        "max_steps": 60_000,
        "summary_freq": 5_000,
    }
    offline = Side(name="offline", document={"behaviors": {"Balance": alone}}, url=MEMORY, shows_episodes=20)
    beside: dict[str, Any] = {
        "trainer_type": "online_bc",
        "hyperparameters": {"batch_size": 64, "learning_rate": 1e-3},
        "network_settings": {"hidden_units": 32, "num_layers": 1},
        "behavioral_cloning": {"brain_to_imitate": "Teacher", "batches_per_epoch": 10},
        "max_steps": 5_000,
        "summary_freq": 500,
    }
    online = Side(name="online", document={"behaviors": {"Student": beside}}, url=f"&protocol=API-10{MEMORY}")
    blank = Row(name="", what="", scene="balance", threshold=0.0, agents=8, sides=(offline,), goals=())
    yield _cloning("cloning offline", "the expert of `balance`, from a file of 20 episodes and nothing else", blank)
    taught = replace(blank, scene="teacher", agents=4, sides=(online,))
    yield _cloning("cloning online", "a brain that the player plays, from what it does beside the student", taught)


@cache
def rows() -> tuple[Row, ...]:
    """All rows, quick ones first."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    yield Row(
        name="basic",
        what="the small goal is near, the large one worth the way",
        scene="basic",
        threshold=0.9,
        sides=_against_peer(bundled("basic", max_steps=16_000, summary_freq=500)),
        goals=PEER_GOALS,
    )
    yield Row(
        name="balance",
        what="a ball on a platform: continuous actions",
        scene="balance",
        threshold=44.0,
        agents=8,
        envs=2,
        sides=_against_peer(bundled("balance", summary_freq=5_000)),
        goals=PEER_GOALS,
    )
    yield _hallway()
    yield _walljump()
    yield _vault()
    yield Row(
        name="two brains",
        what="`crowd`: two behaviors of other actions, one of which appears later; of both, the lower and the later",
        scene="crowd",
        threshold=0.8,
        agents=8,
        sides=(Side(name=OURS, document=bundled("crowd", summary_freq=2_000), url=MEMORY),),
        goals=(Reaches(OURS),),
    )
    yield from _clones()
    yield Row(
        name="gridworld",
        what="a field seen by a camera, and a goal that says which of two things is wanted",
        scene="gridworld",
        threshold=0.8,
        agents=64,
        limit_s=2_700.0,
        sides=_against_peer(bundled("gridworld", max_steps=130_000, summary_freq=5_000)),
        goals=PEER_GOALS,
    )
