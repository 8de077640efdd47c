package local_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// overlapping returns the number of changes that are wrongly Atomic. claims are changes of one
// object that say they are Atomic; such a change must not begin before another one ends.
func overlapping(claims []vfs.Change) (n int) {
	slices.SortFunc(claims, func(a, b vfs.Change) int {
		if a.Before.Ctime.Before(b.Before.Ctime) {
			return -1
		}
		return 1
	})
	var end vfs.Time
	for _, c := range claims {
		if c.Before.Ctime.Before(end) {
			n++
		}
		if end.Before(c.After.Ctime) {
			end = c.After.Ctime
		}
	}
	return n
}

// No two Atomic changes of a directory overlap, even if they come through two exports, or one
// export lies within the other.
func TestChangesThroughTwoFSAreOrdered(t *testing.T) {
	for name, within := range map[string]string{"one tree": "", "nested": "sub"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, local.Config{})
			w.mkdir(w.fs.Root(), "sub")
			other := open(t, local.Config{Root: w.path(within), StateDir: t.TempDir()})
			roots := map[*local.FS]vfs.Handle{w.fs: w.fs.Root(), other: other.Root()}
			if within != "" {
				h, err := w.lookup(w.fs.Root(), within)
				w.ok(err)
				roots[w.fs] = h
			}
			w.fs.Later(time.Minute)
			other.Later(time.Minute)
			var mu sync.Mutex
			var claims []vfs.Change
			note := func(ch vfs.Change, err error) {
				w.ok(err)
				if ch.Atomic {
					mu.Lock()
					claims = append(claims, ch)
					mu.Unlock()
				}
			}
			var wg sync.WaitGroup
			for fs, dir := range roots {
				for i := range 2 {
					wg.Go(func() {
						for j := range 500 {
							name := fmt.Appendf(nil, "%p.%d.%d", fs, i, j)
							_, ch, err := fs.Create(w.op, dir, name, &vfs.CreateHow{})
							note(ch, err)
							ch, err = fs.Remove(w.op, dir, name)
							note(ch, err)
						}
					})
				}
			}
			wg.Wait()
			if n := overlapping(claims); n != 0 {
				t.Errorf("%d of %d changes were not the only one", n, len(claims))
			}
			if len(claims) < 3000 {
				t.Errorf("of 4000 changes only %d say that they were the only one", len(claims))
			}
		})
	}
}

// No FS reports a lower Change than another FS of the same tree reported before.
func TestChangeIsOneForAllFS(t *testing.T) {
	w := newWorld(t, local.Config{})
	other := open(t, local.Config{Root: w.cfg.Root, StateDir: t.TempDir()})
	f := w.create(w.fs.Root(), "f")
	var last uint64
	for i := range 50 {
		_, _, ch, err := w.fs.Write(w.op, f, 0, [][]byte{[]byte("x")}, vfs.Unstable)
		w.ok(err)
		var a vfs.Attr
		w.ok(other.GetAttr(w.op, f, &a))
		if a.Change < ch.After.Change || ch.After.Change <= last {
			t.Fatalf("write %d: told %d, then %d by the other", i, ch.After.Change, a.Change)
		}
		last = ch.After.Change
	}
	// This also holds for a listing, if the Change is ahead of the ctime and only the first FS has
	// the file in its cache.
	var st unix.Stat_t
	w.ok(unix.Stat(w.path("f"), &st))
	for range 3 {
		last = w.fs.Told(f, &st, true)
	}
	other.EvictAll()
	var a vfs.Attr
	_, err := other.ReadDir(w.op, other.Root(), 0, true, &a, func(e *vfs.DirEntry) bool {
		if string(e.Name) == "f" && e.Attr.Change < last {
			t.Errorf("told %d, then %d in a listing of the other's", last, e.Attr.Change)
		}
		return true
	})
	w.ok(err)
}

// A change of a file's name also changes the file. So another change of the file that runs at the
// same time is not Atomic.
func TestNamesAreChangesOfTheFile(t *testing.T) {
	w := newWorld(t, local.Config{})
	root := w.fs.Root()
	f := w.create(root, "f")
	d := w.mkdir(root, "d")
	over := w.create(root, "over")
	e := w.mkdir(root, "e")
	var a vfs.Attr
	for what, c := range map[string]struct {
		changed vfs.Handle
		do      func() error
	}{
		"link":                  {f, func() error { _, err := w.fs.Link(w.op, f, root, []byte("l"), &a); return err }},
		"remove":                {f, func() error { _, err := w.fs.Remove(w.op, root, []byte("l")); return err }},
		"rename":                {f, func() error { _, _, err := w.fs.Rename(w.op, root, []byte("f"), root, []byte("g")); return err }},
		"rename over":           {over, func() error { _, _, err := w.fs.Rename(w.op, root, []byte("h"), root, []byte("over")); return err }},
		"rename of a dir":       {d, func() error { _, _, err := w.fs.Rename(w.op, root, []byte("d"), root, []byte("dd")); return err }},
		"rmdir":                 {e, func() error { _, err := w.fs.Rmdir(w.op, root, []byte("e")); return err }},
		"nothing":               {f, func() error { return nil }},
		"change of another":     {f, func() error { _, err := w.fs.Remove(w.op, root, []byte("other")); return err }},
		"one that began before": {f, func() error { return nil }},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "one that began before" {
				defer w.fs.Stir(c.changed)()
			}
			switch what {
			case "remove":
				_, err := w.fs.Link(w.op, f, root, []byte("l"), &a)
				w.ok(err)
			case "rename over":
				w.create(root, "h")
			case "change of another":
				w.create(root, "other")
			}
			before, err := w.attr(c.changed)
			w.ok(err)
			alone, err := w.fs.Alone(c.changed, c.do)
			w.ok(err)
			want := what == "nothing" || what == "change of another"
			if alone != want {
				t.Errorf("a change around it says that it is the only one: %v", alone)
			}
			if after, err := w.attr(c.changed); err == nil && !want && after.Ctime == before.Ctime && what != "one that began before" {
				t.Errorf("%s is not a change here: the test proves nothing", what)
			}
			os.Remove(w.path("l"))
			os.Rename(w.path("g"), w.path("f"))
			w.fs.Later(time.Minute)
		})
	}
}

// changeByAnother sets the object's mode without the FS until the object's ctime changes. That may
// take some milliseconds, because the kernel takes times from a coarse clock.
func (w *world) changeByAnother(name string) {
	w.Helper()
	var was, is unix.Stat_t
	w.ok(unix.Stat(w.path(name), &was))
	for is = was; is.Ctim == was.Ctim; {
		w.ok(unix.Chmod(w.path(name), 0o755))
		w.ok(unix.Stat(w.path(name), &is))
	}
}

// A change of an object that another process changed lately is not Atomic, because the other
// process may have made one more change between the attributes before and after.
func TestObjectsThatOthersChange(t *testing.T) {
	for place, dir := range places(t) {
		t.Run(place, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: dir(t)})
			root := w.fs.Root()
			now := time.Now()
			w.fs.SetClock(func() time.Time { return now })
			d := w.mkdir(root, "d")
			f := w.create(d, "f")
			attr := mode(0o644)
			changes := map[string]func() (vfs.Change, error){
				"Create": func() (vfs.Change, error) {
					_, ch, err := w.fs.Create(w.op, d, []byte("c"), &vfs.CreateHow{})
					w.ok(err)
					_, err = w.fs.Remove(w.op, d, []byte("c"))
					return ch, err
				},
				"Write": func() (vfs.Change, error) {
					_, _, ch, err := w.fs.Write(w.op, f, 0, [][]byte{[]byte("x")}, vfs.Unstable)
					return ch, err
				},
				"SetAttr": func() (vfs.Change, error) { return w.fs.SetAttr(w.op, f, &attr, nil) },
			}
			objects := map[string]string{"Create": "d", "Write": "d/f", "SetAttr": "d/f"}
			want := func(when string, atomic bool) {
				t.Helper()
				for what, do := range changes {
					for range 2 {
						ch, err := do()
						w.ok(err, what)
						if ch.Atomic != atomic || !ch.HasBefore || !ch.HasAfter {
							t.Errorf("%s: %s says that it is the only change: %v (%v, %v)", when, what, ch.Atomic, ch.HasBefore, ch.HasAfter)
						}
					}
				}
			}
			if place == "overlay" {
				want("where attributes are another file system's", false)
				return
			}
			want("made by this process", true)
			for _, o := range objects {
				w.changeByAnother(o)
			}
			now = time.Now()
			want("just changed by another", false)
			now = now.Add(900 * time.Millisecond)
			want("changed 0.9 s ago", false)
			now = now.Add(200 * time.Millisecond)
			want("changed 1.1 s ago", true)
			w.fs.EvictAll()
			want("seen for the first time", true)
		})
	}
}

// If another process changes an object repeatedly, changes through the FS are not Atomic for twice
// the time between the other process's last two changes, at most for 10 seconds, because its next
// change may come within that time. If its last change came more than 10 seconds after the
// previous one, they are not Atomic for one second.
func TestObjectsThatOthersChangeInTurns(t *testing.T) {
	const grain = 20 * time.Millisecond // step of the clock that ctimes come from
	for _, c := range []struct {
		gap, watched time.Duration
	}{
		{10 * time.Millisecond, time.Second},
		{3 * time.Second, 6 * time.Second},
		{9 * time.Second, 10 * time.Second},
		{11 * time.Second, time.Second},
		{time.Hour, time.Second},
	} {
		t.Run(c.gap.String(), func(t *testing.T) {
			begin, seen := time.Unix(1e9, 1), local.NewWatched()
			if seen.Undisturbed(begin, begin) || !seen.Undisturbed(begin, begin.Add(time.Second+grain)) {
				t.Error("an object whose first change was seen is not watched for a second")
			}
			second := begin.Add(c.gap)
			for _, at := range []time.Duration{0, c.watched - time.Millisecond} {
				if seen.Undisturbed(second, second.Add(at)) {
					t.Errorf("%v after the second change the object counts as undisturbed", at)
				}
			}
			if !seen.Undisturbed(second, second.Add(c.watched+grain)) {
				t.Errorf("%v after the second change the object is still watched", c.watched)
			}
		})
	}
}

// If the ctime has no fraction of a second, changes are not Atomic for two seconds longer. FAT
// rounds times down to even seconds, so the ctime of a recent change may be two seconds old.
func TestObjectWithACoarseTimeIsWatchedForLonger(t *testing.T) {
	ctime, seen := time.Unix(1e9, 0), local.NewWatched()
	for _, c := range []struct {
		age         time.Duration
		undisturbed bool
	}{{0, false}, {1999 * time.Millisecond, false}, {2999 * time.Millisecond, false}, {3 * time.Second, true}} {
		if seen.Undisturbed(ctime, ctime.Add(c.age)) != c.undisturbed {
			t.Errorf("an object with a ctime in whole seconds that is %v old counts as undisturbed: %v", c.age, !c.undisturbed)
		}
	}
}

// While another process changes the mode of a directory and of a file all the time, almost no
// change that the FS reports as Atomic includes one of the other process. A few may, before the FS
// notices the other process.
func TestOthersAtWork(t *testing.T) {
	w := newWorld(t, local.Config{})
	d := w.mkdir(w.fs.Root(), "d")
	f := w.create(w.fs.Root(), "f")
	var stop atomic.Bool
	var others sync.WaitGroup
	began := make(chan struct{})
	others.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if i == 1 {
				close(began)
			}
			os.Chmod(w.path("d"), os.FileMode(0o600+i%0o200))
			os.Chmod(w.path("f"), os.FileMode(0o600+i%0o200))
		}
	})
	awaited(t, began, "the other")
	claims, wrong := 0, 0
	note := func(ch vfs.Change, err error) {
		w.ok(err)
		if ch.Atomic {
			claims++
			if ch.Before.Mode != ch.After.Mode {
				wrong++
			}
		}
	}
	for i := range 2000 {
		_, ch, err := w.fs.Create(w.op, d, fmt.Appendf(nil, "f%d", i), &vfs.CreateHow{})
		note(ch, err)
		_, _, ch, err = w.fs.Write(w.op, f, 0, [][]byte{[]byte("x")}, vfs.Unstable)
		note(ch, err)
	}
	stop.Store(true)
	others.Wait()
	if wrong > 100 {
		t.Errorf("%d of %d changes were not the only one", wrong, claims)
	}
}
