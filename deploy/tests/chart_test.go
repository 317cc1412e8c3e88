// Package deploy checks the Helm chart and the container file without a cluster and without a registry of images:
// Helm's own linter and renderer, the API's own types, Prometheus's own parser.
package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDirectory = "../helm/tallystick"
	release        = "net"
)

var kubeVersion = chartutil.KubeVersion{Version: "v1.27.0", Major: "1", Minor: "27"}

// Every optional part, so that nothing of the chart goes unrendered.
const everything = `
network:
  files: { network: "[network]", genesis: "[[participants]]", cluster: "[layout]" }
image:
  pullSecrets: [registry]
settings: { kafka.compression: lz4, kafka.brokers: '["kafka-1:9093"]' }
participants: [ALPHDEFF, TSCBDEFFXXX]
defaults:
  priorityClassName: settlement
  nodeSelector: { pool: settlement }
  tolerations: [{ key: settlement, operator: Exists }]
  podAnnotations: { example.org/owner: payments }
stages:
  scheduler: { shards: 4, settings: { stages.remember: "10" }, extraArgs: [--verbose] }
  approver: { shards: 4 }
  assembler: { shards: 4 }
  gateway:
    shards: 2
    sidecars:
      - name: proxy
        image: proxy:1
        ports: [{ name: https, containerPort: 8443 }]
        resources: { requests: { cpu: 100m, memory: 64Mi }, limits: { memory: 128Mi } }
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
  updater: { shards: 4, keys: tally-updater-keys, volume: { size: 20Gi, storageClass: fast } }
networkPolicy:
  clients: [{ podSelector: { matchLabels: { app: ingress } } }]
  kafka: { ports: [9093], to: [{ ipBlock: { cidr: 10.0.0.0/8 } }] }
serviceMonitor: { enabled: true, labels: { release: prometheus } }
alerts: { enabled: true, labels: { release: prometheus } }
dashboard: { enabled: true }
`

// An object is a rendered object with the type that the API gives it.
type object struct {
	kind, name string
	labels     map[string]string
	hook       bool
	value      any
}

func load(t testing.TB) *chart.Chart {
	t.Helper()
	loaded, err := loader.LoadDir(chartDirectory)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// values reads documents of values, the later before the earlier.
func values(t testing.TB, documents ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, document := range documents {
		one, err := chartutil.ReadValues([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = chartutil.MergeTables(one, all)
	}
	return all
}

func file(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func institution(t testing.TB) string {
	return file(t, filepath.Join(chartDirectory, "values-institution.yaml"))
}

// render gives the objects of the chart with these values, decoded strictly: a field that the API does not know, or one
// that is there twice, is an error.
func render(t testing.TB, documents ...string) []object {
	t.Helper()
	objects, err := try(load(t), values(t, documents...))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func try(loaded *chart.Chart, given map[string]any) ([]object, error) {
	capabilities := *chartutil.DefaultCapabilities
	capabilities.KubeVersion = kubeVersion
	options := chartutil.ReleaseOptions{Name: release, Namespace: "settlement", Revision: 1, IsInstall: true}
	prepared, err := chartutil.ToRenderValues(loaded, given, options, &capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, prepared)
	if err != nil {
		return nil, err
	}
	var objects []object
	for path, text := range files {
		if strings.HasSuffix(path, ".txt") || strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		found, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func decode(text string) ([]object, error) {
	var objects []object
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
	defer documents.Close()
	buffer := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		document := buffer[:n]
		var head struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err := sigsyaml.Unmarshal(document, &head); err != nil {
			return nil, err
		}
		if head.Kind == "" {
			if len(bytes.TrimSpace(document)) > 0 && !onlyComments(document) {
				return nil, fmt.Errorf("something without a kind:\n%s", document)
			}
			continue
		}
		value, known := types()[head.APIVersion+" "+head.Kind]
		if !known {
			return nil, fmt.Errorf("%s %s is not expected", head.APIVersion, head.Kind)
		}
		text, err := sigsyaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
		}
		// The API's own reading: names of fields are compared letter by letter.
		strict, err := json.UnmarshalStrict(text, value)
		if err = errors.Join(append(strict, err)...); err != nil {
			return nil, fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
		}
		objects = append(objects, object{head.Kind, head.Name, head.Labels, head.Annotations["helm.sh/hook"] != "", value})
	}
}

func onlyComments(document []byte) bool {
	for _, line := range strings.Split(string(document), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

func types() map[string]any {
	return map[string]any{
		"apps/v1 Deployment":                      &appsv1.Deployment{},
		"apps/v1 StatefulSet":                     &appsv1.StatefulSet{},
		"batch/v1 Job":                            &batchv1.Job{},
		"networking.k8s.io/v1 NetworkPolicy":      &networkingv1.NetworkPolicy{},
		"policy/v1 PodDisruptionBudget":           &policyv1.PodDisruptionBudget{},
		"v1 ConfigMap":                            &corev1.ConfigMap{},
		"v1 Service":                              &corev1.Service{},
		"v1 ServiceAccount":                       &corev1.ServiceAccount{},
		"monitoring.coreos.com/v1 PrometheusRule": &monitoring.PrometheusRule{},
		"monitoring.coreos.com/v1 ServiceMonitor": &monitoring.ServiceMonitor{},
	}
}

// all gives the objects of one type.
func all[T any](objects []object) []T {
	var found []T
	for _, one := range objects {
		if value, is := one.value.(T); is {
			found = append(found, value)
		}
	}
	return found
}

// profiles are the sets of values that must hold up.
func profiles(t testing.TB) map[string][]string {
	return map[string][]string{
		"defaults":    nil,
		"everything":  {everything},
		"institution": {institution(t)},
	}
}

// The same as `helm lint --strict`: a warning is a failure too.
func TestLint(t *testing.T) {
	for name, documents := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			found := lint.AllWithKubeVersion(chartDirectory, values(t, documents...), "settlement", &kubeVersion)
			for _, message := range found.Messages {
				if message.Severity >= support.WarningSev {
					t.Error(message.Error())
				}
			}
		})
	}
}

// What one object says of another must be there, under names that the API takes.
func TestNamesAndReferences(t *testing.T) {
	for name, documents := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			objects := render(t, documents...)
			seen := map[string]bool{}
			configMaps := map[string]bool{"tally-network": true}
			accounts := map[string]bool{}
			services := map[string]bool{}
			for _, one := range objects {
				if seen[one.kind+one.name] {
					t.Errorf("two objects are called %s %s", one.kind, one.name)
				}
				seen[one.kind+one.name] = true
				for _, problem := range validation.IsDNS1123Subdomain(one.name) {
					t.Errorf("%s %s: %s", one.kind, one.name, problem)
				}
				for key, value := range one.labels {
					for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
						t.Errorf("%s %s: label %s: %s", one.kind, one.name, key, problem)
					}
				}
				switch one.kind {
				case "ConfigMap":
					configMaps[one.name] = true
				case "ServiceAccount":
					accounts[one.name] = true
				case "Service":
					services[one.name] = true
				}
			}
			for _, workload := range workloads(objects) {
				pod := workload.pod.Spec
				if account := pod.ServiceAccountName; account != "" && !accounts[account] {
					t.Errorf("%s: no service account %s", workload.name, account)
				}
				for _, volume := range pod.Volumes {
					if volume.ConfigMap != nil && !configMaps[volume.ConfigMap.Name] {
						t.Errorf("%s: no ConfigMap %s", workload.name, volume.ConfigMap.Name)
					}
				}
			}
			for _, set := range all[*appsv1.StatefulSet](objects) {
				if !services[set.Spec.ServiceName] {
					t.Errorf("%s: no service %s", set.Name, set.Spec.ServiceName)
				}
			}
		})
	}
}

// A long name of a release is cut, and what is cut still tells the parts apart.
func TestLongReleaseName(t *testing.T) {
	capabilities := *chartutil.DefaultCapabilities
	capabilities.KubeVersion = kubeVersion
	long := strings.Repeat("n", 53)
	options := chartutil.ReleaseOptions{Name: long, Namespace: "settlement", IsInstall: true}
	loaded := load(t)
	prepared, err := chartutil.ToRenderValues(loaded, values(t, everything), options, &capabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(loaded, prepared)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if strings.HasSuffix(path, ".txt") {
			continue
		}
		objects, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range objects {
			if problems := validation.IsDNS1123Label(one.name); len(problems) > 0 {
				t.Errorf("%s %s: %v", one.kind, one.name, problems)
			}
		}
	}
}
