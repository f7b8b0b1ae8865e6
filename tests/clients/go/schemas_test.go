package clients

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	person   = `{"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}`
	older    = `{"type":"record","name":"Person","fields":[{"name":"name","type":"string"},{"name":"age","type":"int","default":-1}]}`
	stranger = `{"type":"record","name":"Person","fields":[{"name":"shoe","type":"int"}]}`
)

type someone struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
}

func (s *stage) producerWith(topic string, schema pulsar.Schema) (pulsar.Producer, error) {
	return s.client().CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
}

func (s *stage) consumerWith(topic string, schema pulsar.Schema) (pulsar.Consumer, error) {
	return s.client().Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "sub", Schema: schema,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
}

func (s *stage) received(consumer pulsar.Consumer) pulsar.Message {
	s.Helper()
	message, err := consumer.Receive(context.Background())
	s.must(err)
	return message
}

func (s *stage) receivesSomeone(consumer pulsar.Consumer) someone {
	s.Helper()
	var value someone
	s.must(s.received(consumer).GetSchemaValue(&value))
	return value
}

func (s *stage) refusedSchema(err error) {
	s.Helper()
	if err == nil || !strings.Contains(err.Error(), "IncompatibleSchema") {
		s.Fatal("not refused with IncompatibleSchema:", err)
	}
}

func TestRecordsComeBackAndEvolve(t *testing.T) {
	s := newStage(t)
	kinds := map[string]func(string, map[string]string) pulsar.Schema{
		"avro": func(text string, properties map[string]string) pulsar.Schema {
			return pulsar.NewAvroSchema(text, properties)
		},
		"json": func(text string, properties map[string]string) pulsar.Schema {
			return pulsar.NewJSONSchema(text, properties)
		},
	}
	for kind, schema := range kinds {
		topic := s.topic + "-" + kind
		consumer, err := s.consumerWith(topic, schema(older, nil))
		s.must(err)
		producer, err := s.producerWith(topic, schema(older, nil))
		s.must(err)
		_, err = producer.Send(context.Background(), &pulsar.ProducerMessage{Value: &someone{"Ada", 36}})
		s.must(err)
		s.equal(s.receivesSomeone(consumer), someone{"Ada", 36})
		_, err = s.producerWith(topic, schema(person, nil))
		s.must(err)
		_, err = s.producerWith(topic, schema(stranger, nil))
		s.refusedSchema(err)
		_, err = s.consumerWith(topic+"-none", schema(person, nil))
		s.must(err)
	}
}

func TestTextsAreNoNumbers(t *testing.T) {
	s := newStage(t)
	producer, err := s.producerWith(s.topic, pulsar.NewStringSchema(nil))
	s.must(err)
	consumer, err := s.consumerWith(s.topic, pulsar.NewStringSchema(nil))
	s.must(err)
	_, err = producer.Send(context.Background(), &pulsar.ProducerMessage{Value: "text"})
	s.must(err)
	var received *string
	s.must(s.received(consumer).GetSchemaValue(&received))
	s.equal(*received, "text")
	_, err = s.producerWith(s.topic, pulsar.NewInt64Schema(nil))
	s.refusedSchema(err)
}
