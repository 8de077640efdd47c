package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// threadHas returns the fsuid, the fsgid, the groups and the effective capabilities of the calling thread.
func threadHas() (has string, caps uint64, err error) {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return "", 0, err
	}
	fields := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		fields[name] = strings.Fields(rest)
	}
	if len(fields["Uid"]) != 4 || len(fields["Gid"]) != 4 || len(fields["CapEff"]) != 1 {
		return "", 0, fmt.Errorf("status of the thread: %q", b)
	}
	caps, err = strconv.ParseUint(fields["CapEff"][0], 16, 64)
	return fmt.Sprint(fields["Uid"][3], " ", fields["Gid"][3], " ", fields["Groups"]), caps, err
}

// Many goroutines act as callers at once. Each sees exactly its caller's user, group and groups, and of the
// capabilities that override rights only the one that it asked to keep. Afterwards every thread of the
// process has the daemon's identity again.
func TestEachThreadActsAsItsCaller(t *testing.T) {
	if !local.CanSwitch() {
		t.Skip("this process cannot act as another user")
	}
	const overrides = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_CHOWN | 1<<unix.CAP_FOWNER
	_, own, err := threadHas()
	if err != nil {
		t.Fatal(err)
	}
	d, want := local.NewDaemon(true), threadIdentity(t, "/proc/self/status")
	const callers, calls = 8, 40
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range calls {
				c := id(uint32(2000+i), uint32(3000+j), uint32(4000+j), uint32(5000+i))
				keep := uint64(0)
				if j%2 == 1 {
					keep = 1 << unix.CAP_FOWNER
				}
				var has string
				var caps uint64
				err := d.As(c, keep, func() (err error) {
					has, caps, err = threadHas()
					return err
				})
				if err != nil {
					t.Errorf("acting as %v: %v", *c, err)
					return
				}
				if want := fmt.Sprint(c.UID, " ", c.GID, " ", c.Groups); has != want {
					t.Errorf("the thread has %s, want %s", has, want)
				}
				if got, want := caps&overrides, keep&own; got != want {
					t.Errorf("the thread of %v has the capabilities %#x, want %#x", *c, got, want)
				}
			}
		})
	}
	wg.Wait()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		if got := threadIdentity(t, task); got != "" && got != want {
			t.Errorf("%s: %s\nwant %s", task, got, want)
		}
	}
	if switches, failures, retired := d.Counts(); switches != callers*calls || failures != 0 || retired != 0 {
		t.Errorf("%d switches, %d failed, %d threads retired; want %d switches and no failure", switches, failures, retired, callers*calls)
	}
}

// A daemon that cannot switch its threads acts only as callers with its own user and group and with no group
// that it lacks. For another caller it runs nothing. The error of what it runs is returned as it is.
func TestDaemonWithoutSwitchingActsAsItself(t *testing.T) {
	d, own := local.NewDaemon(false), local.Identity()
	failure := errors.New("the call failed")
	for _, c := range []*vfs.Cred{&own, {UID: own.UID, GID: own.GID}} {
		if err := d.As(c, 0, func() error { return failure }); err != failure {
			t.Errorf("as itself (%v): %v, want the error of the call", *c, err)
		}
	}
	for _, c := range []*vfs.Cred{id(own.UID+1, own.GID), id(own.UID, own.GID+1), id(own.UID, own.GID, 4321)} {
		ran := false
		if err := d.As(c, 0, func() error { ran = true; return nil }); err != syscall.EPERM || ran {
			t.Errorf("as %v: %v, ran %v; want EPERM before anything runs", *c, err, ran)
		}
	}
	if switches, _, _ := d.Counts(); switches != 0 {
		t.Errorf("%d switches of a daemon that cannot switch", switches)
	}
}

// All users without a mapping have one ID. A caller with this ID owns no file.
func TestUnmappedUserOwnsNothing(t *testing.T) {
	d := local.NewDaemon(false)
	d.SetUnmapped(65534)
	for _, c := range []struct {
		caller, owner uint32
		owns          bool
	}{{1000, 1000, true}, {1000, 1001, false}, {65534, 65534, false}, {0, 0, true}} {
		if got := d.Owns(id(c.caller, 0), c.owner); got != c.owns {
			t.Errorf("user %d owns a file of user %d: %v", c.caller, c.owner, got)
		}
	}
}
