//go:build hostile

package hostile

import "testing"

// A READ of 0 bytes of a file that is not open does not harm the daemon.
func TestReadOfNothing(t *testing.T) {
	for _, transport := range Transports {
		t.Run(transport, func(t *testing.T) {
			s := stage(t, Config{})
			s.Attack(Calls{
				Peers: 1, What: "READ of 0 bytes of a file that is not open",
				Calls: [][]byte{readCall(2, s.Open.Victim, 0, 0)}, RDMA: transport == "rdma",
			}, Strangers(1))
			s.Judge()
		})
	}
}
