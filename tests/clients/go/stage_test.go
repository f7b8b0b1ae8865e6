// Package clients has what the official Go client can do, as tests that test_go.py runs one by one.
package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	wait  = time.Minute
	quiet = 300 * time.Millisecond
)

var everyType = map[string]pulsar.SubscriptionType{
	"Exclusive": pulsar.Exclusive, "Failover": pulsar.Failover,
	"Shared": pulsar.Shared, "Key_Shared": pulsar.KeyShared,
}

var dividing = map[string]pulsar.SubscriptionType{
	"Shared": pulsar.Shared, "Key_Shared": pulsar.KeyShared,
}

// stage is a broker, and a topic that no other test uses.
type stage struct {
	*testing.T
	topic   string
	url     string
	answers *bufio.Reader
	first   pulsar.Client
}

func newStage(t *testing.T) *stage {
	return &stage{
		T: t, topic: os.Getenv("TOPIC"), url: os.Getenv("SERVICE_URL"), answers: bufio.NewReader(os.Stdin),
	}
}

// ask the program that started this one for what only that one can do.
func (s *stage) ask(what string) string {
	fmt.Println("ask " + what)
	answer, err := s.answers.ReadString('\n')
	s.must(err)
	if strings.HasPrefix(answer, "failed") {
		s.Fatal(what, answer)
	}
	return strings.TrimSpace(answer)
}

// takeOwnBroker plays on a broker with these settings, alone: before any client is made.
func (s *stage) takeOwnBroker(settings ...string) {
	s.url = strings.Fields(s.ask("broker " + strings.Join(settings, " ")))[0]
}

// killBroker is SIGKILL to the own broker, and a new start on the same data.
func (s *stage) killBroker() { s.ask("kill") }

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) equal(actual, expected any) {
	s.Helper()
	if fmt.Sprint(actual) != fmt.Sprint(expected) {
		s.Fatalf("%v is not %v", actual, expected)
	}
}

// newClient has a connection of its own.
func (s *stage) newClient() pulsar.Client {
	s.Helper()
	return s.newClientWith(pulsar.ClientOptions{})
}

// newClientWith has these options, and a connection of its own.
func (s *stage) newClientWith(options pulsar.ClientOptions) pulsar.Client {
	s.Helper()
	options.URL = s.url
	options.Logger = log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil)))
	client, err := pulsar.NewClient(options)
	s.must(err)
	s.Cleanup(client.Close)
	return client
}

func (s *stage) client() pulsar.Client {
	if s.first == nil {
		s.first = s.newClient()
	}
	return s.first
}

func (s *stage) produce(options pulsar.ProducerOptions) pulsar.Producer {
	s.Helper()
	if options.Topic == "" {
		options.Topic = s.topic
	}
	producer, err := s.client().CreateProducer(options)
	s.must(err)
	return producer
}

// plain sends every message by itself.
func (s *stage) plain() pulsar.Producer {
	s.Helper()
	return s.produce(pulsar.ProducerOptions{DisableBatching: true})
}

func (s *stage) subscribe(kind pulsar.SubscriptionType, options pulsar.ConsumerOptions) pulsar.Consumer {
	s.Helper()
	return s.subscribeBy(s.client(), kind, options)
}

// subscribeBy subscribes to the topic as "sub", by default from the earliest message on.
func (s *stage) subscribeBy(
	client pulsar.Client, kind pulsar.SubscriptionType, options pulsar.ConsumerOptions,
) pulsar.Consumer {
	s.Helper()
	options.Type = kind
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	if options.Topic == "" {
		options.Topic = s.topic
	}
	if options.SubscriptionName == "" {
		options.SubscriptionName = "sub"
	}
	consumer, err := client.Subscribe(options)
	s.must(err)
	return consumer
}

func (s *stage) send(producer pulsar.Producer, messages ...*pulsar.ProducerMessage) []pulsar.MessageID {
	s.Helper()
	receipts := make([]pulsar.MessageID, len(messages))
	for number, message := range messages {
		receipt, err := producer.Send(context.Background(), message)
		s.must(err)
		receipts[number] = receipt
	}
	return receipts
}

// sendAll does not wait in between.
func (s *stage) sendAll(producer pulsar.Producer, messages ...*pulsar.ProducerMessage) {
	s.Helper()
	for _, message := range messages {
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				s.Error(err)
			}
		})
	}
	s.must(producer.Flush())
}

func text(payload string) *pulsar.ProducerMessage {
	return &pulsar.ProducerMessage{Payload: []byte(payload)}
}

func keyed(key, payload string) *pulsar.ProducerMessage {
	return &pulsar.ProducerMessage{Key: key, Payload: []byte(payload)}
}

// numbers are "FROM", ..., "TO - 1", as messages.
func numbers(from, to int) []*pulsar.ProducerMessage {
	messages := []*pulsar.ProducerMessage{}
	for number := from; number < to; number++ {
		messages = append(messages, text(strconv.Itoa(number)))
	}
	return messages
}

// counted are the payloads of numbers.
func counted(from, to int) []string {
	payloads := []string{}
	for _, message := range numbers(from, to) {
		payloads = append(payloads, string(message.Payload))
	}
	return payloads
}

func (s *stage) next(consumer pulsar.Consumer) pulsar.Message {
	s.Helper()
	limit, done := context.WithTimeout(context.Background(), wait)
	defer done()
	message, err := consumer.Receive(limit)
	s.must(err)
	return message
}

func (s *stage) take(consumer pulsar.Consumer, count int) []pulsar.Message {
	s.Helper()
	messages := make([]pulsar.Message, count)
	for number := range messages {
		messages[number] = s.next(consumer)
	}
	return messages
}

func (s *stage) ack(consumer pulsar.Consumer, messages ...pulsar.Message) {
	s.Helper()
	for _, message := range messages {
		s.must(consumer.Ack(message))
	}
}

func texts(messages []pulsar.Message) []string {
	payloads := make([]string, len(messages))
	for number, message := range messages {
		payloads[number] = string(message.Payload())
	}
	return payloads
}

// expectSilence: nothing is delivered for a while.
func (s *stage) expectSilence(consumer pulsar.Consumer) {
	s.Helper()
	limit, done := context.WithTimeout(context.Background(), quiet)
	defer done()
	message, err := consumer.Receive(limit)
	if err == nil {
		s.Fatalf("there came %s", message.Payload())
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatal(err)
	}
}

// backoff doubles from 50 ms.
type backoff struct{}

func (backoff) Next(redeliveries uint32) time.Duration {
	return 50 * time.Millisecond << min(redeliveries, 3)
}
