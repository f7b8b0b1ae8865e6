package clients

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func (s *stage) compact() { s.ask("compact " + s.topic) }

func (s *stage) readCompacted(start pulsar.MessageID) []string {
	reader, err := s.client().CreateReader(pulsar.ReaderOptions{
		Topic: s.topic, StartMessageID: start, ReadCompacted: true,
	})
	s.must(err)
	defer reader.Close()
	var found []string
	for reader.HasNext() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		message, err := reader.Next(ctx)
		cancel()
		s.must(err)
		found = append(found, message.Key()+string(message.Payload()))
	}
	return found
}

func TestACompactedReaderGetsTheLastMessageOfEachKey(t *testing.T) {
	s := newStage(t)
	producer := s.plain()
	ids := s.send(producer, keyed("a", "1"), keyed("b", "2"), keyed("a", "3"), keyed("c", "4"), keyed("c", ""))
	s.compact()
	s.equal(s.readCompacted(pulsar.EarliestMessageID()), []string{"b2", "a3"})
	s.equal(s.readCompacted(ids[1]), []string{"a3"})
	s.send(producer, keyed("b", "5"))
	s.equal(s.readCompacted(pulsar.EarliestMessageID()), []string{"b2", "a3", "b5"})
	s.compact()
	s.equal(s.readCompacted(pulsar.EarliestMessageID()), []string{"a3", "b5"})
}

func TestATableViewOfACompactedTopic(t *testing.T) {
	s := newStage(t)
	producer := s.produce(pulsar.ProducerOptions{DisableBatching: true, Schema: pulsar.NewStringSchema(nil)})
	s.send(producer, keyed("a", "1"), keyed("b", "2"), keyed("a", "3"))
	s.compact()
	s.send(producer, keyed("c", "4"))
	var text *string
	view, err := s.client().CreateTableView(pulsar.TableViewOptions{
		Topic: s.topic, Schema: pulsar.NewStringSchema(nil), SchemaValueType: reflect.TypeOf(text),
	})
	s.must(err)
	defer view.Close()
	s.equal(view.Size(), 3)
	for key, wanted := range map[string]string{"a": "3", "b": "2", "c": "4"} {
		s.equal(*view.Get(key).(*string), wanted)
	}
	changed := make(chan string, 1)
	s.must(view.ForEachAndListen(func(key string, value interface{}) error {
		if key == "d" {
			changed <- *value.(*string)
		}
		return nil
	}))
	s.send(producer, keyed("d", "5"))
	select {
	case value := <-changed:
		s.equal(value, "5")
	case <-time.After(wait):
		t.Fatal("the view does not change")
	}
}
