package client_test

import "testing"

// A Conn's own software RNIC asks for CRCs unless it is told not to; the server
// leaves it to the peer (IW-306, IW-307).
func TestTargetCRC(t *testing.T) {
	s := startServer(t)
	for _, without := range []bool{false, true} {
		target := s.targets()["iwarp"]
		target.NoCRC = without
		if setup, ok := dial(t, target).Setup(); !ok || setup.CRC == without {
			t.Errorf("NoCRC %v: CRC %v, known %v", without, setup.CRC, ok)
		}
	}
}
