"""`MetaCurriculum` of 2019: the curricula of all brains, from a folder of JSON files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runtime.errors import ConfigError
from runtime.experience.lesson_files import ENDING
from trainers.curriculum import Curriculum


class MetaCurriculum:
    """The curricula in a folder, by brain. Files that do not end in .json are none.

    Raises ConfigError when the folder holds none, or two files that set one parameter.
    """

    def __init__(
        self, curriculum_folder: str | Path, default_reset_parameters: Mapping[str, float] | None = None
    ) -> None:
        folder = Path(curriculum_folder)
        if not folder.is_dir():
            raise ConfigError(f"{folder}: there is no such folder; expected one with a file BRAIN.json for each brain")
        paths = sorted(path for path in folder.iterdir() if path.suffix == ENDING and path.is_file())
        if not paths:
            raise ConfigError(f"{folder}: there is no lesson file in it; expected a file BRAIN.json for each brain")
        found = [Curriculum(path, default_reset_parameters) for path in paths]
        self._curricula = {each.brain_name: each for each in found}
        owners: dict[str, str] = {}
        for each in found:
            for name in each.get_config():
                if name in owners:
                    raise ConfigError(
                        f"{folder}: {owners[name]}{ENDING} and {each.brain_name}{ENDING} both set {name}; expected one",
                    )
                owners[name] = each.brain_name

    @property
    def brains_to_curriculums(self) -> Mapping[str, Curriculum]:
        """The curriculum of each brain that has one."""
        return dict(self._curricula)

    @property
    def lesson_nums(self) -> dict[str, int]:
        """The lesson of each brain."""
        return {name: each.lesson_num for name, each in self._curricula.items()}

    @lesson_nums.setter
    def lesson_nums(self, numbers: Mapping[str, int]) -> None:
        """Lessons by brain; others stay."""
        for name, number in numbers.items():
            self._curricula[name].lesson_num = number

    def set_all_curriculums_to_lesson_num(self, lesson_num: int) -> None:
        """Every brain in this lesson, or in its last."""
        for each in self._curricula.values():
            each.lesson_num = lesson_num

    def increment_lessons(
        self, measure_vals: Mapping[str, float | None], reward_buff_sizes: Mapping[str, int] | None = None
    ) -> dict[str, bool]:
        """Whose lesson has ended, by brain. A brain without a curriculum, or with too few episodes, is left out.

        reward_buff_sizes: episodes that have ended in this lesson; None for enough of them.
        """
        ended = {}
        for name, measure in measure_vals.items():
            each = self._curricula.get(name)
            if each is None:
                continue
            is_ready = reward_buff_sizes is None or reward_buff_sizes.get(name, 0) >= each.min_lesson_length
            if is_ready:
                ended[name] = each.increment_lesson(measure)
        return ended

    def get_config(self) -> dict[str, float]:
        """The reset parameters of all brains' lessons now."""
        return {name: value for each in self._curricula.values() for name, value in each.get_config().items()}
