package identity

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A directory is a fake getent that replaces the machine's own. It simulates a directory
// service that is up, or the C library's output while it is down.
type directory struct{ dir string }

func newDirectory(t *testing.T, services string) (*directory, *Map) {
	d := &directory{t.TempDir()}
	d.put(t, "nsswitch.conf", "passwd: "+services+"\ngroup: "+services+"\n")
	d.put(t, "passwd", "local:x:12:12::/:/bin/sh\n")
	d.put(t, "group", "")
	d.put(t, "getent", `#!/bin/sh
cd "`+d.dir+`"
case "$2" in *:remote\ *)
	echo "1: calling init: /lib/libnss_remote.so.2" >&2
	if [ -e down ]; then
		echo "1: find library=libnss_nfsrdmad.so.2 [0]; searching" >&2
		[ $3 = initgroups ] && echo "$4   "
		exit 2
	fi
	if [ -e "$3.$4" ]; then cat "$3.$4"; exit; fi
	[ $3 = initgroups ] && { echo "$4   "; exit; }
esac
exit 2
`)
	if err := os.Chmod(filepath.Join(d.dir, "getent"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.put(t, "passwd.1234567", "ann:x:1234567:5000::/:/bin/sh\n")
	d.put(t, "passwd.ann", "ann:x:1234567:5000::/:/bin/sh\n")
	d.put(t, "initgroups.ann", "ann 5000 5001\n")
	d.put(t, "initgroups.local", "local 7000\n")
	t.Setenv("PATH", d.dir+":"+os.Getenv("PATH"))
	return d, New(Config{
		Domain: "example.org", Passwd: filepath.Join(d.dir, "passwd"), Group: filepath.Join(d.dir, "group"), Switch: filepath.Join(d.dir, "nsswitch.conf"),
	})
}

func (d *directory) put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *directory) remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.dir, file)); err != nil {
		t.Fatal(err)
	}
}

// A service that is down may know users that no other service knows. While it is down, the Map
// returns an error, not "no such user" or an incomplete list of groups. This also holds for users
// in the files.
func TestServiceThatIsDownIsNoAnswer(t *testing.T) {
	d, m := newDirectory(t, "files remote")
	for _, up := range []bool{true, false, true} {
		if !up {
			d.put(t, "down", "")
		}
		for _, c := range []struct {
			uid    uint32
			groups []uint32
			known  bool
		}{
			{1234567, []uint32{5000, 5001}, true}, {12, []uint32{12, 7000}, true}, {77, nil, false},
		} {
			groups, known, err := m.GroupsOf(t.Context(), c.uid)
			if !up && !errors.Is(err, errUnavailable) {
				t.Errorf("user %d, and the service is down: %v, %v, %v", c.uid, groups, known, err)
			}
			if up && (err != nil || known != c.known || !slices.Equal(groups, c.groups)) {
				t.Errorf("user %d, and the service is up: %v, %v, %v", c.uid, groups, known, err)
			}
		}
		if _, _, _, known, err := m.Account("ann"); known != up || (err == nil) != up {
			t.Errorf("up %v: an account is known: %v, %v", up, known, err)
		}
		if !up {
			d.remove(t, "down")
		}
	}
}

// getent asks the services in the order of nsswitch.conf, and asks none after a service whose
// answer is final.
func TestServicesAreAskedInOrder(t *testing.T) {
	d, m := newDirectory(t, "files [NOTFOUND=continue] other[!UNAVAIL=return] remote # [x]")
	if groups, known, err := m.GroupsOf(t.Context(), 1234567); known || err != nil {
		t.Errorf("behind a service whose word is final: %v, %v, %v", groups, known, err)
	}
	d.put(t, "nsswitch.conf", "passwd: other remote\ninitgroups: other\ngroup: remote\n")
	if groups, known, err := m.GroupsOf(t.Context(), 1234567); !known || err != nil || !slices.Equal(groups, []uint32{5000}) {
		t.Errorf("groups of another service than the account: %v, %v, %v", groups, known, err)
	}
}

// By the output of this machine's C library, getent finds that an unconfigured service is
// unavailable, that a service without a library is not, and that the files answer.
func TestTheCLibrarySaysWhichServiceIsDown(t *testing.T) {
	if found, _ := filepath.Glob("/lib/*/libnss_hesiod.so.2"); len(found) == 0 {
		t.Skip("this machine has not the service that is asked")
	}
	m := New(Config{Switch: filepath.Join(t.TempDir(), "nsswitch.conf")})
	for services, down := range map[string]bool{
		"hesiod": true, "files": false, "files hesiod": true, "absent": false, "systemd": false, "hesiod files": true,
	} {
		if err := os.WriteFile(m.cfg.Switch, []byte("passwd: "+services+"\ngroup: "+services+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, database := range []string{"passwd", "group", initgroups} {
			line, err := m.getent(t.Context(), database, "no-such-user-of-any-machine")
			if errors.Is(err, errUnavailable) != down || !down && err != nil {
				t.Errorf("%s: %s: %q, %v", services, database, line, err)
			}
		}
	}
}

// While the service is down, callers get vfs.ErrDelay, and users with remembered groups keep these.
// No user is served without groups.
func TestGroupsWhileTheServiceIsDown(t *testing.T) {
	d, m := newDirectory(t, "files remote")
	failed := make(chan struct{}, 100)
	g := NewGroups(GroupsConfig{Look: m.GroupsOf, Age: time.Hour, Failed: func(uint32, error) { failed <- struct{}{} }})
	defer g.Close()
	client := netip.MustParseAddr("192.0.2.1")
	ask := func(uid uint32) ([]uint32, error) {
		for {
			list, err := g.Find(client, nil, uid)
			w, ok := err.(*Wait)
			if !ok {
				return list, err
			}
			c := make(chan struct{})
			w.Await(func() { close(c) })
			<-c
		}
	}
	if list, err := ask(1234567); err != nil || !slices.Equal(list, []uint32{5000, 5001}) {
		t.Fatalf("service up: %v, %v", list, err)
	}
	d.put(t, "down", "")
	if list, err := ask(1234567); err != nil || len(list) != 2 {
		t.Errorf("service down, and the answer holds: %v, %v", list, err)
	}
	g.Forget()
	if list, err := ask(1234567); err != nil || !slices.Equal(list, []uint32{5000, 5001}) {
		t.Errorf("service down, and the groups of before: %v, %v", list, err)
	}
	<-failed
	if list, err := ask(12); !errors.Is(err, vfs.ErrDelay) {
		t.Errorf("service down, and nothing remembered: %v, %v", list, err)
	}
	<-failed
}

// If a user vanishes from the directory, the old answer stays valid until it expires, and Groups
// looks the user up again before that.
func TestUserThatVanishesIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := true
		asked := 0
		g := NewGroups(GroupsConfig{Age: time.Hour, UnknownAge: time.Minute, Look: func(context.Context, uint32) ([]uint32, bool, error) {
			asked++
			return []uint32{5000, 5001}, known, nil
		}})
		defer g.Close()
		find := func() []uint32 {
			list, err := g.Find(oneClient, nil, 7)
			synctest.Wait()
			if _, waits := err.(*Wait); waits {
				list, err = g.Find(oneClient, nil, 7)
			}
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		find()
		known = false
		for range 6 { // after 45 minutes Groups renews the answer
			time.Sleep(9 * time.Minute)
			if list := find(); len(list) != 2 {
				t.Fatalf("the user vanished, and its answer does not hold: %v", list)
			}
		}
		if asked != 3 {
			t.Errorf("it was asked for %d times while the answer held, want once, at 45 and at 54 minutes", asked)
		}
		time.Sleep(10 * time.Minute)
		if list := find(); len(list) != 0 {
			t.Errorf("the answer is too old: %v", list)
		}
	})
}
