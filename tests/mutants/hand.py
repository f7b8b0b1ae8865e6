"""Faults that no mark can describe: in several statements, or with another expression."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A text that keeps a promise, and one that breaks it; `file` is a path in the repository."""

    file: str
    promise: str
    old: str
    new: str


FAULTS = (
    Fault(
        "storage/magnetar_storage/cursors/cursor_log.py",
        "waiters are notified only when the cursor records are durable",
        "self._append(self._writer, payloads, partial(self._flushed, self._take_waiting()))",
        (
            "self._append(self._writer, payloads, partial(self._flushed, []))\n"
            "        self._release(None)"
        ),
    ),
    Fault(
        "storage/magnetar_storage/cursors/needed.py",
        "every entry that is needed is kept",
        "for run in cursor.acked.missing(first, stop):",
        "for run in list(cursor.acked.missing(first, stop))[1:]:",
    ),
    Fault(
        "storage/magnetar_storage/local/journal.py",
        "receipts are sent only after the round is durable",
        "self._worker.submit(records.write, self._finished)",
        (
            "records.report_durable()\n"
            "            records.owners, records.outcomes = [], []\n"
            "            self._worker.submit(records.write, self._finished)"
        ),
    ),
    Fault(
        "storage/magnetar_storage/local/journal.py",
        "a journal file gets its name only when its head is durable",
        (
            "            file.write_through(0, [head, CLEAN_END])\n"
            "        finally:\n"
            "            file.close()\n"
            "        try:\n"
            "            self._disk.rename(spare, name)\n"
        ),
        (
            "            self._disk.rename(spare, name)\n"
            '            self._disk.sync_dir("journal")\n'
            "            file.write_through(0, [head, CLEAN_END])\n"
            "        finally:\n"
            "            file.close()\n"
            "        try:\n"
            "            pass\n"
        ),
    ),
    Fault(
        "storage/magnetar_storage/local/store.py",
        "a segment goes only when its deletion is durable",
        'await self._commit(DELETE, segment, b"", lambda: self._deleted(segment))',
        ('self._deleted(segment)\n        await self._commit(DELETE, segment, b"", lambda: None)'),
    ),
    Fault(
        "storage/magnetar_storage/local/store.py",
        "a seal is in the journal before it is in effect",
        (
            "await self._commit(\n"
            "                SEAL, one.id, SEALED_BODY.pack(*sealed), "
            "partial(_settle, one, sealed)\n"
            "            )"
        ),
        "_settle(one, sealed)",
    ),
    Fault(
        "storage/magnetar_storage/local/store.py",
        "a segment is reported as finished only when its file is",
        (
            "            self._write_behind.finish(segment, settling(promise))\n"
            "            await promise\n"
            "        if segment not in self._finished:\n"
            '            raise NoSegment(f"segment {segment} was deleted")\n'
        ),
        "",
    ),
    Fault(
        "storage/magnetar_storage/local/write_behind.py",
        "a checkpoint is written only after the segments that it names",
        (
            "    made.finished.update(checkpoints.flush(disk, flushes))\n"
            "    for number in sorted(doomed):"
        ),
        (
            "    checkpoints.write(disk, made, spare_files)\n"
            "    made.finished.update(checkpoints.flush(disk, flushes))\n"
            "    for number in sorted(doomed):"
        ),
    ),
    Fault(
        "storage/magnetar_storage/local/write_behind.py",
        "a cut is told only when nothing of it can be deleted",
        "        self._describe_slice(state, self._journal_bytes, waiters, captures)\n",
        (
            "        for capture in captures:\n"
            "            capture.begun()\n"
            "        self._describe_slice(state, self._journal_bytes, waiters, captures)\n"
        ),
    ),
    Fault(
        "storage/magnetar_storage/local/write_behind.py",
        "a snapshot begins a journal of its own",
        "JournalPosition(made.position.file + 1, 0, made.position.round)",
        "made.position",
    ),
    Fault(
        "storage/magnetar_storage/log/rewriting.py",
        "a rewritten segment is deleted only after the record lists its replacement",
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
        (
            "            for segment in {one.stored_in for one in group.units if one.stored_in}:\n"
            "                await self._state.engine.store.delete(segment)\n"
            "            await stored.commit(partial(self._checked, group, needed, rewritten))"
        ),
    ),
    Fault(
        "storage/magnetar_storage/log/rewriting.py",
        "a sparse segment that may be in use is not deleted",
        "            await stored.commit(partial(self._checked, group, needed, rewritten))",
        (
            "            stored.unfinished.clear()\n"
            "            await stored.commit(partial(self._checked, group, needed, rewritten))"
        ),
    ),
    Fault(
        "storage/magnetar_storage/metadata/statements.py",
        "the checksum of each row of the metadata is compared",
        " OR crc IS NOT checksum(CAST(key AS BLOB), value, version, lease)",
        "",
    ),
    Fault(
        "broker/magnetar_broker/authentication/authenticator.py",
        "wrong credentials are refused",
        '        raise _refused("; ".join(f"{method}: {refusal}" for _, refusal in refusals))\n',
        "        return Identity(self._anonymous(method), method)\n",
    ),
    Fault(
        "broker/magnetar_broker/authentication/authenticator.py",
        "only proxies name the role of a client",
        "is_proxy != bool(original.strip()) or (is_proxy and original in self.rules.proxies)",
        "is_proxy and original in self.rules.proxies",
    ),
    Fault(
        "broker/magnetar_broker/authentication/authenticator.py",
        "a request that names its method is not anonymous",
        "            return (await self._of_headers(method, headers, certificate)).role\n",
        "            headers = {**headers}\n",
    ),
    Fault(
        "broker/magnetar_broker/authentication/passwords.py",
        "a user that does not exist has no password",
        "        right = hashed is not None and matches(password, hashed)\n",
        "        right = matches(password, hashed or self._nobody)\n",
    ),
    Fault(
        "broker/magnetar_broker/authentication/tokens.py",
        "the audience of a token is compared",
        "rules.audiences.isdisjoint(_texts(claims, rules.audience_claim))",
        "not _texts(claims, rules.audience_claim)",
    ),
    Fault(
        "broker/magnetar_broker/authentication/tokens.py",
        "the audience of a token is compared as a whole",
        "rules.audiences.isdisjoint(_texts(claims, rules.audience_claim))",
        (
            "not any(\n"
            "        a.startswith(t) for a in rules.audiences "
            "for t in _texts(claims, rules.audience_claim)\n"
            "    )"
        ),
    ),
    Fault(
        "broker/magnetar_broker/authorization/rules.py",
        "the topics of the broker itself are for super-users",
        "            is_of_system(access.subject) and not _finds_coordinators(access)\n",
        "            False\n",
    ),
    Fault(
        "broker/magnetar_broker/authorization/rules.py",
        "a grant is for the named actions only",
        "if any(action in wanted for action in _list(roles.get(role, ()))):",
        "if roles.get(role, ()):",
    ),
    Fault(
        "broker/magnetar_broker/limits/topic_limits.py",
        "an IPv6 network counts as one address for consumers",
        "        hosts = [network_of(host_of(one.connection.address)) for one in present]\n",
        "        hosts = [host_of(one.connection.address) for one in present]\n",
    ),
    Fault(
        "broker/magnetar_broker/limits/worker_share.py",
        "the workers share the broker's publish rate",
        (
            "        broker_publisher_throttling_max_message_rate=part(\n"
            "            settings.broker_publisher_throttling_max_message_rate\n"
            "        ),\n"
        ),
        "",
    ),
    Fault(
        "broker/magnetar_broker/ipc/link.py",
        "frames of one turn are one write",
        ('            self._flushing = True\n            self._clock.soon(self._flush, "link")'),
        "            self._flush()",
    ),
    Fault(
        "broker/magnetar_broker/metrics/gathering.py",
        "a page that nobody awaits changes no counters",
        (
            "        else:  # Only at the end it is known which namespaces have other topics.\n"
            "            self._forget(gathered.summed)\n"
        ),
        "        self._forget(gathered.summed)\n",
    ),
    Fault(
        "broker/magnetar_broker/metrics/gathering.py",
        "what changes by itself is counted again",
        "_is_steady(topic) and _waiting_of(topic, _states_of(topic)) == seen.waiting",
        "True",
    ),
    Fault(
        "broker/magnetar_broker/metrics/joining.py",
        "samples of topics are passed on unread",
        ('            family.passed.append(part)\n            yield b""\n            continue\n'),
        "            pass\n",
    ),
    Fault(
        "broker/magnetar_broker/placement/bundle_owners.py",
        "both parts of a split bundle keep its owner",
        "self.workers[self.bundles.index_at(low)] for low in lows",
        "self.workers[index % len(self.workers)] for index, low in enumerate(lows)",
    ),
    Fault(
        "broker/magnetar_broker/names/deletion/namespace_deletion.py",
        "a defect in one deletion does not stop the start",
        "except Exception:  # a defect with one name must",
        "except BrokerError:  # a defect with one name must",
    ),
    Fault(
        "broker/magnetar_broker/names/workers/distributed_topic_host.py",
        "topics of a worker that ended are not loaded",
        "for name in [name for name, owner in self._loaded.items() if owner is link]:",
        "for name in list[TopicName]():",
    ),
    Fault(
        "broker/magnetar_broker/names/deletion/topic_deletion.py",
        "a deletion ends only when everything is deleted",
        "        await for_each(self._runtime, sorted({*members, *family}),",
        (
            "        await self._pending.end(str(name))\n"
            "        await for_each(self._runtime, sorted({*members, *family}),"
        ),
    ),
    Fault(
        "broker/magnetar_broker/policies/stored.py",
        "a policy is in effect only when it is durable",
        "                version = await self._put(key, changed, stored)\n",
        (
            "                self.learn(subject, StoredPolicies(key, changed, stored.version))\n"
            "                version = await self._put(key, changed, stored)\n"
        ),
    ),
    Fault(
        "broker/magnetar_broker/producers/write_counts.py",
        "a window of writes has its own writes only",
        "tuple([after - then for after, then in zip(now, before, strict=True)])",
        "now",
    ),
    Fault(
        "broker/magnetar_broker/server/http/errors.py",
        "kinds of a refusal have its status",
        "next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)",
        "STATUSES.get(type(error), 500)",
    ),
    Fault(
        "broker/magnetar_broker/server/clients/listener.py",
        "upstreams do not count as clients",
        "        if not self._origin.is_upstream:  # counted where the client is connected",
        "        if self.address:",
    ),
    Fault(
        "broker/magnetar_broker/server/data_directory/snapshots/files.py",
        "a snapshot gets its name when it is complete",
        '    sync(os.path.join(unfinished, "metadata.db"))\n',
        (
            "    os.rename(unfinished, finished)\n"
            "    unfinished = finished\n"
            '    sync(os.path.join(unfinished, "metadata.db"))\n'
        ),
    ),
    Fault(
        "broker/magnetar_broker/server/data_directory/snapshots/making.py",
        "metadata is held until all processes have made their cut",
        (
            "                await _all(part.cut(making.token) for part in parts)\n"
            "        except TimeoutError:"
        ),
        (
            "                self._metadata.release()\n"
            "                await _all(part.cut(making.token) for part in parts)\n"
            "        except TimeoutError:"
        ),
    ),
    Fault(
        "broker/magnetar_broker/server/supervision/supervisor.py",
        "workers stop before the controller",
        (
            "        self._stop_together(self._workers, reason, deadline)\n"
            "        self._stop_together([self._controller], reason, deadline)\n"
        ),
        "        self._stop_together(self._children, reason, deadline)\n",
    ),
    Fault(
        "broker/magnetar_broker/server/tls/pump.py",
        "a client that holds the budget is disconnected",
        ("        self.client.abort()\n        self.worker.abort()\n"),
        "",
    ),
    Fault(
        "broker/magnetar_broker/session/relay.py",
        "frames before a malformed one are handled",
        "        finally:  # `_target` refuses a malformed frame, not those before it\n",
        ("        except RuntimeError:\n            pass\n        else:\n"),
    ),
    Fault(
        "broker/magnetar_broker/session/relay.py",
        "a close that crosses the client's own is dropped",
        (
            "if self._relay.producers.get(message.producer_id) is self:\n"
            "            del self._relay.producers[message.producer_id]\n"
        ),
        "if self._relay.producers.pop(message.producer_id, self) is self:\n",
    ),
    Fault(
        "broker/magnetar_broker/statistics/key_hashes.py",
        "a draining hash lists messages of its own",
        "heap = None if slot is None else oldest.get(slot)",
        "heap = next(iter(oldest.values()), None)",
    ),
    Fault(
        "broker/magnetar_broker/subscriptions/acknowledging.py",
        "an ACK in a transaction is answered only when it is durable",
        ("            self._topic.cursors.state_changed(PENDING_ACKS, done)\n            return\n"),
        "            self._topic.cursors.state_changed(PENDING_ACKS)\n",
    ),
    Fault(
        "broker/magnetar_broker/subscriptions/subscription.py",
        "the end of a transaction at a subscription is written",
        ("        self.acks.write_pending(None)\n        self._write_soon()\n"),
        "",
    ),
    Fault(
        "broker/magnetar_broker/subscriptions/subscription.py",
        "what is pending is not delivered after a load",
        ("            self.acks.in_transactions()\n            self.dispatcher.rewind()\n"),
        "            pass\n",
    ),
    Fault(
        "broker/magnetar_broker/transactions/coordinator.py",
        "a transaction ends only when its topics are told",
        (
            "            await for_each(engine, list(transaction.parts), end_at)\n"
            "            self._check_served()\n"
            "            self.state.end(least)\n"
        ),
        (
            "            parts = list(transaction.parts)\n"
            "            self.state.end(least)\n"
            "            self.topic.cursors.state_changed(attached_state.COORDINATOR)\n"
            "            await for_each(engine, parts, end_at)\n"
        ),
    ),
    Fault(
        "client/magnetar/consuming/ack_sender.py",
        "an acknowledgement counts only when the broker has answered",
        "        self._unanswered[answer] = sent\n",
        ("        answer.set_result(None)\n        self._unanswered[answer] = sent\n"),
    ),
    Fault(
        "client/magnetar/connections/registration.py",
        "a client that cannot follow looks up",
        "except (MagnetarError, ValueError):  # or the URL is none for this client",
        "except RuntimeError:",
    ),
    Fault(
        "client/magnetar/compat/schema/definition.py",
        "each record has defaults of its own",
        "value = copy.deepcopy(field if isinstance(field, Record) else field.default())",
        "value = field if isinstance(field, Record) else field.default()",
    ),
    Fault(
        "client/magnetar/producing/outbox.py",
        "a message is sent only when the coordinator knows its partition",
        (
            "            if not added.done():\n"
            "                added.add_done_callback(lambda _: self.send_waiting())\n"
            "                return None\n"
            "            if added.cancelled():\n"
            '                raise Closed(f"adding {self._topic} to {batch.txn} was cancelled")\n'
            "            added.result()\n"
        ),
        "",
    ),
    Fault(
        "client/magnetar/consuming/epochs.py",
        "messages without an epoch are never stale",
        "return epoch is not None and self.epoch is not None and",
        ("epoch = -1 if epoch is None else epoch\n        return self.epoch is not None and"),
    ),
    Fault(
        "client/magnetar/schema/avro_limits.py",
        "items without bytes are refused",
        'raise ValueError("arrays of items without bytes cannot be decoded safely")',
        "return False",
    ),
    Fault(
        "client/magnetar/security/tls.py",
        "the client checks the authority of a certificate",
        ("    if tls.allow_insecure:\n        context.verify_mode"),
        ("    if True:\n        context.check_hostname = False\n        context.verify_mode"),
    ),
    Fault(
        "client/magnetar/transactions/transaction.py",
        "after its timeout a transaction gives back what it acknowledged",
        ("                acks.aborts()\n                acks.aborted()\n"),
        "                pass\n",
    ),
    Fault(
        "spark_connector/pyspark_magnetar/rows/columns.py",
        "messages have the id of their place in the batch",
        "return pc.add(_first_ids(gathered, kind), _batch_indexes(gathered, pa.int32()))",
        "return _first_ids(gathered, kind)",
    ),
    Fault(
        "spark_connector/pyspark_magnetar/rows/decoding.py",
        "heads are cut off only where all are equal",
        "    return all(body[at::stride] == body[at : at + 1] * count for at in range(fixed))\n",
        "    return body[:fixed] == body[stride : stride + fixed]\n",
    ),
    Fault(
        "spark_connector/pyspark_magnetar/rows/decoding.py",
        "messages that compaction removed are not read",
        "    if any(about.compacted_out for about in scan.others.values()):\n",
        "    if not scan.others and places:\n",
    ),
    Fault(
        "spark_connector/pyspark_magnetar/source/losses.py",
        "a ledger that came and went during a batch is a loss",
        "        if first.position[0] <= continued.get(read, read[0]):\n",
        "        if read in continued or first.position[0] <= read[0]:\n",
    ),
    Fault(
        "spark_connector/pyspark_magnetar/source/range_division.py",
        "a partition with little gets a share of the limit",
        "position_after(wanted, max(1, int(entries_in(wanted) * share)))",
        "position_after(wanted, read) if (read := int(entries_in(wanted) * share)) "
        "else wanted.start",
    ),
)
