//go:build hostile

package hostile

import (
	"fmt"
	"net/netip"
	"os"
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
	for _, c := range []struct {
		name   string
		copies ShortCopies
		source func(int) netip.Addr
	}{
		{"of one address", ShortCopies{Peers: 128, Slots: 16}, Strangers(1)},
		{"of 64 addresses", ShortCopies{Peers: 128, Slots: 16}, Strangers(64)},
		{"refused", ShortCopies{Peers: 128, Slots: 16, Refused: true}, Strangers(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{})
			b := c.copies
			b.From, b.To = s.Open.Victim, s.lookUp([]string{largeName})[0]
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
	for name, source := range map[string]func(int) netip.Addr{
		"1 address": Strangers(1), "64 addresses": Strangers(64),
		"64 addresses of a network of 64 bits": Neighbours6(64), "64 networks of 64 bits": Strangers6(64),
	} {
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
