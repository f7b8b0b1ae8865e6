"""Faults of the asyncio client: messages lost, mixed, or delivered again without need."""

from mutants.fault import Fault

JOINING = "client/magnetar/chunk_joining.py"
REDELIVERY = "client/magnetar/redelivery.py"
CHUNKS = ("tests/client/test_chunk_joining.py",)
DUE = ("tests/client/test_redelivery.py",)
AGAIN = ("tests/client/test_consumer_again.py",)

COMPAT = ("tests/client/compat/test_same_program.py",)

CLIENT_FAULTS: tuple[Fault, ...] = (
    Fault(
        JOINING,
        "a message with a gap counts as complete",
        "about.chunk_id > len(pending.chunks) or ",
        "",
        CHUNKS,
    ),
    Fault(
        JOINING,
        "the chunks of two messages of one name are mixed",
        "        if about.chunk_id == 0:\n",
        "        if about.chunk_id == 0 and about.uuid not in self._pending:\n",
        CHUNKS,
    ),
    Fault(
        "client/magnetar/acks.py",
        "of a chunked message only the last chunk is acknowledged",
        "self._whole.update(entry.chunks)",
        "self._whole.add(entry.position)",
        CHUNKS,
    ),
    Fault(
        REDELIVERY,
        "a message is delivered again before its time",
        "tick = ceil(due_s / self._tick_s)",
        "tick = int(due_s / self._tick_s)",
        DUE,
    ),
    Fault(
        "client/magnetar/partition_consumer.py",
        "an acknowledgement that waits for others is overtaken by the request to deliver again",
        "        self.acking.send()\n        command = pb.CommandRedeliver",
        "        command = pb.CommandRedeliver",
        AGAIN,
    ),
    Fault(
        "client/magnetar/reader.py",
        "partitions that a topic gets later are not read",
        "        self._partitions.extend(partitions)\n",
        "        return\n",
        ("tests/client/test_reader_more.py",),
    ),
    Fault(
        "client/magnetar/compat/producer.py",
        "flush returns before the callbacks of send_async were called",
        "        self._run_flush()\n        self._callbacks.drain()",
        "        self._run_flush()",
        COMPAT,
    ),
    Fault(
        "client/magnetar/compat/consumer.py",
        "a seek of a program of the official client delivers the message that it names",
        "if here < end or (here == end and not self._inclusive):",
        "if here < end:",
        COMPAT,
    ),
    Fault(
        "client/magnetar/compat/client.py",
        "keys go to other partitions than with the official Python client",
        '"hashing": "cpp"',
        '"hashing": "murmur3"',
        COMPAT,
    ),
)
