package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
)

func another(s *stage, mode pulsar.ProducerAccessMode) (pulsar.Producer, error) {
	return s.newClient().CreateProducer(pulsar.ProducerOptions{
		Topic: s.topic, ProducerAccessMode: mode, DisableBatching: true,
	})
}

func refused(s *stage, mode pulsar.ProducerAccessMode) {
	s.Helper()
	if _, err := another(s, mode); err == nil {
		s.Fatal("let in")
	}
}

func TestAnExclusiveProducerIsAlone(t *testing.T) {
	s := newStage(t)
	holder, err := another(s, pulsar.ProducerAccessModeExclusive)
	s.must(err)
	refused(s, pulsar.ProducerAccessModeExclusive)
	waiting := make(chan pulsar.Producer)
	go func() {
		producer, err := another(s, pulsar.ProducerAccessModeWaitForExclusive)
		if err != nil {
			s.Error(err)
		}
		waiting <- producer
	}()
	s.send(holder, text("holder"))
	holder.Close()
	waited := <-waiting
	s.send(waited, text("waited"))
	refused(s, pulsar.ProducerAccessModeShared)
	consumer := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{})
	s.equal(texts(s.take(consumer, 2)), []string{"holder", "waited"})
}

func TestDuplicatesAreDropped(t *testing.T) {
	s := newStage(t)
	s.takeOwnBroker("brokerDeduplicationEnabled=true")
	numbered := func(producer pulsar.Producer, from, to int64) {
		for number := from; number < to; number++ {
			sequence := number
			message := text(fmt.Sprint(number))
			message.SequenceID = &sequence
			s.send(producer, message)
		}
	}
	options := pulsar.ProducerOptions{Name: "me", DisableBatching: true}
	first := s.produce(options)
	numbered(first, 0, 10)
	numbered(first, 5, 12)
	first.Close()
	second := s.produce(options)
	numbered(second, 8, 15)
	consumer := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{})
	s.equal(texts(s.take(consumer, 15)), counted(0, 15))
	s.expectSilence(consumer)
}

func large(number int) string {
	return strings.Repeat(string(rune('a'+number%26)), 10_000) + fmt.Sprint(number)
}

func chunking(s *stage) pulsar.Producer {
	s.Helper()
	producer, err := s.newClient().CreateProducer(pulsar.ProducerOptions{
		Topic: s.topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 1000,
	})
	s.must(err)
	return producer
}

func TestEachTypeReceivesLargeMessagesWhole(t *testing.T) {
	s := newStage(t)
	producer := chunking(s)
	for number := 0; number < 5; number++ {
		s.send(producer, keyed(fmt.Sprint("k", number), large(number)))
	}
	for name, kind := range everyType {
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{SubscriptionName: name})
		for number := 0; number < 5; number++ {
			s.equal(string(s.next(consumer).Payload()), large(number))
		}
	}
}

// Chunks of three producers mix in the topic; three consumers share them.
func TestSharedConsumersGetLargeMessagesWhole(t *testing.T) {
	s := newStage(t)
	merged := make(chan pulsar.ConsumerMessage)
	for number := 0; number < 3; number++ {
		s.subscribeBy(s.newClient(), pulsar.Shared, pulsar.ConsumerOptions{MessageChannel: merged})
	}
	producers := []pulsar.Producer{chunking(s), chunking(s), chunking(s)}
	for number := 0; number < 60; number++ {
		message := keyed(fmt.Sprint("k", number), large(number))
		producers[number%3].SendAsync(context.Background(), message,
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					s.Error(err)
				}
			})
	}
	got := map[string]bool{}
	for count := 0; count < 60; count++ {
		received := <-merged
		got[string(received.Payload())] = true
		s.ack(received.Consumer, received.Message)
	}
	for number := 0; number < 60; number++ {
		if !got[large(number)] {
			t.Fatal(number, "did not come")
		}
	}
}
