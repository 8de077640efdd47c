package nfs4suite

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

var (
	linux     = flag.String("linux", "", "`address` and port of Linux's own server, which exports its root with no_root_squash and insecure, for TestPrincipals")
	linuxName = flag.String("linux-name", "", "`host` of that server in the realm of /etc/krb5.conf, if it takes krb5i besides sys; /etc/krb5.keytab has the keys of the principals")
)

// Bits of a file's mode, for users that are neither the owner nor in the group.
const (
	mayRead  = 4
	mayWrite = 2
)

// A use is an operation that takes the stateid of an open file.
type use struct {
	name  string
	minor uint32 // the first minor version that has the operation
	// takes has the mode bits that the operation needs without an open. An operation that needs
	// none changes only the client's state.
	takes uint32
	// byLock is true if the operation takes a lock stateid.
	byLock bool
	op     func(h *held) nfs4test.Op
}

var uses = []use{
	{"READ", 0, mayRead, false, func(h *held) nfs4test.Op { return readOp(h.file.Stateid, 0, 4) }},
	{"WRITE", 0, mayWrite, false, func(h *held) nfs4test.Op { return writeOp(h.file.Stateid, 0, "data") }},
	{"SETATTR", 0, mayWrite, false, func(h *held) nfs4test.Op { return setattr(h.file.Stateid, attrs().size(100)) }},
	{"LOCK to read", 0, mayRead, false, func(h *held) nfs4test.Op { return h.firstLock(" second locker", wire.ReadLt) }},
	{"LOCK to write", 0, mayWrite, false, func(h *held) nfs4test.Op { return h.firstLock(" second locker", wire.WriteLt) }},
	{"LOCK to write, by a lock", 0, mayWrite, true, func(h *held) nfs4test.Op {
		o := lockMore(h.locked, wire.WriteLt, h.offset+1, 1)
		o.Args.(*wire.Lock4Args).Locker.LockOwner.Seqid = 1
		return o
	}},
	{"LOCKU", 0, 0, true, func(h *held) nfs4test.Op {
		o := unlock(h.locked, h.offset, 1)
		o.Args.(*wire.Locku4Args).Seqid = 1
		return o
	}},
	{"OPEN_DOWNGRADE", 0, 0, false, func(h *held) nfs4test.Op {
		o := downgrade(h.file.Stateid, read, 0)
		o.Args.(*wire.OpenDowngrade4Args).Seqid = h.next()
		return o
	}},
	{"CLOSE", 0, 0, false, func(h *held) nfs4test.Op { return h.close(h.file.Stateid) }},
	{"SEEK", 2, mayRead, false, func(h *held) nfs4test.Op { return seek(h.file.Stateid, 0, wire.NFS4ContentData) }},
	{"READ_PLUS", 2, mayRead, false, func(h *held) nfs4test.Op { return readPlus(h.file.Stateid, 0, 4) }},
	{"ALLOCATE", 2, mayWrite, false, func(h *held) nfs4test.Op { return allocate(h.file.Stateid, 0, 4) }},
	{"DEALLOCATE", 2, mayWrite, false, func(h *held) nfs4test.Op { return deallocate(h.file.Stateid, 4, 4) }},
	{"COPY", 2, mayRead | mayWrite, false, func(h *held) nfs4test.Op { return copyOp(h.file.Stateid, h.other.Stateid, 0, 0, 4) }},
	{"CLONE", 2, mayRead | mayWrite, false, func(h *held) nfs4test.Op { return clone(h.file.Stateid, h.other.Stateid, 0, 0, 0) }},
}

// spends reports whether the operation changes the open or the lock, so that it works only once.
func (u *use) spends() bool { return u.takes == 0 || strings.HasPrefix(u.name, "LOCK") }

// A principal is a user that makes calls. With AUTH_SYS, it only states its number. With
// RPCSEC_GSS, proven is its principal name, and uid is the user that the server knows for it.
type principal struct {
	name   string
	uid    uint32
	proven string
}

// A cast has the principals of a test.
type cast struct {
	// user and other are numbers of users that have an account.
	user, other uint32
	// openers are the principals that open files. all are the principals that use these opens,
	// the openers included. All are users of one client.
	openers, all []principal
}

// castOf returns a cast of AUTH_SYS users.
func castOf(user, other uint32) cast {
	opener := principal{"a user", user, ""}
	return cast{user, other, []principal{opener}, []principal{
		opener, {"another user", other, ""}, {"a user of no account", 65534, ""}, {"the machine", 0, ""},
	}}
}

// and adds an opener with RPCSEC_GSS, and other principals.
func (c cast) and(opener principal, others ...principal) cast {
	c.openers = append(c.openers, opener)
	c.all = append(append(c.all, opener), others...)
	return c
}

// A site without Kerberos has no account for a proven principal, so its user is 65534.
var withoutKerberos = castOf(1000, 2000).and(principal{"a proven user", 65534, "alice@TEST"},
	principal{"another proven user", 65534, "bob@TEST"}, principal{"the proven machine", 65534, "host/client@TEST"})

// withKerberos has principals of a realm. Three of them have the names of users that exist on
// each Debian system, and so the numbers of these users.
var withKerberos = castOf(1, 2).and(principal{"the proven user", 1, "daemon@KRB5.TEST"},
	principal{"another proven user", 2, "bin@KRB5.TEST"}, principal{"the proven superuser", 0, "root@KRB5.TEST"},
	principal{"the proven machine", 65534, "host/client.krb5.test@KRB5.TEST"})

// realmOf returns a Realm with the principals of withKerberos. conf is the path of a krb5.conf,
// and keytab has the keys of the principals.
func realmOf(server, conf, keytab string) *nfs4test.Realm {
	r := &nfs4test.Realm{Server: server, Users: map[string]gss.Mechanism{}}
	for _, p := range withKerberos.all {
		if p.proven != "" {
			r.Users[p.proven] = krb5.New(krb5.Config{Conf: conf, Keytab: keytab, Principal: p.proven})
		}
	}
	return r
}

// A standing is the relation of a principal to an open file.
type standing struct {
	opener, owner bool
	bits          uint32 // bits of the file's mode that apply to this principal
}

func (p *principal) standing(opener *principal, owner, mode uint32) standing {
	s := standing{opener: *p == *opener, owner: p.uid == owner, bits: mode}
	switch {
	case p.uid == 0:
		s.bits = mayRead | mayWrite
	case s.owner:
		s.bits = mode >> 6
	}
	return s
}

// may is the rule of nfsrdmad. The opener may do what its OPEN granted. Another principal may do
// what its own permissions allow: LOCK needs the permission that an OPEN needs, and the file's
// owner may read and write whatever the mode (RFC 8881 §18.16.3, §18.10.4, RFC 1813 §4.4).
func may(u *use, s standing) bool {
	return s.opener || s.bits&u.takes == u.takes || s.owner && !strings.HasPrefix(u.name, "LOCK")
}

// mayOnLinux is the rule of Linux's server. It checks the opener like any other principal, and
// permits every LOCK with a valid stateid.
func mayOnLinux(u *use, s standing) bool {
	return s.owner || s.bits&u.takes == u.takes || strings.HasPrefix(u.name, "LOCK")
}

// A caller is a client of any minor version, and the principal that makes its calls.
type caller struct {
	*nfs4test.Peer
	session *session // nil in minor version 0
	id      uint64   // client ID, in minor version 0
	owners  int      // number of open-owners so far
}

func newCaller(t *testing.T, site *nfs4test.Site, minor uint32) *caller {
	t.Helper()
	name := fmt.Sprint("principals of 4.", minor)
	if minor > 0 {
		s := newSession(t, site, minor, name)
		return &caller{Peer: s.Peer, session: s}
	}
	p := site.Peer(0)
	p.T = t
	var res wire.SetClientID4Res
	is(t, "SETCLIENTID", alone(p, op(wire.OpSetClientID, &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: []byte(name)}}), &res), ok)
	id := res.ResOK.Clientid
	is(t, "SETCLIENTID_CONFIRM", alone(p, op(wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{Clientid: id, SetclientidConfirm: res.ResOK.SetclientidConfirm}), nil), ok)
	return &caller{Peer: p, id: id}
}

// as makes the principal p make the following calls.
func (c *caller) as(p *principal) { c.UID, c.GID, c.Principal = p.uid, p.uid, p.proven }

// run makes one compound of ops. Only the last operation may fail.
func (c *caller) run(ops ...nfs4test.Op) ([]nfs4test.OpResult, wire.NFSStat4) {
	c.T.Helper()
	if c.session != nil {
		ops = append([]nfs4test.Op{op(wire.OpSequence, c.session.next(0))}, ops...)
		c.session.last[0]++
	}
	r := c.Compound(ops...)
	if len(r.Ops) != len(ops) {
		c.T.Fatalf("%v of operation %d of %d", r.Status, len(r.Ops), len(ops))
	}
	if c.session != nil {
		r.Ops = r.Ops[1:]
	}
	return r.Ops, r.Status
}

// must runs operations that must all succeed.
func (c *caller) must(ops ...nfs4test.Op) []nfs4test.OpResult {
	c.T.Helper()
	r, status := c.run(ops...)
	if status != ok {
		c.T.Fatalf("%v: %v", r[len(r)-1].Number, status)
	}
	return r
}

// nameOf returns the name of a test file for a minor version.
func nameOf(file string, minor uint32) string { return fmt.Sprintf("%s of 4.%d", file, minor) }

// A held is a file that a principal has open by an open-owner of its own, with its locks.
type held struct {
	*caller
	owner       string
	seqid       uint32 // seqid of the open-owner's last request, in minor version 0
	offset      uint64 // first byte of a range that no other held locks
	file, other opened
	locked      wire.StateID4 // lock on the byte at offset, if the use takes a lock stateid
}

// next returns the open-owner's next seqid. Later minor versions ignore it.
func (h *held) next() uint32 {
	h.seqid++
	return h.seqid
}

// open opens a file in the root.
func (h *held) open(file string, access uint32) opened {
	h.T.Helper()
	args := openArgs(nameOf(file, h.Minor), h.owner, access, 0)
	args.Seqid, args.Owner.Clientid = h.next(), h.id
	r := h.must(putRoot, open(args), getFH)
	var res wire.Open4Res
	r[1].Into(h.T, &res)
	var fh wire.GetFH4Res
	r[2].Into(h.T, &fh)
	o := opened{res.ResOK, bytes.Clone(fh.ResOK.Object)}
	if o.Rflags&wire.Open4ResultConfirm != 0 {
		var confirmed wire.OpenConfirm4Res
		r = h.must(putFH(o.fh), op(wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: o.Stateid, Seqid: h.next()}))
		r[1].Into(h.T, &confirmed)
		o.Stateid = confirmed.ResOK.Stateid
	}
	return o
}

// firstLock returns the first LOCK of a lock-owner.
func (h *held) firstLock(locker string, kind wire.NFSLockType4) nfs4test.Op {
	o := lockNew(h.file.Stateid, h.owner+locker, kind, h.offset, 1)
	args := &o.Args.(*wire.Lock4Args).Locker.OpenOwner
	args.OpenSeqid, args.LockOwner.Clientid = h.next(), h.id
	return o
}

func (h *held) close(id wire.StateID4) nfs4test.Op {
	return op(wire.OpClose, &wire.Close4Args{OpenStateid: id, Seqid: h.next()})
}

// holds opens, as the present principal, the files that a use needs, and locks a byte if the use
// takes a lock stateid. It first opens the file to read, so that OPEN_DOWNGRADE can return to
// that access.
func (c *caller) holds(u *use) *held {
	c.T.Helper()
	c.owners++
	h := &held{caller: c, owner: fmt.Sprint("owner ", c.owners), offset: uint64(10 * c.owners)}
	h.open("file", read)
	h.file = h.open("file", both)
	if u.takes == mayRead|mayWrite {
		h.other = h.open("other", both)
	}
	if u.byLock {
		r := h.must(putFH(h.file.fh), h.firstLock(" locker", wire.WriteLt))
		h.locked = lockID(h.T, &r[1])
	}
	return h
}

// performs runs the operation of a use as the present principal.
func (h *held) performs(u *use) wire.NFSStat4 {
	h.T.Helper()
	ops := []nfs4test.Op{putFH(h.file.fh), u.op(h)}
	if h.other.fh != nil {
		ops = []nfs4test.Op{putFH(h.file.fh), saveFH, putFH(h.other.fh), u.op(h)}
	}
	_, status := h.run(ops...)
	return status
}

// gives closes the opens, except those that the use has closed.
func (h *held) gives() {
	h.T.Helper()
	for _, o := range []*opened{&h.file, &h.other} {
		if o.fh == nil {
			continue
		}
		id := o.Stateid
		if h.Minor > 0 {
			id.Seqid = 0 // OPEN_DOWNGRADE has incremented it
		}
		h.run(putFH(o.fh), h.close(id))
	}
}

// become sets the owner and the mode of the files for a minor version.
func (s *session) become(minor, owner, mode uint32) {
	s.t.Helper()
	number := fmt.Sprint(owner)
	text := append(words(uint32(len(number))), (number + "\x00\x00\x00")[:(len(number)+3)&^3]...)
	for _, file := range []string{"file", "other"} {
		s.must("SETATTR", putRoot, lookup(nameOf(file, minor)), setattr(anonymous, attrs().mode(mode).put(wire.Fattr4Owner, text)))
	}
}

// A principal may use the stateid of an open that it or another principal of its client made only
// by the rule may. The test covers each operation that takes a stateid, in each minor version,
// after the owner and mode of the files have changed. docs/nfs4.md has the rules, and the
// differences of Linux's server.
func TestPrincipals(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		c := withoutKerberos
		if site.RPC == nil {
			c = castOf(c.user, c.other) // a daemon does not accept principals without a proof
		}
		principals(t, site, c, may)
	})
	if *linux == "" {
		return
	}
	name, c, realm := "linux", castOf(1, 2), (*nfs4test.Realm)(nil)
	if *linuxName != "" {
		name, c, realm = "linux under Kerberos", withKerberos, realmOf("nfs/"+*linuxName+"@KRB5.TEST", "/etc/krb5.conf", "/etc/krb5.keytab")
	}
	t.Run(name, func(t *testing.T) {
		site := nfs4test.Far(t, netip.MustParseAddrPort(*linux))
		site.Realm = realm
		takesLocks(t, site)
		principals(t, site, c, mayOnLinux)
	})
}

// takesLocks waits until the server grants locks. On Linux's server, the grace period is longer
// for locks than for opens.
func takesLocks(t *testing.T, site *nfs4test.Site) {
	s := newSession(t, site, 1, "waits for grace to end")
	s.makeFile("locked")
	o := s.open(openArgs("locked", "owner", both, 0))
	await.Until(t, "the server takes locks", func() bool {
		return s.do(putFH(o.fh), lockNew(o.Stateid, "locker", wire.WriteLt, 0, 1)).Status == ok
	})
}

func principals(t *testing.T, site *nfs4test.Site, cast cast, allows func(u *use, s standing) bool) {
	for minor := range uint32(3) {
		maker := newSession(t, site, 1, fmt.Sprint("maker for 4.", minor))
		for _, file := range []string{"file", "other"} {
			maker.makeFile(nameOf(file, minor))
		}
		c := newCaller(t, site, minor)
		for _, opener := range cast.openers {
			for _, now := range []struct{ owner, mode uint32 }{
				{0, 0o666}, {0, 0o644}, {0, 0o600}, {cast.user, 0o600}, {cast.user, 0}, {cast.other, 0o600}, {cast.other, 0},
			} {
				maker.become(minor, 0, 0o666)
				c.as(&opener)
				type cell struct {
					by *principal
					of *use
					*held
				}
				var cells []cell
				var open []*held
				for i := range uses {
					u := &uses[i]
					for j := range cast.all {
						if u.minor > minor {
							continue
						}
						if j == 0 || u.spends() {
							open = append(open, c.holds(u))
						}
						cells = append(cells, cell{&cast.all[j], u, open[len(open)-1]})
					}
				}
				maker.become(minor, now.owner, now.mode)
				for _, x := range cells {
					c.as(x.by)
					want := wire.NFSStat4(wire.NFS4ErrAccess)
					if allows(x.of, x.by.standing(&opener, now.owner, now.mode)) {
						want = ok
					}
					got := x.performs(x.of)
					if got != want && !(want == ok && x.of.name == "CLONE" && got == wire.NFS4ErrNotSupp) {
						t.Errorf("4.%d, %04o of %d, opened by %s: %s by %s: %v, not %v", minor, now.mode, now.owner, opener.name, x.of.name, x.by.name, got, want)
					}
				}
				c.as(&opener)
				for _, h := range open {
					h.gives()
				}
			}
		}
	}
}
