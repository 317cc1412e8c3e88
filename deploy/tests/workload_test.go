package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var stages = []string{"approver", "assembler", "gateway", "scheduler", "sequencer", "updater"}

// A workload is whatever makes pods.
type workload struct {
	kind, name string
	replicas   int32
	selector   map[string]string
	pod        corev1.PodTemplateSpec
	claims     []corev1.PersistentVolumeClaim
	shape      string
}

func (w workload) stage() string { return w.pod.Labels["app.kubernetes.io/component"] }

func workloads(objects []object) []workload {
	var found []workload
	for _, one := range all[*appsv1.Deployment](objects) {
		found = append(found, workload{"Deployment", one.Name, *one.Spec.Replicas, one.Spec.Selector.MatchLabels,
			one.Spec.Template, nil, fmt.Sprint(one.Spec.Strategy.RollingUpdate.MaxSurge, " ", one.Spec.Strategy.RollingUpdate.MaxUnavailable)})
	}
	for _, one := range all[*appsv1.StatefulSet](objects) {
		found = append(found, workload{"StatefulSet", one.Name, *one.Spec.Replicas, one.Spec.Selector.MatchLabels,
			one.Spec.Template, one.Spec.VolumeClaimTemplates, string(one.Spec.PodManagementPolicy)})
	}
	for _, one := range all[*batchv1.Job](objects) {
		found = append(found, workload{"Job", one.Name, 1, nil, one.Spec.Template, nil, ""})
	}
	return found
}

func stageWorkloads(objects []object) map[string]workload {
	found := map[string]workload{}
	for _, one := range workloads(objects) {
		if one.kind != "Job" {
			found[one.stage()] = one
		}
	}
	return found
}

func TestEveryStageIsThere(t *testing.T) {
	found := stageWorkloads(render(t))
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, stages) {
		t.Fatalf("stages %v", got)
	}
	for name, one := range found {
		kind := "Deployment"
		if name == "updater" {
			kind = "StatefulSet"
		}
		if one.kind != kind {
			t.Errorf("%s is a %s", name, one.kind)
		}
	}
	if replicas := found["sequencer"].replicas; replicas != 2 {
		t.Errorf("%d sequencers: one active and one standing by are wanted", replicas)
	}
	// A third one would need a third machine while the pair is replaced.
	if shape := found["sequencer"].shape; shape != "0 1" {
		t.Errorf("the sequencer rolls by %s", shape)
	}
	spread := found["sequencer"].pod.Spec.TopologySpreadConstraints[0]
	if spread.TopologyKey != "kubernetes.io/hostname" || spread.WhenUnsatisfiable != corev1.DoNotSchedule {
		t.Error("both sequencers may run on one machine")
	}
	updater := found["updater"]
	if len(updater.claims) != 1 || updater.claims[0].Name != "network" || updater.shape != "Parallel" {
		t.Errorf("updaters: claims %v, %s", updater.claims, updater.shape)
	}
}

const identity = " --set kafka.tls.authority=/network/tls/ca.crt --set kafka.tls.certificate=/network/tls/tls.crt --set kafka.tls.key=/network/tls/tls.key"

func TestCommands(t *testing.T) {
	for name, one := range stageWorkloads(render(t, everything)) {
		container := one.pod.Spec.Containers[0]
		command := strings.Join(append(container.Command, container.Args...), " ")
		wanted := "tally stage " + name + " --network /network --metrics 0.0.0.0:9464"
		switch name {
		case "gateway":
			wanted += " --listen 127.0.0.1:8080 --set http.access=/network/access/access.toml" +
				" --set http.references=/network/references/references.secret"
		case "approver", "updater":
			wanted += " --participant ALPHDEFF --participant TSCBDEFFXXX"
		}
		wanted += identity + ` --set kafka.brokers=["kafka-1:9093"] --set kafka.compression=lz4`
		if name == "scheduler" {
			wanted += " --set stages.remember=10 --verbose"
		}
		if command != wanted {
			t.Errorf("%s runs %q", name, command)
		}
	}
	jobs := all[*batchv1.Job](render(t))
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	job := jobs[0]
	// Without --check it would begin an empty network: no pod has the journal.
	container := job.Spec.Template.Spec.Containers[0]
	command := strings.Join(append(container.Command, container.Args...), " ")
	if command != "tally network apply --check"+identity+" /network" {
		t.Errorf("the job runs %q", command)
	}
	if hook := job.Annotations["helm.sh/hook"]; hook != "pre-install,pre-upgrade" {
		t.Errorf("the job runs at %q", hook)
	}
	if job.Spec.ActiveDeadlineSeconds == nil || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("the job may run for ever")
	}
}

// The Pod Security standard "restricted", and what the program needs besides.
func TestPodsAreConfined(t *testing.T) {
	for profile, documents := range profiles(t) {
		for _, one := range workloads(render(t, documents...)) {
			t.Run(profile+"/"+one.name, func(t *testing.T) {
				pod := one.pod.Spec
				security := pod.SecurityContext
				if security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot || *security.RunAsUser == 0 ||
					security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("security context %+v", security)
				}
				if pod.HostNetwork || pod.HostPID || pod.HostIPC {
					t.Error("it shares the machine's namespaces")
				}
				if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
					t.Error("it has a token for Kubernetes")
				}
				if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
					t.Error("services of the namespace become settings named TALLY_…")
				}
				for _, container := range pod.Containers {
					inner := container.SecurityContext
					if inner == nil || *inner.AllowPrivilegeEscalation || !*inner.ReadOnlyRootFilesystem || inner.Privileged != nil ||
						len(inner.Capabilities.Drop) != 1 || inner.Capabilities.Drop[0] != "ALL" || len(inner.Capabilities.Add) > 0 {
						t.Errorf("security context %+v", inner)
					}
					if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() ||
						container.Resources.Limits.Memory().IsZero() {
						t.Errorf("resources %+v", container.Resources)
					}
				}
			})
		}
	}
}

func TestVolumes(t *testing.T) {
	for profile, documents := range profiles(t) {
		for _, one := range workloads(render(t, documents...)) {
			t.Run(profile+"/"+one.name, func(t *testing.T) {
				volumes := map[string]bool{}
				for _, claim := range one.claims {
					volumes[claim.Name] = true
				}
				for _, volume := range one.pod.Spec.Volumes {
					if volumes[volume.Name] {
						t.Errorf("two volumes are called %s", volume.Name)
					}
					volumes[volume.Name] = true
					if secret := volume.Secret; secret != nil && *secret.DefaultMode != 0o440 {
						t.Errorf("secret %s has mode %o", secret.SecretName, *secret.DefaultMode)
					}
					if volume.HostPath != nil {
						t.Errorf("%s is of the machine", volume.Name)
					}
				}
				mounts, used := map[string]corev1.VolumeMount{}, map[string]bool{}
				for _, mount := range one.pod.Spec.Containers[0].VolumeMounts {
					if !volumes[mount.Name] {
						t.Errorf("no volume %s", mount.Name)
					}
					used[mount.Name] = true
					mounts[mount.MountPath] = mount
				}
				if len(used) != len(volumes) {
					t.Errorf("volumes %v, used %v", volumes, used)
				}
				for path, readOnly := range map[string]bool{"/network": false, "/network/network.toml": true,
					"/network/genesis.toml": true, "/network/cluster.toml": true, "/network/tls": true} {
					if mount, is := mounts[path]; !is || mount.ReadOnly != readOnly {
						t.Errorf("%s: mounted %v, read-only %v", path, is, mount.ReadOnly)
					}
				}
				// A secret that is mounted by a part of it is never renewed in a running pod.
				if mounts["/network/tls"].SubPath != "" {
					t.Error("a renewed certificate would not arrive")
				}
			})
		}
	}
}

// Each stage gets its own identity, and keys only where it signs.
func TestSecretsAreShared(t *testing.T) {
	identities := map[string]string{}
	for name, one := range stageWorkloads(render(t)) {
		passphrase := false
		for _, variable := range one.pod.Spec.Containers[0].Env {
			if variable.ValueFrom != nil {
				passphrase = variable.Name == "TALLY_PASSPHRASE" && variable.ValueFrom.SecretKeyRef.Name == "tally-passphrase"
			} else if strings.Contains(variable.Name, "PASSPHRASE") {
				t.Errorf("%s: the passphrase is in plain sight", name)
			}
		}
		keys := ""
		for _, volume := range one.pod.Spec.Volumes {
			if volume.Secret == nil {
				continue
			}
			switch volume.Name {
			case "tls":
				if other, taken := identities[volume.Secret.SecretName]; taken {
					t.Errorf("%s and %s have one identity", name, other)
				}
				identities[volume.Secret.SecretName] = name
			case "keys":
				keys = volume.Secret.SecretName
			case "access":
				if name != "gateway" || volume.Secret.SecretName != "tally-gateway-access" {
					t.Errorf("%s knows by %s who may come in", name, volume.Secret.SecretName)
				}
			case "references":
				if name != "gateway" || volume.Secret.SecretName != "tally-gateway-references" {
					t.Errorf("%s derives references with %s", name, volume.Secret.SecretName)
				}
			default:
				t.Errorf("%s has the secret %s", name, volume.Secret.SecretName)
			}
		}
		// An updater cosigns heads of the log as its institution's witness.
		signs := name == "approver" || name == "sequencer" || name == "updater"
		if (keys != "") != signs || passphrase != signs {
			t.Errorf("%s: keys %q, passphrase %v", name, keys, passphrase)
		}
	}
	if len(identities) != len(stages) {
		t.Errorf("identities %v", identities)
	}
}

func TestProbes(t *testing.T) {
	for name, one := range stageWorkloads(render(t, everything)) {
		container := one.pod.Spec.Containers[0]
		ports := map[string]int32{}
		for _, port := range container.Ports {
			ports[port.Name] = port.ContainerPort
		}
		for kind, probe := range map[string]*corev1.Probe{
			"/health": container.LivenessProbe, "/ready": container.ReadinessProbe, "/health ": container.StartupProbe,
		} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != strings.TrimSpace(kind) || ports[probe.HTTPGet.Port.StrVal] != 9464 {
				t.Errorf("%s: the probe of %s is %+v", name, kind, probe)
			}
		}
		grace := *one.pod.Spec.TerminationGracePeriodSeconds
		if wanted := map[bool]int64{true: 120, false: 60}[name == "updater"]; grace != wanted {
			t.Errorf("%s has %d s to drain", name, grace)
		}
		if (container.Lifecycle != nil) != (name == "gateway") {
			t.Errorf("%s: life cycle %+v", name, container.Lifecycle)
		}
	}
}

func TestSettingsOfAStage(t *testing.T) {
	found := stageWorkloads(render(t, everything, `stages: { scheduler: { tag: "9", settings: { kafka.compression: gzip } } }`))
	for name, wanted := range map[string]string{"scheduler": "kafka.compression=gzip", "assembler": "kafka.compression=lz4"} {
		arguments := found[name].pod.Spec.Containers[0].Args
		if count := strings.Count(strings.Join(arguments, " "), "kafka.compression="); count != 1 || !slices.Contains(arguments, wanted) {
			t.Errorf("%s: %v", name, arguments)
		}
	}
	// A variable of this form is a setting of every file, and a mistake in those that do not know it.
	for name, one := range found {
		for _, variable := range one.pod.Spec.Containers[0].Env {
			if strings.HasPrefix(variable.Name, "TALLY_") && strings.Contains(variable.Name, "__") {
				t.Errorf("%s: %s", name, variable.Name)
			}
		}
	}
	if image := found["scheduler"].pod.Spec.Containers[0].Image; image != "tallystick/tally:9" {
		t.Errorf("the scheduler runs %s", image)
	}
	if image := found["assembler"].pod.Spec.Containers[0].Image; image != "tallystick/tally:0.1.0" {
		t.Errorf("the assembler runs %s", image)
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	pinned := stageWorkloads(render(t, `image: { digest: "`+digest+`" }`))
	if image := pinned["assembler"].pod.Spec.Containers[0].Image; image != "tallystick/tally@"+digest {
		t.Errorf("the assembler runs %s", image)
	}
}

// Other public configuration makes other pods; the same makes the same.
func TestConfigurationRollsThePods(t *testing.T) {
	sum := func(network string) string {
		found := stageWorkloads(render(t, `network: { files: { genesis: "g", cluster: "c", network: "`+network+`" } }`))
		return found["scheduler"].pod.Annotations["checksum/configuration"]
	}
	if sum("a") == sum("b") || sum("a") != sum("a") {
		t.Error("the checksum does not follow the configuration")
	}
	maps := all[*corev1.ConfigMap](render(t, `network: { files: { genesis: "g", cluster: "c", network: "n" } }`))
	if len(maps) != 2 {
		t.Fatalf("%d ConfigMaps: one for the stages and one for the hook are wanted", len(maps))
	}
	for _, one := range maps {
		if one.Data["network.toml"] != "n" || one.Data["genesis.toml"] != "g" || one.Data["cluster.toml"] != "c" {
			t.Errorf("%s: %v", one.Name, one.Data)
		}
	}
}

// Selectors choose the pods they mean, all of them and no others.
func TestSelectors(t *testing.T) {
	for profile, documents := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			objects := render(t, documents...)
			found := stageWorkloads(objects)
			chosen := func(selector map[string]string) []string {
				var names []string
				for name, one := range found {
					if labels.SelectorFromSet(selector).Matches(labels.Set(one.pod.Labels)) {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				return names
			}
			running := slices.Sorted(maps.Keys(found))
			var budgets []string
			for _, one := range all[*policyv1.PodDisruptionBudget](objects) {
				names := chosen(one.Spec.Selector.MatchLabels)
				if len(names) != 1 || one.Spec.MaxUnavailable == nil || one.Spec.MaxUnavailable.IntValue() != 1 {
					t.Errorf("%s: %v, %v", one.Name, names, one.Spec.MaxUnavailable)
				}
				budgets = append(budgets, names...)
			}
			slices.Sort(budgets)
			if !slices.Equal(budgets, running) {
				t.Errorf("budgets for %v, stages %v", budgets, running)
			}
			for name, one := range found {
				if names := chosen(one.selector); !slices.Equal(names, []string{name}) {
					t.Errorf("%s chooses %v", one.name, names)
				}
				if _, versioned := one.selector["app.kubernetes.io/version"]; versioned {
					t.Errorf("%s: no upgrade would be possible", one.name)
				}
			}
			for _, one := range all[*corev1.Service](objects) {
				wanted := running
				if one.Name == release+"-gateway" {
					wanted = []string{"gateway"}
				}
				if names := chosen(one.Spec.Selector); !slices.Equal(names, wanted) {
					t.Errorf("service %s chooses %v", one.Name, names)
				}
			}
			policies := all[*networkingv1.NetworkPolicy](objects)
			if len(policies) == 0 {
				t.Fatal("no network policy")
			}
			for _, one := range policies {
				wanted := running
				if one.Name == release+"-gateway" {
					wanted = []string{"gateway"}
				}
				if names := chosen(one.Spec.PodSelector.MatchLabels); !slices.Equal(names, wanted) {
					t.Errorf("policy %s is for %v", one.Name, names)
				}
			}
		})
	}
}

func TestNobodyElseIsLetIn(t *testing.T) {
	policies := all[*networkingv1.NetworkPolicy](render(t, "networkPolicy: { scrapers: [] }"))
	if len(policies) != 1 {
		t.Fatalf("%d policies", len(policies))
	}
	policy := policies[0].Spec
	if len(policy.Ingress) != 0 || len(policy.PolicyTypes) != 2 || len(policy.Egress) != 2 {
		t.Errorf("%+v", policy)
	}
	policies = all[*networkingv1.NetworkPolicy](render(t, everything))
	if len(policies) != 2 {
		t.Fatalf("%d policies", len(policies))
	}
	for _, one := range policies {
		for _, rule := range one.Spec.Ingress {
			// An empty list of peers admits everybody.
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s: %+v", one.Name, rule)
			}
		}
	}
}

// The gateway answers on loopback; clients reach the container beside it, and nobody else anything.
func TestClientsReachWhatEndsTLS(t *testing.T) {
	gateways := 0
	for _, one := range all[*corev1.Service](render(t, everything)) {
		if one.Name != release+"-gateway" {
			continue
		}
		gateways++
		port := one.Spec.Ports[0].TargetPort.StrVal
		for _, container := range stageWorkloads(render(t, everything))["gateway"].pod.Spec.Containers {
			for _, open := range container.Ports {
				if (open.Name == port) != (container.Name == "proxy") {
					t.Errorf("%s of %s is open", open.Name, container.Name)
				}
				if container.Name == "gateway" && open.Name != "metrics" {
					t.Errorf("the gateway's own %s is open", open.Name)
				}
			}
		}
	}
	if gateways != 1 {
		t.Errorf("%d services for the gateway", gateways)
	}
	for _, one := range all[*corev1.Service](render(t)) {
		if one.Name == release+"-gateway" {
			t.Error("a service with nobody behind it")
		}
	}
}

func TestAnInstitutionRunsOnlyItsOwnStages(t *testing.T) {
	objects := render(t, institution(t))
	found := stageWorkloads(objects)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"approver", "updater"}) {
		t.Errorf("it runs %v", got)
	}
	if jobs := all[*batchv1.Job](objects); len(jobs) != 0 {
		t.Error("it would look at the operator's topics")
	}
	for name, one := range found {
		// Without it the stage would ask for every institution's key and topics.
		if arguments := strings.Join(one.pod.Spec.Containers[0].Args, " "); !strings.Contains(arguments, "--participant BANKDEFF") {
			t.Errorf("%s works for everybody: %s", name, arguments)
		}
		for _, volume := range one.pod.Spec.Volumes {
			if volume.Secret == nil {
				continue
			}
			// The updater cosigns with the key that the approver answers with: the institution's own.
			switch volume.Secret.SecretName {
			case "bank-" + name + "-tls", "bank-institution-keys":
			default:
				t.Errorf("%s has the secret %s", name, volume.Secret.SecretName)
			}
		}
	}
	for _, one := range all[*corev1.Service](objects) {
		if one.Name != release+"-metrics" {
			t.Errorf("it has the service %s", one.Name)
		}
	}
}
