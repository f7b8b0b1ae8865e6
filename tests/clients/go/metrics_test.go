package clients

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
)

// Problems that a name of Pulsar's has by itself.
var ofNames = []string{"should not have", "should have", "should be written", "should not contain", "should not include", "use base unit"}

// The page as Prometheus's own library reads it, and what `promtool check metrics` finds: the linter is the same.
func TestMetricsOfficialParserAndLinter(t *testing.T) {
	s := newStage(t)
	urls := strings.Fields(s.ask("broker exposeConsumerLevelMetricsInPrometheus=true exposeProducerLevelMetricsInPrometheus=true"))
	s.url = urls[0]
	consumer := s.subscribe(pulsar.Shared, pulsar.ConsumerOptions{})
	s.sendAll(s.plain(), text("a"))
	s.ack(consumer, s.take(consumer, 1)...)

	answer, err := http.Get(urls[1] + "/metrics/")
	s.must(err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	s.must(err)

	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	s.must(err)
	for _, name := range []string{"pulsar_version_info", "pulsar_rate_in", "pulsar_subscription_back_log",
		"pulsar_consumer_unacked_messages", "pulsar_producer_msg_rate_in", "magnetar_journal_fsync_seconds"} {
		s.that(families[name] != nil, "the page has no "+name)
	}
	problems, err := promlint.New(bytes.NewReader(page)).Lint()
	s.must(err)
	for _, problem := range problems {
		s.that(strings.HasPrefix(problem.Metric, "pulsar_") && isOfName(problem.Text), problem.Metric+": "+problem.Text)
	}
}

func isOfName(text string) bool {
	for _, one := range ofNames {
		if strings.Contains(text, one) {
			return true
		}
	}
	return false
}
