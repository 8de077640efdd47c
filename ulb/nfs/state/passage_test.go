package state

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var aFS = &struct{ vfs.FileSystem }{}

// change returns the Intent of a change of the content by a caller of NFSv3.
func change(key FileKey) *Intent {
	return &Intent{Use: UseWrite, FS: aFS, File: key.Handle, Op: &vfs.Op{}, Kind: Host}
}

// A WRITE that was let through still runs when a client opens the file and denies writing. The open is granted when
// the WRITE has ended; another WRITE, which comes meanwhile, begins only then, and is denied.
func TestOpenThatDeniesWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{})
		defer m.Close()
		key := FileKey{aFS, fileKey(1).Handle}
		c := newClient(m, Sessions, "client")
		first, a := m.Ask(change(key))
		is(t, "the first WRITE", a, Yes)
		if m.Grant(&Hold{Key: key, Stops: changing}) {
			t.Error("a hold is granted beside a WRITE")
		}
		opened := make(chan Verdict, 1)
		args := OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: AccessRead, Deny: AccessWrite}
		try := args
		try.Try = true
		if _, v := m.Open(&try); v != WouldWait {
			t.Errorf("OPEN that must not wait: %v", v)
		}
		go func() {
			_, v := m.Open(&args)
			opened <- v
		}()
		synctest.Wait()
		if len(opened) > 0 {
			t.Fatalf("OPEN beside a WRITE: %v", <-opened)
		}
		var l Later
		second := change(key)
		second.Later = &l
		if _, a := m.Ask(second); a != Delayed {
			t.Errorf("a WRITE while the OPEN waits: answer %d", a)
		}
		is(t, "a WRITE that cannot wait", asks(m, change(key)), Repeat)
		is(t, "a READ while the OPEN waits", asks(m, &Intent{Use: UseRead, FS: aFS, File: key.Handle, Op: &vfs.Op{}, Kind: Host}), Yes)
		again := make(chan struct{})
		l.Await(func() { close(again) })
		first.Done()
		is(t, "OPEN after the WRITE", <-opened, ok)
		<-again
		is(t, "the second WRITE", asks(m, second), No)
	})
}

// A WRITE that does not end does not make an OPEN that denies writing wait for ever: the client is told to try again.
func TestOpenThatDeniesDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{})
		defer m.Close()
		key := FileKey{aFS, fileKey(1).Handle}
		hangs, _ := m.Ask(change(key))
		args := OpenArgs{Client: newClient(m, Sessions, "client"), OwnerName: []byte("owner"), Key: key, Access: AccessRead, Deny: AccessWrite}
		_, v := m.Open(&args)
		is(t, "OPEN", v, TryLater)
		is(t, "a WRITE", asks(m, change(key)), Yes)
		hangs.Done()
		_, v = m.Open(&args)
		is(t, "OPEN when the WRITE has ended", v, ok)
	})
}

// An OPEN that truncates counts its truncation, and does not wait for itself.
func TestOpenThatDeniesDoesNotWaitForItself(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	c := newClient(m, Sessions, "client")
	o, v := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: AccessRead, Deny: AccessWrite, Needs: AccessWrite, Try: true})
	is(t, "OPEN", v, ok)
	if n := m.ways.of(&key.Handle).changes(); n != 1 {
		t.Errorf("%d changes are under way, want the truncation", n)
	}
	o.Pass.Done()
	_, v = m.CloseOpen(&Ref{ID: o.ID, Client: c, Key: key}, false)
	is(t, "CLOSE", v, ok)
	nothingLeft(t, m)
}

// Beside many writers, a hold is granted only when none of them changes the file, and none begins until its release.
func TestNoChangeBeginsDuringAHold(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	var under atomic.Int32
	var held atomic.Bool
	var end atomic.Bool
	var writers sync.WaitGroup
	for range 32 {
		writers.Go(func() {
			for !end.Load() {
				i := change(key)
				var l Later
				i.Later = &l
				switch p, a := m.Ask(i); a {
				case Yes:
					under.Add(1)
					if held.Load() {
						t.Error("a change begins during the hold")
					}
					under.Add(-1)
					p.Done()
				case Delayed:
					again := make(chan struct{})
					l.Await(func() { close(again) })
					<-again
				default:
					t.Errorf("answer %d", a)
				}
			}
		})
	}
	for range 200 {
		h := &Hold{Key: key, Stops: changing, Conflict: func(*Intent) Answer { return Delayed }}
		if !m.announce(h, time.Minute) {
			t.Error("the changes under way do not end")
			break
		}
		held.Store(true)
		for range 100 {
			if n := under.Load(); n > 0 {
				t.Errorf("%d changes are under way during the hold", n)
			}
		}
		held.Store(false)
		m.Lift(h)
	}
	end.Store(true)
	writers.Wait()
	nothingLeft(t, m)
}

// A hold stops the accesses that it names, by all callers but its client: of the file, of its names, and of the names of a
// directory.
func TestHoldStopsWhatItNames(t *testing.T) {
	m := newManager(t)
	file, dir := FileKey{aFS, fileKey(1).Handle}, FileKey{aFS, fileKey(2).Handle}
	fs := names{file: file.Handle}
	file.Domain, dir.Domain = fs, fs
	own, other := newClient(m, Sessions, "own"), newClient(m, Sessions, "other")
	opened := open(t, m, own, "owner", file, AccessBoth, 0)
	by, _ := m.Find(&opened, own)
	for use := range UseRemove + 1 {
		for _, at := range []struct {
			name string
			key  FileKey
			i    Intent
		}{
			{"the file", file, Intent{File: file.Handle}},
			{"the file of the name", file, Intent{File: dir.Handle, Name: []byte("file")}},
			{"the directory", dir, Intent{File: dir.Handle, Name: []byte("file")}},
		} {
			asked := 0
			h := &Hold{Key: at.key, Stops: UsesOf(use), Client: own, Conflict: func(i *Intent) Answer {
				asked++
				if i.Use != use || string(i.Name) != string(at.i.Name) {
					t.Errorf("the hold hears of use %d of %q", i.Use, i.Name)
				}
				return Repeat
			}}
			if !m.Grant(h) {
				t.Fatal("the hold is not granted")
			}
			for who, i := range map[string]Intent{"NFSv3": {Kind: Host}, "4.0": {Kind: Minor0}, "another client": {Kind: Sessions, Client: other}, "the client": {Kind: Sessions, Client: own}, "its stateid": {Kind: Minor0, By: by}} {
				i.Use, i.FS, i.Op, i.File, i.Name = use, fs, &vfs.Op{}, at.i.File, at.i.Name
				want := Repeat
				if i.Client == own || i.By != nil || use == UseCreate && at.name == "the file of the name" {
					want = Yes
				}
				is(t, fmt.Sprintf("%s, use %d of %s", who, use, at.name), asks(m, &i), want)
			}
			m.Lift(h)
			if i := at.i; asked == 0 && !(use == UseCreate && at.name == "the file of the name") {
				t.Errorf("use %d of %s: nobody was asked, %v", use, at.name, i.Name)
			}
		}
	}
}

// In the FileSystem names, every name leads to the same file.
type names struct {
	vfs.FileSystem
	file vfs.Handle
}

func (fs names) Lookup(*vfs.Op, vfs.Handle, []byte, *vfs.Attr) (o vfs.Object, err error) {
	o.Handle = fs.file
	return o, nil
}

// While nothing is held, an access costs no allocation, and a read does not even look for its file.
func TestGateAllocatesNothing(t *testing.T) {
	m := newManager(t)
	op, file := &vfs.Op{}, fileKey(1).Handle
	for _, use := range []Use{UseRead, UseWrite, UseStat, UseRemove} {
		if n := testing.AllocsPerRun(100, func() {
			i := Intent{Use: use, FS: aFS, File: file, Op: op, Kind: Host}
			p, _ := m.Ask(&i)
			p.Done()
		}); n != 0 {
			t.Errorf("use %d allocates %v times", use, n)
		}
	}
}

func BenchmarkGate(b *testing.B) {
	m, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	op, h := &vfs.Op{}, fileKey(1).Handle
	for name, use := range map[string]Use{"READ": UseRead, "WRITE": UseWrite} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				i := Intent{Use: use, FS: aFS, File: h, Op: op, Kind: Host}
				p, _ := m.Ask(&i)
				p.Done()
			}
		})
	}
}

// Two OPENs that truncate a file and deny writing come while a WRITE is under way. They wait for it, and not for each
// other: one is granted, and the other conflicts with it.
func TestTruncatingOpensDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{})
		defer m.Close()
		key := FileKey{aFS, fileKey(1).Handle}
		write, _ := m.Ask(change(key))
		got := make(chan Verdict, 2)
		for _, name := range []string{"a", "b"} {
			args := OpenArgs{Client: newClient(m, Sessions, name), OwnerName: []byte("owner"), Key: key, Access: AccessRead | AccessWrite, Deny: AccessWrite, Needs: AccessWrite}
			var l Later
			args.Later = &l
			go func() {
				for {
					o, v := m.Open(&args)
					if v != AfterDisk {
						o.Pass.Done()
						got <- v
						return
					}
					again := make(chan struct{})
					l.Await(func() { close(again) })
					<-again
				}
			}()
		}
		synctest.Wait()
		write.Done()
		if a, b := <-got, <-got; min(a, b) != Granted || max(a, b) != OpenConflict {
			t.Errorf("the OPENs: %v and %v", a, b)
		}
	})
}

// A hold stops the truncation by an OPEN, although the OPEN's own access does not conflict with it.
func TestHoldStopsATruncatingOpen(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	h := &Hold{Key: key, Stops: ofDenyWrite, Conflict: func(*Intent) Answer { return Delayed }}
	if !m.Grant(h) {
		t.Fatal("no hold")
	}
	var l Later
	args := OpenArgs{Client: newClient(m, Sessions, "client"), OwnerName: []byte("owner"), Key: key, Access: AccessRead, Needs: AccessWrite, Later: &l}
	_, v := m.Open(&args)
	is(t, "OPEN during the hold", v, AfterDisk)
	again := make(chan struct{})
	l.Await(func() { close(again) })
	args.Later = nil
	_, v = m.Open(&args)
	is(t, "OPEN that cannot wait", v, TryLater)
	m.Lift(h)
	<-again
	o, v := m.Open(&args)
	is(t, "OPEN after the hold", v, ok)
	o.Pass.Done()
}

// A host adds a deny mode to its own share while a WRITE is under way. It waits for the WRITE, although its earlier share is
// in the way of the new one only until it is replaced.
func TestShareThatReplacesItsOwnWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{})
		defer m.Close()
		key := FileKey{aFS, fileKey(1).Handle}
		host := newHost(t, m, "host")
		share := func(deny Access) Verdict {
			return m.HostShare(&OpenArgs{Client: host, OwnerName: []byte("owner"), Key: key, Access: AccessWrite, Deny: deny})
		}
		is(t, "SHARE", share(0), ok)
		write, _ := m.Ask(change(key))
		got := make(chan Verdict, 1)
		go func() { got <- share(AccessWrite) }()
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("SHARE beside a WRITE: %v", <-got)
		}
		write.Done()
		is(t, "SHARE after the WRITE", <-got, ok)
		is(t, "another WRITE", asks(m, change(key)), No)
	})
}

// While a share is being decided that would replace an earlier one, and when it is refused, the earlier one denies what it
// denies.
func TestShareThatReplacesLeavesNoGap(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	host := newHost(t, m, "host")
	share := func(deny Access) Verdict {
		return m.HostShare(&OpenArgs{Client: host, OwnerName: []byte("owner"), Key: key, Access: AccessRead, Deny: deny})
	}
	is(t, "SHARE", share(AccessWrite), ok)
	open(t, m, newClient(m, Sessions, "client"), "owner", key, AccessRead, 0)
	d := &m.files.denials
	d.mu.RLock() // a change of the deny bits would wait
	got := make(chan Verdict, 1)
	go func() { got <- share(AccessRead) }()
	select {
	case v := <-got:
		is(t, "SHARE that conflicts", v, OpenConflict)
		d.mu.RUnlock()
	case <-time.After(30 * time.Second):
		d.mu.RUnlock()
		t.Errorf("SHARE takes the earlier deny bits away: %v", <-got)
	}
	is(t, "a WRITE", asks(m, change(key)), No)
	is(t, "SHARE that does not conflict", share(0), ok)
	is(t, "a WRITE afterwards", asks(m, change(key)), Yes)
}

// changes returns the number of changes under way.
func (w *way) changes() int32 { return w.under[0].Load() + w.under[1].Load() }

// Holds on a way wait only for the changes that began before them, although others, of other files, always follow: one
// begins before the last one has ended.
func TestHoldDoesNotWaitForLaterChanges(t *testing.T) {
	m := newManager(t)
	key, other := FileKey{aFS, fileKey(1).Handle}, FileKey{aFS, fileKey(2).Handle}
	for n := 3; m.ways.of(&other.Handle) != m.ways.of(&key.Handle); n++ {
		other = FileKey{aFS, fileKey(n).Handle}
	}
	var end atomic.Bool
	var writers sync.WaitGroup
	for range 4 {
		begun, a := m.Ask(change(other))
		is(t, "the first WRITE", a, Yes)
		writers.Go(func() {
			for !end.Load() {
				next, a := m.Ask(change(other))
				is(t, "a WRITE", a, Yes)
				begun.Done()
				begun = next
			}
			begun.Done()
		})
	}
	var holds sync.WaitGroup
	for range 4 {
		holds.Go(func() {
			for range 50 {
				h := &Hold{Key: key, Stops: changing, Conflict: func(*Intent) Answer { return Delayed }}
				if !m.announce(h, time.Minute) {
					t.Error("the changes under way do not end")
					return
				}
				m.Lift(h)
			}
		})
	}
	holds.Wait()
	end.Store(true)
	writers.Wait()
	nothingLeft(t, m)
}

// A hold waits for a change that began long before it, in whatever era.
func TestHoldWaitsForEarlierChanges(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	w := m.ways.of(&key.Handle)
	for era := range uint32(2) {
		for now := range uint32(2) {
			w.era.Store(era)
			old, _ := m.Ask(change(key))
			w.era.Store(now)
			h := &Hold{Key: key, Stops: changing}
			if m.announce(h, time.Millisecond) {
				t.Errorf("a hold is granted beside a change of era %d in era %d", era, now)
			}
			old.Done()
			if !m.announce(h, time.Minute) {
				t.Error("there is no hold when the change has ended")
			}
			m.Lift(h)
		}
	}
	nothingLeft(t, m)
}

// A change ends, and is late to tell it: another one begins before the hold, which waits for that one.
func TestHoldWaitsForAChangeAfterAnEarlierEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{})
		defer m.Close()
		key := FileKey{aFS, fileKey(1).Handle}
		first, _ := m.Ask(change(key))
		w := first.way
		is(t, "changes after the first one", w.under[first.era].Add(-1), 0) // the first half of its Done
		second, _ := m.Ask(change(key))
		h, granted := &Hold{Key: key, Stops: changing}, make(chan bool, 1)
		go func() { granted <- m.announce(h, time.Minute) }()
		synctest.Wait()
		w.wake(first.era) // the second half
		synctest.Wait()
		if len(granted) > 0 {
			t.Fatalf("a hold beside a WRITE: %v", <-granted)
		}
		second.Done()
		is(t, "a hold after the WRITE", <-granted, true)
		m.Lift(h)
	})
}

// A hold that has ended can be granted again. Calls that it stops then wait for its next end.
func TestHoldIsGrantedAgain(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	h := &Hold{Key: key, Stops: changing, Conflict: func(*Intent) Answer { return Delayed }}
	for range 2 {
		if !m.Grant(h) {
			t.Fatal("it is not granted")
		}
		var l Later
		i := change(key)
		i.Later = &l
		is(t, "a WRITE", asks(m, i), Delayed)
		again := make(chan struct{}, 1)
		l.Await(func() { again <- struct{}{} })
		if len(again) > 0 {
			t.Error("the call does not wait")
		}
		m.Lift(h)
		<-again
	}
}

// An access that panics while it asks is not under way any more.
func TestPanicInAskLeavesNoPass(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	h := &Hold{Key: key, Stops: changing, Conflict: func(*Intent) Answer { panic("a fault") }}
	if !m.Grant(h) {
		t.Fatal("no hold")
	}
	func() {
		defer func() { recover() }()
		m.Ask(change(key))
		t.Error("no panic")
	}()
	m.Lift(h)
	nothingLeft(t, m)
}

// An OPEN that has created its file is granted, whatever changes files with the same hash: the client could not repeat it.
func TestOpenOfANewFileWaitsForNothing(t *testing.T) {
	m := newManager(t)
	key := FileKey{aFS, fileKey(1).Handle}
	m.Ask(change(key)) // never ends
	_, v := m.Open(&OpenArgs{Client: newClient(m, Sessions, "client"), OwnerName: []byte("owner"), Key: key, Access: AccessRead, Deny: AccessWrite, Roomy: true})
	is(t, "OPEN", v, ok)
}
