package clients

import (
	"testing"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

// adminOf connects over HTTPS, as it is adapted.
func (s *secured) adminOf(adapt func(*config.Config)) pulsaradmin.Client {
	s.Helper()
	configured := config.Config{WebServiceURL: s.details["webUrl"], TLSTrustCertsFilePath: s.details["trust"]}
	adapt(&configured)
	client, err := pulsaradmin.NewClient(&configured)
	s.must(err)
	return client
}

// secureAdmin is who has a token of this role.
func (s *secured) secureAdmin(subject string, seconds int64) pulsaradmin.Client {
	s.Helper()
	return s.adminOf(func(configured *config.Config) { configured.Token = s.token(subject, seconds) })
}

func (s *secured) grant(client pulsaradmin.Client, subject string, action utils.AuthAction) {
	s.Helper()
	space := s.space("public/default")
	s.must(client.Namespaces().GrantNamespacePermission(space, subject, []utils.AuthAction{action}))
}

// connections are the addresses of the producers of these topics, as the broker has them.
func (s *secured) connections(client pulsaradmin.Client, topics []string) []string {
	s.Helper()
	found := []string{}
	for _, topic := range topics {
		stats, err := client.Topics().GetStats(s.named(topic))
		s.must(err)
		found = append(found, stats.Publishers[0].Address)
	}
	return found
}

func TestSecureAdminOverHttps(t *testing.T) {
	s := newSecured(t)
	tenants := got(s.stage, s.secureAdmin(superUser, hour).Tenants().List)
	s.that(len(tenants) > 0, "there is no tenant")
	certified := s.adminOf(func(configured *config.Config) {
		configured.TLSCertFile, configured.TLSKeyFile = s.details["cert"], s.details["key"]
	})
	for _, client := range []pulsaradmin.Client{certified, s.secureAdmin(role, hour)} {
		found, err := client.Topics().Lookup(s.named(s.topic))
		s.must(err)
		s.equal(found.BrokerURLTLS, s.details["url"])
		s.refused(second(client.Tenants().List()), 401) // so does the original, where only a super-user may
	}
	s.refused(second(s.secureAdmin(superUser, -60).Tenants().List()), 401)
	s.refused(second(s.adminOf(func(*config.Config) {}).Tenants().List()), 401)
	for what, other := range map[string]pulsaradmin.Client{
		"name": s.ofAnotherName().secureAdmin(superUser, hour),
		"authority": s.adminOf(func(configured *config.Config) {
			configured.Token, configured.TLSTrustCertsFilePath = s.token(superUser, hour), s.details["otherTrust"]
		}),
	} {
		if _, err := other.Tenants().List(); err == nil {
			t.Errorf("a broker of another %s is trusted", what)
		}
	}
}
