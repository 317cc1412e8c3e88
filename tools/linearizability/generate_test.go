package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"testing"
	"time"
)

// A ledger is what the model says, written once more in the plainest way.
type ledger struct {
	balances map[string]int64
	outcomes map[string]string
}

func (l *ledger) copy() *ledger {
	other := &ledger{map[string]int64{}, map[string]string{}}
	for name, balance := range l.balances {
		other.balances[name] = balance
	}
	for reference, outcome := range l.outcomes {
		other.outcomes[reference] = outcome
	}
	return other
}

func (l *ledger) transfer(o *operation) string {
	if before, is := l.outcomes[o.reference]; is {
		return before
	}
	result := "made"
	if l.balances[o.from] < o.amount {
		result = "refused:AM04"
	} else {
		l.balances[o.from] -= o.amount
		l.balances[o.to] += o.amount
	}
	l.outcomes[o.reference] = result
	return result
}

// answers does the operation; whether its answer is the right one.
func (l *ledger) answers(o *operation) bool {
	if !o.transfer {
		return o.told == unknown || l.balances[o.account] == o.balance
	}
	result := l.transfer(o)
	switch o.told {
	case made:
		return result == "made"
	case refused:
		return result == "refused:"+o.code
	default:
		return true
	}
}

// A line as it is written, and when its operation takes effect.
type event struct {
	text   map[string]interface{}
	effect int64
}

// generate makes a history that a correct network could have produced: operations overlap at random, and each takes
// effect at one moment between its call and its return; without an answer at any later one, or never.
func generate(random *rand.Rand, groups, clients, operations int) (initial map[string]map[string]int64, events []*event) {
	initial = map[string]map[string]int64{}
	for g := 0; g < groups; g++ {
		accounts := map[string]int64{}
		for a := 0; a < 2+random.Intn(2); a++ {
			accounts[fmt.Sprint("a", a)] = int64(random.Intn(20))
		}
		initial[fmt.Sprint("g", g)] = accounts
	}
	clock := make([]int64, clients)
	var sent []map[string]interface{}
	for i := 0; i < operations; i++ {
		client := random.Intn(clients)
		call := clock[client] + int64(random.Intn(10))
		end := call + int64(random.Intn(30))
		clock[client] = end + 1
		group := fmt.Sprint("g", random.Intn(groups))
		accounts := len(initial[group])
		from := random.Intn(accounts)
		op := map[string]interface{}{"kind": "balance", "group": group, "account": fmt.Sprint("a", from)}
		if random.Intn(3) > 0 {
			op = map[string]interface{}{"kind": "transfer", "group": group, "reference": fmt.Sprint("r", i),
				"from": fmt.Sprint("a", from), "to": fmt.Sprint("a", (from+1+random.Intn(accounts-1))%accounts), "amount": 1 + random.Intn(12)}
			if len(sent) > 0 && random.Intn(4) == 0 {
				op = sent[random.Intn(len(sent))]
			} else {
				sent = append(sent, op)
			}
		}
		one := &event{map[string]interface{}{"client": client, "call_ns": call, "return_ns": end, "op": op}, call + random.Int63n(end-call+1)}
		if random.Intn(6) == 0 {
			one.text["result"] = "unknown"
			if one.effect = call + int64(random.Intn(200)); random.Intn(3) == 0 {
				one.effect = 1 << 40
			}
		}
		events = append(events, one)
	}
	byEffect := append([]*event(nil), events...)
	sort.SliceStable(byEffect, func(i, j int) bool { return byEffect[i].effect < byEffect[j].effect })
	ledgers := map[string]*ledger{}
	for name, accounts := range initial {
		ledgers[name] = (&ledger{accounts, nil}).copy()
	}
	for _, one := range byEffect {
		op := one.text["op"].(map[string]interface{})
		on := ledgers[op["group"].(string)]
		var result interface{}
		if op["kind"] == "balance" {
			result = map[string]interface{}{"balance": on.balances[op["account"].(string)]}
		} else {
			result = on.transfer(&operation{transfer: true, reference: op["reference"].(string), from: op["from"].(string),
				to: op["to"].(string), amount: int64(op["amount"].(int))})
		}
		if one.text["result"] == nil {
			one.text["result"] = result
		}
	}
	return initial, events
}

func written(t testing.TB, initial map[string]map[string]int64, events []*event) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	if err := encoder.Encode(map[string]interface{}{"initial": initial}); err != nil {
		t.Fatal(err)
	}
	for _, one := range events {
		if err := encoder.Encode(one.text); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestCorrectNetworksAreNotBlamed(t *testing.T) {
	for seed := int64(0); seed < 300; seed++ {
		random := rand.New(rand.NewSource(seed))
		initial, events := generate(random, 1+random.Intn(4), 1+random.Intn(5), random.Intn(120))
		var output, complaints strings.Builder
		if status := run([]string{"-"}, strings.NewReader(written(t, initial, events)), &output, &complaints); status != linearisable {
			t.Fatalf("seed %d: status %d\n%s%s", seed, status, output.String(), complaints.String())
		}
	}
}

// explained tries every order by brute force.
func explained(on *ledger, left []*operation) bool {
	if len(left) == 0 {
		return true
	}
	for i, one := range left {
		first := true
		for _, other := range left {
			if other.end < one.call {
				first = false
			}
		}
		if !first {
			continue
		}
		rest := append(append([]*operation(nil), left[:i]...), left[i+1:]...)
		if after := on.copy(); after.answers(one) && explained(after, rest) {
			return true
		}
		// Without an answer it may also never happen.
		if one.told == unknown && explained(on, rest) {
			return true
		}
	}
	return false
}

// On small histories, many of them made wrong, the search says the same as trying every order.
func TestSearchAgreesWithEveryOrder(t *testing.T) {
	good, bad := 0, 0
	for seed := int64(0); seed < 6000; seed++ {
		random := rand.New(rand.NewSource(seed))
		initial, events := generate(random, 1, 3, 1+random.Intn(6))
		for _, one := range events {
			if random.Intn(4) > 0 || one.text["result"] == "unknown" {
				continue
			}
			switch result := one.text["result"].(type) {
			case string:
				one.text["result"] = map[string]string{"made": "refused:AM04", "refused:AM04": "made"}[result]
			default:
				one.text["result"] = map[string]interface{}{"balance": random.Intn(20)}
			}
		}
		text := written(t, initial, events)
		history, err := read(strings.NewReader(text))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		only := history.groups[0]
		wanted := explained((&ledger{only.initial, nil}).copy(), only.operations)
		var output, complaints strings.Builder
		status := run([]string{"-"}, strings.NewReader(text), &output, &complaints)
		if wanted != (status == linearisable) || status > notLinearisable {
			t.Fatalf("seed %d: every order says %v, the search %d\n%s\n%s", seed, wanted, status, text, output.String())
		}
		if wanted {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d good and %d bad histories say little", good, bad)
	}
}

// The answer that is blamed completes the shortest beginning that nothing explains.
func TestBlameIsTheFirst(t *testing.T) {
	blamed := 0
	for seed := int64(0); seed < 200; seed++ {
		random := rand.New(rand.NewSource(seed))
		initial, events := generate(random, 1, 3, 30)
		for _, one := range events {
			if result, is := one.text["result"].(map[string]interface{}); is && random.Intn(5) == 0 {
				result["balance"] = 1000 + random.Intn(10)
			}
		}
		history, err := read(strings.NewReader(written(t, initial, events)))
		if err != nil {
			t.Fatal(err)
		}
		first := (*operation)(nil)
		for _, one := range history.groups[0].operations {
			if one.told == balance && one.balance >= 1000 && (first == nil || one.end < first.end) {
				first = one
			}
		}
		found := check(history.groups[0], time.Time{})
		if (found.culprit == nil) != (first == nil) {
			t.Fatalf("seed %d: blamed %v, impossible is %v", seed, found.culprit, first)
		}
		if first != nil {
			blamed++
			if found.culprit.end != first.end {
				t.Fatalf("seed %d: blamed %v, impossible is %v", seed, found.culprit, first)
			}
		}
	}
	if blamed < 100 {
		t.Errorf("only %d histories were at fault", blamed)
	}
}

func BenchmarkCheck(b *testing.B) {
	random := rand.New(rand.NewSource(1))
	initial, events := generate(random, 50, 20, 10_000)
	text := written(b, initial, events)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		var output, complaints strings.Builder
		if status := run([]string{"-"}, strings.NewReader(text), &output, &complaints); status != linearisable {
			b.Fatal(output.String())
		}
	}
}
