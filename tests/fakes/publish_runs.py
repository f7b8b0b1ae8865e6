"""Publishing a run as a session does."""

from magnetar_broker.producers.appender import PublishRun


def publish(run: PublishRun) -> None:
    """Hand a run to its topic; pump to have it answered."""
    run.producer.entries_published += len(run.payloads)
    run.producer.sink.append(run)
