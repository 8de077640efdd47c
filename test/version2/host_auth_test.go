package version2

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A peer announces host authentication. The draft defines no answer to that (§5.2.6, §11.4), so nothing changes: the other
// side announces its own properties without a token, and the connection goes on.
func TestHostAuthentication(t *testing.T) {
	token := message(7, wire.TypeConnpropFinal, words(1, uint32(wire.PropHostAuth), 12, 5, 0x68656c6c, 0x6f000000))
	t.Run("of a client", func(t *testing.T) {
		p := newResponder(t, rdma.Config{Version2: true}).dial(t)
		p.send(token)
		if own := p.wantFinal(); own.HostAuth != nil {
			t.Errorf("the server announces the token %x", own.HostAuth)
		}
		p.wantCount(0x77, 1)
	})
	t.Run("of a server", func(t *testing.T) {
		r, first := newRequester(t)
		own := wire.DefaultProperties()
		if own.Parse(first).Refused() || own.HostAuth != nil {
			t.Errorf("the client announces %x", first)
		}
		r.peer.send(token)
		r.connected()
		r.goesOn()
	})
}
