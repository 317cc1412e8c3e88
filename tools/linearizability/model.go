package main

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The code of a refusal for want of funds (ISO 20022, AM04). It is the one that the model can check.
const insufficient = "AM04"

// A model is the sequential specification of one group: what one bank with one ledger and no concurrency would answer.
//
// A state is a string: eight bytes for each account's balance, then two for the outcome of each reference that occurs
// more than once (0: none yet, 1: made, from 2: refused, by the code's number). Strings are immutable and comparable,
// which is what the search needs.
type model struct {
	accounts   map[string]int
	references map[string]int
	codes      map[string]int
	names      []string
	initial    string
}

func newModel(of *group) *model {
	m := &model{accounts: map[string]int{}, references: map[string]int{}, codes: map[string]int{}}
	for name := range of.initial {
		m.names = append(m.names, name)
	}
	sort.Strings(m.names)
	for number, name := range m.names {
		m.accounts[name] = number
	}
	seen := map[string]bool{}
	for _, one := range of.operations {
		if !one.transfer {
			continue
		}
		if seen[one.reference] {
			if _, is := m.references[one.reference]; !is {
				m.references[one.reference] = len(m.references)
			}
		}
		seen[one.reference] = true
		if _, is := m.codes[one.code]; one.told == refused && !is {
			m.codes[one.code] = len(m.codes)
		}
	}
	if _, is := m.codes[insufficient]; !is {
		m.codes[insufficient] = len(m.codes)
	}
	state := make([]byte, 8*len(m.names)+2*len(m.references))
	for name, number := range m.accounts {
		binary.BigEndian.PutUint64(state[8*number:], uint64(of.initial[name]))
	}
	m.initial = string(state)
	return m
}

// fits says whether the state can hold everything; two bytes number the codes.
func (m *model) fits() bool { return len(m.codes) < math.MaxUint16-2 }

func (m *model) balance(state, account string) int64 {
	at := 8 * m.accounts[account]
	return int64(binary.BigEndian.Uint64([]byte(state[at : at+8])))
}

// recorded is the outcome of a reference, 0 while there is none.
func (m *model) recorded(state, reference string) uint16 {
	number, is := m.references[reference]
	if !is {
		return 0
	}
	at := 8*len(m.names) + 2*number
	return uint16(state[at])<<8 | uint16(state[at+1])
}

// decided is the state after a transfer got its outcome.
func (m *model) decided(state string, one *operation, outcome uint16) string {
	number, remembered := m.references[one.reference]
	if !remembered && outcome != 1 {
		return state
	}
	after := []byte(state)
	if remembered {
		binary.BigEndian.PutUint16(after[8*len(m.names)+2*number:], outcome)
	}
	if outcome == 1 {
		binary.BigEndian.PutUint64(after[8*m.accounts[one.from]:], uint64(m.balance(state, one.from)-one.amount))
		binary.BigEndian.PutUint64(after[8*m.accounts[one.to]:], uint64(m.balance(state, one.to)+one.amount))
	}
	return string(after)
}

// step says whether the answer to an operation is right in a state, and what the state is afterwards.
//
// An operation without an answer does what the model does, at its place. That it never takes effect is the case in
// which its place is behind all others, so that no second way is needed.
func (m *model) step(state string, one *operation) (bool, string) {
	if !one.transfer {
		return one.told == unknown || one.balance == m.balance(state, one.account), state
	}
	answer := uint16(1)
	if one.told == refused {
		answer = uint16(2 + m.codes[one.code])
	}
	if before := m.recorded(state, one.reference); before != 0 {
		return one.told == unknown || before == answer, state
	}
	funds := m.balance(state, one.from)
	switch one.told {
	case made:
		return funds >= one.amount, m.decided(state, one, answer)
	case refused:
		// What others may have had reserved at the time; 0 unless reservations are allowed for. It is subtracted from a
		// balance of 0 or more and cannot overflow.
		lacks := funds-one.reservedByRest < one.amount
		return one.code != insufficient || lacks, m.decided(state, one, answer)
	default:
		if funds < one.amount {
			answer = uint16(2 + m.codes[insufficient])
		}
		return true, m.decided(state, one, answer)
	}
}

func (m *model) describe(state string) string {
	var text []string
	for _, name := range m.names {
		text = append(text, fmt.Sprintf("%s %d", name, m.balance(state, name)))
	}
	return strings.Join(text, ", ")
}

// Hashes are compared within one run only.
var seed = maphash.MakeSeed()

func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return m.initial },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return m.step(state.(string), input.(*operation))
		},
		Hash:              func(state interface{}) uint64 { return maphash.String(seed, state.(string)) },
		DescribeOperation: func(input, _ interface{}) string { return input.(*operation).String() },
		DescribeState:     func(state interface{}) string { return m.describe(state.(string)) },
	}
}

// search gives operations as the search wants them; fewer and shorter ones where that changes no verdict.
//
// A balance without an answer says nothing and is left out. A transfer without an answer could take effect at any later
// time; but once the same reference got an answer elsewhere, it has taken effect or never will. So it ends there, or is
// left out if it was sent later.
func search(operations []*operation) []porcupine.Operation {
	answered := map[string]int64{}
	for _, one := range operations {
		if one.transfer && one.told != unknown {
			if before, is := answered[one.reference]; !is || one.end < before {
				answered[one.reference] = one.end
			}
		}
	}
	var found []porcupine.Operation
	for _, one := range operations {
		end := one.end
		if one.told == unknown {
			if !one.transfer {
				continue
			}
			if known, is := answered[one.reference]; is {
				if end = known; one.call > end {
					continue
				}
			}
		}
		found = append(found, porcupine.Operation{ClientId: one.client, Input: one, Call: one.call, Output: one, Return: end})
	}
	return found
}

// allowReservations notes for each transfer how much of the debited account other transfers may have had reserved while
// it was under way: a debit that is approved holds its amount until it is decided, even if it is refused in the end.
func allowReservations(of *group) {
	for _, one := range of.operations {
		for _, other := range of.operations {
			if other == one || !one.transfer || !other.transfer || other.from != one.from || other.reference == one.reference {
				continue
			}
			if other.call > one.end || one.call > other.end {
				continue
			}
			if one.reservedByRest > math.MaxInt64-other.amount {
				one.reservedByRest = math.MaxInt64
			} else {
				one.reservedByRest += other.amount
			}
		}
	}
}
