package deploy

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

const nodeChartDirectory = "../helm/tallystick-node"

const nodeOnPostgres = `
image: { digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry] }
node: { database: postgres, standby: true, settings: { flows.threads: "8" } }
service: { type: LoadBalancer, annotations: { example.org/zone: a } }
priorityClassName: settlement
nodeSelector: { pool: settlement }
tolerations: [{ key: settlement, operator: Exists }]
podAnnotations: { example.org/owner: payments }
networkPolicy:
  peers: [{ ipBlock: { cidr: 192.0.2.0/24 } }]
  clients: [{ podSelector: { matchLabels: { app: payments } } }]
  scrapers: [{ namespaceSelector: { matchLabels: { name: monitoring } } }]
serviceMonitor: { enabled: true, labels: { release: prometheus } }
`

var nodeProfiles = map[string][]string{"sqlite": nil, "postgres": {nodeOnPostgres}}

func renderNode(t testing.TB, documents ...string) []object {
	t.Helper()
	loaded, err := loader.LoadDir(nodeChartDirectory)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := try(loaded, values(t, documents...))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func nodePod(t testing.TB, objects []object) corev1.PodSpec {
	t.Helper()
	var found []corev1.PodSpec
	for _, set := range all[*appsv1.StatefulSet](objects) {
		found = append(found, set.Spec.Template.Spec)
	}
	for _, deployment := range all[*appsv1.Deployment](objects) {
		found = append(found, deployment.Spec.Template.Spec)
	}
	if len(found) != 1 {
		t.Fatalf("%d workloads instead of one", len(found))
	}
	return found[0]
}

func TestNodeChartLint(t *testing.T) {
	for name, documents := range nodeProfiles {
		t.Run(name, func(t *testing.T) {
			found := lint.AllWithKubeVersion(nodeChartDirectory, values(t, documents...), "settlement", &kubeVersion)
			for _, message := range found.Messages {
				if message.Severity >= support.WarningSev {
					t.Error(message.Error())
				}
			}
		})
	}
}

// A file has one process and a volume; a schema of PostgreSQL has one that runs, and perhaps one that waits.
func TestNodeRunsOnce(t *testing.T) {
	sets := all[*appsv1.StatefulSet](renderNode(t))
	if len(sets) != 1 || *sets[0].Spec.Replicas != 1 || len(sets[0].Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("a node on SQLite is one pod with one volume: %v", sets)
	}
	for document, replicas := range map[string]int32{"node: { database: postgres }": 1, nodeOnPostgres: 2} {
		objects := renderNode(t, document)
		deployments := all[*appsv1.Deployment](objects)
		if len(deployments) != 1 || *deployments[0].Spec.Replicas != replicas {
			t.Fatalf("%s: %v", document, deployments)
		}
		// With an overlap the new process would wait for the end of the old one, which waits for the new to be ready.
		if deployments[0].Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%s: %v", document, deployments[0].Spec.Strategy)
		}
		node := nodePod(t, objects).Containers[0]
		standby := slices.Contains(node.Args, "--standby")
		if standby != (replicas == 2) {
			t.Errorf("%s: %v", document, node.Args)
		}
		// A standby answers nothing, and must not be killed for it; nor may anybody be led to it.
		if standby == (node.LivenessProbe != nil) || node.ReadinessProbe == nil {
			t.Errorf("%s: the probes are not those of a standby", document)
		}
		for _, service := range all[*corev1.Service](objects) {
			if service.Spec.ClusterIP != corev1.ClusterIPNone && standby == service.Spec.PublishNotReadyAddresses {
				t.Errorf("%s: %s leads to who is not ready", document, service.Name)
			}
		}
	}
}

func TestNodePodsAreConfined(t *testing.T) {
	for name, documents := range nodeProfiles {
		t.Run(name, func(t *testing.T) {
			pod := nodePod(t, renderNode(t, documents...))
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Error("it has a token for Kubernetes")
			}
			if pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot {
				t.Error("it may run as root")
			}
			for _, container := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
				security := container.SecurityContext
				if security == nil || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem ||
					!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s is not confined: %v", container.Name, security)
				}
				if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s has no bounds of memory", container.Name)
				}
			}
		})
	}
}

// What is mounted is there, and what has to stay secret comes from secrets alone.
func TestNodeVolumes(t *testing.T) {
	for name, documents := range nodeProfiles {
		t.Run(name, func(t *testing.T) {
			objects := renderNode(t, documents...)
			pod := nodePod(t, objects)
			volumes := map[string]bool{}
			for _, volume := range pod.Volumes {
				volumes[volume.Name] = true
				if volume.ConfigMap != nil {
					t.Errorf("%s comes from a ConfigMap", volume.Name)
				}
			}
			for _, set := range all[*appsv1.StatefulSet](objects) {
				for _, claim := range set.Spec.VolumeClaimTemplates {
					volumes[claim.Name] = true
				}
			}
			for _, container := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
				for _, mount := range container.VolumeMounts {
					if !volumes[mount.Name] {
						t.Errorf("%s mounts %s, which is not there", container.Name, mount.Name)
					}
					// Kubernetes does not renew what is mounted by sub path: users have to be a directory.
					if mount.Name == "users" && mount.SubPath != "" {
						t.Error("users who are let in or no more would not arrive")
					}
				}
			}
			arguments := strings.Join(pod.Containers[0].Args, " ")
			for _, wanted := range []string{"rpc.users_file=users/users.toml", "messaging.listen=0.0.0.0:10002"} {
				if !strings.Contains(arguments, wanted) {
					t.Errorf("%s is not in %s", wanted, arguments)
				}
			}
		})
	}
}

func TestNodeSelectors(t *testing.T) {
	for name, documents := range nodeProfiles {
		t.Run(name, func(t *testing.T) {
			objects := renderNode(t, documents...)
			var labels map[string]string
			for _, set := range all[*appsv1.StatefulSet](objects) {
				labels = set.Spec.Template.Labels
				served := slices.ContainsFunc(all[*corev1.Service](objects), func(service *corev1.Service) bool {
					return service.Name == set.Spec.ServiceName
				})
				if !served {
					t.Errorf("no service %s", set.Spec.ServiceName)
				}
			}
			for _, deployment := range all[*appsv1.Deployment](objects) {
				labels = deployment.Spec.Template.Labels
			}
			chosen := func(by map[string]string) bool {
				for key, value := range by {
					if labels[key] != value {
						return false
					}
				}
				return len(by) > 0
			}
			for _, service := range all[*corev1.Service](objects) {
				if !chosen(service.Spec.Selector) {
					t.Errorf("service %s finds no pod", service.Name)
				}
			}
			for _, policy := range all[*networkingv1.NetworkPolicy](objects) {
				if !chosen(policy.Spec.PodSelector.MatchLabels) {
					t.Errorf("policy %s finds no pod", policy.Name)
				}
			}
		})
	}
}

// Peers prove themselves; users and scrapers are let in by name only.
func TestNodeLetsInWhoIsNamed(t *testing.T) {
	for name, wanted := range map[string]int{"sqlite": 1, "postgres": 3} {
		policies := all[*networkingv1.NetworkPolicy](renderNode(t, nodeProfiles[name]...))
		if len(policies) != 1 || len(policies[0].Spec.Ingress) != wanted {
			t.Errorf("%s: %v", name, policies)
			continue
		}
		for _, rule := range policies[0].Spec.Ingress {
			if port := rule.Ports[0].Port.String(); port != "messaging" && len(rule.From) == 0 {
				t.Errorf("%s: everybody is let in to %s", name, port)
			}
		}
	}
}

func TestBadNodeValuesAreRefused(t *testing.T) {
	loaded, err := loader.LoadDir(nodeChartDirectory)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{
		"node: { standby: true }",
		"node: { database: sqlite, standby: true }",
		"node: { database: mysql }",
		"node: { secret: Not_A_Name }",
		"node: { settings: { flows.threads: 8 } }",
		"node: { passphrase: secret }",
		"ports: { rpc: 80 }",
		"image: { digest: sha256:short }",
		"volume: { size: large }",
		"networkPolicy: { clients: [{}] }",
		"replicas: 2",
	} {
		if _, err := try(loaded, values(t, document)); err == nil {
			t.Errorf("%s is taken", document)
		}
	}
}
