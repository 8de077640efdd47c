//go:build hostile

package hostile

import (
	"net/netip"
	"testing"
	"time"
)

// claims are the handles with which hostile peers ask for payload memory: handles that the daemon
// never issued, handles of an export that the peers may not use, handles of a file that they may
// use; and the last from the honest client's own address.
var claims = []struct {
	name   string
	handle func(s *Stage) []byte
	source func(int) netip.Addr
}{
	{"forged handle", func(s *Stage) []byte { return Forged(s.Open.Victim) }, Strangers(256)},
	{"foreign handle", func(s *Stage) []byte { return s.Closed.Victim }, Strangers(256)},
	{"valid handle", func(s *Stage) []byte { return s.Open.Victim }, Strangers(256)},
	{"shared address", func(s *Stage) []byte { return s.Open.Victim }, SharedAddress},
}

// 256 TCP connections begin a large WRITE each, and then send a byte a second (A3).
func TestSlowWrites(t *testing.T) {
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Ceiling: 256})
			s.Attack(SlowWrites{Peers: 256, Handle: c.handle(s), Size: mib, Begin: 2200}, c.source)
			s.Judge()
		})
	}
}

// The same from ports that the export does not serve (A3).
func TestSlowWritesFromUnprivilegedPorts(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(SlowWrites{Peers: 256, Handle: s.Secured.Victim, Size: mib, Begin: 2200}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// 256 RDMA connections make large WRITEs and never answer the RDMA Reads (A3).
func TestUnansweredReads(t *testing.T) {
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Ceiling: 256})
			s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Handle: c.handle(s)}, c.source)
			s.Judge()
		})
	}
}

// The same with calls in Position-Zero chunks, which the daemon cannot judge before it
// has fetched them.
func TestUnansweredLongCalls(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Long: true}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// Two RDMA connections make as many WRITEs as they may, and answer after 25 s
// (A3).
func TestReadsAnsweredLate(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 2, Writes: 128, Size: mib, Handle: s.Open.Victim, Delay: 25 * time.Second}, Strangers(2))
	s.JudgeSeries(Null)
	s.Judge()
}

// 64 peers that are slow, late or silent, at one address, at 64, and in 64 networks of IPv6: the
// daemon serves an honest client's NULLs in turn.
func TestNullsBesideSlowPeers(t *testing.T) {
	for name, source := range map[string]func(int) netip.Addr{
		"1 address": Strangers(1), "64 addresses": Strangers(64), "64 networks of 64 bits": Strangers6(64),
	} {
		for what, behaviour := range map[string]func(victim []byte) Behaviour{
			"slow": func(h []byte) Behaviour { return SlowWrites{Peers: 64, Handle: h, Size: mib, Begin: 2200} },
			"late": func(h []byte) Behaviour {
				return UnansweredReads{Peers: 64, Writes: 8, Size: mib, Handle: h, Delay: 2 * time.Second}
			},
			"silent": func(h []byte) Behaviour { return UnansweredReads{Peers: 64, Writes: 8, Size: mib, Handle: h} },
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				s := stage(t, Config{IPv6: source(0).Is6()})
				s.Attack(behaviour(s.Open.Victim), source)
				s.JudgeSeries(Null)
				s.JudgeEnd()
			})
		}
	}
}

// 256 RDMA connections answer with a few bytes a second: the transfers make progress, but hardly
// any (A3).
func TestReadsAnsweredByTrickles(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Handle: s.Open.Victim, Trickle: 64}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// 150 RDMA connections make 8 WRITEs each and never send the data; another client reads a whole
// file (A3).
func TestFileReadBesideUnansweredReads(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 150, Writes: 8, Size: mib, Handle: s.Open.Victim}, Strangers(150))
	s.JudgeLarge(wholeFile)
	s.Judge()
}

// wholeFile is the time within which a client must read a file of 3 MiB during an attack.
const wholeFile = 10 * time.Second
