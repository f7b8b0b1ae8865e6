package clients

import (
	"context"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func TestEachTypeReceivesEverythingInOrder(t *testing.T) {
	s := newStage(t)
	s.send(s.plain(), numbers(0, 100)...)
	for name, kind := range everyType {
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{SubscriptionName: name})
		s.equal(texts(s.take(consumer, 100)), counted(0, 100))
	}
}

func TestBatchesAndCompression(t *testing.T) {
	s := newStage(t)
	consumer := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{})
	for _, compression := range []pulsar.CompressionType{pulsar.NoCompression, pulsar.LZ4, pulsar.ZLib, pulsar.ZSTD} {
		producer := s.produce(pulsar.ProducerOptions{
			CompressionType: compression, BatchingMaxPublishDelay: time.Minute,
		})
		s.sendAll(producer, numbers(0, 20)...)
		s.equal(texts(s.take(consumer, 20)), counted(0, 20))
	}
}

func TestSingleMessagesOfABatchStayAwayAfterAKill(t *testing.T) {
	s := newStage(t)
	s.takeOwnBroker()
	s.sendAll(s.produce(pulsar.ProducerOptions{BatchingMaxPublishDelay: time.Minute}), numbers(0, 10)...)
	options := pulsar.ConsumerOptions{EnableBatchIndexAcknowledgment: true, AckWithResponse: true}
	consumer := s.subscribe(pulsar.Shared, options)
	for number, message := range s.take(consumer, 10) {
		if number%3 != 0 {
			s.ack(consumer, message)
		}
	}
	consumer.Close()
	s.killBroker()
	again := s.subscribeBy(s.newClient(), pulsar.Shared, options)
	s.equal(texts(s.take(again, 4)), []string{"0", "3", "6", "9"})
	s.expectSilence(again)
}

func TestReadersAndSeeks(t *testing.T) {
	s := newStage(t)
	ids := s.send(s.plain(), numbers(0, 10)...)
	reader, err := s.client().CreateReader(pulsar.ReaderOptions{
		Topic: s.topic, StartMessageID: ids[3], StartMessageIDInclusive: true,
	})
	s.must(err)
	for _, expected := range counted(3, 10) {
		limit, done := context.WithTimeout(context.Background(), wait)
		message, err := reader.Next(limit)
		done()
		s.must(err)
		s.equal(string(message.Payload()), expected)
	}
	if reader.HasNext() {
		t.Fatal("there is more than was sent")
	}
	for name, kind := range everyType {
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{SubscriptionName: name})
		s.ack(consumer, s.take(consumer, 10)...)
		// Behind a seek by id the client itself drops what is before it: the one by time comes first.
		s.must(consumer.SeekByTime(time.UnixMilli(1)))
		s.equal(texts(s.take(consumer, 10)), counted(0, 10))
		s.must(consumer.Seek(ids[6]))
		s.equal(texts(s.take(consumer, 3)), counted(7, 10))
	}
}

func TestFailoverMovesOn(t *testing.T) {
	s := newStage(t)
	active := s.subscribe(pulsar.Failover, pulsar.ConsumerOptions{Name: "a"})
	producer := s.plain()
	s.send(producer, numbers(0, 5)...)
	s.take(active, 5)
	other := s.subscribeBy(s.newClient(), pulsar.Failover, pulsar.ConsumerOptions{Name: "b"})
	active.Close()
	s.equal(texts(s.take(other, 5)), counted(0, 5))
}
