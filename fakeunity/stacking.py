"""Stacked observations: what an agent saw in its last K messages, oldest first, nothing before its episode began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fakeunity.rows import BehaviorSpec, Rows
from fakeunity.sensors import NO_PICTURE


def stacked_spec(spec: BehaviorSpec, frames: int) -> BehaviorSpec:
    """The behavior as it looks with every vector and camera stacked; goals and changing numbers of things are not."""
    if frames == 1:
        return spec

    def name(sensor: str) -> str:
        return f"StackingSensor_size{frames}_{sensor}"

    observations = tuple(
        sensor if sensor.rows or sensor.is_goal else replace(sensor, name=name(sensor.name), size=sensor.size * frames)
        for sensor in spec.observations
    )
    images = tuple(replace(camera, name=name(camera.name), frames=frames) for camera in spec.images)
    return replace(spec, observations=observations, images=images)


class History:
    """The last K frames of each agent of one sensor; a frame is a row of an array, and one is `blank` before it is."""

    def __init__(self, frames: int, blank: float) -> None:
        self._frames = frames
        self._blank = blank
        self._seen: dict[int, NDArray[np.generic]] = {}

    def clear(self) -> None:
        """Every episode is over."""
        self._seen.clear()

    def push(self, rows: Rows, latest: NDArray[np.generic]) -> NDArray[np.generic]:
        """The stacked frames of each row, (n, frames * width), once `latest`, (n, width), has been seen.

        A row that is done is the last of its episode: the agent's next row begins with blanks.
        """
        width = latest.shape[1]
        stacked = np.empty((len(latest), self._frames * width), latest.dtype)
        for row, agent in enumerate(rows.ids.tolist()):
            seen = self._seen.get(agent)
            if seen is None:
                seen = np.full(self._frames * width, self._blank, latest.dtype)
            stacked[row, :-width] = seen[width:]
            stacked[row, -width:] = latest[row]
            self._seen[agent] = stacked[row]
            if rows.done[row]:
                del self._seen[agent]
        return stacked


class Stacking:
    """Rows of one behavior, stacked; `spec` is the one of the world, the result fits `stacked_spec`."""

    def __init__(self, spec: BehaviorSpec, frames: int) -> None:
        self._spec = spec
        self._frames = frames
        self._vectors = [History(frames, 0.0) for _ in spec.observations]
        self._cameras = [History(frames, NO_PICTURE) for _ in spec.images]

    def clear(self) -> None:
        """Every episode is over."""
        for history in (*self._vectors, *self._cameras):
            history.clear()

    def stack(self, rows: Rows) -> Rows:
        """The rows with what was seen before put in front."""
        if self._frames == 1:
            return rows
        observations = tuple(
            seen if sensor.rows or sensor.is_goal else history.push(rows, seen).astype(np.float32)
            for sensor, history, seen in zip(self._spec.observations, self._vectors, rows.observations, strict=True)
        )
        images = tuple(
            history.push(rows, seen.reshape(len(seen), 1)).astype(np.int64)
            for history, seen in zip(self._cameras, rows.images, strict=True)
        )
        return replace(rows, observations=observations, images=images)
