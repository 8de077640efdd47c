package state

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An Intent is an access that a caller is about to make to a file or a name of a file: see Ask.
type Intent struct {
	Use Use
	// FS and File name the file or, if Name is not nil, the directory in which it has this name.
	FS   vfs.FileSystem
	File vfs.Handle
	Name []byte
	// Set has the attributes that the access sets, or is nil.
	Set *vfs.SetAttr
	// Op is the caller's operation. If Op.Try is true, Ask does not wait for the file system.
	Op *vfs.Op
	// Later, if not nil, makes Ask return Delayed where it would have to wait for the disk of the records, or for
	// the end of a Hold.
	Later *Later
	// By is the open or the lock that the request names by its stateid; nil if it has no stateid.
	By *State
	// Client is the client whose session the caller uses; nil in NFSv3 and in minor version 0. From is the caller's
	// address. Kind is the kind of client that the caller is: a Host if it uses NFSv3.
	Client *Client
	From   netip.Addr
	Kind   ClientKind
	// Err is the reason if the Answer is Failed.
	Err error
}

// A Use is a kind of access.
type Use uint8

// Kinds of access.
const (
	// UseRead and UseWrite concern the content; UseWrite concerns the size as well. UseReadAnyway
	// is UseRead by a caller that no deny mode stops: READ with the stateid Bypass.
	UseRead Use = iota
	UseReadAnyway
	UseWrite
	// UseCommit brings the content to stable storage.
	UseCommit
	// UseStat reads attributes, UseAttributes sets attributes other than the size.
	UseStat
	UseAttributes
	// UseOpen opens the file.
	UseOpen
	// UseNames reads names in a directory. UseCreate adds one: Name.
	UseNames
	UseCreate
	// UseLink gives the file one more name. UseRename replaces one of its names by another. UseRemove
	// removes a name, or gives it to another file. NFSv3 also uses it for the source of a RENAME.
	UseLink
	UseRename
	UseRemove
)

// deniedBy holds, for each Use, the deny bit that forbids it; 0 if none does. An open that denies
// writing also keeps others from removing the file's name (RFC 8881 §18.25.4).
var deniedBy = [...]Access{UseRead: AccessRead, UseWrite: AccessWrite, UseRemove: AccessWrite}

// ofNames reports whether the Use changes the names of a file that exists.
func (u Use) ofNames() bool { return u >= UseLink }

// Changes reports whether the Use changes a file or a directory.
func (u Use) Changes() bool { return changing.Has(u) }

// Uses is a set of kinds of access.
type Uses uint16

// UsesOf returns the set of these kinds.
func UsesOf(all ...Use) (s Uses) {
	for _, u := range all {
		s |= 1 << u
	}
	return s
}

// Has reports whether u is in the set.
func (s Uses) Has(u Use) bool { return s&(1<<u) != 0 }

var (
	changing = UsesOf(UseWrite, UseAttributes, UseCreate, UseLink, UseRename, UseRemove)
	// ofDenyWrite are the accesses that wait while an OPEN that denies writing is being granted.
	ofDenyWrite = UsesOf(UseWrite, UseRemove)
)

// An Answer is the result of Ask.
type Answer uint8

// Answers. AfterGrace, AfterWait, Delayed and Repeat tell the caller to ask again later.
const (
	// Yes: the caller may make the access now. It ends the Pass when the access has ended.
	Yes Answer = iota
	// No: a client has the file open with a deny mode that forbids the access. The operation fails.
	No
	// AfterGrace: the access has to wait for the end of the grace period, because a client may
	// still reclaim an open that forbids it, or look for the file by its name. The server does not
	// keep the call: it tells the client to try again later.
	AfterGrace
	// AfterWait: the answer needs the file system, and Op.Try is set. The caller asks again without
	// Op.Try, on a goroutine that may wait.
	AfterWait
	// Delayed: the answer needs the disk of the records, or a Hold is about to end. The caller asks again after
	// Intent.Later. Until then the call needs no goroutine.
	Delayed
	// Repeat: a Hold stops the access, and the server does not keep the call: it tells the client to try again
	// later.
	Repeat
	// Failed: the file system could not look up Name, for example because the disk failed, so the
	// Manager does not know the answer. The operation fails with Intent.Err.
	Failed
)

// lasting lists errors of a look-up of Intent.Name after which the access itself fails as well, or
// finds no file. After such an error Ask allows the access, and the access reports the error.
var lasting = [...]error{
	syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE, syscall.EACCES, syscall.EPERM, syscall.ENAMETOOLONG, syscall.EINVAL,
	syscall.ELOOP, syscall.EXDEV,
}

// InGrace reports whether clients may only reclaim state from before the restart (RFC 8881
// §8.4.2.1). Ask says which other accesses wait for the end of the grace period.
func (m *Manager) InGrace() bool { return m.grace.on.Load() }

// Clear reports whether nothing stops an access of this kind to any file at present, so that a caller who only reads
// need not Ask. It is one atomic load.
func (m *Manager) Clear(u Use) bool {
	if deniedBy[u] == 0 {
		return m.files.denials.held.Load() == 0
	}
	return m.files.denials.all.Load() == 0
}

// Ask decides whether an access to a file may go ahead. Every operation of every version of NFS calls it before it
// reads or changes the content, the attributes or the names of a file or a directory; one that reads may look at
// Clear instead. A change is counted until the end of its Pass. A Hold, and an open that denies writing, are granted
// when all changes of the file that began before have ended. Reads are not counted, because their results were true
// when the hold came.
//
// OPEN asks, with UseOpen, only whether a Hold stops it, and LOCK does not ask: the methods Open and Lock check for
// conflicts and grant the state in one step. As long as an open exists, a request with its stateid gets Yes for the
// accesses of that open, unless a Hold stops it.
//
// As long as no file is held or open with a deny mode and no client may reclaim such an open, Ask costs two atomic
// loads, and for a change also two atomic additions to a counter of the file. The deny modes of a client whose
// lease ran out do not count: Ask then returns Delayed or, without a Later, evicts the client itself.
func (m *Manager) Ask(i *Intent) (p Pass, a Answer) {
	if i.Use.Changes() {
		p = m.ways.begin(&i.File)
	}
	if m.files.denials.all.Load() == 0 && !(i.Use.ofNames() && i.Kind != Host && m.InGrace()) {
		return p, Yes
	}
	return m.askWith(p, i)
}

// askWith is Ask for an access that something may stop. pass is the pass of the access. It ends here if the access is
// stopped, or if a function of another package that askWith calls panics.
func (m *Manager) askWith(pass Pass, i *Intent) (p Pass, a Answer) {
	a = Failed
	defer func() {
		if a != Yes {
			pass.Done()
		}
	}()
	if a = m.answer(i); a == Yes {
		p = pass
	}
	return p, a
}

func (m *Manager) answer(i *Intent) Answer {
	if i.Use.ofNames() && i.Kind != Host && m.InGrace() {
		return AfterGrace
	}
	d := &m.files.denials
	deny := deniedBy[i.Use]
	if i.By.allows(deny) {
		deny = 0
	}
	if deny == 0 && d.held.Load() == 0 {
		return Yes
	}
	key := FileKey{DomainOf(i.FS), i.File}
	id := key.id()
	if h := d.heldBy(id, i, nil); h != nil {
		return h.stopped(i)
	}
	if i.Name != nil && i.Use != UseCreate {
		var attr vfs.Attr
		switch o, err := i.FS.Lookup(i.Op, i.File, i.Name, &attr); {
		case errors.Is(err, vfs.ErrWouldBlock):
			return AfterWait
		case err != nil && slices.ContainsFunc(lasting[:], func(l error) bool { return errors.Is(err, l) }):
			return Yes // the access itself reports the error
		case err != nil:
			i.Err = err
			return Failed
		default:
			key.Handle = o.Handle
		}
		id = key.id()
		if h := d.heldBy(id, i, nil); h != nil {
			return h.stopped(i)
		}
	}
	if deny == 0 {
		return Yes
	}
	return m.denied(i, id, deny)
}

// denied returns the answer to an access that these deny bits forbid.
func (m *Manager) denied(i *Intent, id fileID, deny Access) Answer {
	if m.grace.denials.Load() > 0 {
		return AfterGrace
	}
	if m.files.denials.of(id)&deny == 0 {
		return Yes
	}
	var denied bool
	switch settled := m.settled(i.Later, func(g *guard) {
		denied = g.conflict(id, 0, deny, i)
	}); {
	case !settled:
		return Delayed
	case denied:
		return No
	}
	return Yes
}

// allows reports whether s, which may be nil, is open for this access.
func (s *State) allows(access Access) bool {
	if s == nil {
		return false
	}
	o := s.granted()
	return o != nil && access&^o.access == 0
}

// exempts reports whether the access i is allowed in spite of the deny modes of the opens that the
// client c has in the group: because the caller uses the stateid of the only one of these opens, or
// of one of its locks; or because it changes a name of a file that its own client has open, as with
// Linux's server. A request of minor version 0 that changes a name does not identify its client. It counts
// as a request of the only client of minor version 0 at the caller's address. A caller of NFSv3 has no
// opens but the shares of its host, so exempts compares the addresses.
func (i *Intent) exempts(of *file, group *openGroup, c *Client) bool {
	if open := i.By; open != nil {
		if open.Kind == KindLock {
			open = open.open
		}
		if open.file == of && open.Client == c && group.holds(open) {
			return group.clients[c] == 1
		}
	}
	switch {
	case i.Kind == Host:
		return c.isHost() && c.isAt(i.From)
	case !i.Use.ofNames():
		return false
	case i.Client != nil:
		return c == i.Client
	}
	return c.Kind == Minor0 && c.known.origin.minor0 == 1 && c.known.address == clientaddr.Of(i.From)
}

// conflict reports whether an open of a file conflicts with a new access or a new deny mode, and
// calls blame for the clients of such opens. by, if not nil, is the access: see exempts.
func (g *guard) conflict(id fileID, deny, access Access, by *Intent) (conflict bool) {
	of := g.files.byID[id]
	if of == nil {
		return false
	}
	of.opens.each(deny, access, func(group *openGroup, c *Client) bool {
		if by == nil || !by.exempts(of, group, c) {
			conflict = true
			g.blame(c)
		}
		return !g.late.firm
	})
	return conflict
}

// denials holds the denied accesses of all files, and the Holds. A reader, and a goroutine that adds
// a Hold, does not take Manager.mu; a goroutine that changes deny holds it.
type denials struct {
	// all is the number of files in deny and in holds, plus grace.denials. While it is 0, Ask checks no access.
	// held is the number of files in holds.
	all, held atomic.Int64
	mu        sync.RWMutex
	deny      map[fileID]Access
	holds     map[fileID][]*Hold
}

func (d *denials) of(id fileID) Access {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.deny[id]
}

// set stores the accesses that the opens of a file deny.
func (d *denials) set(id fileID, deny Access) {
	if deny == 0 && d.all.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.deny)
	if deny != 0 {
		d.deny[id] = deny
	} else {
		delete(d.deny, id)
	}
	d.all.Add(int64(len(d.deny) - before))
}

// Access is a set of kinds of access to a file. An open has two such sets: the accesses of its owner,
// and those that it denies to others.
type Access uint8

// Bits of Access, as OPEN has them (RFC 8881 §18.16).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// modes is a set of open modes: it has one bit for each pair of access and deny bits.
type modes uint16

func mode(access, deny Access) modes { return 1 << (access | deny<<2) }

// each calls f for each mode in m.
func (m modes) each(f func(access, deny Access)) {
	for access := range AccessBoth + 1 {
		for deny := range AccessBoth + 1 {
			if m&mode(access, deny) != 0 {
				f(access, deny)
			}
		}
	}
}

// union returns all access bits and all deny bits of the modes, ORed.
func (m modes) union() (access, deny Access) {
	m.each(func(a, d Access) {
		access |= a
		deny |= d
	})
	return access, deny
}

// within returns the modes that use no bit beyond access and deny.
func (m modes) within(access, deny Access) (left modes) {
	m.each(func(a, d Access) {
		if a&^access == 0 && d&^deny == 0 {
			left |= mode(a, d)
		}
	})
	return left
}

// has reports whether one of the modes has exactly this access.
func (m modes) has(access Access) (has bool) {
	m.each(func(a, _ Access) { has = has || a == access })
	return has
}

// opens counts the opens of a file by their access and deny bits, in at most 16 groups, so that a search
// for conflicts looks once at each client of a group, however often it has the file open.
type opens []openGroup

type openGroup struct {
	access, deny Access
	clients      map[*Client]int // number of opens of each client; never empty
}

func (g *openGroup) holds(s *State) bool {
	access, deny := s.modes.union()
	return g.access == access && g.deny == deny
}

func (all *opens) add(s *State) {
	i := slices.IndexFunc(*all, func(g openGroup) bool { return g.holds(s) })
	if i < 0 {
		i = len(*all)
		access, deny := s.modes.union()
		*all = append(*all, openGroup{access, deny, make(map[*Client]int)})
	}
	(*all)[i].clients[s.Client]++
}

func (all *opens) remove(s *State) {
	i := slices.IndexFunc(*all, func(g openGroup) bool { return g.holds(s) })
	clients := (*all)[i].clients
	if clients[s.Client]--; clients[s.Client] > 0 {
		return
	}
	if delete(clients, s.Client); len(clients) == 0 {
		*all = slices.Delete(*all, i, i+1)
	}
}

// each calls f for the clients of each group with any of these bits, until f returns false.
func (all opens) each(access, deny Access, f func(g *openGroup, c *Client) bool) {
	for i := range all {
		g := &all[i]
		if g.access&access == 0 && g.deny&deny == 0 {
			continue
		}
		for c := range g.clients {
			if !f(g, c) {
				return
			}
		}
	}
}

// denied returns all deny bits of the opens, ORed.
func (all opens) denied() (deny Access) {
	for i := range all {
		deny |= all[i].deny
	}
	return deny
}
