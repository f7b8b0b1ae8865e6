"""A client that does to the topics of a namespace whatever can be done, and books the answers."""

import time

from crash.admin_books import key_of
from crash.admin_desk import FAMILIES, LOST, Wrong
from crash.admin_eyes import Eyes
from crash.admin_messages import Messages
from crash.admin_settings import AdminSettings
from crash.admin_topics import TopicLife
from crash.owners import Owners
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Kind, metadata, send_frame

BURST = 12
MAKES = 0.15
"""How often it is tried to make a topic, before anything else."""
LONGEST_DELETION_SECONDS = 150.0
RETRY_SECONDS = 0.1
TOGETHER = 0.5
"""How often something else is done while messages are under way."""


class AdminLoad(Messages, TopicLife, AdminSettings):
    """`live` until the broker dies, then `look`."""

    # Living -------------------------------------------------------------------------

    def live(self) -> None:
        """Go on until the broker or a part of it was killed; raises `Wrong` at once when something
        is."""
        operations = [
            (self._publish, 6), (self._subscribe, 3), (self._unsubscribe, 1), (self._ack, 3),
            (self._skip, 2), (self._skip_all, 1), (self._go_back, 1), (self._truncate, 1),
            (self._trim, 1), (self._compact, 2), (self._terminate, 1), (self._unload, 2),
            (self._move, 3),
            (self._set_topic, 5), (self._set_all, 3), (self._register, 3),
            (self._forget_schema, 1),
            (self._grow, 1), (self._delete, 2), (self._delete_namespace, 1),
        ]  # fmt: skip
        actions, weights = zip(*operations, strict=True)
        try:
            with Owners(self._broker.port) as self._clients:
                while not self._struck():
                    if not self.book.exists:
                        self._make_namespace()
                    elif self._dice.random() < MAKES or not self.book.families:
                        self._make()
                    else:
                        self._dice.choices(actions, weights)[0]()
        except LOST:
            self._land()  # what was confirmed before the end counts
        except Wrong:
            if not self._struck():  # else it may have failed because of that
                raise
            self._land()

    def look(self) -> list[str]:
        """What is wrong after a kill, compared with everything that may be right.

        A deletion that lacks the process that was killed goes on by itself when that is back.
        """
        deadline = time.monotonic() + LONGEST_DELETION_SECONDS
        while (wrong := self._compare()) and self._deletes and time.monotonic() < deadline:
            time.sleep(RETRY_SECONDS)
        return wrong

    def _compare(self) -> list[str]:
        seen = Eyes(self._broker, self.namespace, list(FAMILIES)).look()
        verdicts = [one.differences(seen) for one in self.candidates]
        fitting = [one for one, wrong in zip(self.candidates, verdicts, strict=True) if not wrong]
        self.torn += len(self.candidates) > 1
        if not fitting:
            return [f"{self.namespace}: {' / '.join('; '.join(one) for one in verdicts)}"]
        book, *others = fitting
        unsure = [
            (name, index)
            for name, family in book.families.items()
            for index, log in family.logs.items()
            if any(one.families[name].logs[index].compacted != log.compacted for one in others)
        ]
        book.learn(seen)
        self.candidates = [book]
        self._flying.clear()
        self._sent.clear()
        for name, index in unsure:  # it looks the same with and without: so have it done
            self._compact_to_end(name, index)
        return []

    def restarted(self) -> None:
        """No topic is loaded any more."""
        for log in self._logs(self.book):
            log.loaded = False

    # Publishing ---------------------------------------------------------------------

    def _publish(self) -> None:
        """Some messages, with something else meanwhile or not."""
        name, index, log = self._some_log(self.book)
        self._producer = next(self._numbers)
        self._sender = self._clients.of(self._url(name, index))
        opened = self._sender.produce(self._url(name, index), self._producer)
        if isinstance(opened, pb.CommandError):
            if (opened.error == pb.TopicTerminatedError) != log.terminated:
                raise Wrong(f"{self._url(name, index)}: {opened}")
            return
        if log.terminated:
            raise Wrong(f"{self._url(name, index)} is terminated and takes producers")
        log.loaded = True
        for _ in range(self._dice.randint(1, BURST)):
            number = next(self._numbers)
            log.sent.append(number)
            self._sent[number] = name, index, log.born
            self._flying.add(number)
            self.story.append(f"send {number} to {name} {index}")
            own_metadata = metadata(number, partition_key=key_of(number))
            self._sender.send_bytes(send_frame(number, b"value", self._producer, own_metadata))
        self.book.let_go()
        if self._dice.random() < TOGETHER:
            meanwhile = (self._truncate, self._unload, self._move, self._set_topic, self._terminate,
                         self._delete, self._skip_all, self._set_all, self._subscribe,
                         self._trim)  # fmt: skip
            self._dice.choice(meanwhile)()
        if self._land():
            self._sender.request(pb.CommandCloseProducer(producer_id=self._producer, request_id=0))
        self._count("publish")

    def _land(self) -> bool:
        """Take the receipts; false when the producer was closed instead."""
        kinds = (Kind.SEND_RECEIPT, Kind.SEND_ERROR, Kind.CLOSE_PRODUCER)
        while self._flying:
            try:
                frame = self._sender.await_frame(lambda frame: frame.kind in kinds)
            except LOST:
                return False
            if frame.kind == Kind.SEND_RECEIPT:
                self._confirmed(frame.command.sequence_id, frame.command.message_id)
            elif frame.command.producer_id == self._producer:
                self._flying.clear()
                return False
        return True

    def _confirmed(self, number: int, place: pb.MessageIdData) -> None:
        """In all books that have the log to which it was sent."""
        self.story.append(f"receipt of {number}")
        self._flying.discard(number)
        name, index, born = self._sent[number]
        for book in self.candidates:
            family = book.families.get(name)
            log = family.logs.get(index) if family is not None else None
            if log is not None and log.born == born:
                log.places[number] = place.ledgerId, place.entryId
