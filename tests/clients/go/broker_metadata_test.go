package clients

import (
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const interceptors = "org.apache.pulsar.common.intercept."

func TestIndexesGoOnAfterAKill(t *testing.T) {
	s := newStage(t)
	s.takeOwnBroker(
		"brokerEntryMetadataInterceptors="+interceptors+"AppendIndexMetadataInterceptor,"+
			interceptors+"AppendBrokerTimestampMetadataInterceptor",
		"exposingBrokerEntryMetadataToClientEnabled=true",
	)
	batching := pulsar.ProducerOptions{BatchingMaxPublishDelay: time.Minute}
	s.send(s.plain(), numbers(0, 2)...)
	s.sendAll(s.produce(batching), numbers(2, 5)...)
	s.killBroker()
	s.send(s.plain(), numbers(5, 7)...)
	for name, kind := range everyType {
		consumer := s.subscribe(kind, pulsar.ConsumerOptions{SubscriptionName: name})
		for number, message := range s.take(consumer, 7) {
			if message.Index() == nil || message.BrokerPublishTime() == nil {
				t.Fatalf("message %d has no index or no time of the broker", number)
			}
			s.equal(*message.Index(), number)
			distance := message.BrokerPublishTime().Sub(message.PublishTime()).Abs()
			if distance > 10*time.Minute {
				t.Fatalf("message %d was stored %v away from its publishing", number, distance)
			}
		}
	}
}
