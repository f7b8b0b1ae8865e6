package magnetar.clients;

import static magnetar.clients.Stage.numbers;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.pulsar.client.admin.GetStatsOptions;
import org.apache.pulsar.client.admin.LongRunningProcessStatus.Status;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.ConflictException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TransactionIsolationLevel;

/** Messages, backlogs and statistics of topics, as the official admin client sees them. */
final class AdminMessages {
    private AdminMessages() {}

    static Parts addTo(Parts parts, Stage stage, Topics api, String topic) {
        return parts
                .add("subscriptions", () -> subscriptions(stage, api, topic + "subscriptions"))
                .add("positions", () -> positions(stage, api, topic + "positions"))
                .add("messages", () -> messages(stage, api, topic + "messages"))
                .add("statistics", () -> statistics(stage, api, topic + "statistics"))
                .add("partitioned statistics", () -> partitionedStatistics(stage, api, topic + "partitioned"))
                .add("ends", () -> ends(stage, api, topic + "ends"))
                .add("upkeep", () -> upkeep(stage, api, topic + "upkeep"));
    }

    private static Producer<byte[]> producer(Stage stage, String topic) throws Exception {
        return stage.client().newProducer().topic(topic).enableBatching(false).create();
    }

    private static long backlog(Topics api, String topic, String subscription) throws Exception {
        return api.getStats(topic, true).getSubscriptions().get(subscription).getMsgBacklog();
    }

    private static List<String> texts(List<Message<byte[]>> messages) {
        return messages.stream().map(Stage::text).toList();
    }

    private static void subscriptions(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        api.createSubscription(topic, "first", MessageId.earliest);
        api.createSubscription(topic, "second", MessageId.latest, false);
        api.createSubscription(topic, "third", MessageId.latest, false, Map.of("team", "blue"));
        Check.equal(Set.copyOf(api.getSubscriptions(topic)), Set.of("first", "second", "third"));
        Check.equal(api.getSubscriptionProperties(topic, "third"), Map.of("team", "blue"));
        api.updateSubscriptionProperties(topic, "third", Map.of("tier", "1"));
        Check.equal(api.getSubscriptionProperties(topic, "third"), Map.of("tier", "1"));
        Check.refused(ConflictException.class, () -> api.createSubscription(topic, "first", MessageId.latest));
        Check.refused(NotFoundException.class, () -> api.deleteSubscription(topic, "none"));
        var consumer = stage.client().newConsumer().topic(topic).subscriptionName("first").subscribe();
        Check.refused(PreconditionFailedException.class, () -> api.deleteSubscription(topic, "first"));
        Check.refused(PreconditionFailedException.class, () -> api.delete(topic));
        consumer.close();
        api.deleteSubscription(topic, "first");
        api.deleteSubscription(topic, "second", true);
        Check.equal(api.getSubscriptions(topic), List.of("third"));
        Check.refused(NotFoundException.class, () -> api.getSubscriptions(topic + "-none"));
    }

    private static void positions(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        api.createSubscription(topic, "sub", MessageId.earliest);
        api.createSubscription(topic, "other", MessageId.earliest);
        var ids = Stage.send(producer(stage, topic), numbers(0, 10));
        api.skipMessages(topic, "sub", 3);
        Check.equal(backlog(api, topic, "sub"), 7L);
        Check.equal(texts(api.peekMessages(topic, "sub", 2)), List.of("3", "4"));
        api.expireMessages(topic, "sub", ids.get(4), false);
        Check.soon(() -> backlog(api, topic, "sub"), 5L);
        api.skipAllMessages(topic, "sub");
        Check.equal(backlog(api, topic, "sub"), 0L);
        api.resetCursor(topic, "sub", ids.get(6));
        Check.equal(backlog(api, topic, "sub"), 4L);
        api.resetCursor(topic, "sub", ids.get(6), true);
        Check.equal(backlog(api, topic, "sub"), 3L);
        api.resetCursor(topic, "sub", 0);
        Check.equal(backlog(api, topic, "sub"), 10L);
        Check.refused(NotFoundException.class, () -> api.resetCursor(topic, "none", ids.get(6)));
        Check.refused(PulsarAdminException.class, () -> api.expireMessages(topic, "none", ids.get(6), false));
        api.expireMessages(topic, "sub", 3600);
        api.expireMessagesForAllSubscriptions(topic, 3600);
        Check.equal(backlog(api, topic, "other"), 10L);
        var analysis = api.analyzeSubscriptionBacklog(topic, "other", Optional.empty());
        Check.equal(analysis.getEntries(), 10L);
        Check.equal(analysis.getMessages(), 10L);
        Check.equal(analysis.isAborted(), false);
        Check.equal(api.analyzeSubscriptionBacklog(topic, "other", Optional.of(ids.get(4))).getMessages(), 6L);
        Check.equal(api.analyzeSubscriptionBacklog(topic, "other", Optional.empty(), 100).getMessages(), 10L);
        Check.equal(api.analyzeSubscriptionBacklog(topic, "other", Optional.empty(), result -> true)
                .getMessages(), 10L);
        var whole = api.getBacklogSizeByMessageId(topic, MessageId.earliest);
        var part = api.getBacklogSizeByMessageId(topic, ids.get(8));
        Check.that(whole > part && part > 0, () -> whole + " bytes and " + part);
        Check.equal(api.getBacklogSizeByMessageId(topic, ids.get(9)), 0L);
    }

    private static void messages(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        Check.equal(((MessageIdAdv) api.getLastMessageId(topic)).getEntryId(), -1L);
        api.createSubscription(topic, "sub", MessageId.earliest);
        var producer = producer(stage, topic);
        var first = (MessageIdAdv) producer.newMessage().key("k").property("p", "v").eventTime(5)
                .value("one".getBytes()).send();
        var batching = stage.client().newProducer().topic(topic).enableBatching(true)
                .batchingMaxPublishDelay(1, java.util.concurrent.TimeUnit.MINUTES).create();
        Stage.sendBatch(batching, "two", "three");
        var last = (MessageIdAdv) producer.send("four".getBytes());

        var peeked = api.peekMessages(topic, "sub", 4);
        Check.equal(texts(peeked), List.of("one", "two", "three", "four"));
        Check.equal(peeked.get(0).getKey(), "k");
        Check.equal(peeked.get(0).getProperty("p"), "v");
        Check.equal(peeked.get(0).getEventTime(), 5L);
        Check.equal(peeked.get(0).getProducerName(), producer.getProducerName());
        Check.that(peeked.get(0).getPublishTime() > 0, "no publish time");
        Check.equal(texts(api.peekMessages(topic, "sub", 1, false, TransactionIsolationLevel.READ_COMMITTED)),
                List.of("one"));
        Check.equal(texts(api.peekMessages(topic, "sub", 99)).size(), 4);
        Check.equal(Stage.text(api.getMessageById(topic, first.getLedgerId(), first.getEntryId())), "one");
        Check.equal(texts(api.getMessagesById(topic, last.getLedgerId(), last.getEntryId() - 1)),
                List.of("two", "three"));
        Check.equal(Stage.text(api.examineMessage(topic, "earliest", 1)), "one");
        Check.equal(Stage.text(api.examineMessage(topic, "latest", 1)), "four");
        var found = (MessageIdAdv) api.getMessageIdByTimestamp(topic, peeked.get(1).getPublishTime());
        Check.that(found.getEntryId() >= 0 && found.getEntryId() <= 1, found::toString);
        var newest = (MessageIdAdv) api.getLastMessageId(topic);
        Check.equal(List.of(newest.getLedgerId(), newest.getEntryId()), List.of(last.getLedgerId(), last.getEntryId()));
        // Pulsar answers 500, Magnetar 404.
        Check.refused(PulsarAdminException.class, () -> api.getMessageById(topic, first.getLedgerId(), 99));
        Check.refused(NotFoundException.class, () -> api.getLastMessageId(topic + "-none"));
        Check.refused(NotFoundException.class, () -> api.examineMessage(topic + "-none", "earliest", 1));
        byIndex(stage, api, topic, first);
    }

    /** The original knows indexes only where it adds metadata to entries. */
    private static void byIndex(Stage stage, Topics api, String topic, MessageIdAdv first) throws Exception {
        var found = (MessageIdAdv) api.getMessageIdByIndex(topic, 0);
        Check.equal(List.of(found.getLedgerId(), found.getEntryId()), List.of(first.getLedgerId(), 0L));
    }

    private static void statistics(Stage stage, Topics api, String topic) throws Exception {
        var consumer = stage.client().newConsumer().topic(topic).subscriptionName("sub")
                .subscriptionType(SubscriptionType.Shared).consumerName("eater").isAckReceiptEnabled(true).subscribe();
        var producer = stage.client().newProducer().topic(topic).producerName("cook").enableBatching(false).create();
        Stage.send(producer, numbers(0, 5));
        Stage.acknowledge(consumer, Stage.take(consumer, 5).subList(0, 2));
        var stats = api.getStats(topic, true);
        Check.equal(stats.getMsgInCounter(), 5L);
        Check.equal(stats.getPublishers().get(0).getProducerName(), "cook");
        Check.that(stats.getStorageSize() > 0, "nothing is stored");
        var sub = stats.getSubscriptions().get("sub");
        Check.equal(sub.getMsgBacklog(), 3L);
        Check.equal(sub.getType(), "Shared");
        Check.equal(sub.getUnackedMessages(), 3L);
        Check.equal(sub.getConsumers().get(0).getConsumerName(), "eater");
        Check.equal(sub.getConsumers().get(0).getUnackedMessages(), 3);
        Check.that(api.getStats(topic, true, true).getSubscriptions().get("sub").getBacklogSize() > 0, "no size");
        Check.that(api.getStats(topic, true, true, true).getSubscriptions().get("sub")
                .getEarliestMsgPublishTimeInBacklog() > 0, "no time");
        var without = api.getStats(topic, GetStatsOptions.builder().excludeConsumers(true).excludePublishers(true)
                .build());
        Check.equal(without.getPublishers().size(), 0);
        Check.equal(without.getSubscriptions().get("sub").getConsumers().size(), 0);
        Check.equal(api.getStats(topic).getSubscriptions().keySet(), Set.of("sub"));

        var internal = api.getInternalStats(topic);
        Check.equal(internal.entriesAddedCounter, 5L);
        Check.equal(internal.numberOfEntries, 5L);
        Check.equal(internal.state, "LedgerOpened");
        Check.equal(internal.cursors.keySet(), Set.of("sub"));
        Check.that(internal.lastConfirmedEntry.endsWith(":4"), internal.lastConfirmedEntry);
        Check.equal(api.getInternalStats(topic, true).ledgers.size(), 1);
        Check.that(api.getInternalInfo(topic).contains("\"ledgers\""), api.getInternalInfo(topic));
        Check.refused(NotFoundException.class, () -> api.getInternalStats(topic + "-none"));
    }

    private static void partitionedStatistics(Stage stage, Topics api, String topic) throws Exception {
        api.createPartitionedTopic(topic, 3);
        api.createSubscription(topic, "sub", MessageId.earliest);
        try (var producer = producer(stage, topic)) {
            Stage.send(producer, numbers(0, 9));
        }
        var stats = api.getPartitionedStats(topic, true);
        Check.equal(stats.getMetadata().partitions, 3);
        Check.equal(stats.getMsgInCounter(), 9L);
        Check.equal(stats.getPartitions().keySet(), Set.copyOf(
                IntStream.range(0, 3).mapToObj(number -> topic + "-partition-" + number).toList()));
        Check.equal(stats.getSubscriptions().get("sub").getMsgBacklog(), 9L);
        Check.equal(api.getPartitionedStats(topic, false).getPartitions().size(), 0);
        Check.that(api.getPartitionedStats(topic, true, true, true, true).getSubscriptions().get("sub")
                .getBacklogSize() > 0, "no size");
        Check.equal(api.getPartitionedStats(topic, false, GetStatsOptions.builder().getPreciseBacklog(true).build())
                .getSubscriptions().get("sub").getMsgBacklog(), 9L);
        Check.equal(api.getPartitionedInternalStats(topic).partitions.values().stream()
                .mapToLong(one -> one.numberOfEntries).sum(), 9L);
        Check.that(api.getInternalInfo(topic).contains("partition"), "no partitions");
        Check.refused(NotFoundException.class, () -> api.getPartitionedStats(topic + "-none", true));
        Check.refused(PulsarAdminException.class, () -> api.getLastMessageId(topic));
    }

    private static void ends(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        var producer = producer(stage, topic);
        var last = (MessageIdAdv) Stage.send(producer, "1", "2").get(1);
        var end = (MessageIdAdv) api.terminateTopic(topic);
        Check.equal(List.of(end.getLedgerId(), end.getEntryId()), List.of(last.getLedgerId(), last.getEntryId()));
        Check.refused(org.apache.pulsar.client.api.PulsarClientException.class, () -> producer.send("3".getBytes()));
        api.createPartitionedTopic(topic + "-parts", 2);
        Check.equal(api.terminatePartitionedTopic(topic + "-parts").keySet(), Set.of(0, 1));
        api.delete(topic, true);
        api.deletePartitionedTopic(topic + "-parts");
        api.createNonPartitionedTopic(topic);
        api.delete(topic, true, true);
    }

    private static void upkeep(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        api.createSubscription(topic, "sub", MessageId.earliest);
        Check.equal(api.compactionStatus(topic).status, Status.NOT_RUN);
        try (var producer = producer(stage, topic)) {
            Stage.sendKeyed(producer, "k", "1", "2", "3");
        }
        api.triggerCompaction(topic);
        Check.soon(() -> api.compactionStatus(topic).status, Status.SUCCESS);
        Check.equal(api.offloadStatus(topic).getStatus(), Status.NOT_RUN);
        Check.worksOrIsAbsent(() -> api.triggerOffload(topic, MessageId.latest));
        api.trimTopic(topic);
        api.truncate(topic);
        Check.equal(backlog(api, topic, "sub"), 0L);
        api.unload(topic);
        Check.that(api.getSubscriptions(topic).contains("sub"), "no subscription is left");
        Check.refused(NotFoundException.class, () -> api.triggerCompaction(topic + "-none"));
        Check.refused(NotFoundException.class, () -> api.truncate(topic + "-none"));
    }
}
