package server_test

import (
	"bytes"
	"context"
	big "encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// named connects as the client with a name. It does not say that it has reclaimed everything, if reclaims is true.
func (d *daemon) named(t testing.TB, name string, reclaims bool) *client.Session {
	t.Helper()
	s, err := client.DialSession(testContext(t), client.SessionConfig{
		Target: client.Target{Transport: client.TCP, Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Cred: client.Self()},
		Owner:  []byte(name), Reclaiming: reclaims,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abandon)
	return s
}

// reclaim opens a file again that the client had open before the daemon restarted.
func reclaim(ctx context.Context, s *client.Session, file client.Handle) error {
	var res wire.Open4Res
	return s.Do(ctx, &client.Compound{Cache: true, Ops: []client.Op{
		{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: wire.NFSFH4(file)}},
		{Number: wire.OpOpen, Res: &res, Args: &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: s.ClientID(), Owner: []byte("opener")},
			Claim: wire.OpenClaim4{Claim: wire.ClaimPrevious},
		}},
	}}, nil)
}

// openOf opens a file, which it makes if it is not there.
func openOf(ctx context.Context, s *client.Session, name string) (client.Opened4, error) {
	n := s.NFS4()
	dir, err := n.Walk(ctx, nil, "/")
	if err != nil {
		return client.Opened4{}, err
	}
	return n.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: []byte("opener"), Access: wire.Open4ShareAccessBoth,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
}

// A backup that is made while clients come, open files and go, is a state directory with which a daemon starts: handles are
// valid, and a client reclaims what it held when the backup was made. A client that is not in the backup may not.
func TestBackupUnderLoadIsRestored(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	holder := d.named(t, "holder", false)
	held, err := openOf(ctx, holder, "held")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var load sync.WaitGroup
	begun := make(chan struct{}, 4)
	for i := range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				s := d.named(t, fmt.Sprintf("client %d %d", i, n), false)
				if _, err := openOf(ctx, s, fmt.Sprint("file ", i)); err != nil {
					t.Error(err)
				}
				s.Close()
				if n == 0 {
					begun <- struct{}{}
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	for range 4 {
		<-begun
	}
	backup := filepath.Join(t.TempDir(), "backup")
	d.ask(t, "state", "backup", backup)
	close(end)
	load.Wait()
	late, err := openOf(ctx, d.named(t, "late", false), "late")
	if err != nil {
		t.Fatal(err)
	}
	is, err := statedir.Look(backup)
	if err != nil {
		t.Fatal(err)
	}
	if problems := is.Problems(); len(problems) > 0 || is.Used || is.Starts < 4096 {
		t.Errorf("the backup: %+v, used %t, %d starts", problems, is.Used, is.Starts)
	}
	if out, _ := command(t, "state", "show", backup); !strings.Contains(out, "holder") || strings.Contains(out, "late") {
		t.Errorf("show: %s", out)
	}
	d.Signal(syscall.SIGKILL)
	d.Wait()
	restored := startOn(t, d.export, backup, "rw,insecure,no_root_squash")
	if err := reclaim(ctx, restored.named(t, "holder", true), held.File); err != nil {
		t.Errorf("the client of the backup reclaims: %v", err)
	}
	if err := reclaim(ctx, restored.named(t, "late", true), late.File); client.StatusOf(err) != wire.NFS4ErrNoGrace && client.StatusOf(err) != wire.NFS4ErrReclaimBad {
		t.Errorf("a client that is not in the backup reclaims: %v", err)
	}
}

// Without a daemon the command copies the directory itself. A directory that a daemon uses without answering is not
// copied.
func TestBackupWithoutADaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash", "--config", writeFile(t, "nfsrdmad.toml", "admin_socket = \"none\"\n"))
	to := filepath.Join(t.TempDir(), "backup")
	if _, failed := command(t, "state", "backup", to, "--state-dir", d.state); !strings.Contains(failed, "no daemon answers") {
		t.Errorf("beside a daemon that does not answer: %q", failed)
	}
	if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
		t.Errorf("it has left %q", left)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if _, failed := command(t, "state", "backup", to, "--state-dir", d.state); failed != "" {
		t.Fatal(failed)
	}
	if out, failed := command(t, "state", "check", to); failed != "" || !strings.Contains(out, "nothing is wrong") {
		t.Errorf("check: %s%s", out, failed)
	}
	if _, failed := command(t, "state", "backup", to, "--state-dir", d.state); !strings.Contains(failed, "exists") {
		t.Errorf("a second time: %q", failed)
	}
	startOn(t, d.export, to, "rw,insecure,no_root_squash")
}

// The daemon refuses a state directory, or a file there, that a later version has written, and says so. It changes nothing,
// so that the later version can go on.
func TestStateOfALaterVersionIsRefused(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	d.Signal(syscall.SIGTERM)
	d.Wait()
	records, err := os.ReadFile(filepath.Join(d.state, statedir.Records))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		statedir.Version: "2\n",
		statedir.Records: later(records),
	} {
		path := filepath.Join(d.state, file)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := nfsrdmad(t, "serve", "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", "none", "--export", d.export+":/,insecure")
		if status := p.Wait(); status != 1 || !strings.Contains(p.Output(), "later version") || !strings.Contains(p.Output(), "install that version again") {
			t.Errorf("%s: status %d\n%s", file, status, p.Output())
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("the daemon has changed %s", file)
		}
		out, failed := command(t, "state", "check", d.state)
		if failed == "" || !strings.Contains(out, file+": ") || !strings.Contains(out, "install that version again") {
			t.Errorf("check: %s%s", out, failed)
		}
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// later returns a file of records as a later version may write it: with another number in its head, and a right checksum.
func later(records []byte) string {
	b := bytes.Clone(records)
	big.BigEndian.PutUint32(b[16:], 99)
	big.BigEndian.PutUint32(b[32:], crc32.Checksum(b[:32], crc32.MakeTable(crc32.Castagnoli)))
	return string(b)
}
