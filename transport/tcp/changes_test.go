package tcp

import (
	"encoding/binary"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Replies to calls that change something are sent after batchChanges of them at the latest. Replies
// to other calls are sent together.
func TestRepliesToChangesLeaveSoon(t *testing.T) {
	const calls = 2*batchChanges + 1
	for _, c := range []struct {
		procedure uint32
		writes    int
	}{{rpctest.BUMP, 3}, {rpctest.ECHO, 1}} {
		b := newBench(t, Config{})
		s, _ := toyServer(t)
		cfg := b.cfg
		cfg.RPC, cfg.Pool = s, b.pool
		cfg = cfg.withDefaults()
		var in []byte
		for xid := range uint32(calls) {
			m := rpctest.Message(xid, c.procedure, func(w *xdr.Writer) { w.Opaque([]byte("tag")) })
			in = binary.BigEndian.AppendUint32(in, lastFragment|uint32(len(m)))
			in = append(in, m...)
		}
		st := &script{in: in, cut: func() (int, bool) { return len(in), true }}
		k := testConn(&cfg, b.pool, st)
		k.ready()
		if got := k.count.replies.Load(); got != calls || st.writes != c.writes {
			t.Errorf("procedure %d: %d replies in %d writes, not %d", c.procedure, got, st.writes, c.writes)
		}
		k.out.shut()
		k.drop()
		k.share.Close()
		s.Close()
	}
}
