package mount3

import (
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// maxMounts is the maximum length of a mountList. If the list is full, a new mount displaces the oldest.
const maxMounts = 4096

// mountList holds the mounts that clients have made, the newest last.
type mountList struct {
	mu  sync.Mutex
	all []mounted
}

// mounted is one client's mount of a directory. export is the ID of the directory's export.
type mounted struct {
	host, dir string
	export    uint32
}

func peerName(c *rpc.Call) string { return c.Conn.Peer.Addr().Unmap().String() }

func (l *mountList) add(host, dir string, export uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mounted{host, dir, export}
	if slices.Contains(l.all, m) {
		return
	}
	if len(l.all) == maxMounts {
		l.all = slices.Delete(l.all, 0, 1)
	}
	l.all = append(l.all, m)
}

// remove removes the mounts of a host that match.
func (l *mountList) remove(host string, matches func(m mounted) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(m mounted) bool { return m.host == host && matches(m) })
}

func (l *mountList) snapshot() []mounted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
