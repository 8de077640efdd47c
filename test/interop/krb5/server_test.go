//go:build interop

package krb5

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// serveFiles runs a server that exports /data with these options, and returns its TCP address.
func serveFiles(t *testing.T, s *site, options string) string {
	t.Helper()
	overTCP, _ := serveBoth(t, s, options)
	return overTCP.String()
}

// serveBoth is serveFiles, but returns the addresses of TCP and of RDMA.
func serveBoth(t *testing.T, s *site, options string) (overTCP, overRDMA netip.AddrPort) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a server that acts as its callers runs as root")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "nfsrdmad.toml")
	// The server acts as its callers, who must be able to enter the directory.
	for d, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o777} {
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("rdma = [\"127.0.0.1:0\"]\nrdma_versions = [1, 2]\ntcp = [\"127.0.0.1:0\"]\nrpcbind = false\nstate_dir = %q\nlog_level = \"error\"\n"+
		"[kerberos]\nkeytab = %q\nrealm = \"KRB5.TEST\"\nprincipals = [\"alice@KRB5.TEST=daemon\"]\n"+
		"[[export]]\npath = %q\nname = \"/data\"\noptions = %q\n", filepath.Join(t.TempDir(), "state"), s.keytab, dir, options)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return daemon.TCPAddrs()[0], daemon.RDMAAddrs()[0]
}

// A file created under Kerberos belongs to the principal's user. A principal without a user acts
// as the anonymous user, and AUTH_SYS is refused.
func TestFilesUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	bob := filepath.Join(s.Dir, "bob")
	for _, err := range []error{s.AddUser("bob", password, s.etype), s.Login("bob", password, bob, s.conf)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	addr := serveFiles(t, s, "rw,insecure,sec=krb5p:krb5i")
	ctx := context.Background()
	k, err := tcp.Dial(ctx, addr, tcp.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	root, flavors, err := client.Mount3{Caller: k, Cred: client.Self()}.Mount(ctx, "/data")
	if err != nil || !slices.Equal(flavors, []rpc.Flavor{390005, 390004}) {
		t.Fatalf("MNT: flavors %v, %v", flavors, err)
	}

	plain := client.NFS3{Caller: k, Cred: client.Self()}
	if _, _, err := plain.Lookup(ctx, root, "none"); !tooWeak(err) {
		t.Errorf("LOOKUP under AUTH_SYS: %v", err)
	}
	under := func(cache string, service rpc.GSSService) client.NFS3 {
		g, err := gss.NewClient(ctx, k, gss.ClientConfig{
			Mechanism: krb5.New(krb5.Config{Conf: s.conf, Cache: "FILE:" + cache}), Target: target, Service: service,
			Program: wire.Program, Version: wire.Version,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return client.NFS3{Caller: g}
	}
	if _, _, err := under(s.cache, rpc.GSSNone).Lookup(ctx, root, "none"); !tooWeak(err) {
		t.Errorf("LOOKUP under krb5: %v", err)
	}
	for _, c := range []struct {
		name, cache string
		service     rpc.GSSService
		uid         uint32
	}{
		{"alice-p", s.cache, rpc.GSSPrivacy, 1}, {"alice-i", s.cache, rpc.GSSIntegrity, 1}, {"bob-p", bob, rpc.GSSPrivacy, 65534},
	} {
		nfs := under(c.cache, c.service)
		how := wire.CreateHow3{ObjAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: 0o600}}}
		file, _, err := nfs.Create(ctx, root, c.name, how)
		if err != nil {
			t.Errorf("CREATE of %s: %v", c.name, err)
			continue
		}
		a, err := nfs.Getattr(ctx, file)
		if err != nil || a.UID != c.uid {
			t.Errorf("%s belongs to %d, %v, want %d", c.name, a.UID, err, c.uid)
		}
	}
}

func tooWeak(err error) bool {
	var re *rpc.ReplyError
	return errors.As(err, &re) && re.Denied && re.Auth == rpc.AuthTooWeak
}
