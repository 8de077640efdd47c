//go:build hostile

package hostile

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// The daemon bounds the memory for calls that wait for a stalled file system, and drops the calls
// when their connections end. The test opens 1,500 connections of one address, each with 128
// calls.
func TestWaitingCallsOfOneAddress(t *testing.T) {
	s := stage(t, Config{Stalling: 1})
	s.Stalling[0].Stall()
	calls := make([][]byte, 128)
	for i := range calls {
		calls[i] = getattrCall(uint32(i), s.Stalling[0].Victim)
	}
	_, end := s.AttackUntil(Calls{Peers: 1500, What: "GETATTR in a file system that stalls", Calls: calls}, Strangers(1))
	s.JudgeClients()
	s.JudgeMemory()
	end()
	s.JudgeClients()
	s.JudgeEnd()
}

// While 128 connections make the daemon copy all the time, or ask for copies that it refuses, the
// daemon serves honest clients. When the connections have ended, the daemon spends no more time
// on their calls.
func TestShortCopies(t *testing.T) {
	copies := func(s *Stage) Repeated { return ShortCopies(s.Open.Victim, s.lookUp([]string{largeName})[0]) }
	refused := func(s *Stage) Repeated { return RefusedCopies(s.lookUp([]string{largeName})[0]) }
	for _, c := range []struct {
		name   string
		copies func(s *Stage) Repeated
		source func(int) netip.Addr
		short  bool
	}{
		{"of one address", copies, Strangers(1), true},
		{"of 64 addresses", copies, Strangers(64), false},
		{"refused", refused, Strangers(1), true},
	} {
		if !c.short && !everything() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{})
			b := Compounds{Peers: 128, Slots: 16, Repeated: c.copies(s)}
			a, end := s.AttackUntil(b, c.source)
			s.JudgeSeries(Null, Read, Names)
			s.JudgeClients()
			if n := a.Standing.Load(); n != int64(a.Peers) {
				t.Errorf("%d of %d peers stand: %v", n, a.Peers, a)
			}
			end()
			s.JudgeSeries(Names)
			s.Attack(b, c.source)
			s.JudgeMemory()
			s.JudgeEnd()
		})
	}
}

// While peers use the daemon's processor time with long compounds, the daemon serves honest
// clients. The scenes that are not short run only with the full matrix.
func TestLongCompounds(t *testing.T) {
	for _, c := range []struct {
		name         string
		disk         string // type of the file system of the open export; empty means that of the test's directory
		names        int
		peers, slots int
		of           func(s *Stage) Repeated
		judged       []Work
		short        bool
	}{
		{"READDIR of 100,000 names", "", 100_000, 64, 4, func(s *Stage) Repeated { return Listings(s.Open.Many, s.Open.Victim) }, []Work{Null, Names}, false},
		{"LOOKUP and GETATTR", "", 0, 64, 16, func(s *Stage) Repeated { return LookUps(s.Open.Root, s.Open.Victim, victimName) }, []Work{Read}, true},
		{"OPEN and CLOSE", "", 0, 64, 16, func(s *Stage) Repeated { return Reopens(s.Open.Root, s.Open.Victim, victimName) }, []Work{Locks}, false},
		{"LOCK and LOCKT beside 15,000 own locks", "", 0, 1, 64, func(s *Stage) Repeated { return RepeatedLocks(s.Open.files[0], 15_000) }, []Work{Locks}, false},
		{"CLONE of 4,000 extents", "xfs", 0, 16, 16, func(s *Stage) Repeated {
			scatter(t, filepath.Join(s.Directory, victimName), 4000)
			return Clones(s.Open.Victim, s.lookUp([]string{largeName})[0])
		}, []Work{Names}, false}, // depends on the machine's disk
	} {
		for name, source := range map[string]func(int) netip.Addr{"one address": Strangers(1), "64 addresses": Strangers(64)} {
			if !everything() && !(c.short && name == "one address") || name != "one address" && c.peers < 64 {
				continue
			}
			t.Run(c.name+", "+name, func(t *testing.T) {
				cfg := Config{Names: c.names}
				if c.disk != "" {
					cfg.Disk = newDisk(t, c.disk)
				}
				s := stage(t, cfg)
				a := s.Attack(Compounds{Peers: c.peers, Slots: c.slots, Repeated: c.of(s)}, source)
				if slices.Contains(c.judged, Locks) {
					s.JudgeDelays(c.judged...)
				} else {
					s.JudgeSeries(c.judged...)
				}
				if n := a.Standing.Load(); n != int64(a.Peers) {
					t.Errorf("%d of %d peers stand: %v", n, a.Peers, a)
				}
				s.JudgeEnd()
			})
		}
	}
}

// newDisk makes a file system of 400 MiB on a loop device and returns the directory where it is
// mounted. It skips the test if the machine does not support that.
func newDisk(t *testing.T, kind string) string {
	t.Helper()
	image, at := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	makeFile(t, image, nil)
	if err := os.Truncate(image, 400*mib); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+kind, "-q", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.%s: %v: %s", kind, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// scatter gives a file this number of extents of 4 KiB, with a hole before each.
func scatter(t *testing.T, path string, extents int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 4 * kib
	for i := range extents {
		if _, err := f.WriteAt(make([]byte, size), (2*i+1)*size); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// Honest clients are served while peers send GETATTRs of directories that lie 3,900 levels deep,
// 64 under way on each connection. Each directory has another parent.
func TestDeepDirectories(t *testing.T) {
	const levels, directories = 3900, 256
	s := stage(t, Config{})
	name := strings.Repeat("d", 8)
	makeDeep(t, s.Directory, name, levels, directories)
	at := s.Open.Root
	down := func(dir servertest.Handle, name string) servertest.Handle {
		h, err := s.honest["tcp"].Lookup(s.ctx, dir, name)
		if err != nil {
			t.Fatalf("LOOKUP %s before the attack: %v", name, err)
		}
		return h
	}
	for range levels {
		at = down(at, name)
	}
	var calls [][]byte
	for i := range directories {
		calls = append(calls, getattrCall(0, down(down(at, fmt.Sprint(i)), "leaf")))
	}
	for _, transport := range Transports {
		s.Attack(Rounds{Peers: 2, UnderWay: 64, What: "GETATTR of directories far down", Calls: calls, Transport: transport}, Strangers(1))
	}
	s.JudgeSeries(Null)
	s.JudgeClients()
	s.JudgeNames()
	s.JudgeMemory()
	s.JudgeEnd()
}

// makeDeep creates a directory `levels` levels deep, and in it directories with one subdirectory
// each.
func makeDeep(t *testing.T, in, name string, levels, directories int) {
	t.Helper()
	fd, err := unix.Open(in, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	into := func(name string) {
		if err == nil {
			err = unix.Mkdirat(fd, name, 0o755)
		}
		if err != nil {
			return
		}
		below, failed := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		fd, err = below, failed
	}
	for range levels {
		into(name)
	}
	for i := range directories {
		if err == nil {
			err = unix.Mkdirat(fd, fmt.Sprint(i), 0o755)
		}
		if err == nil {
			err = unix.Mkdirat(fd, fmt.Sprint(i, "/leaf"), 0o755)
		}
	}
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(in + "/" + name); err != nil {
			t.Error(err)
		}
	})
}

// While peers send as many NULL calls over TCP as the daemon accepts, the daemon answers an
// honest client's calls. The peers have one address or 64, of IPv4 or IPv6.
func TestFloodsOverTCP(t *testing.T) {
	sources := map[string]func(int) netip.Addr{"1 address": Strangers(1), "64 networks of 64 bits": Strangers6(64)}
	if everything() {
		sources["64 addresses"], sources["64 addresses of a network of 64 bits"] = Strangers(64), Neighbours6(64)
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			s := stage(t, Config{IPv6: source(0).Is6()})
			s.Attack(Rounds{Peers: 64, UnderWay: 64, What: "NULL", Calls: [][]byte{nullCall(0)}, Transport: "tcp"}, source)
			s.JudgeSeries(Null)
			s.JudgeEnd()
		})
	}
}

// An honest client can connect from a privileged port although known peers use all the
// connections that its address may have, or all that the daemon accepts.
func TestPlacesOfOneAddress(t *testing.T) {
	sources := []func(int) netip.Addr{SharedAddress, Strangers(100)}
	for i, name := range []string{"shared address", "100 addresses"} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, Config{Limits: "connections = 100\nconnections_per_client = 50"})
			s.Attack(Rounds{Peers: 100, UnderWay: 1, What: "GETATTR", Calls: [][]byte{getattrCall(0, s.Open.Victim)}, Transport: "tcp"}, sources[i])
			s.JudgePrivileged()
			s.JudgeEnd()
		})
	}
}
