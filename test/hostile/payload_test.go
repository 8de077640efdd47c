//go:build hostile

package hostile

import (
	"net/netip"
	"testing"
	"time"
)

// claims are the ways in which hostile peers ask for payload memory: with a handle that the
// daemon never issued, with a handle of an export that the peers may not use, with a handle of a
// file that they may use, and with that handle from the honest client's own address.
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

// Honest clients are served while 256 TCP connections each begin a large WRITE and then send a
// byte a second.
func TestSlowWrites(t *testing.T) {
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Ceiling: 256})
			s.Attack(SlowWrites{Peers: 256, Handle: c.handle(s), Size: mib, Begin: 2200}, c.source)
			s.Judge()
		})
	}
}

// Beside 128 connections that each send 650,000 bytes of a WRITE and then a byte a second, and come back
// when they are ended, 99 of 100 calls of 1 MiB in the same file system take no longer than others. The
// peers have one address, or 64 addresses of one network.
func TestLargeCallsBesideSlowWrites(t *testing.T) {
	for name, source := range map[string]func(int) netip.Addr{"1 address": Strangers(1), "64 addresses": Strangers(64)} {
		if !everything() && name != "64 addresses" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := stage(t, Config{})
			s.Attack(SlowWrites{Peers: 128, Handle: s.Open.Victim, Size: mib, Begin: 650_000}, source)
			s.JudgeDelays(Large)
			s.JudgeEnd()
		})
	}
}

// Honest clients are served while 256 TCP connections from unprivileged ports begin large WRITEs
// to an export that serves only privileged ports.
// ports.
func TestSlowWritesFromUnprivilegedPorts(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(SlowWrites{Peers: 256, Handle: s.Secured.Victim, Size: mib, Begin: 2200}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// Honest clients are served while 256 RDMA connections make large WRITEs and never answer the
// RDMA Reads.
func TestUnansweredReads(t *testing.T) {
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Ceiling: 256})
			s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Handle: c.handle(s)}, c.source)
			s.Judge()
		})
	}
}

// Honest clients are served while 256 RDMA connections make calls in Position-Zero Read chunks
// and never answer the RDMA Reads. The daemon cannot check such a call before it has fetched it.
func TestUnansweredLongCalls(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Long: true}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// Honest clients are served while two RDMA connections make as many WRITEs as they may, and
// answer the RDMA Reads after 25 s.
func TestReadsAnsweredLate(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 2, Writes: 128, Size: mib, Handle: s.Open.Victim, Delay: 25 * time.Second}, Strangers(2))
	s.JudgeSeries(Null)
	s.Judge()
}

// Beside 64 peers that are slow, late or silent, the daemon answers an honest client's NULL
// calls. The peers have one address, 64 addresses, or 64 networks of IPv6.
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
			short := map[string]string{"slow": "1 address", "late": "64 networks of 64 bits", "silent": "64 addresses"}
			if !everything() && short[what] != name {
				continue
			}
			t.Run(what+", "+name, func(t *testing.T) {
				s := stage(t, Config{IPv6: source(0).Is6()})
				s.Attack(behaviour(s.Open.Victim), source)
				s.JudgeSeries(Null)
				s.JudgeEnd()
			})
		}
	}
}

// Honest clients are served while 256 RDMA connections answer RDMA Reads with 64 bytes a second,
// so that the transfers hardly make progress.
func TestReadsAnsweredByTrickles(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 256, Writes: 8, Size: mib, Handle: s.Open.Victim, Trickle: 64}, Strangers(256))
	s.JudgeSeries(Null)
	s.Judge()
}

// A client can read and write 1 MiB while many connections wait for the results of READs that together
// are more than a hundred times as large as payload memory, and also when these connections have ended.
// The peers read all replies.
func TestReadsThatWaitForMemory(t *testing.T) {
	for _, c := range []struct {
		name             string
		peers, addresses int
		rdma             bool
	}{
		{"8 addresses over tcp", 160, 8, false},
		{"1 address over rdma", 100, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Ceiling: 16})
			b := QueuedReads{Peers: c.peers, Calls: 128, Size: mib, Handles: [][]byte{s.Open.Victim}, RDMA: c.rdma}
			_, end := s.AttackUntil(b, Strangers(c.addresses))
			s.JudgeMegabytes("during the READs", wholeFile)
			end()
			s.JudgeMegabytes("after them", wholeFile)
			s.JudgeEnd()
		})
	}
}

// A client can read a file of 3 MiB while 150 RDMA connections make 8 WRITEs each and never send
// the data.
func TestFileReadBesideUnansweredReads(t *testing.T) {
	s := stage(t, Config{Ceiling: 256})
	s.Attack(UnansweredReads{Peers: 150, Writes: 8, Size: mib, Handle: s.Open.Victim}, Strangers(150))
	s.JudgeLarge(wholeFile)
	s.Judge()
}

// wholeFile is the time within which a client must read a file of 3 MiB during an attack.
const wholeFile = 10 * time.Second
