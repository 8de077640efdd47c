package nfs40

import (
	"math"
	"sync"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// What becomes of a request depends on its number, on the request before it, and on whether the owner is confirmed: here
// it is not, so that an OPEN begins again with any number.
func TestSequence(t *testing.T) {
	closing := request{operation: wire.OpClose, arguments: 1}
	opening := request{operation: wire.OpOpen, arguments: 1}
	other := request{operation: wire.OpClose, arguments: 2}
	for name, c := range map[string]struct {
		last  uint32   // the number of the request before; 0: there was none
		lost  bool     // its reply is not stored
		first *request // nil: closing
		then  request
		seqid uint32
		want  order
	}{
		"the first":                     {0, false, nil, closing, 77, proceed},
		"the next":                      {5, false, nil, closing, 6, proceed},
		"a repeated one":                {5, false, nil, closing, 5, repeated},
		"another with the same number":  {5, false, nil, other, 5, misordered},
		"one too far":                   {5, false, nil, closing, 7, misordered},
		"one before":                    {5, false, nil, closing, 4, misordered},
		"after the largest, 0":          {math.MaxUint32, false, nil, closing, 0, proceed},
		"after the largest, 1":          {math.MaxUint32, false, nil, closing, 1, proceed},
		"after the largest, 2":          {math.MaxUint32, false, nil, closing, 2, misordered},
		"1 is not after 5":              {5, false, nil, closing, 1, misordered},
		"a repeated one without reply":  {5, true, nil, closing, 5, misordered},
		"an OPEN with any number":       {5, false, &opening, request{operation: wire.OpOpen}, 99, proceed},
		"an OPEN that is repeated":      {5, false, &opening, opening, 5, repeated},
		"a new OPEN of the same number": {5, false, &opening, request{operation: wire.OpOpen}, 5, proceed},
	} {
		t.Run(name, func(t *testing.T) {
			q := sequenceOf(new(state.Owner))
			var stored *reply
			if c.last != 0 {
				first := &closing
				if c.first != nil {
					first = c.first
				}
				if got, _ := q.begin(first, c.last); got != proceed {
					t.Fatal("the first request: ", got)
				}
				if got, _ := q.begin(first, c.last); got != wait {
					t.Error("beside a request that runs: ", got)
				}
				q.end(c.last, &reply{to: *first})
				if stored = q.last; c.lost {
					q.store(c.last, nil)
				}
			}
			got, r := q.begin(&c.then, c.seqid)
			if got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
			if (r != nil) != (c.want == repeated) || r != nil && r != stored {
				t.Error("the reply is ", r)
			}
		})
	}
}

// A request that does not count leaves the number and the reply of the one before.
func TestRequestThatDoesNotCount(t *testing.T) {
	q := sequenceOf(new(state.Owner))
	one, two := request{arguments: 1}, request{arguments: 2}
	q.begin(&one, 1)
	q.end(1, &reply{to: one})
	q.begin(&two, 2)
	q.end(2, nil)
	if got, _ := q.begin(&one, 1); got != repeated {
		t.Error("the request before: ", got)
	}
	if got, _ := q.begin(&two, 2); got != proceed {
		t.Error("the request again: ", got)
	}
}

// Requests of one owner run one at a time, and each that had to wait is called again.
func TestRequestsOfAnOwnerRunInTurn(t *testing.T) {
	const requests = 200
	q := sequenceOf(new(state.Owner))
	var all sync.WaitGroup
	running, done := 0, 0
	var try func()
	try = func() {
		r := request{operation: wire.OpOpen} // unconfirmed, so that any number is right
		if got, _ := q.begin(&r, 1); got == wait {
			q.afterTurn(try)
			return
		}
		if running++; running != 1 { // without a lock: the race detector sees requests side by side
			t.Error(running, " requests run")
		}
		running--
		done++
		q.end(1, nil)
		all.Done()
	}
	all.Add(requests)
	for range requests {
		go try()
	}
	all.Wait()
	if done != requests || q.busy || q.waiting != nil {
		t.Errorf("%d of %d requests ran, busy: %t, %d wait", done, requests, q.busy, len(q.waiting))
	}
}
