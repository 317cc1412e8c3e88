package main

import (
	"strings"
	"testing"
)

func TestGoodHistories(t *testing.T) {
	good := map[string][]string{
		"nothing happened":    {},
		"one after the other": {paid(0, 1, 2, "r", 60, "made"), seen(0, 3, 4, "a", 40), seen(1, 3, 5, "b", 60)},
		"a read beside a payment sees it or not": {
			paid(0, 1, 10, "r", 60, "made"), seen(1, 2, 3, "a", 100), seen(2, 4, 5, "a", 40), seen(2, 6, 7, "b", 60)},
		"of two payments at once one is refused": {paid(0, 1, 9, "r", 60, "made"), paid(1, 1, 9, "s", 60, "refused:AM04")},
		"one moment for an end and a beginning":  {paid(0, 1, 5, "r", 60, "made"), seen(1, 5, 6, "a", 100)},
		"without an answer and never made":       {paid(0, 1, 0, "r", 60, "unknown"), seen(1, 5, 6, "a", 100)},
		"without an answer and made late": {
			paid(0, 1, 0, "r", 60, "unknown"), seen(1, 5, 6, "a", 100), seen(1, 7, 8, "a", 40), seen(1, 9, 10, "b", 60)},
		"without an answer, sent again":           {paid(0, 1, 0, "r", 60, "unknown"), paid(0, 5, 6, "r", 60, "made"), seen(1, 7, 8, "a", 40)},
		"made at first, answered when sent again": {paid(0, 1, 0, "r", 60, "unknown"), seen(1, 2, 3, "a", 40), paid(0, 5, 6, "r", 60, "made")},
		"refused and sent again when there are funds": {
			paid(0, 1, 2, "r", 101, "refused:AM04"), paid(0, 5, 6, "r", 101, "refused:AM04")},
		"sent again after it expired":   {paid(0, 1, 0, "r", 60, "unknown"), paid(0, 5, 6, "r", 60, "refused:TM01"), seen(1, 7, 8, "a", 100)},
		"sent again before it answered": {paid(0, 1, 9, "r", 60, "made"), paid(1, 2, 3, "r", 60, "made"), seen(1, 4, 5, "a", 40)},
		"refused for its own reasons":   {paid(0, 1, 2, "r", 60, "refused:AC06"), seen(1, 3, 4, "a", 100)},
		"a read without an answer": {
			`{"client":0,"call_ns":1,"op":{"kind":"balance","group":"g","account":"a"},"result":"unknown"}`},
		"exactly all": {paid(0, 1, 2, "r", 100, "made"), seen(0, 3, 4, "a", 0), paid(0, 5, 6, "s", 1, "refused:AM04")},
	}
	for name, lines := range good {
		status, output, complaints := try(t, nil, append([]string{opening}, lines...)...)
		if status != linearisable || !strings.HasPrefix(output, "linearisable: ") {
			t.Errorf("%s: status %d\n%s%s", name, status, output, complaints)
		}
	}
}

func TestBrokenHistories(t *testing.T) {
	other := strings.NewReplacer(`"from":"a","to":"b"`, `"from":"b","to":"a"`)
	broken := map[string]struct {
		culprit int
		lines   []string
	}{
		"an acknowledged payment is lost":   {3, []string{paid(0, 1, 2, "r", 60, "made"), seen(1, 3, 4, "a", 100)}},
		"it is lost later":                  {4, []string{paid(0, 1, 2, "r", 60, "made"), seen(1, 3, 4, "a", 40), seen(1, 5, 6, "a", 100)}},
		"half of a payment is lost":         {3, []string{paid(0, 1, 2, "r", 60, "made"), seen(1, 3, 4, "b", 0)}},
		"a payment is made twice":           {3, []string{paid(0, 1, 2, "r", 30, "made"), seen(1, 3, 4, "a", 40)}},
		"what was sent again is made twice": {4, []string{paid(0, 1, 0, "r", 30, "unknown"), paid(0, 2, 3, "r", 30, "made"), seen(1, 4, 5, "b", 60)}},
		"a read is stale": {4, []string{
			paid(0, 1, 10, "r", 60, "made"), seen(1, 2, 3, "a", 40), seen(2, 4, 5, "a", 100)}},
		"an account is overdrawn":              {3, []string{paid(0, 1, 2, "r", 60, "made"), paid(1, 3, 4, "s", 60, "made")}},
		"two at once overdraw it":              {3, []string{paid(0, 1, 8, "r", 60, "made"), paid(1, 2, 9, "s", 60, "made")}},
		"sent again, refused after it is made": {3, []string{paid(0, 1, 2, "r", 60, "made"), paid(0, 3, 4, "r", 60, "refused:AM04")}},
		"sent again, made after it is refused": {4, []string{
			paid(0, 1, 2, "r", 101, "refused:AM04"), other.Replace(paid(0, 3, 4, "s", 1, "refused:AM04")), paid(0, 5, 6, "r", 101, "made")}},
		"sent again, refused with another code": {3, []string{paid(0, 1, 2, "r", 101, "refused:AM04"), paid(0, 3, 4, "r", 101, "refused:AC06")}},
		"refused though funds were there":       {2, []string{paid(0, 1, 2, "r", 60, "refused:AM04")}},
		"refused, and yet the money is gone":    {3, []string{paid(0, 1, 2, "r", 60, "refused:AC06"), seen(1, 3, 4, "a", 40)}},
		"money from nowhere":                    {2, []string{seen(1, 3, 4, "b", 1)}},
		"made before it was asked for":          {2, []string{seen(1, 1, 2, "a", 40), paid(0, 3, 4, "r", 60, "made")}},
		"without an answer, made and taken back": {4, []string{
			paid(0, 1, 0, "r", 60, "unknown"), seen(1, 2, 3, "a", 40), seen(1, 4, 5, "a", 100)}},
	}
	for name, one := range broken {
		status, output, complaints := try(t, nil, append([]string{opening}, one.lines...)...)
		first := strings.Split(output, "\n")
		if status != notLinearisable || len(first) < 2 || !strings.HasPrefix(first[0], "group g is not linearisable") {
			t.Errorf("%s: status %d\n%s%s", name, status, output, complaints)
			continue
		}
		if wanted := "  line " + string(rune('0'+one.culprit)) + ":"; !strings.HasPrefix(first[1], wanted) {
			t.Errorf("%s: the culprit is%s instead of%s", name, first[1], wanted)
		}
	}
}

// The group at fault is named, and groups without fault are not.
func TestGroupsAreApart(t *testing.T) {
	there := strings.NewReplacer(`"group":"g"`, `"group":"h"`, `"from":"a","to":"b"`, `"from":"x","to":"y"`)
	status, output, _ := try(t, nil, opening, paid(0, 1, 2, "r", 60, "made"), there.Replace(paid(0, 3, 4, "s", 6, "made")))
	if status != notLinearisable || !strings.Contains(output, "group h is not") || strings.Contains(output, "group g is") {
		t.Errorf("status %d\n%s", status, output)
	}
	if !strings.Contains(output, "NOT linearisable: 2 operations in 2 groups: 2 transfers made, 0 refused") {
		t.Error(output)
	}
}

// A debit that is refused in the end may have held funds meanwhile.
func TestReservations(t *testing.T) {
	lines := []string{opening, paid(0, 1, 9, "r", 60, "refused:AC04"), paid(1, 2, 8, "s", 60, "refused:AM04")}
	if status, _, _ := try(t, nil, lines...); status != notLinearisable {
		t.Errorf("status %d without reservations", status)
	}
	if status, output, _ := try(t, []string{"-reservations"}, lines...); status != linearisable {
		t.Errorf("status %d with them\n%s", status, output)
	}
	lines[2] = paid(1, 10, 11, "s", 60, "refused:AM04")
	if status, _, _ := try(t, []string{"-reservations"}, lines...); status != notLinearisable {
		t.Error("a reservation outlives its payment")
	}
	lines[2] = paid(1, 2, 8, "s", 40, "refused:AM04")
	if status, _, _ := try(t, []string{"-reservations"}, lines...); status != notLinearisable {
		t.Error("more than was reserved is missing")
	}
}

func TestNoTime(t *testing.T) {
	status, output, _ := try(t, []string{"-timeout", "1ns"}, opening, paid(0, 1, 2, "r", 60, "made"))
	if status != undecided || !strings.Contains(output, "group g: undecided") {
		t.Errorf("status %d\n%s", status, output)
	}
}
