package clients

import (
	"fmt"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	keys   = 30
	rounds = 10
)

// divide: three consumers receive all, each key goes to one of them and in order.
func divide(s *stage, policy *pulsar.KeySharedPolicy, producer pulsar.Producer) {
	s.Helper()
	merged := make(chan pulsar.ConsumerMessage)
	for number := 0; number < 3; number++ {
		s.subscribeBy(s.newClient(), pulsar.KeyShared, pulsar.ConsumerOptions{
			Name: fmt.Sprint("c", number), KeySharedPolicy: policy, MessageChannel: merged,
		})
	}
	messages := []*pulsar.ProducerMessage{}
	for round := 0; round < rounds; round++ {
		for key := 0; key < keys; key++ {
			messages = append(messages, keyed(fmt.Sprint("key", key), fmt.Sprint(round)))
		}
	}
	s.sendAll(producer, messages...)
	owner, payloads, owners := map[string]string{}, map[string][]string{}, map[string]bool{}
	for count := 0; count < keys*rounds; count++ {
		received := <-merged
		key, name := received.Key(), received.Consumer.Name()
		if before, known := owner[key]; known && before != name {
			s.Fatalf("%s went to %s and %s", key, before, name)
		}
		owner[key], owners[name] = name, true
		payloads[key] = append(payloads[key], string(received.Payload()))
		s.ack(received.Consumer, received.Message)
	}
	for _, all := range payloads {
		s.equal(all, counted(0, rounds))
	}
	if len(owners) < 2 {
		s.Fatal("one consumer got every key")
	}
}

func TestKeysAreDivided(t *testing.T) {
	s := newStage(t)
	divide(s, nil, s.plain())
}

func TestKeysOfBatchesByKey(t *testing.T) {
	s := newStage(t)
	divide(s, nil, s.produce(pulsar.ProducerOptions{BatcherBuilderType: pulsar.KeyBasedBatchBuilder}))
}

func TestKeysWithoutStrictOrder(t *testing.T) {
	s := newStage(t)
	policy := &pulsar.KeySharedPolicy{Mode: pulsar.KeySharedPolicyModeAutoSplit, AllowOutOfOrderDelivery: true}
	divide(s, policy, s.plain())
}

func TestStickyRanges(t *testing.T) {
	s := newStage(t)
	sticky := func(from, to int) pulsar.ConsumerOptions {
		policy, err := pulsar.NewKeySharedPolicySticky([]int{from, to})
		s.must(err)
		return pulsar.ConsumerOptions{KeySharedPolicy: policy}
	}
	// Slots of 65536: key1 293, key2 16548.
	low := s.subscribeBy(s.newClient(), pulsar.KeyShared, sticky(0, 9_999))
	high := s.subscribeBy(s.newClient(), pulsar.KeyShared, sticky(10_000, 65_535))
	overlapping := sticky(9_998, 9_999)
	overlapping.Topic, overlapping.SubscriptionName, overlapping.Type = s.topic, "sub", pulsar.KeyShared
	if _, err := s.newClient().Subscribe(overlapping); err == nil {
		t.Fatal("two consumers have one slot")
	}
	s.send(s.plain(), keyed("key1", "low"), keyed("key2", "high"))
	s.equal(string(s.next(low).Payload()), "low")
	s.equal(string(s.next(high).Payload()), "high")
	s.expectSilence(low)
	s.expectSilence(high)
}
