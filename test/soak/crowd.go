package soak

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/hostile"
)

// crowd returns the kinds of hostile peers that attack the daemon: most of those in package
// hostile. Each kind has few peers, because several kinds run at the same time and share the
// machine. The parameter place is the export that they attack.
func crowd(place *hostile.Place) []hostile.Behaviour {
	file, dir := place.Victim, place.Many
	return []hostile.Behaviour{
		hostile.SlowWrites{Peers: 32, Handle: file, Size: mib, Begin: 2200},
		hostile.SlowWrites{Peers: 16, Handle: hostile.Forged(file), Size: mib, Begin: 2200},
		hostile.UnansweredReads{Peers: 24, Writes: 8, Size: mib, Handle: file},
		hostile.UnansweredReads{Peers: 8, Writes: 8, Size: mib, Long: true},
		hostile.UnansweredReads{Peers: 2, Writes: 64, Size: mib, Handle: file, Delay: 10 * time.Second},
		hostile.UnansweredReads{Peers: 16, Writes: 8, Size: mib, Handle: file, Trickle: 64},
		hostile.DeafCalls{Peers: 8, Calls: 4000, What: "EXPORT", Call: hostile.ExportCall},
		hostile.DeafCalls{Peers: 8, Calls: 500, What: "READDIRPLUS", Call: hostile.ReaddirplusCall(dir, mib)},
		hostile.DeafCalls{Peers: 24, Calls: 128, What: "READ of 1 MiB", Call: hostile.ReadCall(file, mib)},
		hostile.DeafCalls{Peers: 16, Calls: 128, What: "WRITE of 31 KiB", Call: hostile.WriteCall(file, 31<<10)},
		hostile.DeafRDMA{Peers: 16, Calls: 128, What: "READ of 1 MiB", Call: hostile.ReadCall(file, mib), Size: mib},
		hostile.DeafRDMA{Peers: 16, Calls: 128, What: "READDIR", Call: hostile.ReaddirCall(dir, 3<<10)},
		hostile.HalfRecords{Peers: 300, Size: 32 << 10, Sent: 31 << 10},
		hostile.SilentSockets{Peers: 300, RDMA: true},
		hostile.SilentSockets{Peers: 300},
		hostile.Setups{Peers: 200},
		hostile.IdleClients{Peers: 400},
		hostile.IdleClients{Peers: 200, RDMA: true},
		hostile.Floods{Peers: 4},
		hostile.Floods{Peers: 4, Mute: true},
		hostile.Hoards{Peers: 6, Most: 300, Hoard: hostile.Clients},
		hostile.Hoards{Peers: 6, Most: 100, Hoard: hostile.Sessions},
		hostile.Hoards{Peers: 6, Most: 800, Hoard: hostile.SmallSessions},
		hostile.Hoards{Peers: 6, Most: 2000, Hoard: hostile.Opens(file)},
		hostile.Hoards{Peers: 6, Most: 300, Hoard: hostile.Ranges(file)},
		hostile.Hoards{Peers: 6, Most: 200, Hoard: hostile.KeptReplies(dir)},
		hostile.PingedClients{Peers: 4, Transport: "rdma", Calls: 200},
		hostile.PingedClients{Peers: 4, Transport: "tcp", Anew: true, Calls: 100},
		hostile.RandomCompounds{Peers: 6, Handles: [][]byte{dir, file}, Calls: 500},
		hostile.ChunkedCalls{Calls: hostile.ChunkedCompounds(file, dir)},
		hostile.Compounds{Peers: 8, Slots: 8, Repeated: hostile.RefusedCopies(file)},
		hostile.QueuedReads{Peers: 8, Calls: 64, Size: 64 << 10, Handles: [][]byte{file}},
		hostile.QueuedReads{Peers: 8, Calls: 64, Size: 64 << 10, Handles: [][]byte{file}, RDMA: true},
	}
}

// Each function of sources returns the addresses of a group of peers. The last function returns the
// honest clients' own address.
var sources = []func(int) netip.Addr{
	hostile.Strangers(1), hostile.Strangers(64), hostile.Strangers(64), hostile.SharedAddress,
}

// An intrusion is the running peers of one kind.
type intrusion struct {
	what   string
	attack *hostile.Attack
	end    context.CancelFunc
}

// intrude starts the peers of the next kind.
func (s *soak) intrude() {
	all := crowd(&s.prey)
	if len(s.kinds) == 0 { // each kind runs once before any kind runs again
		s.kinds = s.random.Perm(len(all))
	}
	b := all[s.kinds[0]]
	s.kinds = s.kinds[1:]
	ctx, end := context.WithCancel(s.ctx)
	source := sources[s.random.IntN(len(sources))]
	in := &intrusion{fmt.Sprintf("%v from %v", b, source(0)), nil, end}
	in.attack = b.Start(ctx, hostile.Target{TCP: s.tcp, RDMA: s.rdma, Source: source})
	s.intruders = append(s.intruders, in)
	s.say("come: %s", in.what)
}

// expel ends the intrusion that has run for the longest time.
func (s *soak) expel() {
	if len(s.intruders) == 0 {
		return
	}
	in := s.intruders[0]
	s.intruders = s.intruders[1:]
	s.say("go: %s: %v", in.what, in.attack)
	in.end()
	in.attack.Wait()
}
