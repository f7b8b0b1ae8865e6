package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

func TestAdminClusters(t *testing.T) {
	s := newStage(t)
	clusters, own := s.admin().Clusters(), s.cluster()
	east := utils.ClusterData{Name: "go-east", ServiceURL: "http://east:8080", BrokerServiceURL: "pulsar://east:6650"}
	s.must(clusters.Create(east))
	s.equal(got(s, func() (utils.ClusterData, error) { return clusters.Get("go-east") }).BrokerServiceURL, east.BrokerServiceURL)
	s.refused(clusters.Create(east), 409)
	east.ServiceURL = "http://orient:8080"
	s.must(clusters.Update(east))
	s.equal(got(s, func() (utils.ClusterData, error) { return clusters.Get("go-east") }).ServiceURL, east.ServiceURL)
	s.that(slices.Contains(got(s, clusters.List), "go-east"), "it is not listed")

	s.must(clusters.UpdatePeerClusters("go-east", []string{own}))
	s.equal(got(s, func() ([]string, error) { return clusters.GetPeerClusters("go-east") }), []string{own})
	s.refused(clusters.UpdatePeerClusters("go-east", []string{"go-west"}), 412)

	rack := utils.FailureDomainData{ClusterName: "go-east", DomainName: "rack", BrokerList: []string{"one", "two"}}
	domain := func() (utils.FailureDomainData, error) { return clusters.GetFailureDomain("go-east", "rack") }
	s.must(clusters.CreateFailureDomain(rack))
	s.equal(sorted(got(s, domain).BrokerList), rack.BrokerList)
	rack.BrokerList = []string{"three"}
	s.must(clusters.UpdateFailureDomain(rack))
	domains := got(s, func() (utils.FailureDomainMap, error) { return clusters.ListFailureDomains("go-east") })
	s.equal(domains["rack"].BrokerList, rack.BrokerList)
	s.must(clusters.DeleteFailureDomain(rack))
	s.refused(second(domain()), 404)

	s.must(clusters.Delete("go-east"))
	s.refused(clusters.Delete("go-east"), 404)
	s.refused(second(clusters.Get("go-east")), 404)
	s.refused(clusters.Update(east), 404)
	everyMethod[admin.Clusters](s, "clusters")
}

func TestAdminIsolation(t *testing.T) {
	s := newStage(t)
	isolation, own := s.admin().NsIsolationPolicy(), s.cluster()
	policy, err := utils.CreateNamespaceIsolationData([]string{"go-isolated/.*"}, []string{"no-broker"},
		[]string{"none"}, "min_available", map[string]string{"min_limit": "1", "usage_threshold": "80"})
	s.must(err)
	s.must(isolation.CreateNamespaceIsolationPolicy(own, "go-apart", *policy))
	one := func() (*utils.NamespaceIsolationData, error) {
		return isolation.GetNamespaceIsolationPolicy(own, "go-apart")
	}
	s.equal(got(s, one).Namespaces, policy.Namespaces)
	s.equal(jsonOf(got(s, one).AutoFailoverPolicy), jsonOf(policy.AutoFailoverPolicy))
	all, err := isolation.GetNamespaceIsolationPolicies(own)
	s.must(err)
	s.equal(all["go-apart"].Primary, policy.Primary)
	brokers, err := isolation.GetBrokersWithNamespaceIsolationPolicy(own)
	s.must(err)
	s.that(len(brokers) > 0, "no broker")
	broker, err := isolation.GetBrokerWithNamespaceIsolationPolicy(own, brokers[0].BrokerName)
	s.must(err)
	s.equal(broker.BrokerName, brokers[0].BrokerName)
	s.must(isolation.DeleteNamespaceIsolationPolicy(own, "go-apart"))
	s.refused(second(one()), 404)
	everyMethod[admin.NsIsolationPolicy](s, "isolation")
}

func TestAdminTenants(t *testing.T) {
	s := newStage(t)
	tenants := s.admin().Tenants()
	firm := utils.TenantData{Name: "go-firm", AdminRoles: []string{"boss"}, AllowedClusters: []string{s.cluster()}}
	s.must(tenants.Create(firm))
	s.refused(tenants.Create(firm), 409)
	firm.AdminRoles = []string{"boss", "deputy"}
	s.must(tenants.Update(firm))
	found := got(s, func() (utils.TenantData, error) { return tenants.Get("go-firm") })
	s.equal(sorted(found.AdminRoles), firm.AdminRoles)
	s.equal(found.AllowedClusters, firm.AllowedClusters)
	s.that(slices.Contains(got(s, tenants.List), "go-firm"), "it is not listed")
	s.refused(tenants.Create(utils.TenantData{Name: "go-nowhere", AllowedClusters: []string{"go-west"}}), 412)
	s.refused(tenants.Create(utils.TenantData{Name: "go-nowhere"}), 412)

	namespaces := s.admin().Namespaces()
	s.must(namespaces.CreateNamespace("go-firm/desk"))
	s.refused(tenants.Delete("go-firm"), 409)
	s.must(namespaces.DeleteNamespace("go-firm/desk"))
	s.must(tenants.Delete("go-firm"))
	s.refused(tenants.Delete("go-firm"), 404)
	s.refused(second(tenants.Get("go-firm")), 404)
	s.refused(tenants.Update(firm), 404)
	everyMethod[admin.Tenants](s, "tenants")
}

func TestAdminBrokers(t *testing.T) {
	s := newStage(t)
	s.plain()
	brokers, cluster := s.admin().Brokers(), s.cluster()
	active := got(s, func() ([]string, error) { return brokers.GetActiveBrokers(cluster) })
	s.equal(sorted(got(s, brokers.GetListActiveBrokers)), sorted(active))
	leader := got(s, brokers.GetLeaderBroker)
	s.that(slices.Contains(active, leader.BrokerID), leader.BrokerID+" is not active")
	s.that(strings.HasPrefix(leader.ServiceURL, "http://"), "no URL of the leader: "+leader.ServiceURL)
	owned := 0
	for _, broker := range active {
		bundles, err := brokers.GetOwnedNamespaces(cluster, broker)
		s.must(err)
		for name, status := range bundles {
			if strings.HasPrefix(name, "public/default/") {
				owned++
				s.that(status.IsActive, name+" is not active")
			}
		}
	}
	s.that(owned > 0, "no broker owns a bundle of public/default")
	s.must(brokers.HealthCheck())
	s.must(brokers.HealthCheckWithTopicVersion(utils.TopicVersionV2))
	second(brokers.GetInternalConfigurationData())

	const name = "dispatchThrottlingRatePerTopicInByte"
	s.that(slices.Contains(got(s, brokers.GetDynamicConfigurationNames), name), name+" cannot be changed")
	setting := func() (string, error) {
		values, err := brokers.GetRuntimeConfigurations()
		return values[name], err
	}
	before := got(s, setting)
	s.must(brokers.UpdateDynamicConfiguration(name, "123456789"))
	s.soon(setting, "123456789")
	s.equal(got(s, brokers.GetAllDynamicConfigurations)[name], "123456789")
	s.must(brokers.UpdateDynamicConfiguration(name, before))
	s.must(brokers.DeleteDynamicConfiguration(name))
	s.equal(got(s, brokers.GetAllDynamicConfigurations)[name], "")
	s.refused(brokers.UpdateDynamicConfiguration("noSuchSetting", "1"), 412)
	s.refused(brokers.UpdateDynamicConfiguration("brokerServicePort", "1"), 412)
	everyMethod[admin.Brokers](s, "brokers")
}

func TestAdminBrokerStats(t *testing.T) {
	s := newStage(t)
	s.send(s.plain(), text("1"))
	figures := s.admin().BrokerStats()
	s.that(strings.HasPrefix(got(s, figures.GetTopics), "{"), "no object") // Pulsar adds a topic after a minute
	s.that(len(got(s, figures.GetMetrics)) > 0, "no metrics")
	second(figures.GetMBeans())
	report := got(s, figures.GetLoadReport)
	s.that(strings.HasPrefix(report.PulsarServiceURL, "pulsar://"), "no URL: "+report.PulsarServiceURL)
	s.that(report.NumTopics > 0 && report.NumProducers > 0, "nothing is counted")
	s.that(report.CPU.Limit > 0 && report.Memory.Limit > 0, "no resources")
	_, err := figures.GetAllocatorStats("default")
	s.must(err)
	everyMethod[admin.BrokerStats](s, "figures")
}

func TestAdminResourceQuotas(t *testing.T) {
	s := newStage(t)
	quotas, namespace := s.admin().ResourceQuotas(), s.newNamespace()
	const all = "0x00000000_0xffffffff"
	for name, err := range map[string]error{
		"default": second(quotas.GetDefaultResourceQuota()),
		"set":     quotas.SetDefaultResourceQuota(utils.ResourceQuota{MsgRateIn: 40, Dynamic: true}),
		"bundle":  second(quotas.GetNamespaceBundleResourceQuota(namespace, all)),
		"change":  quotas.SetNamespaceBundleResourceQuota(namespace, all, utils.ResourceQuota{MsgRateIn: 40}),
		"reset":   quotas.ResetNamespaceBundleResourceQuota(namespace, all),
	} {
		t.Log(name)
		if err != nil {
			s.refused(err, 404, 405, 501)
		}
	}
	everyMethod[admin.ResourceQuotas](s, "quotas")
}

func TestAdminSchemas(t *testing.T) {
	s := newStage(t)
	schemas := s.admin().Schemas()
	s.must(s.admin().Topics().Create(s.named(s.topic), 0))
	record := func(fields string) utils.PostSchemaPayload {
		return utils.PostSchemaPayload{
			SchemaType: "AVRO", Schema: `{"type":"record","name":"R","fields":[` + fields + `]}`,
			Properties: map[string]string{"team": "blue"},
		}
	}
	const number, note = `{"name":"number","type":"int"}`, `{"name":"note","type":"string","default":""}`
	first, next, other := record(number), record(number+","+note), record(`{"name":"number","type":"string"}`)
	info := func(payload utils.PostSchemaPayload) utils.SchemaInfo {
		return utils.SchemaInfo{Type: payload.SchemaType, Schema: []byte(payload.Schema), Properties: payload.Properties}
	}
	s.refused(second(schemas.GetSchemaInfo(s.topic)), 404)
	s.must(schemas.CreateSchemaByPayload(s.topic, first))
	s.must(schemas.CreateSchemaBySchemaInfo(s.topic, info(next)))
	newest, err := schemas.GetSchemaInfo(s.topic)
	s.must(err)
	s.equal(newest.Type, "AVRO")
	s.equal(string(newest.Schema), next.Schema)
	s.equal(newest.Properties["team"], "blue")
	numbered, err := schemas.GetSchemaInfoWithVersion(s.topic)
	s.must(err)
	s.equal(numbered.Version, 1)
	oldest, err := schemas.GetSchemaInfoByVersion(s.topic, 0)
	s.must(err)
	s.equal(string(oldest.Schema), first.Schema)
	all, err := schemas.GetAllSchemas(s.topic)
	s.must(err)
	s.equal(len(all), 2)
	s.equal(got(s, func() (int64, error) { return schemas.GetVersionByPayload(s.topic, first) }), 0)
	s.equal(got(s, func() (int64, error) { return schemas.GetVersionBySchemaInfo(s.topic, info(next)) }), 1)
	fits, err := schemas.TestCompatibilityWithPostSchemaPayload(s.topic, next)
	s.must(err)
	s.equal(fits.IsCompatibility, true)
	fits, err = schemas.TestCompatibilityWithSchemaInfo(s.topic, info(next))
	s.must(err)
	s.equal(fits.SchemaCompatibilityStrategy, "FULL")
	s.that(schemas.CreateSchemaByPayload(s.topic, other) != nil, "a schema that does not fit is not refused")
	s.refused(second(schemas.GetSchemaInfoByVersion(s.topic, 9)), 404)
	s.must(schemas.DeleteSchema(s.topic))
	s.refused(second(schemas.GetSchemaInfo(s.topic)), 404)
	s.must(schemas.CreateSchemaByPayload(s.topic, first))
	s.must(schemas.ForceDeleteSchema(s.topic))
	all, err = schemas.GetAllSchemas(s.topic)
	s.must(err)
	s.equal(len(all), 0)
	everyMethod[admin.Schema](s, "schemas")
}
