package mount3

import (
	"container/list"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// maxMounts is the maximum length of a mountList. If the list is full, a new mount displaces the oldest.
const maxMounts = 4096

// mountList holds the mounts that clients have made. The time that a call takes depends on what it
// changes or shows, and not on the number of mounts, because strangers may make these calls, too.
type mountList struct {
	mu      sync.Mutex
	places  map[mounted]*place
	oldest  list.List // of *place, the newest last
	hosts   map[string]map[*place]struct{}
	exports []*exportMounts // those with mounts, in the order of their first mount
}

// mounted is one client's mount of a directory. export is the ID of the directory's export.
type mounted struct {
	host, dir string
	export    uint32
}

// place is where one mount stands in the lists.
type place struct {
	mounted
	export     *exportMounts
	age, among *list.Element // in mountList.oldest and in exportMounts.places
}

// exportMounts holds the mounts of one export.
type exportMounts struct {
	id     uint32
	places list.List // of *place, the newest last
	// encoded is the list as DUMP sends it, without its end, at most nfs.MaxMountReply bytes.
	// It is nil after a change, until a call asks for it. Its bytes never change.
	encoded []byte
}

func peerName(c *rpc.Call) string { return c.Conn.Peer.Addr().Unmap().String() }

func (l *mountList) add(host, dir string, export uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mounted{host, dir, export}
	if l.places[m] != nil {
		return
	}
	if len(l.places) == maxMounts {
		l.dropLocked(l.oldest.Front().Value.(*place))
	}
	if l.places == nil {
		l.places = make(map[mounted]*place)
		l.hosts = make(map[string]map[*place]struct{})
	}
	of := l.ofLocked(export)
	if of == nil {
		of = &exportMounts{id: export}
		l.exports = append(l.exports, of)
	}
	p := &place{mounted: m, export: of}
	p.age = l.oldest.PushBack(p)
	p.among = of.places.PushBack(p)
	of.encoded = nil
	l.places[m] = p
	if l.hosts[host] == nil {
		l.hosts[host] = make(map[*place]struct{})
	}
	l.hosts[host][p] = struct{}{}
}

func (l *mountList) ofLocked(export uint32) *exportMounts {
	for _, of := range l.exports {
		if of.id == export {
			return of
		}
	}
	return nil
}

func (l *mountList) dropLocked(p *place) {
	delete(l.places, p.mounted)
	if delete(l.hosts[p.host], p); len(l.hosts[p.host]) == 0 {
		delete(l.hosts, p.host)
	}
	l.oldest.Remove(p.age)
	p.export.places.Remove(p.among)
	if p.export.encoded = nil; p.export.places.Len() == 0 {
		l.exports = slices.DeleteFunc(l.exports, func(of *exportMounts) bool { return of == p.export })
	}
}

// remove removes the mounts of a host that match.
func (l *mountList) remove(host string, matches func(m *mounted) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.hosts[host] {
		if matches(&p.mounted) {
			l.dropLocked(p)
		}
	}
}

// lists returns the exports that have mounts, in the order of their first mount.
func (l *mountList) lists() []*exportMounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.exports)
}

// encode returns the mounts of one export as DUMP sends them, without the end of the list. The
// caller must not change them.
func (l *mountList) encode(of *exportMounts) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.encoded == nil {
		of.encoded = of.encode()
	}
	return of.encoded
}

func (of *exportMounts) encode() []byte {
	size := 0
	for e := of.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*place)
		size += 4 + 4 + len(p.host) + xdr.Pad(len(p.host)) + 4 + len(p.dir) + xdr.Pad(len(p.dir))
	}
	var w xdr.Writer
	w.Reset(make([]byte, 0, size))
	for e := of.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*place)
		wire.PutMount(&w, &wire.Mount{Hostname: []byte(p.host), Directory: []byte(p.dir)})
	}
	b := w.Bytes()
	return slices.Clone(b[:mountsWithin(b, nfs.MaxMountReply-listEnd)])
}

// mountsWithin returns the size of the entries at the start of an encoded list that fit into room, in bytes.
func mountsWithin(encoded []byte, room int) (size int) {
	if len(encoded) <= room {
		return len(encoded)
	}
	for {
		end := size + 4 // behind the word that says that an entry follows
		for range 2 {
			n := int(binary.BigEndian.Uint32(encoded[end:]))
			end += 4 + n + xdr.Pad(n)
		}
		if end > room {
			return size
		}
		size = end
	}
}

// A Mounted is a mount that a client has told of (MNT), and of whose end it has not. Clients that crash do not tell.
type Mounted struct {
	Host, Path string
	Export     uint32 // its ID
}

// Mounts lists the mounts, those of the oldest first. The server remembers a limited number.
func (p *Program) Mounts() []Mounted {
	l := &p.mounts
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Mounted, 0, l.oldest.Len())
	for e := l.oldest.Front(); e != nil; e = e.Next() {
		m := &e.Value.(*place).mounted
		all = append(all, Mounted{m.host, m.dir, m.export})
	}
	return all
}
