package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const opening = `{"initial":{"g":{"a":100,"b":0},"h":{"x":5,"y":5}}}`

// A line of a history: transfers from a to b in the group g unless it says otherwise.
func paid(client int, call, end int64, reference string, amount int64, result string) string {
	return fmt.Sprintf(`{"client":%d,"call_ns":%d,"return_ns":%d,"op":{"kind":"transfer","group":"g","reference":%q,"from":"a","to":"b","amount":%d},"result":%q}`,
		client, call, end, reference, amount, result)
}

func seen(client int, call, end int64, account string, amount int64) string {
	return fmt.Sprintf(`{"client":%d,"call_ns":%d,"return_ns":%d,"op":{"kind":"balance","group":"g","account":%q},"result":{"balance":%d}}`,
		client, call, end, account, amount)
}

// try runs the program on a history of these lines.
func try(t *testing.T, options []string, lines ...string) (status int, output, complaints string) {
	t.Helper()
	var out, bad strings.Builder
	text := strings.Join(lines, "\n") + "\n"
	status = run(append(options, "-"), strings.NewReader(text), &out, &bad)
	return status, out.String(), bad.String()
}

func TestBadInputNamesItsLine(t *testing.T) {
	good := paid(0, 1, 2, "r", 5, "made")
	bad := map[string]string{
		"empty":                    "",
		"no JSON":                  "hello",
		"cut off":                  good[:40],
		"two values":               good + good,
		"unknown field":            strings.Replace(good, `"client"`, `"extra":1,"client"`, 1),
		"no client":                strings.Replace(good, `"client":0,`, "", 1),
		"no call":                  strings.Replace(good, `"call_ns":1,`, "", 1),
		"no return":                strings.Replace(good, `"return_ns":2,`, "", 1),
		"returns before its call":  paid(0, 9, 2, "r", 5, "made"),
		"unknown kind":             strings.Replace(good, "transfer", "gift", 1),
		"no reference":             paid(0, 1, 2, "", 5, "made"),
		"amount of nothing":        paid(0, 1, 2, "r", 0, "made"),
		"amount below nothing":     paid(0, 1, 2, "r", -5, "made"),
		"amount with a fraction":   strings.Replace(good, `"amount":5`, `"amount":5.5`, 1),
		"amount beyond 64 bits":    strings.Replace(good, `"amount":5`, `"amount":9223372036854775808`, 1),
		"to itself":                strings.Replace(good, `"to":"b"`, `"to":"a"`, 1),
		"unknown account":          strings.Replace(good, `"to":"b"`, `"to":"c"`, 1),
		"unknown group":            strings.Replace(good, `"group":"g"`, `"group":"k"`, 1),
		"unknown result":           paid(0, 1, 2, "r", 5, "done"),
		"refused for no reason":    paid(0, 1, 2, "r", 5, "refused:"),
		"transfer with a balance":  strings.Replace(good, `"made"`, `{"balance":5}`, 1),
		"no result":                strings.Replace(good, `,"result":"made"`, "", 1),
		"result of nothing":        strings.Replace(good, `"made"`, `null`, 1),
		"balance that is made":     strings.Replace(seen(0, 1, 2, "a", 5), `{"balance":5}`, `"made"`, 1),
		"balance with a reference": strings.Replace(seen(0, 1, 2, "a", 5), `"account"`, `"reference":"r","account"`, 1),
		"second first line":        opening,
		"reference of another": strings.Join([]string{
			good, strings.Replace(paid(0, 3, 4, "r", 5, "made"), `"amount":5`, `"amount":6`, 1)}, "\n"),
	}
	for name, text := range bad {
		status, output, complaints := try(t, nil, opening, text)
		line := fmt.Sprintf("line %d:", strings.Count(text, "\n")+2)
		if status != badInput || !strings.Contains(complaints, line) || output != "" {
			t.Errorf("%s: status %d, %q, %q; %s is wanted", name, status, complaints, output, line)
		}
	}
	for name, text := range map[string]string{
		"no first line":             good,
		"negative balance":          `{"initial":{"g":{"a":-1}}}`,
		"balances beyond 64 bits":   `{"initial":{"g":{"a":9223372036854775807,"b":1}}}`,
		"first line with something": `{"initial":{"g":{}},"more":1}`,
	} {
		if status, _, complaints := try(t, nil, text); status != badInput || !strings.Contains(complaints, "line 1:") {
			t.Errorf("%s: status %d, %q", name, status, complaints)
		}
	}
	var out, complaints strings.Builder
	if status := run([]string{"-"}, strings.NewReader(""), &out, &complaints); status != badInput {
		t.Errorf("nothing at all: %d", status)
	}
	if status := run([]string{filepath.Join(t.TempDir(), "none")}, nil, &out, &complaints); status != badInput {
		t.Errorf("no file: %d", status)
	}
	if status := run(nil, nil, &out, &complaints); status != badInput {
		t.Errorf("no argument: %d", status)
	}
}

func TestVisualisation(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	status, _, complaints := try(t, []string{"-html", page}, opening,
		paid(0, 1, 2, "r", 60, "made"), paid(1, 3, 4, "s", 60, "made"), paid(0, 3, 0, "u", 1, "unknown"))
	if status != notLinearisable {
		t.Fatalf("status %d, %s", status, complaints)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "transfer s, 60 from a to b") || strings.Contains(string(text), "group h") {
		t.Error("the page does not show the group at fault, or shows another")
	}
	if status, _, _ := try(t, []string{"-html", filepath.Join(t.TempDir(), "no", "page")}, opening); status != badInput {
		t.Errorf("status %d for a page that cannot be written", status)
	}
}
