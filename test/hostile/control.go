package hostile

import (
	"context"
	"time"
)

// A control is a second daemon of the same program, which no peer attacks. Its clients measure
// how fast the machine is during an attack, because other work and the peers slow both daemons.
type control struct {
	daemon  *Daemon
	clients map[string]*honestClient
}

// startControl starts the control daemon with an export directory of its own.
func (s *Stage) startControl(ctx context.Context, program string) {
	s.t.Helper()
	dir := s.t.TempDir()
	furnish(s.t, dir, fewNames)
	d := startDaemon(s.t, program, Config{Ceiling: 16, IPv6: s.TCP.Addr().Is6()}, []exported{{dir, openName, "rw,insecure,no_root_squash"}})
	s.control.daemon = d
	s.control.clients = make(map[string]*honestClient)
	for _, transport := range Transports {
		c, err := d.arrive(ctx, transport, openName, honestNames()...)
		if err != nil {
			s.t.Fatalf("the daemon that is not attacked: %v", err)
		}
		s.t.Cleanup(c.Close)
		s.control.clients[transport] = c
	}
}

// measure makes n READs of a byte over a transport, one at each interval, and returns the median of
// their times.
func (c *control) measure(ctx context.Context, transport string, n int, every time.Duration) time.Duration {
	got := summarize(samples(ctx, n, every, c.clients[transport].readOne))
	if got.median == never {
		// No READ was answered, so the speed of the machine is unknown. The callers take the
		// maximum of this result and other times, so 0 has no effect.
		return 0
	}
	return got.median
}
