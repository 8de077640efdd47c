package nfs3_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// deniedSite makes a file "f" that an NFSv4 client has open for reading with a deny mode. The
// function end closes the open.
func deniedSite(t *testing.T, s *site, deny state.Access) (f wire.FileHandle3, end func()) {
	t.Helper()
	m, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s.program.Ask(m)
	f = s.create(s.root, "f", 0o666)
	s.create(s.root, "other", 0o666)
	o, err := s.table.Find(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	c := m.ExchangeID(&state.Identity{Owner: []byte("client")}, false).Client
	m.Confirm(c)
	m.ReclaimComplete(c, nil)
	key := state.FileKey{Domain: state.DomainOf(s.export.FS), Handle: o.Handle}
	opening, status := m.Open(&state.OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: state.AccessRead, Deny: deny})
	if status != 0 {
		t.Fatal(status)
	}
	return f, func() {
		if _, status := m.CloseOpen(&state.Ref{ID: opening.ID, Client: c, Key: key}, false); status != 0 {
			t.Error(status)
		}
	}
}

// A deny mode of an NFSv4 client's open applies to NFSv3 clients until the file is closed.
func TestDenyModes(t *testing.T) {
	uses := []struct {
		name string
		deny state.Access
		do   func(s *site, f wire.FileHandle3) wire.NFSStat3
	}{
		{"READ", state.AccessRead, func(s *site, f wire.FileHandle3) wire.NFSStat3 {
			res, _ := s.read(f, 0, 10)
			return res.Status
		}},
		{"WRITE", state.AccessWrite, func(s *site, f wire.FileHandle3) wire.NFSStat3 { return s.write(f, 0, "x", wire.FileSync).Status }},
		{"SETATTR of the size", state.AccessWrite, func(s *site, f wire.FileHandle3) wire.NFSStat3 {
			args := wire.Setattr3Args{Object: f}
			args.NewAttributes.Size = wire.SetSize3{SetIt: true}
			var res wire.Setattr3Res
			s.call(wire.ProcSetattr, &args, &res)
			return res.Status
		}},
		{"CREATE that cuts", state.AccessWrite, func(s *site, _ wire.FileHandle3) wire.NFSStat3 {
			args := wire.Create3Args{Where: s.at(s.root, "f")}
			args.How.ObjAttributes.Size = wire.SetSize3{SetIt: true}
			var res wire.Create3Res
			s.call(wire.ProcCreate, &args, &res)
			return res.Status
		}},
		{"RENAME over it", state.AccessWrite, func(s *site, _ wire.FileHandle3) wire.NFSStat3 {
			return s.rename("other", "f")
		}},
		{"RENAME", state.AccessWrite, func(s *site, _ wire.FileHandle3) wire.NFSStat3 { return s.rename("f", "moved") }},
		{"REMOVE", state.AccessWrite, func(s *site, _ wire.FileHandle3) wire.NFSStat3 {
			var res wire.Remove3Res
			s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")}, &res)
			return res.Status
		}},
	}
	for _, use := range uses {
		t.Run(use.name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				f, end := deniedSite(t, s, use.deny)
				want(t, "while it is denied", use.do(s, f), wire.NFS3ErrAccess)
				end()
				want(t, "when it is not any more", use.do(s, f), wire.NFS3OK)
			})
			eachSite(t, func(t *testing.T, s *site) {
				f, _ := deniedSite(t, s, state.AccessBoth&^use.deny)
				want(t, "while something else is denied", use.do(s, f), wire.NFS3OK)
			})
		})
	}
}

// claimants implements state.Records. It holds one client, and the kinds of state that the
// client held before the restart.
type claimants state.Held

func (c claimants) Begin() (uint32, []state.Record, error) {
	return 1, []state.Record{{Kind: 1, Owner: "client", Held: state.Held(c)}}, nil
}
func (claimants) Put([]state.Record) error    { return nil }
func (claimants) Remove([]state.Record) error { return nil }

// After a restart, a WRITE gets NFS3ERR_JUKEBOX as long as an NFSv4 client may reclaim an open
// that denies it. If no client held a deny mode, the WRITE is executed (RFC 8881 §8.4.2.1).
func TestDenyModesMayComeBack(t *testing.T) {
	for held, status := range map[state.Held]wire.NFSStat3{
		0: wire.NFS3ErrJukebox, state.HeldOpens | state.HeldDenials: wire.NFS3ErrJukebox, state.HeldOpens: wire.NFS3OK,
	} {
		eachSite(t, func(t *testing.T, s *site) {
			m, err := state.New(state.Config{Records: claimants(held)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			f := s.create(s.root, "f", 0o666)
			s.program.Ask(m)
			want(t, "WRITE", s.write(f, 0, "x", wire.FileSync).Status, status)
			want(t, "RENAME", s.rename("f", "moved"), status)
		})
	}
}

func (s *site) rename(from, to string) wire.NFSStat3 {
	var res wire.Rename3Res
	s.call(wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, from), To: s.at(s.root, to)}, &res)
	return res.Status
}
