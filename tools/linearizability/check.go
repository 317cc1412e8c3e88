package main

import (
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// At most so many operations are shown around the one that does not fit.
const shown = 12

// A verdict is what the search found out about one group.
type verdict struct {
	group *group
	model *model
	// Ok, Illegal, or Unknown when time ran out.
	result porcupine.CheckResult
	// Of an illegal history: the operations up to the answer that no order explains, and that one.
	prefix  []*operation
	culprit *operation
}

// check searches for an order of a group's operations, within the time that is left until the deadline.
func check(of *group, deadline time.Time) verdict {
	m := newModel(of)
	found := verdict{group: of, model: m, result: m.search(of.operations, deadline)}
	if found.result == porcupine.Illegal {
		found.prefix, found.culprit = m.shortest(of.operations, deadline)
	}
	return found
}

func (m *model) search(operations []*operation, deadline time.Time) porcupine.CheckResult {
	limit := time.Duration(0)
	if !deadline.IsZero() {
		if limit = time.Until(deadline); limit <= 0 {
			return porcupine.Unknown
		}
	}
	return porcupine.CheckOperationsTimeout(m.porcupine(), search(operations), limit)
}

// shortest gives the shortest beginning of an illegal history that is illegal, and the answer at its end. What begins an
// illegal history and is legal stays legal when it gets shorter, so that halving finds it.
func (m *model) shortest(operations []*operation, deadline time.Time) ([]*operation, *operation) {
	var answers []*operation
	for _, one := range operations {
		if one.told != unknown {
			answers = append(answers, one)
		}
	}
	sort.SliceStable(answers, func(i, j int) bool { return answers[i].end < answers[j].end })
	low := sort.Search(len(answers)-1, func(i int) bool {
		return m.search(until(operations, answers[:i+1]), deadline) != porcupine.Ok
	})
	return until(operations, answers[:low+1]), answers[low]
}

// until gives what had been called when the last of these answers came; whatever was not answered by then is open.
func until(operations, answered []*operation) []*operation {
	known := map[*operation]bool{}
	for _, one := range answered {
		known[one] = true
	}
	end := answered[len(answered)-1].end
	var found []*operation
	for _, one := range operations {
		if known[one] {
			found = append(found, one)
		} else if one.call <= end {
			open := *one
			open.told, open.end = unknown, math.MaxInt64
			found = append(found, &open)
		}
	}
	return found
}

// explain says which answer no order explains, and what was going on around it.
func (v *verdict) explain(to io.Writer) {
	fmt.Fprintf(to, "group %s is not linearisable: no order of the first %d operations explains\n  %s\n",
		v.group.name, len(v.prefix), v.culprit)
	_, info := porcupine.CheckOperationsVerbose(v.model.porcupine(), search(v.prefix), 10*time.Second)
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, partial := range partition {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	state := v.model.initial
	for _, one := range longest {
		_, state = v.model.step(state, one.Input.(*operation))
	}
	fmt.Fprintf(to, "after the longest order that can be explained: %s\n", v.model.describe(state))

	touches := map[string]bool{}
	for _, account := range v.culprit.accounts() {
		touches[account] = true
	}
	var near []*operation
	for _, one := range v.prefix {
		related := one.transfer && one.reference == v.culprit.reference
		for _, account := range one.accounts() {
			related = related || touches[account]
		}
		if related && one.line != v.culprit.line && (one.transfer || one.told != unknown) {
			near = append(near, one)
		}
	}
	sort.SliceStable(near, func(i, j int) bool { return near[i].call < near[j].call })
	if len(near) > shown {
		fmt.Fprintf(to, "the last %d of %d operations on the same accounts before its answer:\n", shown, len(near))
		near = near[len(near)-shown:]
	} else if len(near) > 0 {
		fmt.Fprintln(to, "the operations on the same accounts before its answer:")
	}
	for _, one := range near {
		fmt.Fprintf(to, "  %s\n", one)
	}
}

// visualise writes a page for a browser, of these groups.
func visualise(of []verdict, path string) error {
	// One page shows one model; each group's own is found by its operations.
	owner := map[*operation]*model{}
	var all []porcupine.Operation
	groups := map[string]int{}
	rows := 0
	for _, one := range of {
		for _, operation := range one.group.operations {
			owner[operation] = one.model
			if operation.client >= rows {
				rows = operation.client + 1
			}
		}
		groups[one.group.name] = len(groups)
		all = append(all, search(one.group.operations)...)
	}
	// What has no answer lasts longer than its client waited, and would cover what that did next: it gets a row of its own.
	for i := range all {
		if all[i].Input.(*operation).told == unknown {
			all[i].ClientId = rows
			rows++
		}
	}
	type state struct {
		of  *model
		now string
	}
	joined := porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, len(groups))
			for _, one := range history {
				number := groups[one.Input.(*operation).group]
				parts[number] = append(parts[number], one)
			}
			return parts
		},
		Init: func() interface{} { return state{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			from, one := before.(state), input.(*operation)
			if from.of == nil {
				from = state{owner[one], owner[one].initial}
			}
			fits, after := from.of.step(from.now, one)
			return fits, state{from.of, after}
		},
		DescribeOperation: func(input, _ interface{}) string {
			one := input.(*operation)
			return "group " + one.group + ", " + one.String()
		},
		DescribeState: func(of interface{}) string {
			if from := of.(state); from.of != nil {
				return from.of.describe(from.now)
			}
			return ""
		},
	}
	_, info := porcupine.CheckOperationsVerbose(joined, all, time.Minute)
	return porcupine.VisualizePath(joined, info, path)
}
