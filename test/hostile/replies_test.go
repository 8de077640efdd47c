//go:build hostile

package hostile

import "testing"

// Peers on TCP that read no replies do not make the daemon take more memory than its limit,
// whichever calls they make.
func TestDeafPeersOverTCP(t *testing.T) {
	for _, c := range []struct {
		name         string
		peers, calls int
		what         string
		call         func(s *Stage) func(uint32) []byte
	}{
		{"EXPORT", 20, 20000, "EXPORT", func(*Stage) func(uint32) []byte { return ExportCall }},
		{"DUMP", 20, 20000, "DUMP", func(*Stage) func(uint32) []byte { return DumpCall }},
		{"READDIRPLUS", 12, 4000, "READDIRPLUS of 1 MiB", func(s *Stage) func(uint32) []byte {
			return ReaddirplusCall(s.Open.Many, mib)
		}},
		{"READ", 256, 128, "READ of 1 MiB", func(s *Stage) func(uint32) []byte { return ReadCall(s.Open.Victim, mib) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{})
			s.Attack(DeafCalls{Peers: c.peers, Calls: c.calls, What: c.what, Call: c.call(s)}, Strangers(c.peers))
			s.Judge()
		})
	}
}

// Peers on RDMA that read no replies do not make the daemon take more memory than its limit, with
// Write chunks or with Reply chunks.
func TestDeafPeersOverRDMA(t *testing.T) {
	t.Run("READ", func(t *testing.T) {
		s := stage(t, Config{})
		s.Attack(DeafRDMA{Peers: 256, Calls: 128, What: "READ of 1 MiB", Call: ReadCall(s.Open.Victim, mib), Size: mib}, Strangers(256))
		s.Judge()
	})
	t.Run("READDIRPLUS", func(t *testing.T) {
		s := stage(t, Config{})
		s.Attack(DeafRDMA{Peers: 64, Calls: 128, What: "READDIRPLUS of 1 MiB", Call: ReaddirplusCall(s.Open.Many, mib), Size: mib + 4*kib, InReply: true}, Strangers(64))
		s.Judge()
	})
}

// Many peers that cause small replies without chunks, or send incomplete records, do not make the
// daemon take more memory than its limit.
func TestSmallThingsOfManyPeers(t *testing.T) {
	t.Run("inline replies", func(t *testing.T) {
		s := stage(t, Config{Ceiling: 16})
		s.Attack(DeafRDMA{Peers: 150, Calls: 128, What: "READDIR of 3 KiB", Call: ReaddirCall(s.Open.Many, 3*kib)}, Strangers(150))
		s.Judge()
	})
	t.Run("half records", func(t *testing.T) {
		s := stage(t, Config{})
		s.Attack(HalfRecords{Peers: 6000, Size: 32 * kib, Sent: 31 * kib}, Strangers(600))
		s.Judge()
	})
}

// The daemon bounds the memory of WRITEs that wait for a stalled file system: 64 connections send
// up to 256 WRITEs of 31 KiB each.
func TestWritesThatWait(t *testing.T) {
	s := stage(t, Config{Stalling: 1})
	s.Stalling[0].Stall()
	s.Attack(DeafCalls{Peers: 64, Calls: 256, What: "WRITE of 31 KiB to a file system that stalls", Call: WriteCall(s.Stalling[0].Victim, 31*kib)}, Strangers(64))
	s.Judge()
}
