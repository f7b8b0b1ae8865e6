package clients

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

//go:embed admin*_test.go
var adminSources embed.FS

func (s *stage) admin() pulsaradmin.Client {
	s.Helper()
	client, err := pulsaradmin.NewClient(&config.Config{WebServiceURL: os.Getenv("HTTP_URL")})
	s.must(err)
	return client
}

func (s *stage) named(topic string) utils.TopicName {
	s.Helper()
	name, err := utils.GetTopicName(topic)
	s.must(err)
	return *name
}

func (s *stage) space(namespace string) utils.NameSpaceName {
	s.Helper()
	name, err := utils.GetNamespaceName(namespace)
	s.must(err)
	return *name
}

// newNamespace of one bundle, in a tenant of the test's own.
func (s *stage) newNamespace() string {
	s.Helper()
	client := s.admin()
	tenant := s.topic[strings.LastIndex(s.topic, "/")+1:]
	s.must(client.Tenants().Create(utils.TenantData{Name: tenant, AllowedClusters: []string{s.cluster()}}))
	policies := utils.NewDefaultPolicies()
	policies.Bundles, policies.ReplicationClusters = utils.NewDefaultBoundle(), []string{s.cluster()}
	s.must(client.Namespaces().CreateNsWithPolices(tenant+"/a", *policies))
	return tenant + "/a"
}

func (s *stage) cluster() string {
	s.Helper()
	return got(s, s.admin().Clusters().List)[0]
}

// got is what is asked for, which is not refused.
func got[T any](s *stage, ask func() (T, error)) T {
	s.Helper()
	answer, err := ask()
	s.must(err)
	return answer
}

func (s *stage) that(holds bool, otherwise string) {
	s.Helper()
	if !holds {
		s.Fatal(otherwise)
	}
}

// refused with one of these statuses, and a reason.
func (s *stage) refused(err error, statuses ...int) {
	s.Helper()
	var refusal rest.Error
	if !errors.As(err, &refusal) {
		s.Fatalf("not refused, but %v", err)
	}
	for _, status := range statuses {
		if refusal.Code == status && refusal.Reason != "" {
			return
		}
	}
	s.Fatalf("not refused with %v, but with %v", statuses, err)
}

// soon: the original reads policies of topics from a topic, and changes them later than it answers.
func (s *stage) soon(ask func() (string, error), expected string) {
	s.Helper()
	answer := got(s, ask)
	for end := time.Now().Add(wait); answer != expected && time.Now().Before(end); answer = got(s, ask) {
		time.Sleep(20 * time.Millisecond)
	}
	if answer != expected {
		s.Fatalf("%s is not %s", answer, expected)
	}
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}

// jsonOf is how two values are compared: a pointer is as good as what it points to.
func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func methodsOf[T any]() []string {
	kind, names := reflect.TypeFor[T](), []string{}
	for number := range kind.NumMethod() {
		if name := kind.Method(number).Name; !strings.HasSuffix(name, "WithContext") {
			names = append(names, name)
		}
	}
	return names
}

// everyMethod of an interface is called, as the sources tell, through a variable of this name; those that
// playPolicies calls aside.
func everyMethod[T any](s *stage, variable string) {
	s.Helper()
	files, err := adminSources.ReadDir(".")
	s.must(err)
	called := map[string]bool{}
	for _, file := range files {
		text, err := adminSources.ReadFile(file.Name())
		s.must(err)
		for _, found := range regexp.MustCompile(`\b`+variable+`\.(\w+)\b`).FindAllSubmatch(text, -1) {
			called[string(found[1])] = true
		}
	}
	for _, name := range methodsOf[T]() {
		if !called[name] && !played[variable+"."+name] {
			s.Errorf("not called: %s.%s", variable, name)
		}
	}
}

var played = map[string]bool{}

// playPolicies sets, reads and removes each of the policies with the methods SetNAME, GetNAME and RemoveNAME.
func playPolicies[T any](s *stage, variable string, api T, target any, policies map[string]any) {
	s.Helper()
	for name, value := range policies {
		getter := func() (string, error) { return read(api, "Get"+name, target) }
		unset := got(s, getter)
		if unset == jsonOf(value) {
			s.Errorf("%s: %s is in effect before it is set", name, unset)
		}
		s.must(write(api, "Set"+name, target, value))
		s.Log(variable, name)
		s.soon(getter, jsonOf(value))
		played[variable+".Get"+name], played[variable+".Set"+name] = true, true
		if _, found := reflect.TypeFor[T]().MethodByName("Remove" + name); found {
			s.must(write(api, "Remove"+name, target))
			s.soon(getter, unset)
			played[variable+".Remove"+name] = true
		}
	}
}

// call a method by its name: a context goes before, and false, for `applied`, behind.
func call(api any, name string, arguments ...any) []reflect.Value {
	method := reflect.ValueOf(api).MethodByName(name)
	kind := method.Type()
	if kind.In(0) == reflect.TypeFor[context.Context]() {
		arguments = append([]any{context.Background()}, arguments...)
	}
	if len(arguments) < kind.NumIn() {
		arguments = append(arguments, false)
	}
	values := make([]reflect.Value, len(arguments))
	for number, argument := range arguments {
		values[number] = reflect.ValueOf(argument)
		if kind.In(number).Kind() != reflect.Interface {
			values[number] = values[number].Convert(kind.In(number))
		}
	}
	return method.Call(values)
}

func write(api any, name string, arguments ...any) error {
	err, _ := call(api, name, arguments...)[0].Interface().(error)
	return err
}

func read(api any, name string, target any) (string, error) {
	results := call(api, name, target)
	err, _ := results[1].Interface().(error)
	return jsonOf(results[0].Interface()), err
}

// Functions, connectors and packages: a Pulsar that runs no workers of functions answers with the same statuses.
func TestAdminSaysWhatIsAbsent(t *testing.T) {
	s := newStage(t)
	client := s.admin()
	for name, err := range map[string]error{
		"functions": second(client.Functions().GetFunctions("public", "default")),
		"sources":   second(client.Sources().ListSources("public", "default")),
		"sinks":     second(client.Sinks().ListSinks("public", "default")),
		"packages":  second(client.Packages().List("function", "public/default")),
		"workers":   second(client.FunctionsWorker().GetCluster()),
	} {
		t.Log(name)
		s.refused(err, 404, 409, 501, 503)
	}
}

var _ admin.Client = pulsaradmin.Client(nil)
