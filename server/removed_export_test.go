package server_test

import (
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Two exports show one directory. If one is removed, or becomes an export of another directory, the locks that
// clients took by it end: these clients could give them up no more. What clients hold by the other export stays,
// and if an export only gets other options, so does what they hold by it.
func TestLocksOfARemovedExportOfASharedDirectory(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		name  string
		after []string
		ends  bool
	}{
		{"removed", []string{dir + " /b rw"}, true},
		{"of another directory", []string{other + " /a rw", dir + " /b rw"}, true},
		{"with another option", []string{dir + " /a rw,async", dir + " /b rw"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startReloading(t, dir+" /a rw", dir+" /b rw")
			ctx := testContext(t)
			dial := func() client.NFS4 {
				s, err := client.DialSession(ctx, client.SessionConfig{
					Target: client.Target{Transport: client.TCP, Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Cred: client.Self()},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				n := s.NFS4()
				n.Patient = true
				return n
			}
			lock := func(n client.NFS4, path string, offset uint64) error {
				dir, err := n.Walk(ctx, nil, path)
				if err != nil {
					t.Fatal(path, err)
				}
				o, err := n.Open(ctx, client.Open4{Dir: dir, Name: "file", Owner: []byte("o"), Access: wire4.Open4ShareAccessBoth,
					Create: &wire4.Createhow4{Mode: wire4.Unchecked4, Createattrs: client.ModeAttribute(0o644)}})
				if err != nil {
					t.Fatal(path, err)
				}
				_, err = n.Lock(ctx, o.File, o.StateID, []byte("o"), wire4.WriteLt, client.Range4{Offset: offset, Length: 10})
				return err
			}
			first, second := dial(), dial()
			if err := lock(first, "/a", 0); err != nil {
				t.Fatal(err)
			}
			if err := lock(second, "/b", 100); err != nil {
				t.Fatal(err)
			}
			d.reload("closed an export that was replaced", c.after...)
			third := dial()
			if err := lock(third, "/b", 0); (err == nil) != c.ends {
				t.Errorf("a lock against that of the client of /a: %v", err)
			}
			if err := lock(third, "/b", 100); err == nil {
				t.Error("a lock against that of the client of /b was granted")
			}
			ends(t, d.Process, syscall.SIGTERM, inOrder)
		})
	}
}
