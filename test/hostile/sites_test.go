//go:build hostile

package hostile

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// fromSites runs a scene with strangers of one address, of one site, and of many sites. The honest client holds
// as many opens, or replies, as its site's part surely allows. Only one of the scenes runs without the full
// matrix.
func fromSites(t *testing.T, scene func(t *testing.T, source func(int) netip.Addr, opens, replies int)) {
	for _, c := range []struct {
		name   string
		source func(int) netip.Addr
		opens  int
		short  bool
	}{
		{"one address", Strangers(1), honestFiles, false},
		{"64 addresses of a network of 24 bits", Strangers(64), honestFiles, false},
		{"4,096 networks of 64 bits of one of 48", Strangers6(4096), honestFiles, true},
		{"150 networks of 24 bits", Sites(150), honestFiles / 8, false},
	} {
		if c.short || everything() {
			t.Run(c.name, func(t *testing.T) { scene(t, c.source, c.opens, 3*c.opens) })
		}
	}
}

// Strangers who heap up opens until the daemon refuses more take no open and no lock of an honest client, which
// goes on locking meanwhile.
func TestOpensOfManyAddresses(t *testing.T) {
	fromSites(t, func(t *testing.T, source func(int) netip.Addr, opens, _ int) {
		s := stage(t, Config{IPv6: source(0).Is6()})
		s.Held = s.Ceiling // memory.state
		s.Sessions()
		held := make(map[string]*holding)
		for _, transport := range Transports {
			h, err := holdAll(s.ctx, s.sessions[transport], opens)
			if err != nil {
				t.Fatalf("over %s before the attack: %v", transport, err)
			}
			held[transport] = h
		}
		a := s.Attack(Hoards{Peers: 300, Most: 300, Hoard: Opens(s.Open.Victim)}, source)
		s.JudgeDelays(Locks)
		s.JudgeClients()
		for transport, h := range held {
			if locks, opens, err := h.lost(s.ctx); locks+opens > 0 {
				t.Errorf("over %s the honest client has lost %d locks and %d opens: %v; %v", transport, locks, opens, err, a)
			}
		}
		s.JudgeMemory()
		s.JudgeEnd()
	})
}

// Strangers whose calls fill the memory for replies displace no reply of an honest client: the calls that it
// repeats over a new connection are not executed again.
func TestRepliesOfManyAddresses(t *testing.T) {
	fromSites(t, func(t *testing.T, source func(int) netip.Addr, _, replies int) {
		s := stage(t, Config{IPv6: source(0).Is6(), Memory: `replies = "4M"`})
		const directory = "removed"
		at := filepath.Join(s.Directory, directory)
		if err := os.Mkdir(at, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range replies {
			names = append(names, fmt.Sprintf("name%d", i))
			makeFile(t, filepath.Join(at, names[i]), nil)
		}
		dir := s.lookUp([]string{directory})[0]
		if n, err := s.removeAll(dir, names); err != nil || n != len(names) {
			t.Fatalf("before the attack, %d of %d REMOVEs succeed: %v", n, len(names), err)
		}
		a, end := s.AttackUntil(Rounds{
			Peers: 300, UnderWay: 32, What: "REMOVE of a name that is not there",
			Calls: [][]byte{removeCall(0, s.Open.Root, "not-there")}, Transport: "tcp",
		}, source)
		await.Until(t, "the strangers stand", func() bool { return a.Standing.Load()+a.Refused.Load() >= 100 })
		s.JudgeDelays(Null)
		s.JudgeClients()
		end()
		if n, err := s.removeAll(dir, names); err != nil || n != len(names) {
			t.Errorf("after the attack, %d of %d repeated REMOVEs have their replies: %v; %v", n, len(names), err, a)
		}
		s.JudgeEnd()
	})
}
