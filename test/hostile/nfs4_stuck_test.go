//go:build hostile

package hostile

import "testing"

// A compound that is stuck in a stalled file system, whichever operation is stuck, delays no
// other compound of its own session or of other sessions. It delays neither the end of its
// session nor the end of the daemon.
func TestStuckCompounds(t *testing.T) {
	for _, destroys := range []bool{false, true} {
		name := "come again"
		if destroys {
			name = "sessions destroyed"
		}
		t.Run(name, func(t *testing.T) {
			s := stage(t, Config{Stalling: 1, Environment: collectOften})
			s.Sessions()
			stalled := make(chan struct{})
			var all []*Attack
			for i, transport := range Transports {
				all = append(all, s.Attack(StuckCompounds{
					Transport: transport, At: s.Stalling[0], Other: s.Open.Victim, Stalled: stalled, First: i * honestFiles / 2, Destroys: destroys,
				}, Strangers(20)))
			}
			s.Stalling[0].Stall()
			close(stalled)
			s.JudgeFaults()
			s.JudgeClients()
			for _, a := range all {
				if n := a.Standing.Load(); n != int64(a.Peers) {
					t.Errorf("%d of %d clients stand: %v", n, a.Peers, a)
				}
			}
			s.JudgeMemory()
			s.JudgeEnd()
		})
	}
}
