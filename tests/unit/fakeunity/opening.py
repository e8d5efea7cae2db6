"""A driver of a player in memory, for the tests of this folder."""

from fakeunity.memory import MemoryPlayer, open_player
from fakeunity.spec import parse_url
from tests.support.driving import Choice, Driver, random_choice


def opened(url: str, *, env_id: int = 0) -> MemoryPlayer:
    return open_player(parse_url(f"fake:{url}"), env_id=env_id)


def started(url: str, choose: Choice | None = None, *, seed: int = 0) -> Driver:
    """A driver that has done its first reset."""
    driver = Driver(opened(url), random_choice(0) if choose is None else choose, seed)
    driver.start()
    return driver
