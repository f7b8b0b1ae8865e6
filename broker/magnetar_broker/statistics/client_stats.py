"""Statistics of a producer and of a consumer."""

from magnetar_broker.base.formats import iso, ratio
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.producers.producer import Producer
from magnetar_broker.statistics.shapes import Json, address
from magnetar_broker.topic.measuring import Publishing
from magnetar_proto import PulsarApi_pb2 as pb

NOT_DRAINING = {
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
}


def publisher(producer: Producer) -> Json:
    """Return the statistics of a producer, with the rates of the last window."""
    rates = Publishing(*producer.meter.rates)
    mode = pb.ProducerAccessMode.ValueType(producer.claim.mode.value)
    return {
        "accessMode": pb.ProducerAccessMode.Name(mode),
        "msgRateIn": rates.messages,
        "msgThroughputIn": rates.bytes,
        "averageMsgSize": ratio(rates.bytes, rates.messages),
        "chunkedMessageRate": rates.chunks,
        "producerId": producer.id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": address(producer.connection.address),
        "connectedSince": iso(producer.connected_ms),
        "clientVersion": producer.connection.client_version,
        "metadata": dict(producer.metadata),
    }


def consumer(one: Consumer, draining: Json | None, ranges: list[list[int]] | None) -> Json:
    """Return a consumer's statistics; `draining` and `ranges` are None unless Key_Shared."""
    messages, size, redelivered, acked, chunks = one.meter.rates
    found: Json = {
        "msgRateOut": messages,
        "msgThroughputOut": size,
        "bytesOutCounter": one.bytes_out,
        "msgOutCounter": one.messages_out,
        "msgRateRedeliver": redelivered,
        "messageAckRate": acked,
        "chunkedMessageRate": chunks,
        "consumerName": one.name,
        "availablePermits": one.permits,
        "unackedMessages": one.unacked,
        "avgMessagesPerEntry": round(ratio(one.messages_out, one.entries_out)),
        "blockedConsumerOnUnackedMsgs": one.blocked,
        **(draining or NOT_DRAINING),
        "address": address(one.connection.address),
        "connectedSince": iso(one.connected_ms),
        "clientVersion": one.connection.client_version,
        "lastAckedTimestamp": one.acked_ms,
        "lastConsumedTimestamp": one.sent_ms,
        "firstMessagesSentTimestamp": one.first_sent_ms,
        "lastConsumedFlowTimestamp": one.flow_ms,
        "firstConsumedFlowTimestamp": one.first_flow_ms,
        "metadata": dict(one.metadata),
        "lastAckedTime": iso(one.acked_ms),
        "lastConsumedTime": iso(one.sent_ms),
    }
    if one.connection.app_id is not None:
        found["appId"] = one.connection.app_id
    if ranges is not None:
        found["keyHashRangeArrays"] = ranges
    return found
