package export_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// opener opens file systems in memory, and counts its calls.
type opener struct {
	opened, closed, refused atomic.Int32
	inUse                   atomic.Bool
	// fails, if not nil, returns the error of Open. gate, if not nil, blocks Open until it is
	// closed.
	fails func() error
	gate  chan struct{}
}

func (o *opener) Open(*export.Mount) (vfs.FileSystem, error) {
	if o.gate != nil {
		<-o.gate
	}
	if o.fails != nil {
		if err := o.fails(); err != nil {
			return nil, err
		}
	}
	o.opened.Add(1)
	return memfs.New(memfs.Options{}), nil
}

func (o *opener) Refused(*export.Mount)               { o.refused.Add(1) }
func (o *opener) InUse(vfs.FileSystem) bool           { return o.inUse.Load() }
func (o *opener) Close(*export.Mount, vfs.FileSystem) { o.closed.Add(1) }

// mountSite is a table with an export /srv with CrossMount.
type mountSite struct {
	t     *testing.T
	o     *opener
	table *export.Table
	fs    vfs.FileSystem // of /srv
	top   *export.Export
	conn  *rpc.Conn
}

func newMountSite(t *testing.T) *mountSite {
	s := &mountSite{t: t, o: new(opener), table: export.NewTable([export.KeySize]byte{1}), conn: new(rpc.Conn), fs: memfs.New(memfs.Options{})}
	s.conn.ID, s.conn.Peer = 3, netip.MustParseAddrPort("10.0.0.1:700")
	s.top = s.srv(func(*export.Export) {})
	s.replace(s.top)
	return s
}

func (s *mountSite) srv(set func(e *export.Export)) *export.Export {
	e := &export.Export{Name: "/srv", FS: s.fs, Options: export.Options{CrossMount: true}}
	set(e)
	return e
}

func (s *mountSite) replace(all ...*export.Export) {
	s.t.Helper()
	if err := s.table.Replace(all); err != nil {
		s.t.Fatal(err)
	}
}

// found describes the mount on /data/NAME. /data is the directory of /srv.
func (s *mountSite) found(name string, id uint64) export.Found {
	return export.Found{Top: s.top, Under: "/srv", Dir: "/data", Point: "/data/" + name, Name: "/srv/" + name, ID: id, Kind: "ext4", Root: "/"}
}

func (s *mountSite) set(all ...export.Found) (gone []*export.Mount) {
	return s.table.SetMounts(all, s.o)
}

// changeOptions makes the export /srv, and the mount a below it, read-only. A call that has already
// entered continues with the earlier options.
func (s *mountSite) changeOptions() {
	s.top = s.srv(func(e *export.Export) { e.ReadOnly = true })
	s.replace(s.top)
	s.set(s.found("a", 7))
}

// in returns the export of the mount on /data/NAME, with an open file system, after Enter.
func (s *mountSite) in(name string) *export.Export {
	s.t.Helper()
	e, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/"+name, false)
	if err != nil {
		s.t.Fatal(err)
	}
	if !e.Enter(s.conn) {
		s.t.Fatal("it cannot be entered")
	}
	return e
}

func (s *mountSite) is(what string, got *atomic.Int32, want int32) {
	s.t.Helper()
	synctest.Wait()
	if n := got.Load(); n != want {
		s.t.Errorf("%s: %d, want %d", what, n, want)
	}
}

// A mount counts for the export above it, also after a change of the options while its file system is open.
func TestMountCountsForItsExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		did := func() {
			e := s.in("a")
			e.Did(s.conn, export.Reading, false)
			e.Leave(s.conn)
		}
		did()
		s.replace(s.srv(func(e *export.Export) { e.ReadOnly = true }))
		s.top, _, _ = s.table.Resolve("/srv")
		did()
		if n := s.top.Account().Operations[export.Reading]; n != 2 {
			t.Errorf("%d operations count, want 2", n)
		}
	})
}

// A mount has all options of the export that it is below, and an ID from its own name.
func TestMountHasTheOptionsOfItsExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.table.Groups = new(groups.Fake)
		s.top = s.srv(func(e *export.Export) {
			v := reflect.ValueOf(e).Elem()
			for _, field := range reflect.VisibleFields(v.Type()) {
				if f := v.FieldByIndex(field.Index); field.IsExported() && f.IsZero() {
					switch f.Kind() {
					case reflect.Bool:
						f.SetBool(true)
					case reflect.Uint32, reflect.Uint8:
						f.SetUint(1)
					case reflect.Slice:
						f.Set(reflect.MakeSlice(f.Type(), 1, 1))
					}
				}
			}
			e.Clients = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			e.Secure = false
		})
		s.replace(s.top)
		s.set(s.found("a", 7))
		e := s.in("a")
		defer e.Leave(s.conn)
		got, want := reflect.ValueOf(e).Elem(), reflect.ValueOf(s.top).Elem()
		for _, f := range reflect.VisibleFields(got.Type()) {
			switch f.Name {
			case "Name", "ID", "FS", "Root", "Options":
				continue
			}
			got, want := got.FieldByIndex(f.Index), want.FieldByIndex(f.Index)
			if f.IsExported() && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s is %v, want %v", f.Name, got, want)
			}
		}
		again := export.NewTable([export.KeySize]byte{1})
		if err := again.Replace([]*export.Export{{Name: "/srv/a"}}); err != nil {
			t.Fatal(err)
		}
		if e.Name != "/srv/a" || e.Root || e.ID != again.All()[0].ID {
			t.Errorf("%s, %d, root %v", e.Name, e.ID, e.Root)
		}
	})
}

// doze closes the file system of a mount that seems to be unused for long enough, as the server does.
func doze(m *export.Mount, after time.Duration) {
	if since, idle := m.Rested(); idle && time.Since(since) >= after {
		m.Rest()
	}
}

// The first call that needs a mount's file system opens it for all calls. After some time without
// calls the file system is closed, but its handles stay valid.
func TestMountSleepsAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		s.is("opened before a call", &s.o.opened, 0)
		if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/a", true); !errors.Is(err, vfs.ErrWouldBlock) {
			t.Errorf("an attempt: %v", err)
		}
		s.is("opened by an attempt", &s.o.opened, 0)
		for range 10 {
			go func() { s.in("a").Leave(s.conn) }()
		}
		s.is("opened", &s.o.opened, 1)
		e := s.in("a")
		sealed := s.table.Seal(nil, e, e.FS.Root())
		m := e.Mount()
		watch := func(after time.Duration) {
			for range 5 {
				doze(m, after)
				time.Sleep(after / 4)
			}
		}
		watch(10 * time.Second)
		s.is("closed while a call is inside", &s.o.closed, 0)
		e.Leave(s.conn)
		s.o.inUse.Store(true)
		watch(10 * time.Second)
		s.is("closed while clients hold something", &s.o.closed, 0)
		s.o.inUse.Store(false)
		watch(8 * time.Second)
		s.is("closed", &s.o.closed, 1)
		o, err := s.table.Find(sealed)
		if err != nil || o.Export.ID != e.ID {
			t.Fatalf("%+v, %v", o, err)
		}
		if o.Export.Enter(s.conn) {
			t.Fatal("it can be entered while it is asleep")
		}
		if _, err := s.table.Awake(o.Export, true); !errors.Is(err, vfs.ErrWouldBlock) {
			t.Errorf("an attempt: %v", err)
		}
		now, err := s.table.Awake(o.Export, false)
		if err != nil || !now.Enter(s.conn) {
			t.Fatalf("%+v, %v", now, err)
		}
		now.Leave(s.conn)
		if o, err = s.table.Find(sealed); err != nil || o.Export != now {
			t.Errorf("found %+v, %v", o, err)
		}
		s.is("opened again", &s.o.opened, 2)
	})
}

// If a call comes while a file system is being closed, the file system stays open for the call.
func TestMountIsWantedWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		e := s.in("a")
		m := e.Mount()
		s.changeOptions()
		if now := m.Awake(); !now.ReadOnly || now.FS != e.FS {
			t.Errorf("%+v", now)
		}
		if m.Rest() == nil {
			t.Fatal("it is in use")
		}
		entered := make(chan *export.Export)
		go func() { entered <- s.in("a") }()
		synctest.Wait()
		e.Leave(s.conn)
		now := <-entered
		if now.FS != e.FS || !now.ReadOnly {
			t.Errorf("%+v", now)
		}
		now.Leave(s.conn)
		s.is("opened", &s.o.opened, 1)
		s.is("closed", &s.o.closed, 0)
		if closed := m.Rest(); closed == nil {
			t.Error("it is in use")
		} else {
			<-closed
		}
		s.is("closed", &s.o.closed, 1)
	})
}

// If a mount's file system opens slowly, calls wait for it until wakeWithin after the start of
// Open. Only one Open runs.
func TestMountThatOpensSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.o.gate = make(chan struct{})
		s.set(s.found("a", 7))
		began := time.Now()
		for i := range 3 {
			_, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/a", false)
			if took := time.Since(began); !errors.Is(err, vfs.ErrDelay) || took > 300*time.Millisecond {
				t.Errorf("call %d: %v after %v", i, err, took)
			}
		}
		close(s.o.gate)
		synctest.Wait()
		s.in("a").Leave(s.conn)
		s.is("opened", &s.o.opened, 1)

		s.o.gate = make(chan struct{})
		s.set(s.found("b", 8))
		_, _ = s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/b", false)
		s.set() // the file system is unmounted while it is being opened
		close(s.o.gate)
		s.is("closed", &s.o.closed, 2)
	})
}

// If the file system of a mount cannot be opened, the mount behaves as without crossmnt. Not every
// call causes a new attempt.
func TestMountThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		tries := 0
		why := syscall.EINVAL
		s.o.fails = func() error {
			if tries++; tries > 10 {
				return nil // so that the test ends if there are too many attempts
			}
			return why
		}
		s.set(s.found("a", 7), func() export.Found { f := s.found("proc", 8); f.Refused = "reason"; return f }())
		crosses := func(name string) error {
			_, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/"+name, false)
			return err
		}
		for range 3 {
			if err := crosses("a"); !errors.Is(err, syscall.EXDEV) {
				t.Error(err)
			}
			if err := crosses("proc"); !errors.Is(err, syscall.EXDEV) {
				t.Error(err)
			}
			if err := crosses("nothing"); !errors.Is(err, syscall.EXDEV) {
				t.Error(err)
			}
		}
		if tries != 1 {
			t.Errorf("%d tries", tries)
		}
		s.is("told", &s.o.refused, 3)
		time.Sleep(time.Minute)
		why = 0
		s.o.fails = nil
		s.in("a").Leave(s.conn)
		tries = 0
		s.o.fails = func() error {
			if tries++; tries > 10 {
				return nil
			}
			return vfs.ErrDelay
		}
		s.set(s.found("c", 9))
		if err := crosses("c"); !errors.Is(err, vfs.ErrDelay) {
			t.Errorf("what passes: %v", err)
		}
	})
}

// If a mount is unmounted or replaced, or the export above it is removed, its file system is closed
// after the last call.
func TestMountsGo(t *testing.T) {
	for what, change := range map[string]func(s *mountSite){
		"unmounted":  func(s *mountSite) { s.set() },
		"another":    func(s *mountSite) { s.set(s.found("a", 8)) },
		"its export": func(s *mountSite) { s.replace() },
		"another directory": func(s *mountSite) {
			s.replace(s.srv(func(e *export.Export) { e.FS = memfs.New(memfs.Options{}) }))
		},
		"crossmnt":           func(s *mountSite) { s.replace(s.srv(func(e *export.Export) { e.CrossMount = false })) },
		"exported by itself": func(s *mountSite) { s.replace(s.top, &export.Export{Name: "/srv/a", FS: memfs.New(memfs.Options{})}) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMountSite(t)
				s.set(s.found("a", 7))
				e := s.in("a")
				sealed := s.table.Seal(nil, e, e.FS.Root())
				change(s)
				s.is("closed while a call runs", &s.o.closed, 0)
				if e.Enter(s.conn) {
					t.Error("it can be entered")
				}
				e.Leave(s.conn)
				s.is("closed", &s.o.closed, 1)
				switch o, err := s.table.Find(sealed); what {
				case "another", "exported by itself": // the new export has the same name, so the same ID
					if err != nil || o.Export == e {
						t.Errorf("%+v, %v", o, err)
					}
				default:
					if !errors.Is(err, export.ErrGone) {
						t.Errorf("a handle: %v", err)
					}
				}
			})
		})
	}
}

// New options of an export hold for its mounts before the next survey, whether they are open or closed.
func TestMountHasNewOptionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7), s.found("closed", 8))
		e := s.in("a")
		e.Leave(s.conn)
		s.replace(s.srv(func(e *export.Export) { e.ReadOnly = true }))
		for _, m := range s.table.Mounts() {
			if now := s.table.ByID(m.ExportID); !now.ReadOnly {
				t.Errorf("%s has the options of before", m.Name)
			}
		}
		if e.Enter(s.conn) {
			t.Error("a call enters the mount with the options of before")
		}
		s.is("closed", &s.o.closed, 0)
		s.replace()
		s.is("closed", &s.o.closed, 1)
	})
}

// A mount serves only the clients of the export above it. If an export has the name of a mount, the
// mount point leads into that export.
func TestMountServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.top = s.srv(func(e *export.Export) { e.Clients = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")} })
		own := &export.Export{Name: "/srv/own", FS: memfs.New(memfs.Options{})}
		s.replace(s.top, own)
		s.set(s.found("a", 7), s.found("own", 8))
		if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/a", false); !errors.Is(err, syscall.EXDEV) {
			t.Errorf("a stranger: %v", err)
		}
		s.is("opened by a stranger", &s.o.opened, 0)
		if all := s.table.Mounts(); len(all) != 1 || all[0].Name != "/srv/a" {
			t.Errorf("%d mounts", len(all))
		}
		if e, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/own", true); err != nil || e != own {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// Each call for a mount that the table does not know calls the function of OnMissing once.
func TestMissingMounts(t *testing.T) {
	s := newMountSite(t)
	looks, known := 0, true
	s.table.OnMissing = func() bool {
		looks++
		if known {
			s.set(s.found("a", 7))
		}
		return known
	}
	if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/a", true); !errors.Is(err, vfs.ErrWouldBlock) || looks != 0 {
		t.Errorf("an attempt: %v, %d looks", err, looks)
	}
	s.in("a").Leave(s.conn)
	if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/b", false); !errors.Is(err, syscall.EXDEV) || looks != 2 {
		t.Errorf("%v, %d looks", err, looks)
	}
	known = false
	if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/b", false); !errors.Is(err, vfs.ErrDelay) {
		t.Errorf("while there is no look: %v", err)
	}
}

// Way returns the path from the mount that contains the mount point, not from the export.
func TestWayToAMount(t *testing.T) {
	s := newMountSite(t)
	b := s.found("a/dir/b", 8)
	b.Under, b.Dir = "/srv/a", "/data/a"
	s.set(s.found("a", 7), b)
	for _, m := range s.table.Mounts() {
		from, names := s.table.Way(m)
		got := fmt.Sprintf("%s by %q from %s", m.Beneath(), names, from.Name)
		want := map[string]string{"/srv/a": `/a by ["a"] from /srv`, "/srv/a/dir/b": `/a/dir/b by ["dir" "b"] from /srv/a`}[m.Name]
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
