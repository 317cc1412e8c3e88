package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
)

// Largest line that is read, in bytes: a million accounts fit into the first one.
const maxLine = 64 << 20

// An outcome is what a client was told.
type outcome int

const (
	made outcome = iota
	refused
	unknown
	balance
)

// An operation is one line of a history.
type operation struct {
	line           int
	client         int
	call, end      int64
	transfer       bool
	reference      string
	from, to       string
	account        string
	amount         int64
	told           outcome
	code           string
	balance        int64
	group          string
	reservedByRest int64
}

// A group is a partition of the history: accounts between which money moves.
type group struct {
	name       string
	initial    map[string]int64
	operations []*operation
}

// A history is what clients saw of the network, by group.
type history struct {
	groups []*group
}

// A badLine says which line cannot be read, and why.
type badLine struct {
	line int
	why  string
}

func (e *badLine) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.why) }

// read reads a history as JSON lines.
//
// Errors are of the type badLine, or those of the reader.
func read(from io.Reader) (*history, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var found *history
	byName := map[string]*group{}
	first := map[string]*operation{}
	number := 0
	for lines.Scan() {
		number++
		bad := func(format string, arguments ...interface{}) error {
			return &badLine{number, fmt.Sprintf(format, arguments...)}
		}
		if found == nil {
			var err error
			if found, err = readInitial(lines.Bytes()); err != nil {
				return nil, bad("%v", err)
			}
			for _, one := range found.groups {
				byName[one.name] = one
			}
			continue
		}
		one, err := readOperation(lines.Bytes())
		if err != nil {
			return nil, bad("%v", err)
		}
		one.line = number
		owner, is := byName[one.group]
		if !is {
			return nil, bad("no group %q in the first line", one.group)
		}
		for _, account := range one.accounts() {
			if _, is := owner.initial[account]; !is {
				return nil, bad("no account %q of group %q in the first line", account, one.group)
			}
		}
		if one.transfer {
			if before, is := first[one.reference]; !is {
				first[one.reference] = one
			} else if before.group != one.group || before.from != one.from || before.to != one.to || before.amount != one.amount {
				return nil, bad("the reference %q is that of another transfer, on line %d", one.reference, before.line)
			}
		}
		owner.operations = append(owner.operations, one)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, &badLine{number + 1, fmt.Sprintf("it is longer than %d bytes", maxLine)}
		}
		return nil, err
	}
	if found == nil {
		return nil, &badLine{1, `the history is empty; its first line is {"initial":{GROUP:{ACCOUNT:BALANCE}}}`}
	}
	return found, nil
}

func (o *operation) accounts() []string {
	if o.transfer {
		return []string{o.from, o.to}
	}
	return []string{o.account}
}

// strictly reads one JSON value without unknown fields, and nothing behind it.
func strictly(text []byte, into interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it is cut off")
		}
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON value")
	}
	return nil
}

func readInitial(text []byte) (*history, error) {
	var line struct {
		Initial map[string]map[string]int64 `json:"initial"`
	}
	if err := strictly(text, &line); err != nil {
		return nil, err
	}
	if line.Initial == nil {
		return nil, errors.New(`the first line is {"initial":{GROUP:{ACCOUNT:BALANCE}}}`)
	}
	found := &history{}
	for name, accounts := range line.Initial {
		total := int64(0)
		for account, balance := range accounts {
			if balance < 0 {
				return nil, fmt.Errorf("account %q of group %q begins with %d; balances are 0 or more", account, name, balance)
			}
			if total > math.MaxInt64-balance {
				return nil, fmt.Errorf("the balances of group %q are too large together", name)
			}
			total += balance
		}
		found.groups = append(found.groups, &group{name: name, initial: accounts})
	}
	sort.Slice(found.groups, func(i, j int) bool { return found.groups[i].name < found.groups[j].name })
	return found, nil
}

func readOperation(text []byte) (*operation, error) {
	var line struct {
		Client *int   `json:"client"`
		Call   *int64 `json:"call_ns"`
		Return *int64 `json:"return_ns"`
		Op     struct {
			Kind      string `json:"kind"`
			Group     string `json:"group"`
			Reference string `json:"reference"`
			From      string `json:"from"`
			To        string `json:"to"`
			Amount    *int64 `json:"amount"`
			Account   string `json:"account"`
		} `json:"op"`
		Result json.RawMessage `json:"result"`
	}
	if err := strictly(text, &line); err != nil {
		return nil, err
	}
	switch {
	case line.Client == nil || *line.Client < 0:
		return nil, errors.New("client is a number from 0")
	case line.Call == nil || *line.Call < 0:
		return nil, errors.New("call_ns is a time from 0, in nanoseconds")
	case line.Result == nil:
		return nil, errors.New(`result is missing; "unknown" when the client got no answer`)
	}
	one := &operation{client: *line.Client, call: *line.Call, group: line.Op.Group, amount: 0}
	if err := one.readResult(line.Result); err != nil {
		return nil, err
	}
	if one.told == unknown {
		// It may take effect at any later time.
		one.end = math.MaxInt64
	} else if line.Return == nil || *line.Return < *line.Call || *line.Return == math.MaxInt64 {
		return nil, errors.New("return_ns is a time not before call_ns")
	} else {
		one.end = *line.Return
	}
	switch op := line.Op; op.Kind {
	case "transfer":
		one.transfer, one.reference, one.from, one.to = true, op.Reference, op.From, op.To
		switch {
		case op.Reference == "":
			return nil, errors.New("a transfer has a reference")
		case op.From == op.To:
			return nil, errors.New("a transfer has two accounts")
		case op.Amount == nil || *op.Amount <= 0:
			return nil, errors.New("a transfer has an amount above 0")
		case op.Account != "":
			return nil, errors.New("a transfer has no account besides from and to")
		case one.told == balance:
			return nil, errors.New("a transfer is not answered by a balance")
		}
		one.amount = *op.Amount
	case "balance":
		one.account = op.Account
		if op.Reference != "" || op.From != "" || op.To != "" || op.Amount != nil {
			return nil, errors.New("a balance has a group and an account")
		}
		if one.told != balance && one.told != unknown {
			return nil, errors.New(`a balance is answered by {"balance":N} or "unknown"`)
		}
	default:
		return nil, fmt.Errorf("kind %q is neither transfer nor balance", op.Kind)
	}
	return one, nil
}

func (o *operation) readResult(text json.RawMessage) error {
	var word string
	if json.Unmarshal(text, &word) == nil {
		switch {
		case word == "made":
			o.told = made
		case word == "unknown":
			o.told = unknown
		case strings.HasPrefix(word, "refused:") && len(word) > len("refused:"):
			o.told, o.code = refused, strings.TrimPrefix(word, "refused:")
		default:
			return fmt.Errorf("result %q is none of made, refused:CODE, unknown", word)
		}
		return nil
	}
	var number struct {
		Balance *int64 `json:"balance"`
	}
	if strictly(text, &number) != nil || number.Balance == nil {
		return fmt.Errorf("result %s cannot be read", text)
	}
	o.told, o.balance = balance, *number.Balance
	return nil
}

func (o *operation) String() string {
	result := map[outcome]string{made: "made", refused: "refused with " + o.code, unknown: "no answer",
		balance: fmt.Sprint(o.balance)}[o.told]
	if o.transfer {
		return fmt.Sprintf("line %d: client %d, transfer %s, %d from %s to %s: %s", o.line, o.client, o.reference, o.amount, o.from, o.to, result)
	}
	return fmt.Sprintf("line %d: client %d, balance of %s: %s", o.line, o.client, o.account, result)
}
