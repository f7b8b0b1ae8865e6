package clients

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const soon = 100 * time.Millisecond

// path of the topic in the admin API.
func (s *stage) path() string { return strings.Replace(s.topic, "://", "/", 1) }

// rest is a request to the admin API, which succeeds; the body has no spaces.
func (s *stage) rest(method, path, body string) {
	s.ask(strings.TrimSpace("rest " + method + " " + path + " " + body))
}

func TestPartitionsThatAreAddedAreUsedAndRead(t *testing.T) {
	s := newStage(t)
	s.rest("PUT", s.path()+"/partitions", "1")
	consumer := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{AutoDiscoveryPeriod: soon})
	sent := 0
	producer := s.produce(pulsar.ProducerOptions{
		DisableBatching: true, PartitionsAutoDiscoveryInterval: soon,
		MessageRouter: func(_ *pulsar.ProducerMessage, topic pulsar.TopicMetadata) int {
			sent++
			return sent % int(topic.NumPartitions())
		},
	})
	s.rest("POST", s.path()+"/partitions", "3")
	for seen := map[string]bool{}; len(seen) < 3; {
		s.send(producer, text("x"))
		message := s.next(consumer)
		seen[message.Topic()] = true
		s.ack(consumer, message)
	}
}

func TestAnUnloadIsHardlyNoticed(t *testing.T) {
	s := newStage(t)
	consumer, producer := s.subscribe(pulsar.Failover, pulsar.ConsumerOptions{}), s.plain()
	for round := 0; round < 3; round++ {
		s.sendAll(producer, numbers(10*round, 10*round+10)...)
		s.rest("PUT", s.path()+"/unload", "")
	}
	received := []string{}
	for seen := map[string]bool{}; len(received) < 30; {
		message := s.next(consumer)
		if payload := string(message.Payload()); !seen[payload] { // what was on its way comes again
			seen[payload] = true
			received = append(received, payload)
		}
		s.ack(consumer, message)
	}
	s.equal(received, counted(0, 30))
}

func TestADeletedTopicComesAnew(t *testing.T) {
	s := newStage(t)
	producer := s.plain()
	s.send(producer, numbers(0, 10)...)
	s.rest("DELETE", s.path()+"?force=true", "")
	s.send(producer, text("new"))
	s.equal(texts(s.take(s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{}), 1)), []string{"new"})
}

func TestTopicsByPattern(t *testing.T) {
	s := newStage(t)
	s.send(s.produce(pulsar.ProducerOptions{Topic: s.topic + "-a"}), text("a"))
	consumer, err := s.client().Subscribe(pulsar.ConsumerOptions{
		TopicsPattern: s.topic + "-.*", SubscriptionName: "sub", AutoDiscoveryPeriod: soon,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	s.must(err)
	s.equal(texts(s.take(consumer, 1)), []string{"a"})
	s.send(s.produce(pulsar.ProducerOptions{Topic: s.topic + "-b"}), text("b"))
	s.equal(texts(s.take(consumer, 1)), []string{"b"})
}

func TestLimitsOfPolicies(t *testing.T) {
	s := newStage(t)
	s.plain()
	s.rest("POST", s.path()+"/maxProducers", "1")
	s.rest("POST", s.path()+"/subscriptionTypesEnabled", `["Shared"]`)
	for code, err := range map[string]error{
		"ProducerBusy":    second(s.client().CreateProducer(pulsar.ProducerOptions{Topic: s.topic})),
		"NotAllowedError": second(s.client().Subscribe(pulsar.ConsumerOptions{Topic: s.topic, SubscriptionName: "sub"})),
	} {
		if err == nil || !strings.Contains(err.Error(), code) {
			t.Fatalf("not refused with %s, but %v", code, err)
		}
	}
	s.rest("DELETE", s.path()+"/maxProducers", "")
	s.plain()
	s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{})
}

func second[T any](_ T, err error) error { return err }

func TestASchemaThatDoesNotFitIsRefused(t *testing.T) {
	s := newStage(t)
	record := func(kind string) pulsar.Schema {
		return pulsar.NewAvroSchema(`{"type":"record","name":"R","fields":[{"name":"a","type":"`+kind+`"}]}`, nil)
	}
	producer := s.produce(pulsar.ProducerOptions{Schema: record("int")})
	s.send(producer, &pulsar.ProducerMessage{Value: map[string]any{"a": 7}})
	message := s.next(s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{Schema: record("int")}))
	var value map[string]any
	s.must(message.GetSchemaValue(&value))
	s.equal(value["a"], 7)
	if err := second(s.client().CreateProducer(pulsar.ProducerOptions{Topic: s.topic, Schema: record("string")})); err == nil {
		t.Fatal("another schema is not refused")
	}
}
