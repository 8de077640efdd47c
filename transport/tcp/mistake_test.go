package tcp

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
)

// If the first bytes of a peer are those of another protocol, the event names it. The connection stays
// open for a while, so that the peer does not come back at once, but only until its seat is needed.
func TestPeerAtTheWrongPort(t *testing.T) {
	for begin, speaks := range map[string]doorway.Protocol{
		"MPA ID Req Frame\x40\x02\x00\x00": doorway.MPA, "GET / HTTP/1.1\r\n\r\n": doorway.HTTP,
	} {
		events := make(chan Event, 100)
		f := start(t, Config{MaxConns: 2, Event: func(e Event) { events <- e }})
		ended := func(why func(error) bool) {
			t.Helper()
			for e := range events {
				if e.Kind == EventClosed {
					if !why(e.Err) {
						t.Errorf("%q: %v", begin, e.Err)
					}
					return
				}
			}
		}
		c := f.raw()
		if _, err := c.Write([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		ended(func(err error) bool {
			m, is := errors.AsType[*doorway.Mistake](err)
			return is && m.Speaks == speaks && errors.Is(err, ErrNoRecord)
		})
		c = f.raw()
		if _, err := c.Write([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := bump(f.raw(), uint32(i)); err != nil && i < 2 {
				t.Errorf("%q: a newcomer is not served: %v", begin, err)
			}
		}
		ended(func(err error) bool { return errors.Is(err, census.Evicted) })
	}
}
