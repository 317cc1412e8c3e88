// Says whether what clients saw of a settlement network could have come from one ledger that does one thing after the
// other. See README.md for the format of a history.
//
// It shares no code with the network. Exit status: 0 linearisable, 1 not, 2 bad input, 3 undecided in the given time.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	linearisable = iota
	notLinearisable
	badInput
	undecided
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(arguments []string, input io.Reader, output, complaints io.Writer) int {
	flags := flag.NewFlagSet("linearizability", flag.ContinueOnError)
	flags.SetOutput(complaints)
	html := flags.String("html", "", "write a page for a browser to this `file`: the groups at fault, else all")
	reservations := flags.Bool("reservations", false, "allow a refusal for want of funds that other debits under way may have reserved")
	limit := flags.Duration("timeout", 0, "give up after this `time`; 0: never")
	flags.Usage = func() {
		fmt.Fprintln(complaints, "usage: linearizability [options] FILE   (- reads standard input)")
		flags.PrintDefaults()
	}
	if flags.Parse(arguments) != nil {
		return badInput
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return badInput
	}
	name := flags.Arg(0)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			fmt.Fprintln(complaints, "error:", err)
			return badInput
		}
		defer file.Close()
		input = file
	}
	history, err := read(input)
	if err != nil {
		fmt.Fprintf(complaints, "error: %s: %v\n", name, err)
		return badInput
	}
	for _, one := range history.groups {
		if *reservations {
			allowReservations(one)
		}
		if !newModel(one).fits() {
			fmt.Fprintf(complaints, "error: %s: group %s has too many reasons for refusals\n", name, one.name)
			return badInput
		}
	}
	verdicts := checkAll(history, *limit)
	status, faulty := linearisable, []verdict{}
	for i := range verdicts {
		switch one := &verdicts[i]; one.result {
		case porcupine.Illegal:
			status = notLinearisable
			faulty = append(faulty, *one)
			one.explain(output)
		case porcupine.Unknown:
			if status == linearisable {
				status = undecided
			}
			fmt.Fprintf(output, "group %s: undecided within %s\n", one.group.name, *limit)
		}
	}
	summarise(history, status, output)
	if *html != "" {
		if len(faulty) == 0 {
			faulty = verdicts
		}
		if err := visualise(faulty, *html); err != nil {
			fmt.Fprintf(complaints, "error: %s: %v\n", *html, err)
			return badInput
		}
	}
	return status
}

// checkAll checks the groups, as many at once as there are processors.
func checkAll(of *history, limit time.Duration) []verdict {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	verdicts := make([]verdict, len(of.groups))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, one := range of.groups {
		all.Add(1)
		free <- struct{}{}
		go func(i int, one *group) {
			defer all.Done()
			verdicts[i] = check(one, deadline)
			<-free
		}(i, one)
	}
	all.Wait()
	return verdicts
}

// summarise counts, so that a history in which nothing was paid does not pass for a good one unnoticed.
func summarise(of *history, status int, output io.Writer) {
	operations, counts, codes := 0, map[outcome]int{}, map[string]int{}
	for _, group := range of.groups {
		for _, one := range group.operations {
			operations++
			counts[one.told]++
			if one.told == refused {
				codes[one.code]++
			}
		}
	}
	var reasons []string
	for code, count := range codes {
		reasons = append(reasons, fmt.Sprintf("%s %d", code, count))
	}
	sort.Strings(reasons)
	why := ""
	if len(reasons) > 0 {
		why = " (" + strings.Join(reasons, ", ") + ")"
	}
	word := map[int]string{linearisable: "linearisable", notLinearisable: "NOT linearisable", undecided: "undecided"}[status]
	fmt.Fprintf(output, "%s: %d operations in %d groups: %d transfers made, %d refused%s, %d balances read, %d without an answer\n",
		word, operations, len(of.groups), counts[made], counts[refused], why, counts[balance], counts[unknown])
}
