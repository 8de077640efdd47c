package overtime

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// An event is one call of a history.
type event struct {
	number     int
	who        string
	asked      asked
	told       told
	from, to   time.Duration // since the run began
	start, end int64         // positions in the order of all starts and ends of calls
	story      string        // when the call was sent, and over which connections
}

func (e *event) String() string {
	return fmt.Sprintf("%9.3fs to %9.3fs  %s: %v: %v (%s)", e.from.Seconds(), e.to.Seconds(), e.who, e.asked, e.told, e.story)
}

// A history has the calls of a run's clients and their answers.
type history struct {
	now func() time.Duration

	mu     sync.Mutex
	clock  int64
	events []*event
	ids    map[string]int // numbers of the file handles
}

// begin records that a call is about to be sent.
func (h *history) begin(who string, a asked) *event {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	e := &event{number: len(h.events), who: who, asked: a, from: h.now(), start: h.clock}
	h.events = append(h.events, e)
	return e
}

// finish records the answer to a call, or that there was none.
func (h *history) finish(e *event, t told, story string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	e.told, e.story, e.to, e.end = t, story, h.now(), h.clock
	if t.status == unknown {
		e.end = math.MaxInt64
	}
}

// id returns the number of a file handle. Equal handles have the same number. The number of an
// empty handle is 0.
func (h *history) id(handle []byte) int {
	if len(handle) == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, known := h.ids[string(handle)]
	if !known {
		n = target + 1 + len(h.ids)
		h.ids[string(handle)] = n
	}
	return n
}

// check returns nil if the history is correct: a server that executes each call once could have
// given these answers. Otherwise the error lists the last calls about one object up to the first
// impossible answer.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	operations := make([]porcupine.Operation, len(h.events))
	for i, e := range h.events {
		operations[i] = porcupine.Operation{Input: e, Call: e.start, Return: e.end}
	}
	for _, part := range once.Partition(operations) {
		if porcupine.CheckOperations(single, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(min(max(a.Return-b.Return, -1), 1)) })
		n := 1
		for n < len(part) && porcupine.CheckOperations(single, upTo(part, n)) {
			n++
		}
		var text strings.Builder
		for _, o := range part[max(0, n-lines):n] {
			fmt.Fprintf(&text, "\n%v", o.Input)
		}
		return fmt.Errorf("each call once does not give the last of these answers:%s", &text)
	}
	return nil
}

// lines is the largest number of calls that an error of check lists.
const lines = 14

// single is the model once for the history of one object: it does not divide the history by
// objects.
var single = porcupine.Model{Init: once.Init, Step: once.Step}

// upTo returns the history of an object up to its n-th answer. Calls that were under way at that
// time are in it without an answer.
func upTo(part []porcupine.Operation, n int) []porcupine.Operation {
	until := part[n-1].Return
	out := slices.Clone(part[:n])
	for _, o := range part[n:] {
		if e := *o.Input.(*event); o.Call < until {
			e.told = told{}
			out = append(out, porcupine.Operation{Input: &e, Call: o.Call, Return: math.MaxInt64})
		}
	}
	return out
}
