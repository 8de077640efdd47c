package server_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A refused mount of version 4 causes a line with the path, the reason and the remedy. The
// cases: an export for other clients, a name without an export, and a client that no export
// serves.
func TestRefusedMountsOfVersion4LeaveLines(t *testing.T) {
	ctx := testContext(t)
	d := startReloading(t, t.TempDir()+" /open rw", t.TempDir()+" /srv/payroll clients=203.0.113.0/24")
	n := d.session(t, "tcp", client.Callbacks{})
	for _, path := range []string{"/srv/payroll", "/nowhere"} {
		if _, err := n.Walk(ctx, nil, path); client.StatusOf(err) != wire.NFS4ErrNoEnt {
			t.Errorf("%s: %v", path, err)
		}
	}
	d.AwaitLine("mount refused")
	says(t, d.Process, "mount refused", `"path": "/srv"`, `"export": "/srv/payroll"`, "not for this address", "NFS4ERR_NOENT", "clients=")
	d.AwaitLine("no export has the name that a client looked up")
	says(t, d.Process, "no export has the name that a client looked up", `"path": "/nowhere"`, "showmount")

	closed := start(t, "clients=203.0.113.0/24")
	if _, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Host: closed.tcp.Addr().String(), Port: int(closed.tcp.Port()), Transport: client.TCP, Cred: client.Self()},
	}); err == nil {
		t.Error("an address is served that no export is for")
	}
	closed.AwaitLine("mount refused")
	says(t, closed.Process, "mount refused", `"path": ""`, "no export is for this address", "AUTH_BADCRED", "clients=")
}

// The start of grace causes a line with the clients that may claim, and its end another line.
func TestGraceLeavesLines(t *testing.T) {
	ctx := testContext(t)
	dir, state := t.TempDir(), t.TempDir()
	session := func(d *daemon) *client.Session {
		s, err := client.DialSession(ctx, client.SessionConfig{
			Target: client.Target{Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Transport: client.TCP, Cred: client.Self()},
			Owner:  []byte("the\nclient"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	d := startOn(t, dir, state, "rw,insecure")
	s := session(d)
	d.Kill()
	d.Wait()
	s.Abandon()
	d = startOn(t, dir, state, "rw,insecure")
	says(t, d.Process, "grace period started", `"clients": 1`, `the\\nclient`, " at 127.0.0.1", `"lasts": "1m30s"`)
	defer session(d).Abandon()
	d.AwaitLine("grace period ended")
	says(t, d.Process, "grace period ended", `"missing": 0`)
}
