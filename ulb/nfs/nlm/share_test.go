package nlm_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

func (h *host) share(p wire.Procedure, owner string, access wire.ShareAccess4, mode wire.ShareMode4) wire.Stat4 {
	h.t.Helper()
	var res wire.ShareRes4
	h.call(p, &wire.ShareArgs4{Cookie: cookie, Share: wire.Share4{
		CallerName: []byte(h.name), FileHandle: h.file, OH: wire.Object(owner), Access: access, Mode: mode,
	}}, &res)
	if string(res.Cookie) != string(cookie) {
		h.t.Errorf("cookie %q", res.Cookie)
	}
	return res.Stat
}

// Shares keep other shares and the opens of NFSv4 away by their deny bits, and the reads and writes of NFSv3 from other
// addresses. A second share of an owner replaces the first (NLM-11).
func TestShares(t *testing.T) {
	each(t, options{}, func(t *testing.T, s *site) {
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		share := wire.ProcShare
		is(t, "SHARE", a.share(share, "o", wire.AccessBoth, wire.DenyWrite), wire.Granted)
		is(t, "SHARE that reads", b.share(share, "o", wire.AccessRead, wire.DenyNone), wire.Granted)
		is(t, "SHARE that writes", b.share(share, "p", wire.AccessWrite, wire.DenyNone), wire.Denied)
		is(t, "SHARE that denies writing", b.share(share, "p", wire.AccessRead, wire.DenyWrite), wire.Denied)
		is(t, "SHARE that would deny what another does", a.share(share, "o", wire.AccessBoth, wire.DenyBoth), wire.Denied)
		is(t, "SHARE of another owner while the first one stays", b.share(share, "p", wire.AccessWrite, wire.DenyNone), wire.Denied)
		for address, want := range map[string]state.Answer{"10.0.0.2:700": state.Yes, "10.0.0.3:700": state.No} {
			i := state.Intent{Use: state.UseWrite, FS: s.export.FS, File: s.handle, Op: &vfs.Op{}, From: s.host("", address, 0).conn.Peer.Addr(), Kind: state.Host}
			p, a := s.state.Ask(&i)
			p.Done()
			is(t, "WRITE from "+address, a, want)
		}
		x := s.state.ExchangeID(&state.Identity{Owner: []byte("c")}, false)
		s.state.Confirm(x.Client)
		s.state.ReclaimComplete(x.Client, nil)
		open := state.OpenArgs{Client: x.Client, OwnerName: []byte("o"), Key: state.FileKey{Domain: state.DomainOf(s.export.FS), Handle: s.handle}, Access: state.AccessWrite}
		_, status := s.state.Open(&open)
		is(t, "OPEN of NFSv4", status, state.OpenConflict)

		is(t, "SHARE in place of the first", a.share(share, "o", wire.AccessRead, wire.DenyNone), wire.Granted)
		_, status = s.state.Open(&open)
		is(t, "OPEN of NFSv4", status, state.Granted)
		is(t, "SHARE that denies what NFSv4 does", a.share(share, "o", wire.AccessRead, wire.DenyWrite), wire.Denied)
		is(t, "LOCK beside shares", a.lock(want{1, 0, 1, true}), wire.Granted)
		is(t, "UNSHARE", a.share(wire.ProcUnshare, "o", wire.AccessRead, wire.DenyNone), wire.Granted)
		is(t, "UNSHARE of nothing", a.share(wire.ProcUnshare, "o", wire.AccessRead, wire.DenyNone), wire.Granted)
		is(t, "UNSHARE", b.share(wire.ProcUnshare, "o", wire.AccessRead, wire.DenyNone), wire.Granted)
		is(t, "what is locked", b.lock(want{1, 0, 1, true}), wire.Denied)
		is(t, "bits that do not exist", a.share(share, "o", 4, 0), wire.Failed)
		stranger := s.host("a", "10.0.0.2:900", 1001)
		is(t, "SHARE of a user that may only read", stranger.share(share, "s", wire.AccessBoth, wire.DenyNone), wire.Granted)
		is(t, "UNSHARE", stranger.share(wire.ProcUnshare, "s", 0, 0), wire.Granted)
		is(t, "UNLOCK", a.unlock(want{1, 0, toEnd, false}), wire.Granted)
		if u := s.state.Usage(); u.Opens != 1 || u.Locks > 0 {
			t.Errorf("left over: %+v", u)
		}
	})
}
