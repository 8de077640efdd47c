package mount3

import (
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// maxMounts bounds the list: what comes after pushes the oldest out.
const maxMounts = 4096

// mountList is who has mounted what, the newest last.
type mountList struct {
	mu  sync.Mutex
	all []mounted
}

type mounted struct{ host, dir string }

func peerName(c *rpc.Call) string { return c.Conn.Peer.Addr().Unmap().String() }

func (l *mountList) add(host, dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mounted{host, dir}
	if slices.Contains(l.all, m) {
		return
	}
	if len(l.all) == maxMounts {
		l.all = slices.Delete(l.all, 0, 1)
	}
	l.all = append(l.all, m)
}

func (l *mountList) remove(host, dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(m mounted) bool { return m == mounted{host, dir} })
}

func (l *mountList) removeAll(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(m mounted) bool { return m.host == host })
}

func (l *mountList) each(f func(host, dir string) bool) {
	l.mu.Lock()
	all := slices.Clone(l.all)
	l.mu.Unlock()
	for _, m := range all {
		if !f(m.host, m.dir) {
			return
		}
	}
}
