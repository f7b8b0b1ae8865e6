package clients

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

var (
	earliest = utils.MessageID{LedgerID: -1, EntryID: -1, PartitionIndex: -1}
	offload  = utils.OffloadPolicies{ManagedLedgerOffloadDriver: "filesystem", ManagedLedgerOffloadMaxThreads: 3}
)

// driverOf policies is all that is compared of them: Pulsar adds its defaults.
func driverOf(policies *utils.OffloadPolicies) string {
	if policies == nil {
		return ""
	}
	return policies.ManagedLedgerOffloadDriver
}

// produceTo sends every message to this topic by itself.
func (s *stage) produceTo(topic string) pulsar.Producer {
	s.Helper()
	return s.produce(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
}

// idOf is a receipt as the admin client names positions.
func idOf(receipt pulsar.MessageID) utils.MessageID {
	return utils.MessageID{
		LedgerID: receipt.LedgerID(), EntryID: receipt.EntryID(), PartitionIndex: int(receipt.PartitionIdx()),
	}
}

func payloads(messages []*utils.Message) []string {
	payloads := []string{}
	for _, message := range messages {
		payloads = append(payloads, string(message.Payload))
	}
	return payloads
}

// policiesOfTopics that the two interfaces name alike.
func (s *stage) policiesOfTopics() map[string]any {
	rate := utils.DispatchRateData{DispatchThrottlingRateInMsg: 1000, DispatchThrottlingRateInByte: 1 << 20, RatePeriodInSecond: 2}
	return map[string]any{
		"MessageTTL":                      600,
		"MaxProducers":                    7,
		"MaxConsumers":                    8,
		"MaxUnackMessagesPerConsumer":     100,
		"MaxUnackMessagesPerSubscription": 200,
		"Persistence":                     utils.PersistenceData{BookkeeperEnsemble: 1, BookkeeperWriteQuorum: 1, BookkeeperAckQuorum: 1, ManagedLedgerMaxMarkDeleteRate: 2.5},
		"DelayedDelivery":                 utils.DelayedDeliveryData{TickTime: 2000, Active: true},
		"DispatchRate":                    rate,
		"PublishRate":                     utils.PublishRateData{PublishThrottlingRateInMsg: 500, PublishThrottlingRateInByte: 1 << 20},
		"DeduplicationStatus":             true,
		"Retention":                       utils.NewRetentionPolicies(120, 20<<10),
		"CompactionThreshold":             1_000_000,
		"InactiveTopicPolicies":           inactive,
		"ReplicationClusters":             []string{s.cluster()},
		"SubscribeRate":                   utils.SubscribeRate{SubscribeThrottlingRatePerConsumer: 10, RatePeriodInSecond: 30},
		"SubscriptionDispatchRate":        rate,
		"MaxConsumersPerSubscription":     5,
		"MaxMessageSize":                  1024,
		"MaxSubscriptionsPerTopic":        50,
		"DeduplicationSnapshotInterval":   15,
		"ReplicatorDispatchRate":          rate,
		"AutoSubscriptionCreation":        utils.AutoSubscriptionCreationOverride{AllowAutoSubscriptionCreation: true},
		"SchemaCompatibilityStrategy":     utils.SchemaCompatibilityStrategyForward,
	}
}

func TestAdminTopics(t *testing.T) {
	s := newStage(t)
	topics, path := s.admin().Topics(), "persistent://"+s.newNamespace()+"/"
	plain, parts := s.named(path+"plain"), s.named(path+"parts")
	s.must(topics.Create(plain, 0))
	s.must(topics.CreateWithProperties(parts, 2, map[string]string{"team": "blue"}))
	partitioned, others, err := topics.List(s.space(plain.GetTenant() + "/" + plain.GetNamespace()))
	s.must(err)
	s.equal(partitioned, []string{parts.String()})
	s.equal(sorted(others), []string{parts.String() + "-partition-0", parts.String() + "-partition-1", plain.String()})
	s.must(topics.Update(parts, 3))
	metadata := func() (utils.PartitionedTopicMetadata, error) { return topics.GetMetadata(parts) }
	s.equal(got(s, metadata).Partitions, 3)
	s.refused(topics.Update(parts, 1), 422)
	s.refused(topics.Create(plain, 0), 409)
	s.refused(topics.Create(parts, 2), 409)
	s.refused(topics.Create(s.named(path+"none"), -1), 406)
	s.refused(topics.Delete(parts, false, true), 409)
	s.refused(topics.Delete(s.named(path+"none"), false, true), 404)

	properties := func() (map[string]string, error) { return topics.GetProperties(parts) }
	s.must(topics.UpdateProperties(parts, map[string]string{"tier": "1"}))
	s.equal(got(s, properties), map[string]string{"team": "blue", "tier": "1"})
	s.must(topics.RemoveProperty(parts, "team"))
	s.equal(got(s, properties), map[string]string{"tier": "1"})

	grants := func() (map[string][]utils.AuthAction, error) { return topics.GetPermissions(plain) }
	s.must(topics.GrantPermission(plain, "guest", actions("consume")))
	s.equal(got(s, grants), map[string][]utils.AuthAction{"guest": actions("consume")})
	s.must(topics.RevokePermission(plain, "guest"))
	s.equal(len(got(s, grants)), 0)

	found := got(s, func() (utils.LookupData, error) { return topics.Lookup(plain) })
	s.that(strings.HasPrefix(found.BrokerURL, "pulsar://") && strings.HasPrefix(found.HTTPURL, "http://"), jsonOf(found))
	s.equal(got(s, func() (string, error) { return topics.GetBundleRange(plain) }), wholeRange)
	s.must(topics.Unload(plain))
	topicUpkeep(s, plain)
	s.must(topics.Delete(plain, true, true))
	s.must(topics.Delete(parts, false, false))
	s.refused(topics.Delete(parts, false, false), 404)
	s.refused(topics.Unload(plain), 404)
	s.refused(second(topics.GetStats(plain)), 404)

	policed := s.named(path + "policed")
	s.must(topics.Create(policed, 0))
	playPolicies(s, "topics", topics, policed, s.policiesOfTopics())
	s.equal(second(topics.GetSchemaCompatibilityStrategyApplied(policed, true)), nil)
	quotas := func() (string, error) {
		found, err := topics.GetBacklogQuotaMap(policed, false)
		return jsonOf(found), err
	}
	s.must(topics.SetBacklogQuota(policed, sizeQuota, utils.DestinationStorage))
	s.must(topics.SetBacklogQuota(policed, ageQuota, utils.MessageAge))
	s.soon(quotas, jsonOf(map[utils.BacklogQuotaType]utils.BacklogQuota{
		utils.DestinationStorage: sizeQuota, utils.MessageAge: ageQuota,
	}))
	s.must(topics.RemoveBacklogQuota(policed, utils.DestinationStorage))
	s.must(topics.RemoveBacklogQuota(policed, utils.MessageAge))
	s.soon(quotas, "{}")
	s.must(topics.SetOffloadPolicies(policed, offload))
	s.soon(func() (string, error) {
		found, err := topics.GetOffloadPolicies(policed)
		return driverOf(found), err
	}, offload.ManagedLedgerOffloadDriver)
	s.must(topics.RemoveOffloadPolicies(policed))
	s.must(topics.SetSchemaValidationEnforced(policed, true))
	s.soon(func() (string, error) {
		enforced, err := topics.GetSchemaValidationEnforced(policed)
		return strconv.FormatBool(enforced), err
	}, "true")
	removal := topics.RemoveSchemaValidationEnforced(policed)
	if removal != nil { // Pulsar has no such route
		s.refused(removal, 405)
	}
	s.refused(topics.SetMaxConsumers(s.named(path+"none"), 3), 404)
	s.refused(topics.SetMaxConsumers(policed, -3), 412)
	everyMethod[admin.Topics](s, "topics")
}

// topicUpkeep ends the topic.
func topicUpkeep(s *stage, topic utils.TopicName) {
	topics := s.admin().Topics()
	s.must(s.admin().Subscriptions().Create(topic, "sub", earliest))
	status := func() (string, error) {
		found, err := topics.CompactStatus(topic)
		return string(found.Status), err
	}
	s.equal(got(s, status), "NOT_RUN")
	producer := s.produceTo(topic.String())
	last := s.send(producer, keyed("k", "1"), keyed("k", "2"))[1]
	producer.Close() // it would create the topic anew
	s.must(second(topics.GetMessageID(topic, time.Now().Add(-time.Hour).UnixMilli())))
	s.must(topics.Compact(topic))
	s.soon(status, "SUCCESS")
	moved := got(s, func() (utils.OffloadProcessStatus, error) { return topics.OffloadStatus(topic) })
	s.equal(moved.Status, "NOT_RUN")
	if err := topics.Offload(topic, idOf(last)); err != nil {
		s.refused(err, 405, 501)
	}
	newest := got(s, func() (utils.MessageID, error) { return topics.GetLastMessageID(topic) })
	s.equal([]int64{newest.LedgerID, newest.EntryID}, []int64{last.LedgerID(), last.EntryID()})
	end := got(s, func() (utils.MessageID, error) { return topics.Terminate(topic) })
	s.equal([]int64{end.LedgerID, end.EntryID}, []int64{last.LedgerID(), last.EntryID()})
}

func TestAdminTopicPolicies(t *testing.T) {
	s := newStage(t)
	topic, background := s.named(s.topic), context.Background()
	client := s.admin()
	s.must(client.Topics().Create(topic, 0))
	rules, err := pulsaradmin.TopicPoliciesOf(client, false)
	s.must(err)
	playPolicies(s, "rules", rules, topic, s.policiesOfTopics())
	applied, err := rules.GetMaxMessageSize(background, topic, true)
	s.must(err)
	s.that(applied == nil || *applied >= 0, "no size")
	s.must(rules.SetBacklogQuota(background, topic, ageQuota, utils.MessageAge))
	s.soon(func() (string, error) {
		found, err := rules.GetBacklogQuotaMap(background, topic, true)
		return jsonOf(found[utils.MessageAge]), err
	}, jsonOf(ageQuota))
	s.must(rules.RemoveBacklogQuota(background, topic, utils.MessageAge))
	s.must(rules.SetOffloadPolicies(background, topic, offload))
	s.soon(func() (string, error) {
		found, err := rules.GetOffloadPolicies(background, topic, false)
		return driverOf(found), err
	}, offload.ManagedLedgerOffloadDriver)
	s.must(rules.RemoveOffloadPolicies(background, topic))
	s.must(rules.SetSchemaValidationEnforced(background, topic, true))
	s.soon(func() (string, error) {
		found, err := rules.GetSchemaValidationEnforced(background, topic, false)
		return jsonOf(found), err
	}, "true")
	removal := rules.RemoveSchemaValidationEnforced(background, topic)
	if removal != nil {
		s.refused(removal, 405)
	}
	everyMethod[admin.TopicPolicies](s, "rules")
}

func TestAdminStatistics(t *testing.T) {
	s := newStage(t)
	s.topic += "-figures"
	topics, topic := s.admin().Topics(), s.named(s.topic)
	consumer := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{Name: "eater"})
	s.send(s.produce(pulsar.ProducerOptions{Name: "cook", DisableBatching: true}), numbers(0, 5)...)
	s.ack(consumer, s.take(consumer, 5)[:2]...)
	all := func(options utils.GetStatsOptions) utils.TopicStats {
		return got(s, func() (utils.TopicStats, error) { return topics.GetStatsWithOption(topic, options) })
	}
	s.soon(func() (string, error) {
		found, err := topics.GetStats(topic)
		return strconv.FormatInt(found.Subscriptions["sub"].UnAckedMessages, 10), err
	}, "3")
	figures := all(utils.GetStatsOptions{GetPreciseBacklog: true, SubscriptionBacklogSize: true, GetEarliestTimeInBacklog: true})
	s.equal(figures.MsgCounterIn, 5)
	s.equal(figures.Publishers[0].ProducerName, "cook")
	s.equal(figures.Publishers[0].AccessModel, "Shared")
	sub := figures.Subscriptions["sub"]
	s.equal([]any{sub.MsgBacklog, sub.SubType, sub.IsDurable}, []any{3, "Shared", true})
	s.that(sub.BacklogSize > 0 && sub.EarliestMsgPublishTimeInBacklog > 0, jsonOf(sub))
	eater := sub.Consumers[0]
	s.equal([]any{eater.ConsumerName, eater.UnAckedMessages, eater.MsgOutCounter}, []any{"eater", 3, 5})
	s.that(eater.Address != "" && eater.ConnectedSince != "" && eater.ClientVersion != "", jsonOf(eater))
	s.that(figures.TopicCreationTimeStamp > 0 && figures.LastPublishTimestamp >= figures.TopicCreationTimeStamp, jsonOf(figures))
	without := all(utils.GetStatsOptions{ExcludePublishers: true, ExcludeConsumers: true})
	s.equal([]int{len(without.Publishers), len(without.Subscriptions["sub"].Consumers)}, []int{0, 0})

	internal := got(s, func() (utils.PersistentTopicInternalStats, error) { return topics.GetInternalStats(topic) })
	s.equal([]any{internal.EntriesAddedCounter, internal.NumberOfEntries, internal.State}, []any{5, 5, "LedgerOpened"})
	s.that(strings.HasSuffix(internal.LastConfirmedEntry, ":4"), internal.LastConfirmedEntry)
	s.that(strings.HasSuffix(internal.Cursors["sub"].MarkDeletePosition, ":1"), jsonOf(internal.Cursors))
	info := got(s, func() (utils.ManagedLedgerInfo, error) { return topics.GetInternalInfo(topic) })
	s.equal(len(info.Ledgers), 1)

	parts := s.named(s.topic + "-parts")
	s.must(topics.Create(parts, 3))
	s.must(s.admin().Subscriptions().Create(parts, "sub", earliest))
	s.send(s.produceTo(parts.String()), numbers(0, 9)...)
	sums := func(detailed bool) utils.PartitionedTopicStats {
		return got(s, func() (utils.PartitionedTopicStats, error) { return topics.GetPartitionedStats(parts, detailed) })
	}
	s.equal([]int{sums(true).Metadata.Partitions, len(sums(true).Partitions), len(sums(false).Partitions)}, []int{3, 3, 0})
	s.equal(sums(false).Subscriptions["sub"].MsgBacklog, 9)
	precise, err := topics.GetPartitionedStatsWithOption(parts, true, utils.GetStatsOptions{SubscriptionBacklogSize: true})
	s.must(err)
	s.that(precise.Subscriptions["sub"].BacklogSize > 0, jsonOf(precise))
	s.refused(second(topics.GetPartitionedStats(s.named(s.topic+"-none"), true)), 404)
}

func TestAdminSubscriptions(t *testing.T) {
	s := newStage(t)
	subscriptions, topic := s.admin().Subscriptions(), s.named(s.topic)
	s.must(s.admin().Topics().Create(topic, 0))
	s.must(subscriptions.Create(topic, "sub", earliest))
	s.must(subscriptions.Create(topic, "other", earliest))
	s.equal(sorted(got(s, func() ([]string, error) { return subscriptions.List(topic) })), []string{"other", "sub"})
	s.refused(subscriptions.Create(topic, "sub", earliest), 409)
	s.refused(subscriptions.Delete(topic, "none"), 404)
	s.must(subscriptions.Delete(topic, "other"))
	receipts := s.send(s.plain(), &pulsar.ProducerMessage{Payload: []byte("0"), Properties: map[string]string{"p": "v"}})
	receipts = append(receipts, s.send(s.plain(), numbers(1, 10)...)...)
	backlog := func() (string, error) {
		found, err := s.admin().Topics().GetStats(topic)
		return strconv.FormatInt(found.Subscriptions["sub"].MsgBacklog, 10), err
	}
	peeked, err := subscriptions.PeekMessages(topic, "sub", 2)
	s.must(err)
	s.equal(payloads(peeked), []string{"0", "1"})
	s.equal(peeked[0].Properties["p"], "v")
	s.equal([]int64{peeked[0].MessageID.LedgerID, peeked[0].MessageID.EntryID}, []int64{receipts[0].LedgerID(), receipts[0].EntryID()})
	s.must(subscriptions.SkipMessages(topic, "sub", 3))
	s.soon(backlog, "7")
	s.must(subscriptions.ClearBacklog(topic, "sub"))
	s.soon(backlog, "0")
	s.must(subscriptions.ResetCursorToMessageID(topic, "sub", idOf(receipts[6])))
	s.soon(backlog, "4")
	s.must(subscriptions.ResetCursorToTimestamp(topic, "sub", time.Now().Add(-time.Hour).UnixMilli()))
	s.soon(backlog, "10")
	s.must(subscriptions.ExpireMessages(topic, "sub", 3600))
	s.must(subscriptions.ExpireAllMessages(topic, 3600))
	s.soon(backlog, "10")
	s.refused(subscriptions.ResetCursorToMessageID(topic, "none", idOf(receipts[6])), 404)

	batching := s.produce(pulsar.ProducerOptions{BatchingMaxPublishDelay: time.Minute})
	s.sendAll(batching, text("two"), text("three"))
	last := got(s, func() (utils.MessageID, error) { return s.admin().Topics().GetLastMessageID(topic) })
	messages, err := subscriptions.GetMessagesByID(topic, last.LedgerID, last.EntryID)
	s.must(err)
	s.equal(payloads(messages), []string{"two", "three"})
	first, err := subscriptions.GetMessageByID(topic, receipts[0].LedgerID(), receipts[0].EntryID())
	s.must(err)
	s.equal(string(first.Payload), "0")
	// Pulsar answers 500, Magnetar 404.
	s.refused(second(subscriptions.GetMessageByID(topic, last.LedgerID, 99)), 404, 500)

	consumer := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{})
	s.refused(subscriptions.Delete(topic, "sub"), 412)
	s.must(subscriptions.ForceDelete(topic, "sub"))
	consumer.Close()
	everyMethod[admin.Subscriptions](s, "subscriptions")
}
