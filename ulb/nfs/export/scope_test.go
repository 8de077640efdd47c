package export_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// scoped is a file system with a scope.
type scoped struct {
	vfs.FileSystem
	scope vfs.Scope
}

func (s *scoped) Scope() vfs.Scope { return s.scope }

// wrapped is a file system around another.
type wrapped struct{ vfs.FileSystem }

func (w wrapped) Unwrap() vfs.FileSystem { return w.FileSystem }

// inScope returns a file system with the scope number n, or without a scope if n is 0.
func inScope(n byte) vfs.FileSystem {
	fs := memfs.New(memfs.Options{})
	if n == 0 {
		return fs
	}
	return wrapped{&scoped{fs, vfs.Scope{n}}}
}

// A handle is good as long as the export shows what it was made in. If the export shows another directory
// or file system, the handle is stale, also while both handles, with the same bytes before the seal, are
// in use. If the export shows the first again, the handle is good again.
func TestSealHoldsInItsScopeOnly(t *testing.T) {
	table, same := export.NewTable([export.KeySize]byte{1}), memfs.New(memfs.Options{}).Root()
	var handles [][]byte
	show := func(scope byte) *export.Export {
		e := &export.Export{Name: "/a", FS: inScope(scope)}
		if err := table.Replace([]*export.Export{e, {Name: "/b"}}); err != nil {
			t.Fatal(err)
		}
		return e
	}
	for scope := range byte(3) {
		handles = append(handles, table.Seal(nil, show(scope), same))
	}
	for _, shown := range []byte{0, 1, 2, 1, 0, 2} {
		e := show(shown)
		for range 2 {
			for scope, h := range handles {
				o, err := table.Find(h)
				switch {
				case byte(scope) != shown && err != export.ErrGone:
					t.Fatalf("a handle of file system %d while %d is shown: %v", scope, shown, err)
				case byte(scope) == shown && (err != nil || o.Export != e || o.Handle != same || !o.Proven()):
					t.Fatalf("a handle of file system %d: %+v, %v", scope, o, err)
				}
				again := table.Seal(nil, e, same)
				if string(again) != string(handles[shown]) {
					t.Fatalf("file system %d has another handle for the same file", shown)
				}
			}
		}
	}
}

// A seal has the same length with and without a scope, and finding or sealing a handle again allocates
// nothing.
func TestScopeCostsNoRoom(t *testing.T) {
	table := export.NewTable([export.KeySize]byte{1})
	e, without := &export.Export{Name: "/a", FS: inScope(1)}, &export.Export{Name: "/b", FS: inScope(0)}
	if err := table.Replace([]*export.Export{e, without}); err != nil {
		t.Fatal(err)
	}
	h := e.FS.Root()
	sealed, buf := table.Seal(nil, e, h), make([]byte, 0, export.MaxSealed)
	if n := len(table.Seal(nil, without, h)); n != len(sealed) {
		t.Errorf("%d bytes with a scope, %d without", len(sealed), n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := table.Find(sealed); err != nil {
			t.Fatal(err)
		}
		table.Seal(buf, e, h)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A call that began with a handle of an export finds ESTALE if the export that takes its place shows
// something else, even if the call's handle would name a file there.
func TestReplacedExportTakesOnlyItsOwnHandles(t *testing.T) {
	table := export.NewTable([export.KeySize]byte{1})
	for _, c := range []struct {
		was, is byte
		want    error
	}{{1, 1, nil}, {1, 2, syscall.ESTALE}, {0, 1, syscall.ESTALE}, {1, 0, syscall.ESTALE}} {
		was, is := &export.Export{Name: "/a", FS: inScope(c.was)}, &export.Export{Name: "/a", FS: inScope(c.is)}
		for _, e := range []*export.Export{was, is} {
			if err := table.Replace([]*export.Export{e}); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := table.AwakeFor(was, true); err != c.want || err == nil && now != is {
			t.Errorf("from scope %d to %d: %v", c.was, c.is, err)
		}
		if now, err := table.Awake(was, true); err != nil || now != is {
			t.Errorf("without a handle: %v", err)
		}
	}
}

// scopedMount is a mount below an export whose file system has, each time it is opened, the scope that
// the test has set.
type scopedMount struct {
	*mountSite
	opener
	scope byte
}

func (m *scopedMount) Open(*export.Mount) (vfs.FileSystem, error) { return inScope(m.scope), nil }

// show makes the table know the mount anew, as after a start of the server.
func (m *scopedMount) show() {
	m.table.SetMounts(nil, m)
	m.table.SetMounts([]export.Found{m.found("a", 7)}, m)
}

func (m *scopedMount) awake() *export.Export {
	e, err := m.table.Mounted(m.conn, &rpc.Cred{}, m.top, "/data/a", false)
	if err != nil {
		m.t.Fatal(err)
	}
	return e
}

func (m *scopedMount) rest() {
	synctest.Wait()
	for _, mount := range m.table.Mounts() {
		if closed := mount.Rest(); closed != nil {
			<-closed
		}
	}
}

// A handle in a mount that was not open since the server started is checked when the mount is open. A
// forged one never leads to a file.
func TestHandleInAMountIsCheckedAtTheLatestWhenItIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		now    byte // scope when the handle is used
		known  bool // the mount was open once, and was closed
		forge  func(sealed []byte)
		find   error
		proven bool
		awake  error
	}{
		"the same, unknown":    {now: 1},
		"the same, known":      {now: 1, known: true, proven: true},
		"another, unknown":     {now: 2, awake: syscall.ESTALE},
		"another, known":       {now: 2, known: true, find: export.ErrGone},
		"no scope now":         {now: 0, awake: syscall.ESTALE},
		"forged":               {now: 1, forge: func(b []byte) { b[len(b)-12]++ }, find: export.ErrForged},
		"forged cunningly":     {now: 1, forge: func(b []byte) { b[len(b)-1]++ }, awake: syscall.ESTALE},
		"forged and known":     {now: 1, known: true, forge: func(b []byte) { b[len(b)-1]++ }, find: export.ErrGone},
		"another ID of a file": {now: 1, forge: func(b []byte) { b[6]++ }, find: export.ErrForged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &scopedMount{mountSite: newMountSite(t), scope: 1}
				m.show()
				e := m.awake()
				h := e.FS.Root()
				sealed := m.table.Seal(nil, e, h)
				m.scope = c.now
				m.show()
				if c.known {
					m.awake()
					m.rest()
				}
				if c.forge != nil {
					c.forge(sealed)
				}
				for range 2 {
					o, err := m.table.Find(sealed)
					if err != c.find {
						t.Fatalf("Find: %v, want %v", err, c.find)
					}
					if err != nil {
						return
					}
					if o.Proven() != c.proven || o.Export.Enter(m.conn) {
						t.Fatalf("proven %v, want %v; or it can be entered", o.Proven(), c.proven)
					}
					now, err := m.table.AwakeFor(o.Export, false)
					if err != c.awake || err == nil && (o.Handle != h || !now.Enter(m.conn)) {
						t.Fatalf("AwakeFor: %v, want %v", err, c.awake)
					}
					if err != nil {
						m.show() // so that it is unknown again
						continue
					}
					now.Leave(m.conn)
					if o, err = m.table.Find(sealed); err != nil || o.Export != now || !o.Proven() {
						t.Fatalf("while the mount is open: %+v, %v", o, err)
					}
					m.rest()
					c.proven = true
				}
			})
		})
	}
}

// If another file system is mounted in the place of one that was closed while idle, and the server has
// not noticed, handles of the former are stale when the latter is opened.
func TestMountThatIsAnotherWhenItIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &scopedMount{mountSite: newMountSite(t), scope: 1}
		m.show()
		e := m.awake()
		sealed := m.table.Seal(nil, e, e.FS.Root())
		m.rest()
		m.scope = 2
		o, err := m.table.Find(sealed)
		if err != nil || !o.Proven() {
			t.Fatal(err)
		}
		if _, err := m.table.AwakeFor(o.Export, false); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("AwakeFor: %v", err)
		}
		if _, err := m.table.Find(sealed); err != export.ErrGone {
			t.Errorf("Find: %v", err)
		}
	})
}
