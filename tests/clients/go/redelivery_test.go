package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func TestNacksCountAndBackOff(t *testing.T) {
	s := newStage(t)
	s.send(s.plain(), text("good"), text("bad"))
	for name, kind := range dividing {
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{
			SubscriptionName: name, NackBackoffPolicy: backoff{}, AckWithResponse: true,
		})
		s.ack(consumer, s.next(consumer))
		for count := 0; count < 4; count++ {
			bad := s.next(consumer)
			s.equal(fmt.Sprint(string(bad.Payload()), bad.RedeliveryCount()), fmt.Sprint("bad", count))
			consumer.Nack(bad)
		}
		s.ack(consumer, s.next(consumer))
		s.expectSilence(consumer)
	}
}

// buried is the next message of the subscription that the first dead letter created.
func buried(s *stage, topic string) pulsar.Message {
	s.Helper()
	return s.next(s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "kept"}))
}

func TestNackedTooOften(t *testing.T) {
	s := newStage(t)
	s.send(s.plain(), keyed("k", "poison"))
	for name, kind := range dividing {
		grave := s.topic + "-" + name + "-graves"
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{
			SubscriptionName: name, NackRedeliveryDelay: 50 * time.Millisecond,
			DLQ: &pulsar.DLQPolicy{MaxDeliveries: 3, DeadLetterTopic: grave, InitialSubscriptionName: "kept"},
		})
		for count := 0; count < 3; count++ {
			consumer.Nack(s.next(consumer))
		}
		letter := buried(s, grave)
		s.equal(string(letter.Payload()), "poison")
		s.equal(letter.Properties()["REAL_TOPIC"], s.topic)
		s.expectSilence(consumer)
	}
}

func TestRetriedLaterUntilItIsGivenUp(t *testing.T) {
	s := newStage(t)
	s.send(s.plain(), keyed("k", "again"))
	for name, kind := range dividing {
		grave := s.topic + "-" + name + "-graves"
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{
			SubscriptionName: name, RetryEnable: true,
			DLQ: &pulsar.DLQPolicy{
				MaxDeliveries: 2, DeadLetterTopic: grave, RetryLetterTopic: s.topic + "-" + name + "-retries",
				InitialSubscriptionName: "kept",
			},
		})
		for count := 0; count <= 2; count++ {
			message := s.next(consumer)
			s.equal(string(message.Payload()), "again")
			consumer.ReconsumeLater(message, 200*time.Millisecond)
		}
		s.equal(string(buried(s, grave).Payload()), "again")
		s.expectSilence(consumer)
	}
}

func TestDelays(t *testing.T) {
	s := newStage(t)
	s.takeOwnBroker("isDelayedDeliveryDeliverAtTimeStrict=true", "delayedDeliveryTickTimeMillis=50")
	for name, kind := range dividing {
		topic := s.topic + name
		producer := s.produce(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{Topic: topic})
		due := time.Now().Add(1500 * time.Millisecond)
		s.sendAll(producer,
			&pulsar.ProducerMessage{Payload: []byte("after"), DeliverAfter: 2500 * time.Millisecond},
			&pulsar.ProducerMessage{Payload: []byte("at"), DeliverAt: due},
			text("now"))
		times := map[string]int64{"now": 0, "at": due.UnixMilli(), "after": due.UnixMilli() + 1000}
		for len(times) > 0 {
			came := string(s.next(consumer).Payload())
			if at, ok := times[came]; !ok || time.Now().UnixMilli() < at {
				t.Fatal(came, "is early, or came twice")
			}
			delete(times, came)
		}
	}
}
