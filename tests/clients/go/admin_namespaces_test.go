package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

const wholeRange = "0x00000000_0xffffffff"

var (
	caughtUp  = utils.DeleteWhenSubscriptionsCaughtUp
	inactive  = utils.NewInactiveTopicPolicies(&caughtUp, 90, true)
	sizeQuota = utils.NewBacklogQuota(20<<30, -1, utils.ConsumerBacklogEviction)
	ageQuota  = utils.NewBacklogQuota(-1, 3600, utils.ProducerException)
	two       = 2
)

func actions(names ...string) []utils.AuthAction {
	actions := make([]utils.AuthAction, len(names))
	for number, name := range names {
		actions[number] = utils.AuthAction(name)
	}
	return actions
}

func TestAdminNamespaces(t *testing.T) {
	s := newStage(t)
	namespaces, own := s.admin().Namespaces(), s.newNamespace()
	tenant, _, _ := strings.Cut(own, "/")
	s.must(namespaces.CreateNamespace(tenant + "/plain"))
	policies, ttl := utils.NewDefaultPolicies(), 77
	policies.MessageTTLInSeconds, policies.ReplicationClusters = &ttl, []string{s.cluster()}
	s.must(namespaces.CreateNsWithPolices(tenant+"/detailed", *policies))
	s.equal(sorted(got(s, func() ([]string, error) { return namespaces.GetNamespaces(tenant) })),
		[]string{own, tenant + "/detailed", tenant + "/plain"})
	of := func(namespace string) *utils.Policies {
		return got(s, func() (*utils.Policies, error) { return namespaces.GetPolicies(namespace) })
	}
	s.equal(of(own).Bundles.NumBundles, 1)
	s.equal(*of(tenant + "/detailed").MessageTTLInSeconds, 77)
	s.equal(of(tenant+"/detailed").ReplicationClusters, []string{s.cluster()})

	s.refused(namespaces.CreateNamespace(own), 409)
	s.refused(namespaces.CreateNamespace("go-nobody/a"), 404)
	s.refused(second(namespaces.GetPolicies(tenant+"/none")), 404)
	s.refused(second(namespaces.GetNamespaces("go-nobody")), 404)
	s.refused(namespaces.SetRetention(tenant+"/none", utils.NewRetentionPolicies(1, 1)), 404)
	s.refused(namespaces.DeleteNamespace(tenant+"/none"), 404)
	s.must(namespaces.DeleteNamespace(tenant + "/plain"))

	namespaceBundles(s, own)
	namespacePolicies(s, own)
	namespaceGrants(s, own)
	everyMethod[admin.Namespaces](s, "namespaces")
}

// Pulsar answers 500: this client sends every member of the policies then, without a value.
func TestAdminNamespacesWithBundlesAlone(t *testing.T) {
	s := newStage(t)
	namespaces, name := s.admin().Namespaces(), s.newNamespace()
	bundles := func(namespace string) *utils.BundlesData {
		return got(s, func() (*utils.Policies, error) { return namespaces.GetPolicies(namespace) }).Bundles
	}
	s.must(namespaces.CreateNsWithNumBundles(name+"-eight", 8))
	s.equal(bundles(name+"-eight").NumBundles, 8)
	boundaries := []string{"0x00000000", "0x10000000", "0xffffffff"}
	s.must(namespaces.CreateNsWithBundlesData(name+"-divided", &utils.BundlesData{Boundaries: boundaries, NumBundles: 2}))
	s.equal(bundles(name+"-divided").Boundaries, boundaries)
	s.must(namespaces.DeleteNamespaceBundle(name+"-divided", "0x00000000_0x10000000"))
}

func namespacePolicies(s *stage, own string) {
	namespaces, space := s.admin().Namespaces(), s.space(own)
	playPolicies(s, "namespaces", namespaces, own, map[string]any{
		"NamespaceMessageTTL":        600,
		"Retention":                  utils.NewRetentionPolicies(120, 20<<10),
		"NamespaceAntiAffinityGroup": "rivals",
		"Persistence":                utils.NewPersistencePolicies(1, 1, 1, 2.5),
		"BookieAffinityGroup": utils.BookieAffinityGroupData{
			BookkeeperAffinityGroupPrimary: "first", BookkeeperAffinityGroupSecondary: "second",
		},
	})
	playPolicies(s, "namespaces", namespaces, space, map[string]any{
		"TopicAutoCreation":                     utils.TopicAutoCreationConfig{Allow: true, Type: utils.Partitioned, Partitions: &two},
		"SchemaValidationEnforced":              true,
		"SchemaAutoUpdateCompatibilityStrategy": utils.Forward,
		"SchemaCompatibilityStrategy":           utils.SchemaCompatibilityStrategyForward,
		"OffloadDeleteLag":                      3000,
		"OffloadThreshold":                      1 << 20,
		"OffloadThresholdInSeconds":             100,
		"CompactionThreshold":                   1_000_000,
		"MaxConsumersPerSubscription":           5,
		"MaxConsumersPerTopic":                  8,
		"MaxProducersPerTopic":                  7,
		"MaxTopicsPerNamespace":                 1000,
		"ReplicatorDispatchRate":                utils.DispatchRate{DispatchThrottlingRateInMsg: 10, DispatchThrottlingRateInByte: 1000, RatePeriodInSecond: 2},
		"SubscriptionDispatchRate":              utils.DispatchRate{DispatchThrottlingRateInMsg: 11, DispatchThrottlingRateInByte: 1000, RatePeriodInSecond: 2},
		"DispatchRate":                          utils.DispatchRate{DispatchThrottlingRateInMsg: 12, DispatchThrottlingRateInByte: 1000, RatePeriodInSecond: 2},
		"SubscribeRate":                         utils.SubscribeRate{SubscribeThrottlingRatePerConsumer: 10, RatePeriodInSecond: 30},
		"PublishRate":                           utils.PublishRate{PublishThrottlingRateInMsg: 500, PublishThrottlingRateInByte: 1 << 20},
		"IsAllowAutoUpdateSchema":               false,
		"InactiveTopicPolicies":                 inactive,
		"SubscriptionExpirationTime":            60,
	})
	quotas := func() (string, error) {
		found, err := namespaces.GetBacklogQuotaMap(own)
		return jsonOf(found), err
	}
	unset := got(s, quotas)
	s.must(namespaces.SetBacklogQuota(own, sizeQuota, utils.DestinationStorage))
	s.must(namespaces.SetBacklogQuota(own, ageQuota, utils.MessageAge))
	s.equal(got(s, quotas), jsonOf(map[utils.BacklogQuotaType]utils.BacklogQuota{
		utils.DestinationStorage: sizeQuota, utils.MessageAge: ageQuota,
	}))
	s.must(namespaces.RemoveBacklogQuota(own))
	s.equal(got(s, quotas), jsonOf(map[utils.BacklogQuotaType]utils.BacklogQuota{utils.MessageAge: ageQuota}))
	s.equal(unset, "{}")
	s.must(namespaces.ClearOffloadDeleteLag(space))
	s.must(namespaces.DeleteNamespaceAntiAffinityGroup(own))
	s.must(namespaces.DeleteBookieAffinityGroup(own))
	s.must(namespaces.SetNamespaceReplicationClusters(own, []string{s.cluster()}))
	s.equal(got(s, func() ([]string, error) { return namespaces.GetNamespaceReplicationClusters(own) }), []string{s.cluster()})
	second(namespaces.GetAntiAffinityNamespaces(strings.Split(own, "/")[0], s.cluster(), "rivals"))
	of := func() *utils.Policies {
		return got(s, func() (*utils.Policies, error) { return namespaces.GetPolicies(own) })
	}
	s.must(namespaces.SetDeduplicationStatus(own, true))
	s.must(namespaces.SetEncryptionRequiredStatus(space, true))
	s.must(namespaces.SetSubscriptionAuthMode(space, utils.Prefix))
	s.equal([]any{of().EncryptionRequired, of().SubscriptionAuthMode}, []any{true, utils.Prefix})
	s.must(namespaces.SetEncryptionRequiredStatus(space, false))

	s.must(namespaces.UpdateProperties(space, map[string]string{"team": "blue"}))
	properties := func() (map[string]string, error) { return namespaces.GetProperties(space) }
	s.equal(got(s, properties), map[string]string{"team": "blue"})
	s.must(namespaces.RemoveProperties(space))
	s.equal(len(got(s, properties)), 0)
}

func namespaceGrants(s *stage, own string) {
	namespaces, space := s.admin().Namespaces(), s.space(own)
	s.must(namespaces.GrantNamespacePermission(space, "writer", actions("produce")))
	s.must(namespaces.GrantNamespacePermission(space, "reader", actions("consume")))
	grants := func() (map[string][]utils.AuthAction, error) { return namespaces.GetNamespacePermissions(space) }
	s.equal(got(s, grants), map[string][]utils.AuthAction{"writer": actions("produce"), "reader": actions("consume")})
	s.must(namespaces.RevokeNamespacePermission(space, "writer"))
	s.equal(got(s, grants), map[string][]utils.AuthAction{"reader": actions("consume")})
	s.must(namespaces.GrantSubPermission(space, "sub", []string{"one", "two"}))
	s.must(namespaces.RevokeSubPermission(space, "sub", "one"))
	s.equal(got(s, func() (map[string][]string, error) { return namespaces.GetSubPermissions(space) }),
		map[string][]string{"sub": {"two"}})
	s.refused(second(namespaces.GetNamespacePermissions(s.space(own+"-none"))), 404)
}

func namespaceBundles(s *stage, own string) {
	namespaces, space, api := s.admin().Namespaces(), s.space(own), s.admin().Topics()
	topic := s.named("persistent://" + own + "/t")
	s.must(api.Create(topic, 0))
	s.equal(got(s, func() ([]string, error) { return namespaces.GetTopics(own) }), []string{topic.String()})
	subscribers := s.admin().Subscriptions()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.must(subscribers.Create(topic, name, utils.MessageID{LedgerID: -1, EntryID: -1, PartitionIndex: -1}))
	}
	s.sendAll(s.produceTo(topic.String()), numbers(0, 3)...)
	backlog := func(name string) int64 {
		return got(s, func() (utils.TopicStats, error) { return api.GetStats(topic) }).Subscriptions[name].MsgBacklog
	}
	s.must(namespaces.ClearNamespaceBacklogForSubscription(space, "a"))
	s.must(namespaces.ClearNamespaceBundleBacklogForSubscription(space, wholeRange, "b"))
	s.equal([]int64{backlog("a"), backlog("b"), backlog("c")}, []int64{0, 0, 3})
	s.must(namespaces.ClearNamespaceBacklog(space))
	s.equal(backlog("c"), 0)
	s.must(namespaces.ClearNamespaceBundleBacklog(space, wholeRange))
	s.must(namespaces.UnsubscribeNamespace(space, "a"))
	s.must(namespaces.UnsubscribeNamespaceBundle(space, wholeRange, "b"))
	left := got(s, func() ([]string, error) { return subscribers.List(topic) })
	s.equal(sorted(left), names[2:])
	s.must(namespaces.UnloadNamespaceBundle(own, wholeRange))
	s.must(namespaces.Unload(own))
	s.refused(namespaces.UnloadNamespaceBundle(own, "0x3_0x4"), 412)
	s.must(namespaces.SplitNamespaceBundle(own, wholeRange, true))
	boundaries := got(s, func() (*utils.Policies, error) { return namespaces.GetPolicies(own) }).Bundles.Boundaries
	s.that(slices.Equal(boundaries, []string{"0x00000000", "0x7fffffff", "0xffffffff"}), jsonOf(boundaries))
	s.refused(namespaces.DeleteNamespace(own), 409)
}
