package tcp

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// If a known peer has sent more calls already, the receiving goroutine goes on to serve them, and
// another goroutine writes the large replies. The receiving goroutine itself writes the replies to
// a peer that is not known, and also a known peer's replies if they are short.
func TestLargeRepliesAreWrittenApart(t *testing.T) {
	for _, c := range []struct {
		name  string
		known bool
		size  uint32 // of each reply's payload, in bytes
		apart bool
	}{
		{"a known peer, large replies", true, 100 << 10, true},
		{"a known peer, small replies", true, 1 << 10, false},
		{"a stranger, large replies", false, 100 << 10, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Config{})
			s, _ := toyServer(t)
			defer s.Close()
			cfg := b.cfg
			cfg.RPC, cfg.Pool = s, b.pool
			cfg = cfg.withDefaults()
			var in []byte
			for xid := range uint32(3) {
				m := rpctest.Message(xid, rpctest.GET, u32(c.size))
				in = binary.BigEndian.AppendUint32(in, lastFragment|uint32(len(m)))
				in = append(in, m...)
			}
			st := &late{may: make(chan struct{})}
			st.in, st.cut = in, func() (int, bool) { return len(in), true }
			k := testConn(&cfg, b.pool, st)
			if c.known {
				k.peer.MarkKnown()
			}
			k.ready()
			if got := k.count.replies.Load(); got != 3 {
				t.Errorf("%s: %d calls served while nothing is written", c.name, got)
			}
			if apart := st.writes == 0; apart != c.apart {
				t.Errorf("%s: %d writes by the receiving goroutine", c.name, st.writes)
			}
			close(st.may)
			k.out.writers.Wait()
			if want := reference(t, in, cfg); !bytes.Equal(st.out, want) {
				t.Errorf("%s: %d bytes of replies, not the %d expected", c.name, len(st.out), len(want))
			}
			k.out.shut()
			k.drop()
			k.share.Close()
		})
	}
}
