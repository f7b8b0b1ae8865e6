"""`python -m bench.known_topics`: make topics known to a broker that does not run.

It writes the record of a topic that was never published to, through the metadata store of the
sources it runs with.
"""

import asyncio
from pathlib import Path

import click
import uvloop

from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.server.world import LoopClock, ThreadWorkers
from magnetar_proto.names import TopicName
from magnetar_storage.log.log import NEW_VALUE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.world.disk import LocalDisk

TOGETHER = 10_000


async def write(data_dir: Path, prefix: str, count: int) -> None:
    """The topics `prefix`-0, `prefix`-1, and so on."""
    loop = asyncio.get_running_loop()
    workers = ThreadWorkers(loop)
    try:
        disk = LocalDisk(str(data_dir))
        metadata = await SqliteMetadata.open(disk, workers.metadata, LoopClock(loop))
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            names = (TopicName.parse(f"{prefix}-{number}") for number in numbers)
            await asyncio.gather(*(metadata.put(topic_key(name), NEW_VALUE) for name in names))
        await metadata.close()
    finally:
        workers.stop()


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--prefix", required=True)
@click.option("--count", type=int, required=True)
def main(data_dir: Path, prefix: str, count: int) -> None:
    """Make topics known."""
    uvloop.run(write(data_dir, prefix, count))


if __name__ == "__main__":
    main()
