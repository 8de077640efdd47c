package nlm_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const errAgain = syscall.EAGAIN

const toEnd = 0 // a length

// A lock keeps other owners of the same host and of other hosts away, and TEST says who has it (NLM-1, NLM-2).
func TestLocksConflict(t *testing.T) {
	each(t, options{}, func(t *testing.T, s *site) {
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		is(t, "LOCK", a.lock(want{1, 10, 10, true}), wire.Granted)
		is(t, "the same again", a.lock(want{1, 10, 10, true}), wire.Granted)
		is(t, "another owner", a.lock(want{2, 19, 5, false}), wire.Denied)
		is(t, "another host", b.lock(want{1, 0, 11, false}), wire.Denied)
		is(t, "beside it", b.lock(want{1, 0, 10, true}), wire.Granted)
		is(t, "behind it", b.lock(want{1, 20, toEnd, false}), wire.Granted)
		is(t, "shared", a.lock(want{7, 30, 5, false}), wire.Granted)

		got := b.test(want{5, 15, 1, false})
		is(t, "TEST", got.Stat, wire.Denied)
		h := got.Holder
		if !h.Exclusive || h.SVID != 1 || string(h.OH) != "owner at a" || h.Offset != 10 || h.Length != 10 {
			t.Errorf("holder %+v", h)
		}
		got = a.test(want{1, 1 << 40, 1, true})
		if got.Stat != wire.Denied || got.Holder.Exclusive || got.Holder.Length != toEnd || string(got.Holder.OH) != "owner at b" {
			t.Errorf("holder of the end: %+v", got)
		}
		is(t, "TEST by the owner", a.test(want{1, 10, 10, true}).Stat, wire.Granted)

		is(t, "UNLOCK of more than is locked", a.unlock(want{1, 0, toEnd, false}), wire.Granted)
		is(t, "TEST of what is free", b.test(want{5, 10, 10, true}).Stat, wire.Granted)
		is(t, "UNLOCK of nothing", a.unlock(want{1, 0, toEnd, false}), wire.Granted)
		is(t, "UNLOCK by a stranger", s.host("c", "10.0.0.4:900", 1000).unlock(want{1, 0, toEnd, false}), wire.Granted)
		is(t, "what others hold", a.test(want{9, 25, 1, true}).Stat, wire.Denied)
	})
}

// A part of a range can be unlocked, and an owner changes the kind of its lock without losing it (NLM-3).
func TestPartsAndKinds(t *testing.T) {
	each(t, options{}, func(t *testing.T, s *site) {
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		is(t, "LOCK", a.lock(want{1, 0, 100, true}), wire.Granted)
		is(t, "UNLOCK of the middle", a.unlock(want{1, 40, 20, false}), wire.Granted)
		is(t, "the middle", b.lock(want{1, 40, 20, true}), wire.Granted)
		is(t, "the left part", b.lock(want{1, 39, 1, false}), wire.Denied)
		is(t, "the right part", b.lock(want{1, 60, 1, false}), wire.Denied)
		is(t, "to a shared one", a.lock(want{1, 0, 40, false}), wire.Granted)
		is(t, "beside a shared one", b.lock(want{1, 0, 40, false}), wire.Granted)
		is(t, "to an exclusive one", a.lock(want{1, 0, 40, true}), wire.Denied)
	})
}

// The same name at another address is another host, and so is another name at the same address (NLM-4).
func TestHostsAreNamesAtAddresses(t *testing.T) {
	s := newSite(t, options{})
	a := s.host("a", "10.0.0.2:900", 1000)
	is(t, "LOCK", a.lock(want{1, 0, 1, true}), wire.Granted)
	for name, other := range map[string]*host{"address": s.host("a", "10.0.0.3:900", 1000), "name": s.host("b", "10.0.0.2:900", 1000)} {
		is(t, "UNLOCK by another "+name, other.unlock(want{1, 0, 1, true}), wire.Granted)
		is(t, "LOCK by another "+name, other.lock(want{1, 0, 1, true}), wire.Denied)
	}
	again := s.host("a", "10.0.0.2:901", 1000)
	is(t, "UNLOCK on another connection", again.unlock(want{1, 0, 1, true}), wire.Granted)
	is(t, "LOCK when it is free", s.host("b", "10.0.0.2:900", 1000).lock(want{1, 0, 1, true}), wire.Granted)
}

// Two machines of one IPv6 network with the same name are two hosts: neither ends or takes what the other has, nor reads
// what the other denies. An IPv4 address is the same in both of its forms (NLM-45).
func TestHostsOfOneNetwork(t *testing.T) {
	s := newSite(t, options{})
	s.rpc.Register(nlm.NewMonitor(s.program))
	a, other := s.host("localhost", "[2001:db8::2]:900", 1000), s.host("localhost", "[2001:db8::3]:900", 1000)
	w := want{1, 0, 10, true}
	is(t, "LOCK", a.lock(w), wire.Granted)
	is(t, "LOCK of the other", other.lock(w), wire.Denied)
	is(t, "UNLOCK of the other", other.unlock(w), wire.Granted)
	is(t, "LOCK elsewhere", other.lock(want{2, 20, 10, true}), wire.Granted)
	other.notify("localhost", 7)
	is(t, "after the other's restart", other.test(w).Stat, wire.Denied)
	is(t, "SHARE", a.share(wire.ProcShare, "o", wire.AccessBoth, wire.DenyRead), wire.Granted)
	for address, want := range map[string]state.Answer{"2001:db8::2": state.Yes, "2001:db8::3": state.No} {
		i := state.Intent{Use: state.UseRead, FS: s.export.FS, File: s.handle, Op: &vfs.Op{}, From: netip.MustParseAddr(address), Kind: state.Host}
		_, a := s.state.Ask(&i)
		is(t, "READ from "+address, a, want)
	}
	a.notify("localhost", 7)
	is(t, "after its restart", other.test(w).Stat, wire.Granted)
	is(t, "LOCK from IPv4", s.host("c", "10.0.0.2:900", 1000).lock(w), wire.Granted)
	is(t, "UNLOCK from IPv4 in IPv6", s.host("c", "[::ffff:10.0.0.2]:900", 1000).unlock(w), wire.Granted)
	is(t, "LOCK when it is free", a.lock(w), wire.Granted)
}

// Each procedure answers a wrong handle, a wrong range and a wrong name with its status (NLM-5).
func TestErrorsOfArguments(t *testing.T) {
	each(t, options{}, func(t *testing.T, s *site) {
		procedures := map[string]func(h *host, w want) wire.Stat4{
			"LOCK": (*host).lock, "UNLOCK": (*host).unlock, "CANCEL": (*host).cancel,
			"TEST": func(h *host, w want) wire.Stat4 { return h.test(w).Stat },
		}
		gone, handle := s.create("gone", 0o644)
		op := vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}
		if _, err := s.fs.Remove(&op, s.fs.Root(), []byte("gone")); err != nil {
			t.Fatal(err)
		}
		_ = handle
		for name, call := range procedures {
			h := s.host("a", "10.0.0.2:900", 1000)
			is(t, name+" beyond the last byte", call(h, want{1, 1<<64 - 10, 20, false}), wire.FBig)
			is(t, name+" of a handle that is none", call(h.with("no handle"), want{1, 0, 1, false}), wire.StaleFH)
			forged := append(wire.Object(nil), h.file...)
			forged[len(forged)-1] ^= 1
			is(t, name+" of a forged handle", call(h.with(string(forged)), want{1, 0, 1, false}), wire.StaleFH)
			long := s.host("a", "10.0.0.2:900", 1000)
			long.conn, long.name = h.conn, "a"
			long = long.called(strings.Repeat("x", 256))
			is(t, name+" by a name of 256 bytes", call(long, want{1, 0, 1, false}), wire.Failed)
			if name == "LOCK" || name == "TEST" {
				is(t, name+" of a directory", call(h.with(string(s.seal(s.fs.Root()))), want{1, 0, 1, false}), wire.Failed)
				is(t, name+" of a file that is gone", call(h.with(string(gone)), want{1, 0, 1, false}), wire.StaleFH)
			}
		}
	})
}

// with returns h for another file, and called h with another name in its locks.
func (h *host) with(file string) *host {
	other, s := *h, *h.site
	s.file = wire.Object(file)
	other.site = &s
	return &other
}

func (h *host) called(name string) *host {
	other := *h
	other.name = name
	return &other
}

// A caller needs the right to read the file, or to own it; the right to write suffices for an exclusive lock (NLM-6).
func TestRights(t *testing.T) {
	each(t, options{}, func(t *testing.T, s *site) {
		for name, c := range map[string]struct {
			mode              uint32
			uid               uint32
			shared, exclusive wire.Stat4
		}{
			"the owner":             {0o000, 1000, wire.Granted, wire.Granted},
			"one that may read":     {0o004, 1001, wire.Granted, wire.Granted},
			"one that may write":    {0o002, 1001, wire.Failed, wire.Granted},
			"one that may neither":  {0o770, 1001, wire.Failed, wire.Failed},
			"root, which is nobody": {0o770, 0, wire.Failed, wire.Failed},
			"root, if all may read": {0o004, 0, wire.Granted, wire.Granted},
		} {
			fh, _ := s.create(name, c.mode)
			h := s.host("a", "10.0.0.2:900", c.uid).with(string(fh))
			is(t, name+", shared", h.lock(want{1, 0, 1, false}), c.shared)
			is(t, name+", TEST", h.test(want{1, 0, 1, false}).Stat, c.shared)
			is(t, name+", exclusive", h.lock(want{1, 0, 1, true}), c.exclusive)
			is(t, name+", UNLOCK", h.unlock(want{1, 0, toEnd, false}), wire.Granted)
		}
	})
}

// An export that does not serve the caller has no locks for it, nor has one with the option locks=none; a read-only one
// has shared locks. Flavors other than AUTH_SYS are no hindrance (NLM-7).
func TestExports(t *testing.T) {
	for name, c := range map[string]struct {
		export            *export.Export
		shared, exclusive wire.Stat4
	}{
		"read-only":           {&export.Export{Options: export.Options{ReadOnly: true}}, wire.Granted, wire.ROFS},
		"Kerberos only":       {&export.Export{Security: []export.Security{export.Krb5}}, wire.Granted, wire.Granted},
		"without locks":       {&export.Export{Options: export.Options{NoLocks: true}}, wire.DeniedNoLocks, wire.DeniedNoLocks},
		"for another network": {&export.Export{Clients: prefixes("192.0.2.0/24")}, wire.Failed, wire.Failed},
	} {
		s := newSite(t, options{export: c.export})
		h := s.host("a", "10.0.0.2:900", 1000)
		is(t, name+", shared", h.lock(want{1, 0, 1, false}), c.shared)
		is(t, name+", exclusive", h.lock(want{1, 0, 1, true}), c.exclusive)
	}
	s := newSite(t, options{export: &export.Export{Options: export.Options{Secure: true}}})
	h := s.host("a", "10.0.0.2:9000", 1000)
	h.conn.Privileged = false
	is(t, "from a port that anyone may use", h.lock(want{1, 0, 1, false}), wire.Failed)
}

// If an export loses its locks (locks=none) while hosts have some, LOCK, TEST and SHARE are refused, and UNLOCK ends
// what there is (NLM-47).
func TestExportLosesItsLocks(t *testing.T) {
	s := newSite(t, options{})
	a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
	w := want{1, 0, 10, true}
	is(t, "LOCK", a.lock(w), wire.Granted)
	without := &export.Export{Name: s.export.Name, ID: s.export.ID, FS: s.export.FS, Options: s.export.Options}
	without.NoLocks = true
	if err := s.table.Replace([]*export.Export{without}); err != nil {
		t.Fatal(err)
	}
	is(t, "LOCK when there are none", b.lock(want{1, 20, 10, true}), wire.DeniedNoLocks)
	is(t, "TEST", b.test(w).Stat, wire.DeniedNoLocks)
	is(t, "SHARE", b.share(wire.ProcShare, "o", wire.AccessBoth, wire.DenyNone), wire.DeniedNoLocks)
	is(t, "CANCEL", b.cancel(w), wire.Denied)
	is(t, "UNLOCK", a.unlock(w), wire.Granted)
	if err := s.table.Replace([]*export.Export{s.export}); err != nil {
		t.Fatal(err)
	}
	is(t, "LOCK when there are some again", b.lock(w), wire.Granted)
}

// If an export loses its locks (locks=none) while a host waits for one, the host gets none, and nothing of it is left
// (NLM-47).
func TestExportLosesItsLocksWhileAHostWaits(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, 10, true}
		is(t, "LOCK", a.lock(w), wire.Granted)
		is(t, "LOCK that waits", b.block(w), wire.Blocked)
		without := &export.Export{Name: s.export.Name, ID: s.export.ID, FS: s.export.FS, Options: s.export.Options}
		without.NoLocks = true
		if err := s.table.Replace([]*export.Export{without}); err != nil {
			t.Fatal(err)
		}
		is(t, "UNLOCK", a.unlock(w), wire.Granted)
		time.Sleep(time.Minute)
		synctest.Wait()
		is(t, "calls", len(f.grants()), 0)
		if u := s.state.Usage(); u.Waiters+u.Locks+u.Opens > 0 {
			t.Errorf("left over: %+v", u)
		}
	})
}

// Locks of this machine's processes and of the clients keep each other away. TEST names no process of this machine
// (NLM-8).
func TestLocalProcesses(t *testing.T) {
	fs := &claiming{}
	s := newSite(t, options{of: func(below vfs.FileSystem) vfs.FileSystem { fs.FileSystem = below; return fs }})
	h := s.host("a", "10.0.0.2:900", 1000)
	fs.process(5, 5, vfs.ClaimWrite)
	is(t, "LOCK", h.lock(want{1, 0, 6, false}), wire.Denied)
	got := h.test(want{1, 0, 6, false})
	if got.Stat != wire.Denied || got.Holder.SVID != 0 || len(got.Holder.OH) > 0 || got.Holder.Offset != 5 {
		t.Errorf("%+v", got)
	}
	is(t, "LOCK beside it", h.lock(want{1, 0, 5, true}), wire.Granted)
	if _, found, _ := fs.held.Against(4, 1, vfs.ClaimRead); !found {
		t.Error("a locked byte is not claimed")
	}
	is(t, "UNLOCK", h.unlock(want{1, 0, toEnd, false}), wire.Granted)
	if _, found, _ := fs.held.Against(4, 1, vfs.ClaimRead); found {
		t.Error("a byte that was unlocked is still claimed")
	}
	for err, stat := range map[error]wire.Stat4{
		syscall.ENOLCK: wire.DeniedNoLocks, vfs.ErrDelay: wire.DeniedNoLocks, syscall.EROFS: wire.ROFS, syscall.ESTALE: wire.StaleFH,
		syscall.EIO: wire.DeniedNoLocks,
	} {
		fs.err = err
		is(t, "LOCK where claims end with "+err.Error(), h.lock(want{1, 0, 1, true}), stat)
	}
}

// A repeated call gets the first reply, and is not executed again: a LOCK that arrives twice does not lock again
// behind its UNLOCK (NLM-9).
func TestRepeatedCallsAreExecutedOnce(t *testing.T) {
	s := newSite(t, options{})
	a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
	w := want{1, 0, 1, true}
	m := a.message(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: true, Lock: a.lock4(w)})
	twice := func() {
		t.Helper()
		var res wire.Res4
		d, err := a.run(m).Results()
		if err != nil {
			t.Fatal(err)
		}
		res.Decode(d)
		is(t, "LOCK", res.Stat, wire.Granted)
	}
	twice()
	is(t, "UNLOCK", a.unlock(w), wire.Granted)
	twice()
	is(t, "LOCK of another host", b.lock(w), wire.Granted)
}

// NULL answers. Arguments that do not decode are garbage. Calls that a server does not take are no procedures
// (NLM-10).
func TestOtherCalls(t *testing.T) {
	s := newSite(t, options{})
	h := s.host("a", "10.0.0.2:900", 1000)
	h.call(wire.ProcNull, nil, nil)
	for p, stat := range map[wire.Procedure]rpc.AcceptStat{
		wire.ProcLock: rpc.AcceptGarbageArgs, wire.ProcUnlock: rpc.AcceptGarbageArgs, wire.ProcTest: rpc.AcceptGarbageArgs,
		wire.ProcCancel: rpc.AcceptGarbageArgs, wire.ProcFreeAll: rpc.AcceptGarbageArgs,
		wire.ProcLockMsg: rpc.AcceptGarbageArgs, wire.ProcGrantedRes: rpc.AcceptGarbageArgs,
		wire.ProcGranted: rpc.AcceptProcUnavail, wire.ProcGrantedMsg: rpc.AcceptProcUnavail, wire.ProcLockRes: rpc.AcceptProcUnavail,
		24: rpc.AcceptProcUnavail,
	} {
		_, err := h.run(h.message(p, garbage{})).Results()
		if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || e.Stat != stat {
			t.Errorf("%v: %v, not %v", p, err, stat)
		}
	}
}

type garbage struct{}

func (garbage) Encode(w *xdr.Writer) { w.Uint32(1 << 30) }

// FuzzCall makes calls with any arguments. Each gets an answer without a panic, and afterwards nothing is left that
// an UNLOCK of the fuzzed owner does not end.
func FuzzCall(f *testing.F) {
	s := newSite(f, options{})
	h := s.host("a", "10.0.0.2:900", 1000)
	w := want{1, 0, 10, true}
	for p, args := range map[wire.Procedure]encoder{
		wire.ProcNull: nil, wire.ProcTest: &wire.TestArgs4{Lock: h.lock4(w)}, wire.ProcLock: &wire.LockArgs4{Lock: h.lock4(w), Block: true},
		wire.ProcCancel: &wire.CancelArgs4{Lock: h.lock4(w)}, wire.ProcUnlock: &wire.UnlockArgs4{Lock: h.lock4(w)},
		wire.ProcShare:   &wire.ShareArgs4{Share: wire.Share4{CallerName: []byte("a"), FileHandle: h.file, Access: 3, Mode: 2}},
		wire.ProcFreeAll: &wire.Notify4{Name: []byte("a"), State: 3},
	} {
		m := h.message(p, args)
		f.Add(uint8(p), m[len(h.message(wire.ProcNull, nil)):])
	}
	f.Fuzz(func(t *testing.T, p uint8, args []byte) {
		s.t = t
		if c := h.run(append(h.message(wire.Procedure(p%25), nil), args...)); c.End == rpctest.Open {
			t.Fatal("no answer")
		}
	})
}

// A call with a genuine handle makes a peer known only if the file's export serves it.
func TestStrangersStayStrangers(t *testing.T) {
	for name, networks := range map[string]string{"a stranger": "192.0.2.0/24", "a client": "10.0.0.0/8"} {
		s := newSite(t, options{export: &export.Export{Clients: []netip.Prefix{netip.MustParsePrefix(networks)}}})
		h := s.host("a", "10.0.0.2:900", 1000)
		h.test(want{1, 10, 10, true})
		if is := h.conn.Known(); is != (name == "a client") {
			t.Errorf("%s is known: %v", name, is)
		}
	}
}
