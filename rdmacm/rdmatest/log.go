package rdmatest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Kind is the kind of an Event.
type Kind uint8

// Kinds of events. Event.Conn is the connection whose method was called, or whose handler is
// about to be called, unless the comment of the kind says otherwise.
const (
	// KindProvide: Count receives of Size bytes were promised.
	KindProvide Kind = iota + 1
	// KindRegister: memory of Length bytes was exposed at Remote, or Register failed with Err.
	KindRegister
	// KindDeregister: the exposure of Remote.STag was revoked, or Deregister failed with Err.
	KindDeregister
	// KindPost: one work request was posted. Bytes is the message of a Send.
	KindPost
	// KindCarried: the work request had its effect at the peer.
	KindCarried
	// KindInvalidated: the peer invalidated Remote.STag of this side.
	KindInvalidated
	// KindDone: Done of a chain is called with Err. Work is the index that Done gets.
	KindDone
	// KindReceived: the handler gets a message, Bytes.
	KindReceived
	// KindReleased: the receiver released a message's buffer.
	KindReleased
	// KindServed: the handler has got all messages that had arrived, or many of them. The device now
	// carries out what the handler posted meanwhile.
	KindServed
	// KindDisconnect: Disconnect was called.
	KindDisconnect
	// KindAbort: Abort was called with Err.
	KindAbort
	// KindClosed: the handler's Closed is called, with Err.
	KindClosed
	// KindMark: the test called Log.Mark with Text. Conn is 0.
	KindMark
)

var kindNames = [...]string{"", "Provide", "Register", "Deregister", "Post", "Carried", "Invalidated",
	"Done", "Received", "Released", "Served", "Disconnect", "Abort", "Closed", "Mark"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(?)"
}

// An Event is one line of a Log. Fields that do not belong to its Kind are
// zero.
type Event struct {
	Kind Kind
	// Conn is the ID of the connection.
	Conn int
	// Chain is the number of the chain on its connection, from 0. Work is the index of the work
	// request in the chain.
	Chain, Work int
	Op          rdmacm.Op
	Remote      rdmacm.Remote
	// Invalidate is the STag that a Send with Invalidate names.
	Invalidate  uint32
	Length      int
	Bytes       []byte
	Count, Size int
	Err         error
	Text        string
}

// String describes the event in one line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "conn %d %v", e.Conn, e.Kind)
	switch e.Kind {
	case KindMark:
		return "mark " + e.Text
	case KindProvide:
		fmt.Fprintf(&b, " %d receives of %d bytes", e.Count, e.Size)
	case KindRegister, KindDeregister, KindInvalidated:
		fmt.Fprintf(&b, " STag %#x, %d bytes", e.Remote.STag, e.Length)
	case KindPost, KindCarried:
		fmt.Fprintf(&b, " %d/%d %v of %d bytes", e.Chain, e.Work, e.Op, e.Length)
		if e.Op == rdmacm.OpWrite || e.Op == rdmacm.OpRead {
			fmt.Fprintf(&b, ", STag %#x offset %#x", e.Remote.STag, e.Remote.Offset)
		}
	case KindDone:
		fmt.Fprintf(&b, " chain %d, index %d", e.Chain, e.Work)
	case KindReceived:
		fmt.Fprintf(&b, " %d bytes", e.Length)
	}
	if e.Invalidate != 0 {
		fmt.Fprintf(&b, ", invalidates %#x", e.Invalidate)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// A Log records the events of all connections of a Provider, in order. Its methods may be called
// from any goroutine.
type Log struct {
	mu     sync.Mutex
	grown  sync.Cond
	events []Event
	quiet  bool
}

func newLog(quiet bool) *Log {
	l := &Log{quiet: quiet}
	l.grown.L = &l.mu
	return l
}

func (l *Log) add(e Event) {
	if l.quiet {
		return
	}
	l.mu.Lock()
	l.events = append(l.events, e)
	l.mu.Unlock()
	l.grown.Broadcast()
}

// Mark adds an event with a text of the test, such as that a consumer woke up, so that the test
// can check the position of that moment among the events.
func (l *Log) Mark(text string) { l.add(Event{Kind: KindMark, Text: text}) }

// Events returns a copy of all events so far.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// Find returns the events for which match returns true.
func (l *Log) Find(match func(Event) bool) []Event {
	var found []Event
	for _, e := range l.Events() {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

// Wait waits for the first event for which match returns true, and returns it.
func (l *Log) Wait(ctx context.Context, match func(Event) bool) (Event, error) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grown.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for seen := 0; ; {
		for ; seen < len(l.events); seen++ {
			if match(l.events[seen]) {
				return l.events[seen], nil
			}
		}
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		l.grown.Wait()
	}
}

// Order asserts that the log has one event for each function in matches, in this order. It
// searches for the event of a function behind the event that it found for the function before.
func (l *Log) Order(t testing.TB, matches ...func(Event) bool) {
	t.Helper()
	events := l.Events()
	at := 0
	for i, match := range matches {
		n := slices.IndexFunc(events[at:], match)
		if n < 0 {
			t.Errorf("event %d of %d does not follow those before it; the log is:\n%s", i+1, len(matches), l)
			return
		}
		at += n + 1
	}
}

// String returns the whole log, one line for each event.
func (l *Log) String() string {
	var b strings.Builder
	for i, e := range l.Events() {
		fmt.Fprintf(&b, "%4d %v\n", i, e)
	}
	return b.String()
}

// Is returns a function that matches events of one kind on one connection. Conn 0 means any
// connection.
func Is(kind Kind, conn int) func(Event) bool {
	return func(e Event) bool { return e.Kind == kind && (conn == 0 || e.Conn == conn) }
}

// IsPost returns a function that matches the post of a work request of kind op on one
// connection. Conn 0 means any connection.
func IsPost(op rdmacm.Op, conn int) func(Event) bool {
	return func(e Event) bool { return e.Kind == KindPost && e.Op == op && (conn == 0 || e.Conn == conn) }
}

// IsMark returns a function that matches a call of Log.Mark with text.
func IsMark(text string) func(Event) bool {
	return func(e Event) bool { return e.Kind == KindMark && e.Text == text }
}
