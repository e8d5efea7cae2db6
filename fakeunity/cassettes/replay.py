"""A player that says what a recorded one said, as long as the trainer says what it said then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from google.protobuf.message import DecodeError

from fakeunity import gen1, wire
from fakeunity.cassettes.differences import differences, text_of
from fakeunity.cassettes.tape import Cassette, Message
from fakeunity.errors import TrainerMistakeError
from fakeunity.side_channels import Sampler
from runtime.players.wire import communicator_pb2 as pb


class DeviationError(TrainerMistakeError):
    """The trainer says something else than in the recording; the message shows where, and both messages."""


class TapeEndError(TrainerMistakeError):
    """The recording ends, and the trainer goes on."""


class RecordedDeathError(TapeEndError):
    """The recording ends where its player died: one that is started again has a recording of its own."""

    is_final: ClassVar[bool] = False


class ReplayPlayer:
    """The player of `cassette`. is_tolerant: values of actions and seeds may differ from then."""

    def __init__(self, cassette: Cassette, *, is_tolerant: bool = False) -> None:
        self._cassette = cassette
        self._is_tolerant = is_tolerant
        self._messages: Iterator[Message] = cassette.messages()
        self._exchange = 0
        self._has_ended = False
        self.exchange_path = gen1.EXCHANGE_PATH if cassette.generation == 1 else wire.EXCHANGE_PATH
        self.parameters: dict[str, float | Sampler] = {}
        self.train_mode: bool | None = None

    def hello(self) -> bytes | None:
        """The recorded player's first call."""
        return self._next_call()

    def reply(self, message: bytes) -> bytes | None:
        """The recorded player's next call; None when the trainer closes as it did then, and for ever after.

        Raises DeviationError at the first difference, and TapeEndError where the recording ends.
        """
        if self._has_ended:
            return None
        self._exchange += 1
        recorded = next(self._messages, None)
        is_closing = _is_closing(message)
        if recorded is None:
            self._has_ended = True
            if is_closing:
                return None
            raise self._end("the trainer did not answer any more then")
        if recorded.speaker != "trainer":
            raise self._end("the recorded player spoke twice")
        self._compare(recorded.body, message)
        if is_closing:
            self._has_ended = True
            return None
        return self._next_call()

    def close(self) -> None:
        """Ends the player; harmless twice."""
        self._has_ended = True

    def _next_call(self) -> bytes:
        call = next(self._messages, None)
        # A recorded trainer that lost its player may have said that it closes all the same.
        if call is None or (call.speaker == "trainer" and _is_closing(call.body)):
            ending = self._end("the recorded player did not answer any more")
            raise RecordedDeathError(str(ending)) if self._cassette.is_whole else ending
        if call.speaker != "player":
            raise self._end("the recorded trainer spoke twice")
        return call.body

    def _compare(self, recorded: bytes, said: bytes) -> None:
        generation = self._cassette.generation
        found = differences(recorded, said, generation=generation, is_tolerant=self._is_tolerant)
        if not found:
            return
        self._has_ended = True
        places = "\n".join(f"  {line}" for line in found)
        # Whoever sees only the last lines of a player's log sees the places.
        raise DeviationError(
            f"exchange {self._exchange}: the trainer deviates from {self._cassette.path}\n"
            f"recorded:\n{text_of(recorded, generation=generation)}\n"
            f"the trainer says:\n{text_of(said, generation=generation)}\n"
            f"exchange {self._exchange} differs from {self._cassette.path.name}:\n{places}"
        )

    def _end(self, reason: str) -> TapeEndError:
        self._has_ended = True
        if not self._cassette.is_whole:
            reason = f"the file was cut short after byte {self._cassette.ends_at}"
        return TapeEndError(f"exchange {self._exchange}: {self._cassette.path} ends here: {reason}")


def _is_closing(message: bytes) -> bool:
    try:
        return bool(pb.UnityMessageProto.FromString(message).header.status != wire.STATUS_OK)
    except DecodeError:
        return False
