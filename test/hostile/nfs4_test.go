//go:build hostile

package hostile

import "testing"

// Clients of NFSv4 that make the daemon store as much state as it permits take no more than its
// memory for state, and the daemon serves other clients.
func TestHoards(t *testing.T) {
	for _, c := range []struct {
		name        string
		config      Config
		peers, most int
		of          func(s *Stage) Hoard
	}{
		{"clients", Config{}, 50, 600, func(*Stage) Hoard { return Clients }},
		{"sessions", Config{}, 50, 200, func(*Stage) Hoard { return Sessions }},
		{"small sessions", Config{}, 20, 6000, func(*Stage) Hoard { return SmallSessions }},
		{"opens", Config{}, 20, 20000, func(s *Stage) Hoard { return Opens(s.Open.Victim) }},
		{"ranges", Config{}, 20, 2000, func(s *Stage) Hoard { return Ranges(s.Open.Victim) }},
		{"replies", Config{}, 200, 1023, func(s *Stage) Hoard { return KeptReplies(s.Open.Many) }},
		{"files", Config{Descriptors: 1000, Files: 200}, 4, 200, func(s *Stage) Hoard {
			var names []string
			for i := range 200 {
				names = append(names, emptyName(i))
			}
			return Files(s.lookUp(names))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, c.config)
			s.Held = s.Ceiling // memory.state
			s.Sessions()
			s.Attack(Hoards{Peers: c.peers, Most: c.most, Hoard: c.of(s)}, Strangers(c.peers))
			s.Judge()
		})
	}
}

// Random compounds harm only their senders and cause no fault of the server.
func TestRandomCompounds(t *testing.T) {
	s := stage(t, Config{Files: 8})
	s.Held = s.Ceiling
	s.Sessions()
	handles := [][]byte{s.Open.Root, s.Open.Many, s.Open.Victim}
	for _, h := range s.lookUp([]string{emptyName(0), emptyName(1)}) {
		handles = append(handles, h)
	}
	s.Attack(RandomCompounds{Peers: 8, Handles: handles, Calls: 1500}, Strangers(8))
	s.JudgeFaults()
	s.Judge()
}
