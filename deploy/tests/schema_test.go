package deploy

import (
	"strings"
	"testing"
)

// Values that would do something else than they say are refused, with the place named.
func TestBadValuesAreRefused(t *testing.T) {
	bad := map[string]struct{ values, place string }{
		"unknown key":                       {`replicas: 3`, "replicas"},
		"unknown key of a stage":            {`stages: { scheduler: { replica: 3 } }`, "/stages/scheduler"},
		"unknown stage":                     {`stages: { notary: { enabled: true } }`, "/stages"},
		"no replica":                        {`stages: { sequencer: { replicas: 0 } }`, "/stages/sequencer/replicas"},
		"replicas as text":                  {`stages: { sequencer: { replicas: "2" } }`, "/stages/sequencer/replicas"},
		"no identity":                       {`stages: { scheduler: { tls: "" } }`, "/stages/scheduler/tls"},
		"a secret's name in capitals":       {`stages: { approver: { keys: Keys } }`, "/stages/approver/keys"},
		"no time to drain":                  {`defaults: { terminationGracePeriodSeconds: 0 }`, "/defaults/terminationGracePeriodSeconds"},
		"a claim for others than updaters":  {`stages: { scheduler: { volume: { size: 1Gi } } }`, "/stages/scheduler"},
		"a size that is none":               {`stages: { updater: { volume: { size: much } } }`, "/stages/updater/volume/size"},
		"a request that is none":            {`defaults: { resources: { requests: { cpu: lots } } }`, "/defaults/resources/requests/cpu"},
		"a privileged port":                 {`metrics: { port: 80 }`, "/metrics/port"},
		"a variable as a setting":           {`settings: { TALLY_KAFKA__BROKERS: x }`, "/settings"},
		"a setting without a section":       {`stages: { gateway: { settings: { brokers: "x" } } }`, "/stages/gateway/settings"},
		"a setting that is not text":        {`settings: { stages.remember: 10 }`, "/settings/stages.remember"},
		"a participant that is no BIC":      {`participants: [bank]`, "/participants/0"},
		"a participant twice":               {`participants: [ALPHDEFF, ALPHDEFF]`, "/participants"},
		"a private file as a public one":    {`network: { files: { network: a, genesis: b, cluster: c, passphrase: d } }`, "/network/files"},
		"half of the configuration":         {`network: { files: { network: a } }`, "/network/files"},
		"a topic prefix in capitals":        {`network: { name: Net }`, "/network/name"},
		"a digest that is none":             {`image: { digest: "sha256:1" }`, "/image/digest"},
		"an unknown pull policy":            {`image: { pullPolicy: Sometimes }`, "/image/pullPolicy"},
		"no port of Kafka":                  {`networkPolicy: { kafka: { ports: [] } }`, "/networkPolicy/kafka/ports"},
		"an empty peer, which is everybody": {`networkPolicy: { clients: [{}] }`, "/networkPolicy/clients/0"},
		"a container without limits":        {`stages: { gateway: { sidecars: [{ name: proxy, image: x, ports: [] }] } }`, "/stages/gateway/sidecars/0"},
		"a spread that is none":             {`stages: { sequencer: { spread: { hostname: Maybe } } }`, "/stages/sequencer/spread/hostname"},
		"an interval without a unit":        {`serviceMonitor: { interval: "15" }`, "/serviceMonitor/interval"},
		"a share above one":                 {`alerts: { volumeFree: 15 }`, "/alerts/volumeFree"},
		"a lag of nothing":                  {`alerts: { lagRecords: 0 }`, "/alerts/lagRecords"},
	}
	loaded := load(t)
	for name, one := range bad {
		t.Run(name, func(t *testing.T) {
			_, err := try(loaded, values(t, one.values))
			if err == nil {
				t.Fatalf("%s was taken", one.values)
			}
			if !strings.Contains(err.Error(), one.place) {
				t.Errorf("the place %s is not named: %v", one.place, err)
			}
		})
	}
}
