//go:build hostile

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// restarts returns a restarted for the program under test.
func restarts(t *testing.T, cfg Config) *restarted {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	return newRestarted(t, program, cfg)
}

func statusOf(err error) wire.NFSStat4 {
	var s status4
	switch {
	case err == nil:
		return wire.NFS4OK
	case errors.As(err, &s):
		return wire.NFSStat4(s)
	}
	return wire.NFS4ErrIO
}

func isStatus(t *testing.T, what string, err error, want wire.NFSStat4) {
	t.Helper()
	if got := statusOf(err); got != want {
		t.Errorf("%s: %v (%v), not %v", what, got, err, want)
	}
}

// A daemon that was killed while it created or recorded clients starts again. It lets every
// client reclaim whose RECLAIM_COMPLETE had succeeded, and no client that had not sent it.
func TestKilledWhileRecording(t *testing.T) {
	r := restarts(t, Config{State: filepath.Join(t.TempDir(), "state"), NFS: "grace_time = \"10m\"\nlease_time = \"5m\""})
	const rounds, asked = 20, 10
	all := &recorders{promised: map[string]netip.Addr{}, never: map[string]netip.Addr{}}
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		// The test kills one daemon at a random moment of its start, while it rewrites the
		// records.
		early := launch(t, program, r.cfg, r.exports())
		wait(ctx, time.Duration(rand.IntN(300))*time.Millisecond)
		early.Kill()
		d := r.start()
		for _, those := range []struct {
			of   map[string]netip.Addr
			want bool
		}{{all.promised, true}, {all.never, false}} {
			names := slices.Sorted(maps.Keys(those.of))
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, name := range names[:min(asked, len(names))] {
				c, err := d.client(ctx, those.of[name])
				if err == nil {
					err = c.begin([]byte(name))
				}
				if err != nil {
					t.Fatalf("round %d, client %s: %v", round, name, err)
				}
				if may, err := c.reclaims(1); err != nil || may != those.want {
					t.Fatalf("round %d, client %s: it may claim: %v, %v", round, name, may, err)
				}
			}
		}
		begun := make(chan struct{}, 1<<16)
		ended := make(chan struct{})
		go func() {
			all.run(ctx, d, round, 4, func() { begun <- struct{}{} })
			close(ended)
		}()
		for range 1 + rand.IntN(60) {
			await.Receive(t, "a client", begun)
		}
		d.Kill()
		cancel()
		await.Receive(t, "the peers' end", ended)
	}
	if len(all.promised) < rounds {
		t.Errorf("only %d clients were recorded", len(all.promised))
	}
}

// If the records are damaged, the daemon sets them aside, says so, and serves, or works as if there were no
// damage. It does not start on what may be a whole file.
func TestDamagedStateDirectory(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r := restarts(t, Config{State: state, NFS: `lease_time = "5m"`})
	d := r.start()
	ctx := t.Context()
	for i := range 40 {
		c, err := d.client(ctx, HonestAddress)
		if err == nil {
			err = c.start(longName(0, i), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d.Kill()
	file := filepath.Join(state, "clients.db")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, words ...string) {
		t.Helper()
		said := r.refused()
		for _, w := range append(words, file) {
			if !strings.Contains(said, w) {
				t.Errorf("%s: it does not say %q: %s", what, w, said)
			}
		}
		if strings.Contains(said, "goroutine ") {
			t.Errorf("%s: it panics: %s", what, said)
		}
	}
	aside := func(what string, content []byte, word string) {
		t.Helper()
		put(content)
		d := r.start()
		if said := d.Output(); !strings.Contains(said, "was set aside") || !strings.Contains(said, word) {
			t.Errorf("%s: it does not say so, or not %q: %s", what, word, said)
		}
		d.Kill()
		if kept, err := os.ReadFile(file + ".damaged"); err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s: %d bytes were set aside: %v", what, len(kept), err)
		}
	}
	aside("a file of zero length", nil, "empty")
	aside("a file cut short", whole[:len(whole)/3], "cut short")
	put(whole)
	if err := os.Chmod(file, 0o622); err != nil {
		t.Fatal(err)
	}
	refused("a file that others may write", "chmod 0600")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	refused("a directory", "not a regular file", "remove it")
	for range 12 {
		b := slices.Clone(whole)
		for range 1 + rand.IntN(3) {
			b[rand.IntN(len(b))] ^= byte(1 + rand.IntN(255))
		}
		put(b)
		d := launch(t, program, r.cfg, r.exports())
		await.Until(t, "it serves, or refuses to", func() bool {
			return !d.Alive() || strings.Contains(d.Output(), "serving")
		})
		said := d.Output()
		if d.Alive() {
			d.Kill()
		} else if !strings.Contains(said, "later version") || strings.Contains(said, "goroutine ") {
			t.Errorf("bytes that were changed: %s", said)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	r.start().Kill()
}

// A second daemon with the same state directory does not start, and the first continues.
func TestTwoDaemonsWithOneStateDirectory(t *testing.T) {
	r := restarts(t, Config{State: filepath.Join(t.TempDir(), "state")})
	first := r.start()
	if said := r.refused(); !strings.Contains(said, "in use by another") || !strings.Contains(said, "--state-dir") {
		t.Errorf("the second says: %s", said)
	}
	if !first.Alive() {
		t.Error("the first has ended")
	}
}

// smallDisk returns a state directory on a tmpfs of this size in bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("hostile", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", bytes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// If the disk is full while the daemon records clients, new clients wait, and the daemon logs
// that. Clients that are recorded already continue. New ones continue when there is space again.
// A daemon whose disk is full starts: clients that are recorded may claim. It does not start if its disk is
// read-only, and says why.
func TestFullDiskWhileRecording(t *testing.T) {
	for _, c := range []struct {
		name string
		// fill uses up the space on the disk, and clear frees it.
		fill, clear func(t *testing.T, state string)
		blocks      int
	}{
		{"full", fillDisk, func(t *testing.T, state string) {
			if err := os.Remove(filepath.Join(state, "fill")); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"RLIMIT_FSIZE", func(*testing.T, string) {}, nil, 128},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := smallDisk(t, 2*mib)
			r := restarts(t, Config{State: state, NFS: `lease_time = "5m"`, FileBlocks: c.blocks})
			d := r.start()
			ctx := t.Context()
			honest, err := d.arrive4(ctx, "tcp", "/")
			if err != nil {
				t.Fatal(err)
			}
			defer honest.Session.Abandon()
			if err := honest.openOne(ctx, 0); err != nil { // that the client holds locks is recorded with the first one
				t.Fatal(err)
			}
			c.fill(t, state)
			conn, err := d.client(ctx, Strangers(1)(0))
			if err != nil {
				t.Fatal(err)
			}
			i := 0
			for ; i < 3000 && err == nil; i++ {
				err = conn.start(longName(0, i), 1)
			}
			isStatus(t, "a client that cannot be recorded", err, wire.NFS4ErrDelay)
			d.AwaitLine("cannot write clients.db")
			if err := honest.openOne(ctx, 1); err != nil {
				t.Errorf("a client that is recorded: %v", err)
			}
			if c.clear != nil {
				c.clear(t, state)
				await.Until(t, "a client is recorded", func() bool {
					i++
					return conn.start(longName(0, i), 1) == nil
				})
				d.AwaitLine("can be written again")
				c.fill(t, state)
			}
			d.Kill()
			if c.clear == nil {
				return
			}
			d = r.start()
			again, err := d.client(ctx, Strangers(1)(0))
			if err == nil {
				err = again.begin([]byte(longName(0, 0)))
			}
			if err != nil {
				t.Fatal("on a full disk: ", err)
			}
			if may, err := again.reclaims(1); err != nil || !may {
				t.Errorf("on a full disk a client that is recorded may claim: %v, %v", may, err)
			}
			d.Kill()
			c.clear(t, state)
			if err := unix.Mount("", state, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			if said := r.refused(); !strings.Contains(said, "read-only file system") || !strings.Contains(said, "--state-dir") {
				t.Errorf("on a disk that cannot be written: %s", said)
			}
			if err := unix.Mount("", state, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", 2*mib)); err != nil {
				t.Fatal(err)
			}
			d = r.start()
			d.Signal(unix.SIGTERM)
			d.awaitEnd()
		})
	}
}

// fillDisk uses up the space on the disk of a directory.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 * kib; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// False claims in the grace period gain nothing. The daemon refuses claims of a client that it
// had not recorded, of a client that has sent RECLAIM_COMPLETE, and of a client that uses another
// client's name. While such clients flood the daemon, a recorded client reclaims its state. The
// grace period ends although another client never sends RECLAIM_COMPLETE.
func TestLiarsInGrace(t *testing.T) {
	r := restarts(t, Config{State: filepath.Join(t.TempDir(), "state"), NFS: "lease_time = \"30s\"\ngrace_time = \"15s\""})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := func(d *Daemon, from netip.Addr) *client4 {
		t.Helper()
		c, err := d.client(ctx, from)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	first := r.start()
	victim, liar, never := client(first, HonestAddress), client(first, Strangers(4)(0)), client(first, Strangers(4)(1))
	must("the victim", victim.start([]byte("victim"), 1))
	must("the liar", liar.start([]byte("liar"), 1))
	must("one that never says that it is done", never.start([]byte("never"), 1))
	honest, err := first.arrive4(ctx, "tcp", "/")
	must("a look", err)
	file, err := honest.Walk(ctx, honest.dir, honestName(0))
	must("LOOKUP", err)
	honest.Session.Abandon()
	_, err = victim.do(victim.sequence(0, 2, false), putFH(file), op4{wire.OpOpen, &wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessBoth, ShareDeny: wire.Open4ShareDenyWrite, Owner: wire.StateOwner4{Clientid: victim.id, Owner: []byte("o")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
	}})
	must("the victim's OPEN", err)
	first.Kill()

	d := r.start()
	// The flood: strangers send RECLAIM_COMPLETE, and then claim the victim's file.
	for i := range 8 {
		go func() {
			c, err := d.client(ctx, Strangers(8)(i))
			for n := 0; err == nil; n++ {
				if err = c.start(fmt.Appendf(nil, "stranger %d %d", i, n), 1); err == nil {
					_ = c.previous(2, file, "o", wire.Open4ShareAccessBoth, wire.Open4ShareDenyBoth)
				} else if statusOf(err) == wire.NFS4ErrDelay {
					err = nil
				}
			}
		}()
	}
	thief := client(d, Strangers(4)(2))
	thief.verifier[0] = 1
	isStatus(t, "one from elsewhere with the victim's name", thief.begin([]byte("victim")), wire.NFS4ErrDelay)
	stranger := client(d, Strangers(4)(3))
	must("a stranger", stranger.begin([]byte("a stranger")))
	isStatus(t, "a stranger's claim", stranger.previous(1, file, "o", wire.Open4ShareAccessBoth, 0), wire.NFS4ErrNoGrace)
	liar = client(d, Strangers(4)(0))
	must("the liar", liar.start([]byte("liar"), 1))
	isStatus(t, "a claim of one that is done", liar.previous(2, file, "o", wire.Open4ShareAccessBoth, 0), wire.NFS4ErrNoGrace)
	victim = client(d, HonestAddress)
	must("the victim", victim.begin([]byte("victim")))
	may, err := victim.reclaims(1)
	if err != nil || !may {
		t.Errorf("the victim may claim: %v, %v", may, err)
	}
	isStatus(t, "the victim's claim", victim.previous(2, file, "o", wire.Open4ShareAccessBoth, wire.Open4ShareDenyWrite), wire.NFS4OK)
	must("the thief, after that", thief.begin([]byte("victim"))) // it is another client, by its address
	isStatus(t, "its claim", thief.previous(1, file, "o", wire.Open4ShareAccessBoth, 0), wire.NFS4ErrNoGrace)
	never = client(d, Strangers(4)(1))
	must("one that never says that it is done", never.begin([]byte("never")))
	isStatus(t, "its claim of what conflicts", never.previous(1, file, "o", wire.Open4ShareAccessWrite, 0), wire.NFS4ErrReclaimConflict)
	_, err = victim.do(victim.sequence(0, 3, false), op4{wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}})
	must("RECLAIM_COMPLETE", err)
	for number := uint32(4); ; number++ { // an open with a deny mode waits for the end of the grace period
		_, err = victim.do(victim.sequence(0, number, false), putFH(file), op4{wire.OpOpen, &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessRead, ShareDeny: wire.Open4ShareDenyWrite, Owner: wire.StateOwner4{Clientid: victim.id, Owner: []byte("new")},
			Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
		}})
		if statusOf(err) != wire.NFS4ErrGrace {
			break
		}
		time.Sleep(100 * time.Millisecond) // a real sleep, because the daemon has its own clock
	}
	isStatus(t, "something new after grace, which conflicts with the first open", err, wire.NFS4ErrShareDenied)
	isStatus(t, "a claim after grace", never.previous(2, file, "x", wire.Open4ShareAccessRead, 0), wire.NFS4ErrNoGrace)
	cancel()
	d.Signal(unix.SIGTERM)
	d.awaitEnd()
}
