"""Faults of the page for Prometheus, and of the health check, of a broker of several processes."""

from mutants.fault import Fault

JOINING = "broker/magnetar_broker/metrics/joining.py"
LINKED = "broker/magnetar_broker/server/linked_page.py"
GATHERING = "broker/magnetar_broker/metrics/gathering.py"
WRITES_TESTS = ("tests/broker/metrics/test_writes.py",)
FIGURES_TESTS = ("tests/broker/metrics/test_figures.py",)
JOINING_TESTS = ("tests/broker/metrics/test_joining.py",)
PAGE_TESTS = ("tests/broker/server/test_joined_page.py",)
HEALTH_TESTS = ("tests/broker/server/test_health_of_workers.py",)

PAGE_FAULTS = (
    Fault(
        GATHERING,
        "the page has no limits of backlogs",
        "        _quotas_of(topic),\n",
        "",
        FIGURES_TESTS,
    ),
    Fault(
        GATHERING,
        "a page that nobody awaits any more makes counters of other topics fall",
        "        else:  # Before the end it is not known which namespaces have other topics.\n"
        "            self._forget(others)\n",
        "        self._forget(others)\n",
        FIGURES_TESTS,
    ),
    Fault(
        JOINING,
        "counters of several processes are added up",
        'if name.startswith(OWN_PREFIXES) or kind in ("counter", "histogram", "summary"):',
        "if name.startswith(OWN_PREFIXES):",
        JOINING_TESTS,
    ),
    Fault(
        JOINING,
        "what processes have for themselves is added up",
        'if name.startswith(OWN_PREFIXES) or kind in ("counter", "histogram", "summary"):',
        'if kind in ("counter", "histogram", "summary"):',
        JOINING_TESTS,
    ),
    Fault(
        JOINING,
        "the largest of what is unknown is known",
        "    return nan if isnan(one) or isnan(other) else max(one, other)",
        "    return max(one, other)",
        JOINING_TESTS,
    ),
    Fault(
        JOINING,
        "the page has samples that are unknown",
        "                if not isnan(value)\n",
        "",
        JOINING_TESTS,
    ),
    Fault(
        JOINING,
        "samples of topics are read",
        "            family.passed.append(part)\n            continue\n",
        "            pass\n",
        JOINING_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/metrics/text.py",
        "the sum of several processes is known although that of one is not",
        "if (value := value_of(thing)) is not None or with_unknown",
        "if (value := value_of(thing)) is not None",
        JOINING_TESTS,
    ),
    Fault(
        JOINING,
        "sums of topics that several processes have are in the page twice",
        "if OF_TOPICS in first and OF_OTHERS not in first:",
        "if OF_TOPICS in first:",
        JOINING_TESTS,
    ),
    Fault(
        GATHERING,
        "the figures of a topic that has changed are those from before",
        "is_same = seen is not None and not traffic.changed and _is_same(topic, seen)",
        "is_same = seen is not None and _is_same(topic, seen)",
        FIGURES_TESTS,
    ),
    Fault(
        GATHERING,
        "a topic that was shown in a sum has its former figures when it is shown alone",
        "if seen is not None and is_same and seen.detail == detail:",
        "if seen is not None and is_same:",
        FIGURES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/subscribing/backlog.py",
        "delayed messages are not counted where nothing is acknowledged out of order",
        "if self._cursor.is_plain and not delayed:",
        "if self._cursor.is_plain:",
        ("tests/broker/delays/test_delays.py",),
    ),
    Fault(
        "broker/magnetar_broker/dispatch/feed.py",
        "entries that are delivered from the cache are not counted as read",
        "            self._log.entries.from_cache += len(run.payloads)\n",
        "",
        FIGURES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/lifetime/quotas.py",
        "evictions for a quota by size are counted as for one by age",
        "is_size = excess.quota is SIZE",
        "is_size = excess.quota is AGE",
        ("tests/broker/lifetime/test_quotas.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/lookups.py",
        "lookups that fail are not counted",
        "    session.broker.lookups.failed += 1\n",
        "",
        ("tests/broker/session/test_lookups.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/connecting.py",
        "clients that are refused are not counted",
        "session.broker.connections_refused += not (session.is_upstream or session.connected)",
        "pass",
        ("tests/broker/limits/test_limits.py",),
    ),
    Fault(
        GATHERING,
        "what changes by itself is taken for the same",
        "and (not seen.waiting or _waiting_of(topic, _states_of(topic)) == seen.waiting)",
        "and True",
        FIGURES_TESTS,
    ),
    Fault(
        GATHERING,
        "topics that are shown in sums are counted again with each scrape",
        "            self._count_other(figures, before)\n",
        "            self._count_other(figures, NOTHING)\n",
        FIGURES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/topic/loaded_topics.py",
        "what the topics of a namespace have counted falls when one is unloaded",
        "        self._ended_totals[namespace] = a + w, b + x, c + y, d + z\n",
        "        self._ended_totals[namespace] = w, x, y, z\n",
        FIGURES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/topic/measuring.py",
        "the page has the rates of the window before",
        "    topic.traffic.changed = True\n",
        "",
        FIGURES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/publishing/write_counts.py",
        "a window of writes has everything since the start",
        "tuple([after - then for after, then in zip(now, before, strict=True)])",
        "now",
        WRITES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/publishing/write_counts.py",
        "a run of entries counts as one",
        "self._sizes[bisect_left(SIZE_BOUNDS, size // entries)] += entries",
        "self._sizes[bisect_left(SIZE_BOUNDS, size)] += 1",
        WRITES_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/base/traffic.py",
        "traffic is no change",
        "self.fresh = self.changed = True",
        "self.fresh = True",
        FIGURES_TESTS,
    ),
    Fault(
        LINKED,
        "a worker that takes long with its page is taken for a silent one",
        "        await asyncio.wait((making,), timeout=SIGN_SECONDS)\n        if not making",
        "        await asyncio.wait((making,))\n        if not making",
        PAGE_TESTS,
    ),
    Fault(
        LINKED,
        "a worker goes on with a page that no client waits for",
        "        link.notify(DROP, number)\n",
        "        pass\n",
        PAGE_TESTS,
    ),
    Fault(
        LINKED,
        "a worker goes on with its page when the controller has ended",
        "        link.when_ended(lambda: self._drop(self._number))\n",
        "",
        PAGE_TESTS,
    ),
    Fault(
        LINKED,
        "one worker without a page is no page at all",
        "    except (BrokerError, StorageError):\n",
        "    except KeyError:\n",
        PAGE_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/joined_page.py",
        "workers that have not answered are counted as up",
        "of_workers(self._cluster, len(answered), self._workers)",
        "of_workers(self._cluster, len(pages), self._workers)",
        PAGE_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/links/answer_within.py",
        "a request waits for a process that is stopped",
        "lambda: settling(answer)(late)",
        "lambda: None",
        ("tests/broker/links/test_answer_within.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/linked_health.py",
        "the health check waits for a process that is stopped",
        "await answer_within(self._runtime.clock, ANSWER_SECONDS, link, CHECK)",
        "await link.request(CHECK)",
        HEALTH_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/health.py",
        "a health check that sends no message is not logged",
        "            self._note(topic)\n",
        "",
        HEALTH_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/health.py",
        "every health check that sends no message is logged",
        "if topic is None and self._sends:",
        "if topic is None:",
        HEALTH_TESTS,
    ),
    Fault(
        "broker/magnetar_broker/server/health.py",
        "a worker logs only the first time that its health checks send no message",
        "        self._sends = topic is not None\n",
        "        self._sends = False\n",
        HEALTH_TESTS,
    ),
)  # fmt: skip
