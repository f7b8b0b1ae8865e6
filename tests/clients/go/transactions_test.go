package clients

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const long = 10 * time.Minute

// transactional is a client of the stage that may begin transactions.
func (s *stage) transactional() pulsar.Client {
	s.Helper()
	if s.first == nil {
		s.first = s.newClientWith(pulsar.ClientOptions{EnableTransaction: true})
	}
	return s.first
}

func (s *stage) begin(timeout time.Duration) pulsar.Transaction {
	s.Helper()
	transaction, err := s.transactional().NewTransaction(timeout)
	s.must(err)
	return transaction
}

func (s *stage) commit(transaction pulsar.Transaction) {
	s.Helper()
	s.must(transaction.Commit(context.Background()))
}

func (s *stage) abort(transaction pulsar.Transaction) {
	s.Helper()
	s.must(transaction.Abort(context.Background()))
}

func (s *stage) sendIn(transaction pulsar.Transaction, producer pulsar.Producer, messages ...*pulsar.ProducerMessage) {
	s.Helper()
	for _, message := range messages {
		message.Transaction = transaction
	}
	s.send(producer, messages...)
}

func (s *stage) acknowledgeIn(transaction pulsar.Transaction, consumer pulsar.Consumer, messages ...pulsar.Message) {
	s.Helper()
	for _, message := range messages {
		s.must(consumer.AckWithTxn(message, transaction))
	}
}

func TestTransactionMessagesAppearWithTheCommit(t *testing.T) {
	s := newStage(t)
	s.transactional()
	other := s.topic + "-other"
	here, there := s.plain(), s.produce(pulsar.ProducerOptions{Topic: other, DisableBatching: true})
	consumer := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{})
	transaction := s.begin(long)
	s.sendIn(transaction, here, numbers(0, 5)...)
	s.sendIn(transaction, there, numbers(5, 10)...)
	s.expectSilence(consumer)
	s.commit(transaction)
	s.equal(texts(s.take(consumer, 5)), counted(0, 5))
	s.equal(texts(s.take(s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{Topic: other}), 5)), counted(5, 10))
}

func TestTransactionAbortedMessagesNeverAppear(t *testing.T) {
	s := newStage(t)
	s.transactional()
	producer := s.plain()
	consumer := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{})
	transaction := s.begin(long)
	s.send(producer, text("before"))
	s.sendIn(transaction, producer, numbers(0, 5)...)
	s.send(producer, text("behind"))
	s.equal(texts(s.take(consumer, 1)), []string{"before"})
	s.expectSilence(consumer)
	s.abort(transaction)
	s.equal(texts(s.take(consumer, 1)), []string{"behind"})
	s.expectSilence(consumer)
}

func TestTransactionThatIsForgottenIsAborted(t *testing.T) {
	s := newStage(t)
	s.transactional()
	producer := s.plain()
	transaction := s.begin(10 * time.Second)
	s.sendIn(transaction, producer, text("forgotten"))
	s.send(producer, text("behind"))
	s.equal(texts(s.take(s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{}), 1)), []string{"behind"})
	if err := transaction.Commit(context.Background()); err == nil {
		t.Fatal("a transaction that has timed out can be committed")
	}
}

func TestTransactionAcknowledgements(t *testing.T) {
	s := newStage(t)
	s.transactional()
	s.send(s.plain(), numbers(0, 6)...)
	for name, kind := range dividing {
		options := pulsar.ConsumerOptions{SubscriptionName: name}
		consumer := s.subscribe(kind, options)
		aborted := s.begin(long)
		s.acknowledgeIn(aborted, consumer, s.take(consumer, 6)...)
		s.abort(aborted)
		consumer.Close()
		consumer = s.subscribe(kind, options)
		committed := s.begin(long)
		s.acknowledgeIn(committed, consumer, s.take(consumer, 6)[:4]...)
		s.commit(committed)
		consumer.Close()
		consumer = s.subscribe(kind, options)
		s.equal(texts(s.take(consumer, 2)), counted(4, 6))
		s.expectSilence(consumer)
		consumer.Close()
	}
}

func TestTransactionConsumesAndProducesInOneStep(t *testing.T) {
	s := newStage(t)
	s.transactional()
	output := s.topic + "-output"
	s.send(s.plain(), numbers(0, 20)...)
	producer := s.produce(pulsar.ProducerOptions{Topic: output, DisableBatching: true})
	input := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{})
	results := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{Topic: output})
	tried, found := map[string]bool{}, map[string]bool{}
	for done := 0; done < 20; {
		message := s.next(input)
		payload := string(message.Payload())
		transaction := s.begin(long)
		s.sendIn(transaction, producer, text(payload+"!"))
		s.acknowledgeIn(transaction, input, message)
		number, err := strconv.Atoi(payload)
		s.must(err)
		// The first try of every third message fails: the broker delivers it again.
		if number%3 == 2 && !tried[payload] {
			tried[payload] = true
			s.abort(transaction)
			continue
		}
		s.commit(transaction)
		done++
	}
	for _, payload := range texts(s.take(results, 20)) {
		found[payload] = true
	}
	s.equal(len(found), 20)
	s.expectSilence(results)
	s.expectSilence(input)
}

func TestTransactionGoesOnAfterAKill(t *testing.T) {
	s := newStage(t)
	s.takeOwnBroker()
	s.transactional()
	producer := s.plain()
	committed, aborted := s.begin(long), s.begin(long)
	s.sendIn(committed, producer, numbers(0, 3)...)
	s.sendIn(aborted, producer, text("never"))
	s.killBroker()
	s.sendIn(committed, producer, numbers(3, 6)...)
	s.commit(committed)
	s.abort(aborted)
	consumer := s.subscribe(pulsar.Exclusive, pulsar.ConsumerOptions{})
	s.equal(texts(s.take(consumer, 6)), counted(0, 6))
	s.expectSilence(consumer)
}
