"""Faults of naming the new owner in closures, and of following it."""

from mutants.fault import Fault

SESSION = "broker/magnetar_broker/session/session.py"
ATTACHMENT = "client/magnetar/attachment.py"
CONNECTION = "client/magnetar/connection.py"
OF_CLOSURES = ("tests/broker/session/test_moved_topics.py",)
OF_FOLLOWING = ("tests/client/test_attachment.py", "tests/client/test_client_moved.py")

MOVED_FAULTS: tuple[Fault, ...] = (
    Fault(
        SESSION,
        "a client that cannot resolve it is told the name of a process",
        "if new_owner and self._names_process and",
        "if new_owner and",
        OF_CLOSURES,
    ),
    Fault(
        SESSION,
        "an upstream is told the name of a process",
        "self._names_process and not self.is_upstream:",
        "self._names_process:",
        OF_CLOSURES,
    ),
    Fault(
        SESSION,
        "a client with TLS is not told the new owner",
        "            message.assignedBrokerServiceUrlTls = over_tls(new_owner)\n",
        "",
        OF_CLOSURES,
    ),
    *(
        Fault(
            f"broker/magnetar_broker/topic/{file}.py",
            f"{what} of a {file} that moved are not told where",
            old,
            old.replace("new_owner", ""),
            OF_CLOSURES,
        )
        for file in ("topic", "non_persistent")
        for what, old in (
            ("producers", "self.producers.disconnect(new_owner)"),
            ("consumers", "subscription.consumers.disconnect(new_owner)"),
        )
    ),
    Fault(
        "broker/magnetar_broker/topic/residence.py",
        "clients of a topic that is unloaded are not told where it is",
        "topic.disconnect(self._new_owner(topic.name))",
        "topic.disconnect()",
        ("tests/broker/topic/test_residence.py",),
    ),
    Fault(
        "broker/magnetar_broker/topic/residence.py",
        "a topic is closed before what was published is answered",
        "            await loaded.finish()\n",
        "            pass\n",
        OF_CLOSURES,
    ),
    Fault(
        "broker/magnetar_broker/publishing/producers.py",
        "a topic that is being closed stores what is sent again later",
        "            producer.takes_runs = False\n",
        "",
        OF_CLOSURES,
    ),
    Fault(
        "broker/magnetar_broker/publishing/producers.py",
        "a topic is closed whether what was published is answered or not",
        "        for one in answered:\n            await one\n",
        "",
        OF_CLOSURES,
    ),
    Fault(
        "broker/magnetar_broker/topic/topic.py",
        "a topic that is being closed opens producers",
        "        self._finishing = True\n",
        "",
        OF_CLOSURES,
    ),
    Fault(
        "broker/magnetar_broker/session/relaying.py",
        "processes that disagree about an owner relay to each other",
        "    if session.is_upstream:\n        return None\n",
        "",
        OF_CLOSURES,
    ),
    Fault(
        ATTACHMENT,
        "a client looks up although it was told",
        "if new_owner and await self._follow(former, new_owner):",
        "if new_owner and False:",
        OF_FOLLOWING,
    ),
    Fault(
        ATTACHMENT,
        "a process is taken for a host",
        "proxy = former.address if former.is_proxied else None",
        "proxy = None",
        OF_FOLLOWING,
    ),
    Fault(
        ATTACHMENT,
        "a proxy is asked for a broker that was connected to directly",
        "proxy = former.address if former.is_proxied else None",
        "proxy = former.address",
        OF_FOLLOWING,
    ),
    Fault(
        ATTACHMENT,
        "a client that cannot follow gives up",
        "except (MagnetarError, ValueError):  # or the URL is none for this client",
        "except RuntimeError:",
        OF_FOLLOWING,
    ),
    Fault(
        CONNECTION,
        "a client forgets that it came through a proxy",
        "            self.is_proxied = True\n",
        "",
        OF_FOLLOWING,
    ),
)
