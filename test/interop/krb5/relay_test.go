//go:build interop

package krb5

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A relay connects to the server with Kerberos. All its clients on privileged ports act as its
// principal.
func TestRelayUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	for _, f := range flavors {
		t.Run(f.String(), func(t *testing.T) {
			to.Security = security(t, client.Kerberos{Flavor: f})
			through := startRelay(t, relay.Config{Target: to, Insecure: true})
			ctx := within(t)
			through.Cred = client.Identity(4711, 4711) // the relay ignores it
			c, err := client.Dial(ctx, through)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			root, taken, err := c.Mount3().Mount(ctx, "/data")
			if err != nil || !slices.Equal(taken, []rpc.Flavor{rpc.AuthSys}) {
				t.Fatalf("MNT: flavors %v, %v", taken, err)
			}
			n := c.NFS3()
			file, _, err := n.Create(ctx, root, f.String(), nfs3wire.CreateHow3{ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o600}}})
			if f != client.Krb5p {
				if !tooWeak(err) {
					t.Errorf("CREATE under %v: %v", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a, err := n.Getattr(ctx, file); err != nil || a.UID != 1 {
				t.Errorf("the file belongs to %d, %v", a.UID, err)
			}
			want := bytes.Repeat([]byte("protected "), 100_000)
			if _, err := n.Write(ctx, file, 0, want, nfs3wire.FileSync); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(want))
			if _, _, err := n.Read(ctx, file, 0, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("READ: %v, or other data", err)
			}
			x, err := client.DialSession(ctx, client.SessionConfig{Target: through})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			found, err := client.NFS4{Session: x, Patient: true}.Walk(ctx, nil, "/data/"+f.String())
			if err != nil {
				t.Error(err)
			} else if _, _, err := x.NFS4().Read(ctx, found, wire.StateID4{}, 0, got); err != nil || !bytes.Equal(got[:9], want[:9]) {
				t.Errorf("READ by NFSv4: %v, or other data", err)
			}
		})
	}
}

// The relay refuses a client on an unprivileged port, which any user of a machine can use, unless
// its configuration permits that.
func TestRelayOfAnyPort(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
	for _, c := range []struct {
		from     int
		insecure bool
		refused  bool
	}{{0, false, true}, {0, true, false}, {1000, false, false}} {
		through := startRelay(t, relay.Config{Target: to, Insecure: c.insecure})
		ctx := within(t)
		k, err := tcp.Dial(ctx, through.Address(), tcp.DialConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			// No other test uses this address, so its ports are free.
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 77, byte(os.Getpid()>>8), byte(os.Getpid()|1)), Port: c.from}}).DialContext(ctx, network, address)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		root, _, err := client.Mount3{Caller: k, Cred: client.Self()}.Mount(ctx, "/data")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.NFS3{Caller: k, Cred: client.Self()}.Fsinfo(ctx, root)
		if !c.refused && err != nil || c.refused && !tooWeak(err) {
			t.Errorf("from port %d, insecure %v: FSINFO: %v", c.from, c.insecure, err)
		}
	}
}

// A relay without a valid ticket reports that when it starts, and closes the connections of
// clients.
func TestRelayWithoutTicket(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
	events := make(chan relay.Event, 16)
	through := startRelay(t, relay.Config{Target: to, Insecure: true, Event: func(e relay.Event) {
		select {
		case events <- e:
		default:
		}
	}})
	if err := s.ChangeKeys(service, s.etype); err != nil {
		t.Fatal(err)
	}
	if err := s.Login("alice", password, s.cache, s.conf); err != nil {
		t.Fatal(err)
	}
	if err := s.Keytab(s.keytab+".new", service); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.keytab+".new", s.keytab); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.cache); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(within(t), through)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Null(within(t), nfs3wire.Program, nfs3wire.Version); err == nil {
		t.Error("a call was answered")
	}
	e := await.Receive(t, "the end of the client's connection", events)
	var why *client.SecurityError
	if !errors.As(e.Err, &why) {
		t.Errorf("the connection ended with %v", e.Err)
	}
	other, err := relay.New(relay.Config{Target: to})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Check(within(t)); !errors.As(err, &why) || !strings.Contains(err.Error(), "kinit") {
		t.Errorf("a relay starts: %v", err)
	}
}

// startRelay runs a relay and returns a target that leads to it.
func startRelay(t *testing.T, cfg relay.Config) client.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(within(t)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(l) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-ended; err != relay.ErrClosed {
			t.Error(err)
		}
	})
	return at(client.TCP, l.Addr().(*net.TCPAddr).AddrPort())
}
