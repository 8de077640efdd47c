package client

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// If the session has no Callbacks.Recall and the caller does not say whether it wants a
// delegation, OPEN says that it wants none (RFC 8881 §18.16.3).
func TestOpenWishes(t *testing.T) {
	const (
		read   = nfs4wire.Open4ShareAccessRead
		none   = nfs4wire.Open4ShareAccessWantNoDeleg
		wanted = nfs4wire.Open4ShareAccessWantReadDeleg
		later  = nfs4wire.Open4ShareAccessWantSignalDelegWhenResrcAvail
	)
	told := Callbacks{Recall: func(Recall) nfs4wire.NFSStat4 { return nfs4wire.NFS4OK }}
	for _, c := range []struct {
		name        string
		callbacks   Callbacks
		asked, sent uint32
	}{
		{"no wish, no hook", Callbacks{}, read, read | none},
		{"no wish but a flag, no hook", Callbacks{}, read | later, read | later | none},
		{"a wish, no hook", Callbacks{}, read | wanted, read | wanted},
		{"a refusal, no hook", Callbacks{}, read | none, read | none},
		{"no wish", told, read, read},
		{"a wish", told, read | wanted, read | wanted},
	} {
		s := &Session{cfg: SessionConfig{Callbacks: c.callbacks}}
		if got := s.NFS4().access(c.asked); got != c.sent {
			t.Errorf("%s: %#x asks the server for %#x, not %#x", c.name, c.asked, got, c.sent)
		}
	}
}
