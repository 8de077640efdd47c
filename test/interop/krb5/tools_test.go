//go:build interop

package krb5

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

var flavors = []client.Flavor{client.Krb5, client.Krb5i, client.Krb5p}

// asAlice makes the tools use alice's ticket, as the default credential cache.
func (s *site) asAlice(t *testing.T) {
	t.Setenv("KRB5_CONFIG", s.conf)
	t.Setenv("KRB5CCNAME", "FILE:"+s.cache)
}

// security returns the client.Security that the flags --sec and --server-principal choose.
func security(t *testing.T, k client.Kerberos) *client.Security {
	t.Helper()
	if k.Server == "" {
		k.Server = target
	}
	s, err := k.Security()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within returns a context that ends after one minute.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func at(transport client.Transport, a netip.AddrPort) client.Target {
	return client.Target{Transport: transport, Host: a.Addr().String(), Port: int(a.Port()), Cred: client.Self()}
}

// targets returns targets for both transports of a daemon that exports /data with these options. "rdma2" is
// version 2 of RPC-over-RDMA.
func targets(t *testing.T, s *site, options string) map[string]client.Target {
	t.Helper()
	overTCP, overRDMA := serveBoth(t, s, options)
	version2 := at(client.RDMA, overRDMA)
	version2.RDMAVersion = client.RDMAVersion2
	return map[string]client.Target{"tcp": at(client.TCP, overTCP), "rdma": at(client.RDMA, overRDMA), "rdma2": version2}
}

// probe reports the flavors that the server accepts, and creates a context with each service.
func TestProbeUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	for name, to := range targets(t, s, "rw,insecure,sec=krb5p:krb5i:krb5") {
		for _, f := range flavors {
			p := probe.Run(within(t), probe.Config{
				Host: to.Host, Port: to.Port, Transports: []client.Transport{to.Transport}, RoundTrips: 1, Timeout: time.Minute,
				Security: security(t, client.Kerberos{Flavor: f}),
			})
			l := p.Transports[0]
			if !p.Serves(true) || !l.GSS || l.Context == nil {
				t.Fatalf("%s, %v: %+v", name, f, l)
			}
			x := l.Context
			if x.Flavor != f || x.Server != acceptorName || x.Client != "alice@KRB5.TEST" || x.EType != s.etype || time.Until(x.Expiry) < time.Hour || x.Made <= 0 {
				t.Errorf("%s, %v: %+v", name, f, x)
			}
			want := []client.Flavor{client.Krb5p, client.Krb5i, client.Krb5}
			if len(p.Exports) != 1 || !slices.Equal(p.Exports[0].Flavors, want) {
				t.Errorf("%s, %v: exports %+v", name, f, p.Exports)
			}
			if l.NFS4 == nil || !slices.Contains(l.NFS4.Flavors, f) {
				t.Errorf("%s, %v: %+v, %q", name, f, l.NFS4, l.Notes)
			}
			var text bytes.Buffer
			p.Print(&text)
			for _, word := range []string{"sec=krb5p:krb5i:krb5", f.String() + " with " + acceptorName + " as alice@KRB5.TEST, " + s.etype, "RPCSEC_GSS"} {
				if !strings.Contains(text.String(), word) {
					t.Errorf("%s, %v: printed without %q:\n%s", name, f, word, &text)
				}
			}
		}
	}
}

// bench works with each service, over both transports, with each version of NFS.
func TestBenchUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	keytab := security(t, client.Kerberos{Flavor: client.Krb5p, Keytab: s.machineKeytab})
	for name, to := range targets(t, s, "rw,insecure,sec=krb5:krb5i:krb5p") {
		for _, version := range []string{"3", "4.1", "4.2"} {
			for _, f := range flavors {
				t.Run(fmt.Sprintf("%s/%s/%v", name, version, f), func(t *testing.T) {
					to.Security = security(t, client.Kerberos{Flavor: f})
					for _, work := range []string{"read", "write", "create"} {
						m, err := bench.Run(within(t), bench.Config{
							Target: to, Export: "/data", NFS: version, Workload: work, Size: 100_000, FileSize: 400_000, Depth: 4, Connections: 2, Ops: 24,
						})
						if err != nil || m.Operations != 24 || m.Security != f {
							t.Errorf("%s: %+v, %v", work, m, err)
						}
					}
				})
			}
		}
		// bench also works with the keytab of the client's machine.
		to.Security = keytab
		if _, err := bench.Run(within(t), bench.Config{Target: to, Export: "/data", Workload: "getattr", Ops: 8}); err != nil {
			t.Errorf("%s, by a keytab: %v", name, err)
		}
	}
}

// The server calls back a session under Kerberos with CB_NOTIFY_LOCK when a lock is free that it
// had denied the client (RFC 8881 §20.11).
func TestCallbackUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	for name, to := range targets(t, s, "rw,insecure,sec=krb5:krb5i:krb5p") {
		for _, f := range flavors {
			t.Run(fmt.Sprintf("%s/%v", name, f), func(t *testing.T) {
				to.Security = security(t, client.Kerberos{Flavor: f})
				notified := make(chan client.Handle, 4)
				ctx := within(t)
				open := func(who string) (client.NFS4, client.Opened4) {
					x, err := client.DialSession(ctx, client.SessionConfig{Target: to, Callbacks: client.Callbacks{
						NotifyLock: func(file client.Handle, _ []byte) { notified <- file },
					}})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = x.Close() })
					n := client.NFS4{Session: x, Patient: true}
					dir, err := n.Walk(ctx, nil, "/data")
					if err != nil {
						t.Fatal(err)
					}
					o, err := n.Open(ctx, client.Open4{
						Dir: dir, Name: name + f.String(), Owner: []byte(who), Access: wire.Open4ShareAccessBoth | wire.Open4ShareAccessWantNoDeleg,
						Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o600)},
					})
					if err != nil {
						t.Fatal(err)
					}
					return n, o
				}
				holder, his := open("holder")
				all := client.Range4{Length: wire.NFS4Maxfilelen}
				lock, err := holder.Lock(ctx, his.File, his.StateID, []byte("holder"), wire.WriteLt, all)
				if err != nil {
					t.Fatal(err)
				}
				waiter, its := open("waiter")
				var denied *client.DeniedError
				if _, err := waiter.Lock(ctx, its.File, its.StateID, []byte("waiter"), wire.WritewLt, all); !errors.As(err, &denied) {
					t.Fatalf("a lock that another has: %v", err)
				}
				if _, err := holder.Unlock(ctx, his.File, lock, wire.WriteLt, all); err != nil {
					t.Fatal(err)
				}
				if file := await.Receive(t, "CB_NOTIFY_LOCK", notified); !bytes.Equal(file, its.File) {
					t.Error("it is about another file")
				}
				if flags := waiter.Session.Status(); flags != 0 {
					t.Errorf("SEQUENCE says %#x", flags)
				}
			})
		}
	}
}
