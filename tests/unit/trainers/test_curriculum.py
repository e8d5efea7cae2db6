"""`Curriculum` and `MetaCurriculum` of 2019, as code of that time uses them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from trainers.curriculum import Curriculum
from trainers.meta_curriculum import MetaCurriculum


def lessons(folder: Path, brain: str = "Bot", **changes: object) -> Path:
    content = {
        "measure": "reward",
        "thresholds": [-0.5, 0.0],
        "min_lesson_length": 2,
        "signal_smoothing": False,
        "parameters": {f"{brain} height": [1.0, 2.0, 3.0]},
        **changes,
    }
    path = folder / f"{brain}.json"
    path.write_text(json.dumps(content))
    return path


def test_c27_zero_is_a_measure_as_any_other_and_each_check_can_be_asked_for(tmp_path: Path) -> None:
    curriculum = Curriculum(lessons(tmp_path))
    assert curriculum.increment_lesson(0.0)
    assert not curriculum.increment_lesson(0.0)
    assert not curriculum.increment_lesson(-0.1)
    assert curriculum.lesson_num == 1
    assert [(each.lesson, each.measure, each.is_passed) for each in curriculum.checks] == [
        (0, 0.0, True),
        (1, 0.0, False),
        (1, -0.1, False),
    ]


def test_no_measure_is_no_check(tmp_path: Path) -> None:
    curriculum = Curriculum(lessons(tmp_path))
    assert not curriculum.increment_lesson(None)
    assert not curriculum.increment_lesson(math.nan)
    assert curriculum.checks == ()


def test_a_smoothed_measure_needs_more_than_one_good_look(tmp_path: Path) -> None:
    curriculum = Curriculum(lessons(tmp_path, thresholds=[0.8, 0.9], signal_smoothing=True))
    assert [curriculum.increment_lesson(1.0) for _ in range(2)] == [False, True]


def test_lessons_have_numbers_and_parameters(tmp_path: Path) -> None:
    curriculum = Curriculum(lessons(tmp_path))
    assert (curriculum.brain_name, curriculum.measure, curriculum.min_lesson_length) == ("Bot", "reward", 2)
    assert curriculum.get_config() == {"Bot height": 1.0}
    assert curriculum.get_config(2) == {"Bot height": 3.0}
    assert curriculum.get_config(3) == {}
    curriculum.lesson_num = 9
    assert curriculum.lesson_num == curriculum.max_lesson_num == 2
    assert not curriculum.increment_lesson(5.0)


def test_a_parameter_that_the_player_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Bot\.json: parameters\.Bot height: the player knows no such parameter"):
        Curriculum(lessons(tmp_path), {"gravity": 9.8})
    assert Curriculum(lessons(tmp_path), {"Bot height": 0.0}).lesson_num == 0


def test_what_is_wrong_with_a_file_is_told_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "Bot.json"
    with pytest.raises(ConfigError, match=r"Bot\.json: the lesson file cannot be read"):
        Curriculum(path)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"Bot\.json: this is not JSON: line 1"):
        Curriculum(path)


def test_the_curricula_of_a_folder_go_by_the_names_of_their_files(tmp_path: Path) -> None:
    lessons(tmp_path, "Bot")
    lessons(tmp_path, "My.Cat")
    (tmp_path / "README").write_text("no lessons")
    meta = MetaCurriculum(tmp_path)
    assert sorted(meta.brains_to_curriculums) == ["Bot", "My.Cat"]
    assert meta.get_config() == {"Bot height": 1.0, "My.Cat height": 1.0}
    assert meta.increment_lessons({"Bot": 0.0, "My.Cat": -1.0, "Dog": 5.0}) == {"Bot": True, "My.Cat": False}
    assert meta.lesson_nums == {"Bot": 1, "My.Cat": 0}
    assert meta.get_config() == {"Bot height": 2.0, "My.Cat height": 1.0}


def test_a_lesson_takes_its_episodes(tmp_path: Path) -> None:
    lessons(tmp_path)
    meta = MetaCurriculum(tmp_path)
    assert meta.increment_lessons({"Bot": 5.0}, {"Bot": 1}) == {}
    assert meta.increment_lessons({"Bot": 5.0}, {"Bot": 2}) == {"Bot": True}


def test_all_curricula_can_be_put_into_one_lesson(tmp_path: Path) -> None:
    lessons(tmp_path)
    lessons(tmp_path, "Cat", thresholds=[0.0], parameters={"mass": [1, 2]})
    meta = MetaCurriculum(tmp_path)
    meta.set_all_curriculums_to_lesson_num(5)
    assert meta.lesson_nums == {"Bot": 2, "Cat": 1}
    meta.lesson_nums = {"Bot": 1}
    assert meta.lesson_nums == {"Bot": 1, "Cat": 1}


def test_two_files_may_not_set_one_parameter(tmp_path: Path) -> None:
    for brain in ("Bot", "Cat"):
        lessons(tmp_path, brain, parameters={"mass": [1, 2, 3]})
    with pytest.raises(ConfigError, match=r"Bot\.json and Cat\.json both set mass"):
        MetaCurriculum(tmp_path)


def test_a_folder_without_lessons_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no lesson file in it"):
        MetaCurriculum(tmp_path)
    with pytest.raises(ConfigError, match="there is no such folder"):
        MetaCurriculum(tmp_path / "none")
