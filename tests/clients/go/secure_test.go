package clients

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

// role is what every method proves: it may produce and consume in public/default. superUser may do everything.
const (
	role      = "alice"
	superUser = "root"
	hour      = 3600
)

// brief is for what the client tries again until its time is over.
const brief = time.Second

// secured is a broker with TLS, every method of authentication and authorization.
type secured struct {
	*stage
	details map[string]string
}

func newSecured(t *testing.T) *secured {
	s := newStage(t)
	return &secured{stage: s, details: wordsOf(s.ask("secured"))}
}

// ofAnotherName has the same credentials, and a certificate for a host of another name.
func (s *secured) ofAnotherName() *secured {
	details := wordsOf(s.ask("another-name"))
	for name, value := range s.details {
		if _, changed := details[name]; !changed {
			details[name] = value
		}
	}
	return &secured{stage: s.stage, details: details}
}

func wordsOf(answer string) map[string]string {
	found := map[string]string{}
	for _, word := range strings.Fields(answer) {
		name, value, _ := strings.Cut(word, "=")
		found[name] = value
	}
	return found
}

// connect over TLS, with a check of the broker's name, unless it is adapted.  All clients of a process share their
// connections over HTTPS, with the certificates that these were made with: those that are idle are closed.
func (s *secured) connect(authentication pulsar.Authentication, adapt func(*pulsar.ClientOptions)) pulsar.Client {
	s.Helper()
	options := pulsar.ClientOptions{
		URL:                   s.details["url"],
		TLSTrustCertsFilePath: s.details["trust"],
		TLSValidateHostname:   true,
		Authentication:        authentication,
		OperationTimeout:      wait,
		Logger:                log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}
	if adapt != nil {
		adapt(&options)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	client, err := pulsar.NewClient(options)
	s.must(err)
	s.Cleanup(client.Close)
	return client
}

// topics are several, so that each of several workers owns some.
func (s *secured) topics() []string {
	names := make([]string, 6)
	for number := range names {
		names[number] = fmt.Sprintf("%s-%d", s.topic, number)
	}
	return names
}

func (s *secured) methods() map[string]pulsar.Authentication {
	s.Helper()
	return map[string]pulsar.Authentication{
		"token":       pulsar.NewAuthenticationToken(s.token(role, hour)),
		"basic":       s.basic(role, s.details["password"]),
		"oauth2":      s.oauth2("issuer", "clientSecretFile"),
		"certificate": pulsar.NewAuthenticationTLS(s.details["cert"], s.details["key"]),
	}
}

func (s *secured) basic(user, password string) pulsar.Authentication {
	s.Helper()
	made, err := pulsar.NewAuthenticationBasic(user, password)
	s.must(err)
	return made
}

func (s *secured) oauth2(issuer, secretFile string) pulsar.Authentication {
	return pulsar.NewAuthenticationOAuth2(map[string]string{
		"type": "client_credentials", "issuerUrl": s.details[issuer], "audience": s.details["audience"],
		"privateKey": s.details[secretFile], "clientId": "client",
	})
}

// token is a JSON Web Token that expires in so many seconds.
func (s *secured) token(subject string, seconds int64) string {
	return signed(subject, seconds, s.details["secret"])
}

func signed(subject string, seconds int64, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":%q,"exp":%d}`, subject, time.Now().Unix()+seconds)
	content := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(content))
	return content + "." + encode(mac.Sum(nil))
}

// together does all at the same time, and returns when all are done.
func together(deeds []func()) {
	var all sync.WaitGroup
	for _, deed := range deeds {
		all.Add(1)
		go func() {
			defer all.Done()
			deed()
		}()
	}
	all.Wait()
}

func (s *secured) publishAndReceive(client pulsar.Client, ending string) {
	s.Helper()
	for _, topic := range s.topics()[:3] {
		options := pulsar.ConsumerOptions{Topic: topic + ending}
		consumer := s.subscribeBy(client, pulsar.Exclusive, options)
		producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic + ending})
		s.must(err)
		s.send(producer, numbers(0, 2)...)
		s.equal(texts(s.take(consumer, 2)), counted(0, 2))
	}
}

// notConnected: neither a producer nor a consumer can be had.
func (s *secured) notConnected(what string, authentication pulsar.Authentication, adapt func(*pulsar.ClientOptions)) {
	s.Helper()
	client := s.connect(authentication, func(options *pulsar.ClientOptions) {
		options.OperationTimeout = brief
		if adapt != nil {
			adapt(options)
		}
	})
	if _, err := client.CreateProducer(pulsar.ProducerOptions{Topic: s.topic}); err == nil {
		s.Errorf("%s: it may produce", what)
	}
	if _, err := client.Subscribe(pulsar.ConsumerOptions{Topic: s.topic, SubscriptionName: "sub"}); err == nil {
		s.Errorf("%s: it may consume", what)
	}
}

func TestSecureEveryMethodConnects(t *testing.T) {
	s := newSecured(t)
	for name, method := range s.methods() {
		for _, url := range []string{"url", "webUrl", "plainUrl"} {
			if name == "certificate" && url == "plainUrl" {
				continue
			}
			t.Log(name, url)
			client := s.connect(method, func(options *pulsar.ClientOptions) { options.URL = s.details[url] })
			s.publishAndReceive(client, name+url)
		}
	}
}

// The client does not tell why, and tries again until its time is over, against every broker.
func TestSecureWrongExpiredAndMissingCredentialsAreRefused(t *testing.T) {
	s := newSecured(t)
	deeds := []func(){}
	for name, wrong := range map[string]pulsar.Authentication{
		"an expired token":         pulsar.NewAuthenticationToken(s.token(role, -60)),
		"a token of another key":   pulsar.NewAuthenticationToken(signed(role, hour, strings.Repeat("x", 64))),
		"no token":                 pulsar.NewAuthenticationToken("nothing"),
		"a wrong password":         s.basic(role, "wrong"),
		"an unknown user":          s.basic("nobody", s.details["password"]),
		"a wrong secret":           s.oauth2("issuer", "wrongSecretFile"),
		"nothing":                  nil,
		"a certificate of another": pulsar.NewAuthenticationTLS(s.details["strangerCert"], s.details["strangerKey"]),
		"an expired certificate":   pulsar.NewAuthenticationTLS(s.details["expiredCert"], s.details["expiredKey"]),
	} {
		s.notConnected(name+" over HTTPS", wrong, func(options *pulsar.ClientOptions) { options.URL = s.details["webUrl"] })
		deeds = append(deeds, func() { s.notConnected(name, wrong, nil) })
	}
	together(deeds)
}

func TestSecureWhoIsNotTrustedIsNotConnectedTo(t *testing.T) {
	s := newSecured(t)
	other := s.ofAnotherName()
	root := pulsar.NewAuthenticationToken(s.token(superUser, hour))
	for _, url := range []string{"url", "webUrl"} {
		at := func(options *pulsar.ClientOptions) { options.URL = other.details[url] }
		other.notConnected("another name at "+url, root, at)
		other.notConnected("another authority at "+url, root, func(options *pulsar.ClientOptions) {
			options.URL, options.TLSTrustCertsFilePath = s.details[url], s.details["otherTrust"]
		})
	}
	other.publishAndReceive(other.connect(root, func(options *pulsar.ClientOptions) {
		options.TLSAllowInsecureConnection = true // without TLSValidateHostname the client compares the name, too
	}), "")
}

func TestSecureWhatARoleMayNotDoIsRefused(t *testing.T) {
	s := newSecured(t)
	own := s.topic[strings.LastIndex(s.topic, "/")+1:]
	client := s.connect(pulsar.NewAuthenticationToken(s.token(own, hour)), nil)
	admin := s.secureAdmin(superUser, hour)
	mayNot := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "AuthorizationError") {
			t.Fatal("not refused as it should be: ", err)
		}
	}
	produce := func(topic string) error {
		producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
		if err == nil {
			s.send(producer, text("a"))
		}
		return err
	}
	consume := func(topic string) error {
		_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "sub"})
		return err
	}
	for _, topic := range s.topics() {
		mayNot(produce(topic))
		mayNot(consume(topic))
	}
	s.grant(admin, own, "produce")
	for _, topic := range s.topics() {
		s.must(produce(topic))
		mayNot(consume(topic))
	}
	s.grant(admin, own, "consume")
	for _, topic := range s.topics() {
		s.must(consume(topic))
		mayNot(produce(topic))
	}
}

// The tokens expire every five seconds, and the broker looks as often; the client asks its supplier again.
func TestSecureTokensAreRenewedOnBusyConnections(t *testing.T) {
	s := newSecured(t)
	const renewals = 2 // of each connection, on average
	supplied := atomic.Int64{}
	client := s.connect(pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) {
		supplied.Add(1)
		return s.token(role, 5), nil
	}), nil)
	admin, topics := s.secureAdmin(superUser, hour), s.topics()
	producers, consumers := []pulsar.Producer{}, []pulsar.Consumer{}
	for _, topic := range topics {
		consumers = append(consumers, s.subscribeBy(client, pulsar.Exclusive, pulsar.ConsumerOptions{Topic: topic}))
		producer, err := client.CreateProducer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: true, MaxPendingMessages: 20,
		})
		s.must(err)
		producers = append(producers, producer)
	}
	connections := s.connections(admin, topics)
	distinct := map[string]bool{}
	for _, address := range connections {
		distinct[address] = true
	}
	enough := supplied.Load() + int64(renewals*len(distinct))
	sent := make([]int, len(topics))
	deeds := []func(){}
	for number, producer := range producers {
		deeds = append(deeds, func() {
			for supplied.Load() < enough {
				producer.SendAsync(context.Background(), numbers(sent[number], sent[number]+1)[0],
					func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
						if err != nil {
							s.Error(err)
						}
					})
				sent[number]++
				s.equal(texts([]pulsar.Message{s.next(consumers[number])}), counted(sent[number]-1, sent[number]))
			}
		})
	}
	together(deeds)
	for _, consumer := range consumers {
		s.expectSilence(consumer)
	}
	s.equal(s.connections(admin, topics), connections)
}
