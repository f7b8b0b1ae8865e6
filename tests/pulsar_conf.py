"""The values of Pulsar's own configuration files, and files that an operator has edited."""

import re
from collections.abc import Mapping
from pathlib import Path

BROKER = Path(__file__).with_name("pulsar_defaults.conf").read_text(encoding="utf-8")
"""Names and values of broker.conf."""
_OF_STANDALONE = """
clusterName=standalone
backlogQuotaDefaultLimitGB=10
statusFilePath=/usr/local/apache/htdocs
topicPublisherThrottlingTickTimeMillis=2
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerDefaultMarkDeleteRateLimit=0.1
loadManagerClassName=org.apache.pulsar.broker.loadbalance.NoopLoadManager
loadBalancerEnabled=false
webSocketServiceEnabled=true
webSocketNumIoThreads=8
journalSyncData=false
dbStorage_rocksDB_blockSize=4096
httpServerIdleTimeout = 30000
"""
"""What standalone.conf has otherwise, or besides."""
_KEY = re.compile(r"^(\w+) *=", re.MULTILINE)


def standalone() -> str:
    """The file standalone.conf."""
    return _replaced(BROKER, _OF_STANDALONE)


def edited(text: str, settings: Mapping[str, str]) -> str:
    """A file with some of its lines changed, and lines for settings that it has none of."""
    return _replaced(text, "".join(f"{name}={value}\n" for name, value in settings.items()))


def _replaced(text: str, lines: str) -> str:
    changed = set(_KEY.findall(lines))
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip() not in changed]
    return "\n".join(kept) + "\n" + lines
