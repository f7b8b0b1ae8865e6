"""Faults of the asyncio client: messages lost, mixed, or delivered again without need."""

from mutants.fault import Fault

JOINING = "client/magnetar/chunk_joining.py"
REDELIVERY = "client/magnetar/redelivery.py"
CHUNKS = ("tests/client/test_chunk_joining.py",)
DUE = ("tests/client/test_redelivery.py",)
SECRETS = ("tests/client/test_encryption.py",)
MEMORY = ("tests/client/test_memory_limit.py",)
AGAIN = ("tests/client/test_consumer_again.py",)
EPOCHS = ("tests/client/test_client_epochs.py",)
LOST = ("tests/client/test_client_lost_acks.py",)
CONSUMER = "client/magnetar/partition_consumer.py"
REDELIVERING = "client/magnetar/redelivering.py"
ACKING = "client/magnetar/acking.py"
ACKS = ("tests/client/test_acks.py",)
HELD = ("tests/client/test_held.py",)

COMPAT = ("tests/client/compat/test_same_program.py",)
RECORDS = ("tests/client/compat/test_same_schemas.py", "tests/client/compat/test_same_records.py")

CLIENT_FAULTS: tuple[Fault, ...] = (
    Fault(
        CONSUMER,
        "a message by itself that the application has is delivered again after a reconnect",
        "            if message is None or (held and held.bits((ledger, number))):\n",
        "            if message is None:\n",
        EPOCHS,
    ),
    Fault(
        "client/magnetar/permits.py",
        "what is taken at once is given back twice",
        "        return permits - claimed\n",
        "        return permits\n",
        ("tests/client/test_permits.py",),
    ),
    Fault(
        "proto/magnetar_proto/deliveries.py",
        "a MESSAGE with another epoch or ack set is read as the one before",
        "            or buf[start + behind_at : mid] != behind\n",
        "",
        ("tests/proto/test_delivery_runs.py",),
    ),
    Fault(
        "client/magnetar/messages.py",
        "a damaged message by itself is received",
        " or crc32c(data[CHECKED_FROM:]) != checksum",
        "",
        ("tests/client/test_messages.py",),
    ),
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
        "        self.acking.send_again()\n        command = pb.CommandRedeliver",
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
    Fault(
        "client/magnetar/compat/schema/definition.py",
        "records of compat share the objects of their defaults",
        "value = copy.deepcopy(field if isinstance(field, Record) else field.default())",
        "value = field if isinstance(field, Record) else field.default()",
        RECORDS,
    ),
    Fault(
        "client/magnetar/compat/schema/definition.py",
        "a record of compat is defined again where it should be named",
        "        defined_names.add(name)\n        head",
        "        head",
        RECORDS,
    ),
    Fault(
        "client/magnetar/compat/schema/avro.py",
        "Avro messages of an older version are decoded by the program's own schema",
        "return Avro(definition=json.loads(writer.definition))",
        "return self",
        RECORDS,
    ),
    Fault(
        "client/magnetar/batching.py",
        "an empty message is compressed, and lost by official clients if zlib did it",
        "        if self.compression != pb.NONE and body:\n",
        "        if self.compression != pb.NONE:\n",
        ("tests/client/test_client_interoperability.py",),
    ),
    Fault(
        "client/magnetar/admin/requests/policies.py",
        "the value of a topic's policy is sent where the broker does not look",
        "if self.in_query and not _is_namespace(of):",
        "if False:",
        ("tests/client/admin/test_admin_requests_broker.py",),
    ),
    Fault(
        "client/magnetar/admin/requests/messages.py",
        "the messages of a batch are shown as one",
        'if is_encrypted or "num-batch-message" not in about:',
        "if True:",
        ("tests/client/admin/test_admin_requests_broker.py",),
    ),
    Fault(
        CONSUMER,
        "messages of an older epoch are delivered",
        "if self.redelivering.is_stale(delivery.consumer_epoch):",
        "if False:",
        EPOCHS,
    ),
    Fault(
        CONSUMER,
        "a redelivery does not raise the epoch",
        "epoch = self.redelivering.raise_epoch()\n            if",
        "epoch = self.redelivering.epoch\n            if",
        EPOCHS,
    ),
    Fault(
        REDELIVERING,
        "messages of a broker without epochs are stale",
        "return epoch is not None and self.epoch is not None and",
        "epoch = -1 if epoch is None else epoch\n        return self.epoch is not None and",
        EPOCHS,
    ),
    Fault(
        CONSUMER,
        "what the application has is delivered again after a reconnect",
        "        if not bits:\n            return self._unpack(entry)",
        "        if True:\n            return self._unpack(entry)",
        EPOCHS,
    ),
    Fault(
        CONSUMER,
        "chunked messages that the application has are delivered again after a reconnect",
        "if self.redelivering.held and self.redelivering.held.bits(chunk.position):",
        "if False:",
        EPOCHS,
    ),
    Fault(
        CONSUMER,
        "an active consumer that is replaced keeps what another gets",
        "if self.is_active and not is_active and self.redelivering.holds:",
        "if False:",
        EPOCHS,
    ),
    Fault(
        REDELIVERING,
        "what was nacked before a reconnect does not come again",
        "            self.held.release(messages)\n",
        "",
        EPOCHS,
    ),
    Fault(
        REDELIVERING,
        "after a seek what the application has is left out",
        "            self.held.keep((), None)\n",
        "            pass\n",
        EPOCHS,
    ),
    Fault(
        REDELIVERING,
        "a reconnect ends the ack timeout",
        "            self._nacked.clear()  # the others",
        "            self._forget()  # the others",
        EPOCHS,
    ),
    Fault(
        ACKING,
        "an acknowledgement that is not answered is never sent again",
        "            sent.connection.write(sent.frame)\n",
        "",
        LOST,
    ),
    Fault(
        ACKING,
        "an acknowledgement counts before the broker has answered",
        "        self._unanswered[answer] = sent\n",
        "        answer.set_result(None)\n        self._unanswered[answer] = sent\n",
        LOST,
    ),
    Fault(
        REDELIVERING,
        "the ack timeout asks for what was acknowledged",
        "            if position in acked:\n                continue\n",
        "",
        LOST,
    ),
    Fault(
        REDELIVERING,
        "an acknowledgement in doubt does not keep its message away",
        "            self.held.add_acks(acks)\n",
        "            pass\n",
        LOST,
    ),
    Fault(
        "client/magnetar/acks.py",
        "a lost acknowledgement of a part takes what is known as acknowledged",
        "unacked = self._unacked.get((ledger, entry), left) & left",
        "unacked = self._unacked.get((ledger, entry), left)",
        ACKS,
    ),
    Fault(
        "client/magnetar/held.py",
        "a cumulative confirmation misses what was delivered in another order",
        "            self._bits = dict(sorted(self._bits.items()))\n",
        "            pass\n",
        HELD,
    ),
    Fault(
        "broker/magnetar_broker/topic/non_persistent_subscriptions.py",
        "messages that are not kept carry an epoch, which nothing raises",
        "            -1,  # nothing is delivered again",
        "            request.epoch,  # nothing is delivered again",
        ("tests/broker/topic/test_non_persistent.py",),
    ),
    Fault(
        "broker/magnetar_broker/subscribing/subscription.py",
        "messages of a reader of compacted topics carry an epoch",
        "return self.dispatcher.exclusive_acks and not read_compacted",
        "return self.dispatcher.exclusive_acks",
        ("tests/broker/dispatch/test_single_active.py",),
    ),
    Fault(
        "client/magnetar/encryption/sending.py",
        "every message of a data key has the same nonce",
        "metadata.encryption_param = os.urandom(NONCE_BYTES)",
        "metadata.encryption_param = bytes(NONCE_BYTES)",
        SECRETS,
    ),
    Fault(
        "client/magnetar/encryption/sending.py",
        "without a public key messages are sent unencrypted",
        "if self._cipher is None and self._on_failure == FAIL:",
        "if False:",
        SECRETS,
    ),
    Fault(
        "client/magnetar/encryption/data_keys.py",
        "a data key is taken that was encrypted for another key",
        "if not hmac.compare_digest(mac, _mac(mac_key, sealed)):",
        "if False:",
        SECRETS,
    ),
    Fault(
        "client/magnetar/memory.py",
        "who sends what it receives waits for itself",
        "not self.limit or not self.sending or ",
        "not self.limit or ",
        MEMORY,
    ),
    Fault(
        "client/magnetar/memory.py",
        "a producer that waits is not told that others have made room",
        "elif size < 0 and self._wakers and self.has_room():",
        "elif False:",
        MEMORY,
    ),
)
