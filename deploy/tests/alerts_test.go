package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
)

// What a stage measures, after `tally_stage_`; and what others measure about it.
var (
	metrics = []string{"taken_batches_total", "committed_turns_total", "commit_nanoseconds_total", "lag_records", "running_shards", "failed_shards",
		"restored_milliseconds", "lost_shards_total", "dead_letters_total"}
	others = []string{"up", "kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}
)

const operations = "../../docs/OPERATIONS.md"

func rules(t *testing.T, documents ...string) []monitoring.Rule {
	t.Helper()
	var found []monitoring.Rule
	for _, one := range all[*monitoring.PrometheusRule](render(t, documents...)) {
		for _, group := range one.Spec.Groups {
			found = append(found, group.Rules...)
		}
	}
	return found
}

// check parses an expression; every series it asks for exists, and only this network's are asked.
func check(t *testing.T, where, expression string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expression)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		own := strings.TrimPrefix(selector.Name, "tally_stage_")
		if !slices.Contains(others, selector.Name) && (own == selector.Name || !slices.Contains(metrics, own)) {
			t.Errorf("%s: nobody measures %s", where, selector.Name)
		}
		narrowed := slices.ContainsFunc(selector.LabelMatchers, func(one *labels.Matcher) bool {
			return one.Name == "network" || one.Name == "namespace"
		})
		if !narrowed {
			t.Errorf("%s: %s of every network", where, selector)
		}
		return nil
	})
}

func TestAlerts(t *testing.T) {
	manual := file(t, operations)
	asked := map[string]bool{}
	for _, rule := range rules(t, everything) {
		check(t, rule.Alert, rule.Expr.String())
		for _, metric := range append(slices.Clone(metrics), others...) {
			if strings.Contains(rule.Expr.String(), metric) {
				asked[metric] = true
			}
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" {
			t.Errorf("%s says nothing", rule.Alert)
		}
		if !strings.Contains(manual, "### "+rule.Alert+"\n") {
			t.Errorf("%s is not explained in docs/OPERATIONS.md", rule.Alert)
		}
	}
	for _, metric := range []string{"running_shards", "failed_shards", "lag_records", "committed_turns_total", "commit_nanoseconds_total",
		"restored_milliseconds", "lost_shards_total", "dead_letters_total", "up"} {
		if !asked[metric] {
			t.Errorf("no alert watches over %s", metric)
		}
	}
}

// The program's own list: its name for a counter has no `_total`, which the format adds.
func TestMetricsAreThoseOfTheProgram(t *testing.T) {
	source, err := os.ReadFile("../../crates/tally/src/stages/telemetry.rs")
	if os.IsNotExist(err) {
		t.Skip("this tree has no stages that measure anything")
	}
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, match := range regexp.MustCompile(`"tally_stage_([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		measured[match[1]] = true
	}
	for _, metric := range metrics {
		own := strings.TrimSuffix(metric, "_total")
		if !measured[own] {
			t.Errorf("the program does not measure tally_stage_%s", own)
		}
		delete(measured, own)
	}
	for own := range measured {
		t.Errorf("tally_stage_%s is neither shown nor explained", own)
	}
}

// What the manual explains exists, and what exists is explained.
func TestManual(t *testing.T) {
	manual := file(t, operations)
	var known []string
	for _, rule := range rules(t, everything) {
		known = append(known, rule.Alert)
	}
	for _, match := range regexp.MustCompile(`(?m)^### (Tally\w+)$`).FindAllStringSubmatch(manual, -1) {
		if !slices.Contains(known, match[1]) {
			t.Errorf("docs/OPERATIONS.md explains %s, which is no alert", match[1])
		}
	}
	for _, metric := range metrics {
		if name := "`tally_stage_" + metric + "`"; !strings.Contains(manual, name) {
			t.Errorf("docs/OPERATIONS.md does not explain %s", name)
		}
	}
}

// Nobody has time to look for a section at night.
func TestManualLeadsSomewhere(t *testing.T) {
	manual := file(t, operations)
	sections := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(manual, -1) {
		words := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		sections[strings.ReplaceAll(words, " ", "-")] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(manual, -1)
	if len(links) == 0 {
		t.Error("the manual has no links")
	}
	for _, match := range links {
		if !sections[match[1]] {
			t.Errorf("#%s leads nowhere", match[1])
		}
	}
}

// Alerts go with the stages: an institution is not called because of the operator's sequencer.
func TestAlertsOfAnInstitution(t *testing.T) {
	found := rules(t, institution(t), "alerts: { enabled: true }")
	if len(found) == 0 {
		t.Fatal("no alerts")
	}
	for _, rule := range found {
		if stage := rule.Labels["stage"]; stage != "" && stage != "approver" && stage != "updater" {
			t.Errorf("%s of %s", rule.Alert, stage)
		}
	}
	if len(rules(t)) != 0 {
		t.Error("alerts without being asked for: the resource's definition may not be there")
	}
}

func TestMonitorSetsTheLabelsThatAlertsNeed(t *testing.T) {
	monitors := all[*monitoring.ServiceMonitor](render(t, everything))
	if len(monitors) != 1 {
		t.Fatalf("%d monitors", len(monitors))
	}
	var targets []string
	for _, one := range monitors[0].Spec.Endpoints[0].RelabelConfigs {
		targets = append(targets, one.TargetLabel)
	}
	if !slices.Equal(targets, []string{"stage", "network"}) || monitors[0].Spec.Endpoints[0].Port != "metrics" {
		t.Errorf("%+v", monitors[0].Spec.Endpoints)
	}
	for _, one := range all[*corev1.Service](render(t, everything)) {
		if one.Name == release+"-metrics" && one.Labels["app.kubernetes.io/component"] != monitors[0].Spec.Selector.MatchLabels["app.kubernetes.io/component"] {
			t.Error("the monitor does not find the service")
		}
	}
}

func TestDashboard(t *testing.T) {
	var text string
	for _, one := range all[*corev1.ConfigMap](render(t, everything)) {
		text += one.Data["tallystick.json"]
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("%s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			check(t, panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			for _, metric := range metrics {
				if strings.Contains(target.Expr, metric) {
					shown[metric] = true
				}
			}
		}
	}
	for _, metric := range metrics {
		if !shown[metric] {
			t.Errorf("%s is not shown", metric)
		}
	}
}
