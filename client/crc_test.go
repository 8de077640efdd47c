package client_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
)

// A Conn's own software RNIC asks for CRCs unless it is told not to; the server
// leaves it to the peer (IW-306, IW-307).
func TestTargetCRC(t *testing.T) {
	s := startServer(t)
	for mode, want := range map[iwarp.CRCMode]bool{iwarp.CRCPeer: true, iwarp.CRCOn: true, iwarp.CRCOff: false} {
		target := s.targets()["iwarp"]
		target.CRC = mode
		if setup, ok := dial(t, target).Setup(); !ok || setup.CRC != want {
			t.Errorf("%v: CRC %v, known %v", mode, setup.CRC, ok)
		}
	}
}
