//go:build interop

package krb5

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// An rpcSite is an RPC server over TCP that accepts contexts of the realm.
type rpcSite struct {
	*site
	program *rpctest.Program
	gss     *gss.Server
	addr    string
}

func newRPCSite(t testing.TB, s *site) *rpcSite {
	t.Helper()
	return newRPCSiteOf(t, s, s.acceptor(), func(e *gss.Event) { t.Errorf("%v: %s", e.Reason, e.Cause) })
}

func newRPCSiteOf(t testing.TB, s *site, m gss.Mechanism, notify func(*gss.Event)) *rpcSite {
	t.Helper()
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	v := &rpcSite{site: s, program: rpctest.NewProgram()}
	v.gss = gss.New(gss.Config{
		Mechanisms: []gss.Mechanism{m},
		Identify: func(p string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return 1000, 100, nil, p == "alice@KRB5.TEST", nil
		},
		Notify: notify,
	})
	calls := rpc.NewServer(rpc.Config{})
	calls.Register(v.program)
	calls.Protect(rpc.AuthGSS, v.gss)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.addr = l.Addr().String()
	transport := tcp.NewServer(tcp.Config{RPC: calls, Pool: pool})
	served := make(chan error, 1)
	go func() { served <- transport.Serve(l) }()
	t.Cleanup(func() {
		transport.Close()
		<-served
		calls.Close()
		v.gss.Close()
		v.program.Wait()
		pool.Close()
	})
	return v
}

// dial connects to the server and creates a context of a mechanism there.
func (v *rpcSite) dial(t testing.TB, m gss.Mechanism, service rpc.GSSService) rpc.Caller {
	t.Helper()
	conn, err := tcp.Dial(context.Background(), v.addr, tcp.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := gss.NewClient(context.Background(), conn, gss.ClientConfig{
		Mechanism: m, Target: target, Service: service, Program: rpctest.Number, Version: rpctest.LowVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The rules for calls over any transport also hold under Kerberos, with each encryption type and
// each service.
func TestCallsUnderKerberos(t *testing.T) {
	for _, etype := range krb5realm.ETypes {
		s := newSite(t, etype)
		for name, service := range map[string]rpc.GSSService{"krb5": rpc.GSSNone, "krb5i": rpc.GSSIntegrity, "krb5p": rpc.GSSPrivacy} {
			t.Run(etype+"/"+name, func(t *testing.T) {
				v := newRPCSite(t, s)
				var seen rpc.Cred
				v.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
					if a.Header.Procedure == rpctest.BUMP {
						seen.Principal, seen.UID, seen.Anonymous, seen.GSS = a.Cred.Principal, a.Cred.UID, a.Cred.Anonymous, a.Cred.GSS
					}
					return rpc.Done
				}
				user := s.user(krb5.Config{})
				rpctest.Calls(t, v.program, func(t *testing.T) rpc.Caller { return v.dial(t, user, service) })
				x := rpctest.NewExchange(rpctest.BUMP, nil)
				_ = rpc.Do(context.Background(), v.dial(t, user, service), x, nil)
				if seen.Principal != "alice@KRB5.TEST" || seen.UID != 1000 || seen.Anonymous || seen.GSS != service {
					t.Errorf("the program sees %+v", &seen)
				}
			})
		}
	}
}

// BenchmarkCalls measures a round trip over TCP, with results of 0 bytes and of 64 KiB.
func BenchmarkCalls(b *testing.B) {
	s := newSite(b, "aes256-cts-hmac-sha1-96")
	v := newRPCSite(b, s)
	user := s.user(krb5.Config{})
	for _, c := range []struct {
		name    string
		service rpc.GSSService
	}{{"krb5", rpc.GSSNone}, {"krb5i", rpc.GSSIntegrity}, {"krb5p", rpc.GSSPrivacy}} {
		k := v.dial(b, user, c.service)
		for _, n := range []int{0, 64 << 10} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					x := rpctest.NewExchange(rpctest.SAME, func(w *xdr.Writer) { w.Uint32(uint32(n)) })
					x.MaxResults = 4 + n
					if err := rpc.Do(context.Background(), k, x, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
