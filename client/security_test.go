package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// protect makes s accept calls under RPCSEC_GSS.
func protect(t testing.TB, s *testserver.Server, m gss.Mechanism) *gss.Server {
	g := gss.New(gss.Config{Mechanisms: []gss.Mechanism{m}, Identify: func(string) (uid, gid uint32, groups []uint32, ok bool, err error) { return 0, 0, nil, true, nil }})
	t.Cleanup(g.Close)
	s.RPC.Protect(rpc.AuthGSS, g)
	return g
}

var gssServices = map[string]rpc.GSSService{"none": rpc.GSSNone, "integrity": rpc.GSSIntegrity, "privacy": rpc.GSSPrivacy}

// With Target.Security, all calls of NFS are made under RPCSEC_GSS, over each transport and with
// each service. Calls of MOUNT are not.
func TestConnUnderGSS(t *testing.T) {
	s := testserver.Start(t)
	mech := gsstest.New()
	g := protect(t, s, mech)
	for name, target := range s.Targets() {
		for of, service := range gssServices {
			t.Run(name+"/"+of, func(t *testing.T) {
				target.Security = &client.Security{Mechanism: mech, Service: service}
				before := g.Stats().Calls
				c := testserver.Dial(t, target)
				x, ok := c.Secured()
				if !ok || x.Server != mech.Host || x.Client != mech.Name || x.Flavor != target.Flavor() || x.Made <= 0 {
					t.Errorf("the context is %+v, %v", x, ok)
				}
				ctx, n := testserver.Within(t), c.NFS3()
				root, err := c.MountRoot(ctx, "/x", 0)
				must(t, err)
				if calls := g.Stats().Calls; calls != before {
					t.Errorf("MOUNT made %d calls under the context", calls-before)
				}
				file, _, err := n.Create(ctx, root, name+of, nfs3wire.CreateHow3{})
				must(t, err)
				for _, size := range []int{1, 100_003} {
					if _, err := n.Write(ctx, file, 0, testserver.Pattern(size), nfs3wire.FileSync); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, size)
					if _, _, err := n.Read(ctx, file, 0, got); err != nil || !bytes.Equal(got, testserver.Pattern(size)) {
						t.Errorf("READ of %d bytes: %v, or other data", size, err)
					}
				}
				if calls := g.Stats().Calls - before; calls != 6 { // the first long WRITE asks by FSINFO how long it may be
					t.Errorf("%d calls under the context", calls)
				}
			})
		}
	}
	if live := g.Stats().Contexts; live != 0 {
		t.Errorf("%d contexts are left when their connections are closed", live)
	}
}

// The client can make its context with another version of NFS if the server does not have the
// wanted one.
func TestContextByAnotherVersion(t *testing.T) {
	s := testserver.Start(t)
	mech := gsstest.New()
	protect(t, s, mech)
	target := s.Targets()["tcp"]
	target.Security = &client.Security{Mechanism: mech, Service: rpc.GSSIntegrity, Version: wire.Version}
	if _, ok := testserver.Dial(t, target).Secured(); !ok {
		t.Error("no context")
	}
}

// An error that prevents a context names its remedy.
func TestNoContext(t *testing.T) {
	mech := gsstest.New()
	plain, refusing := testserver.Start(t), testserver.Start(t)
	strict := gsstest.New()
	strict.Refuse = func(string) error { return &gss.Error{Major: gss.DefectiveCred, Text: "no"} }
	protect(t, refusing, strict)
	none := gsstest.New()
	none.Unreachable = func(context.Context) error { return &gss.Error{Major: gss.NoCredential, Text: "no ticket"} }
	for _, c := range []struct {
		name string
		s    *testserver.Server
		m    gss.Mechanism
		says []string
	}{
		{"a server without RPCSEC_GSS", plain, mech, []string{"does not know RPCSEC_GSS", "sec=sys"}},
		{"a server that refuses", refusing, mech, []string{"refused the context", "keytab"}},
		{"no ticket", plain, none, []string{"no ticket", "is an address"}},
	} {
		for name, target := range c.s.Targets() {
			target.Security = &client.Security{Mechanism: c.m, Service: rpc.GSSNone}
			_, err := client.Dial(testserver.Within(t), target)
			var e *client.SecurityError
			if !errors.As(err, &e) {
				t.Errorf("%s, %s: %v", c.name, name, err)
				continue
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s, %s: %q does not say %q", c.name, name, err, word)
				}
			}
		}
	}
}

// If its calls have integrity protection, a session asks the server to accept operations on the
// session and the client ID only from the session's own principal (RFC 8881 §2.10.8.3). If the
// server refuses that, the session works without.
func TestSessionIsProtectedByItsPrincipal(t *testing.T) {
	for of, service := range gssServices {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprint(of, " refused ", refused), func(t *testing.T) {
				f, server := newFake4(t)
				f.set(func() { f.unprotected = refused })
				mech := gsstest.New()
				protect(t, server, mech)
				target := server.Targets()["tcp"]
				target.Security = &client.Security{Mechanism: mech, Service: service}
				f.session(target, client.SessionConfig{})
				want := wire.Sp4MachCred
				if refused || service == rpc.GSSNone {
					want = wire.Sp4None
				}
				_, session := f.only()
				var p wire.StateProtect4A
				f.set(func() { p = f.clients[session.client].protect })
				if p.How != want {
					t.Errorf("the client wants %v, not %v", p.How, want)
				}
				for _, o := range []wire.OpNum{wire.OpExchangeID, wire.OpCreateSession, wire.OpBindConnToSession, wire.OpDestroySession, wire.OpDestroyClientID} {
					if p.MachOps.MustEnforce.Has(uint32(o)) != (want == wire.Sp4MachCred) {
						t.Errorf("%v", o)
					}
				}
			})
		}
	}
}

// A session under RPCSEC_GSS offers only its own context for callbacks. It accepts callbacks
// under that context and refuses others.
func TestCallbacksUnderGSS(t *testing.T) {
	for of, service := range gssServices {
		t.Run(of, func(t *testing.T) {
			f, server := newFake4(t)
			mech := gsstest.New()
			g := protect(t, server, mech)
			for name, target := range server.Targets() {
				recalled := make(chan client.Recall, 1)
				target.Security = &client.Security{Mechanism: mech, Service: service}
				s := f.session(target, client.SessionConfig{Callbacks: client.Callbacks{
					Recall: func(r client.Recall) wire.NFSStat4 {
						recalled <- r
						return wire.NFS4OK
					},
				}})
				_, session := f.only()
				if want := []uint32{wire.RPCSECGSS}; !slices.Equal(session.offers, want) {
					t.Fatalf("%s: offers %v", name, session.offers)
				}
				h := session.back
				b := g.Back(h.HandleFromServer, h.HandleFromClient, rpc.GSSService(h.Service), mech.Name)
				if b == nil || rpc.GSSService(h.Service) != service {
					t.Fatalf("%s: the handle is of no context, or the service is %v", name, h.Service)
				}
				k := f.caller()
				bare := k.call
				k.call = b.Caller(bare)
				recall := back{wire.OpCBRecall, &wire.CBRecall4Args{FH: wire.NFSFH4("file")}}
				if status, n := callbackOutcome(k.do(k.sequence(0, 1), recall)); status != wire.NFS4OK || n != 2 {
					t.Errorf("%s: %v after %d", name, status, n)
				}
				if r := <-recalled; string(r.File) != "file" {
					t.Errorf("%s: recalled %q", name, r.File)
				}
				other := g.Back(h.HandleFromServer, []byte("another handle"), service, mech.Name).Caller(bare)
				err := rpc.Do(testserver.Within(t), other, &rpc.Exchange{Program: 0x40000000, Version: wire.CallbackVersion}, nil)
				if re, ok := errors.AsType[*rpc.ReplyError](err); !ok || !re.Denied {
					t.Errorf("%s: CB_NULL by another handle: %v", name, err)
				}
				must(t, s.Close())
			}
		})
	}
}

// When the context that a session offered for callbacks has ended, the session offers a new one
// by BACKCHANNEL_CTL until the server accepts it (RFC 8881 §18.33). It then accepts callbacks
// under the new one.
func TestCallbacksUnderARenewedContext(t *testing.T) {
	f, server := newFake4(t)
	f.set(func() { f.lease = 1 }) // so that the keeper checks often
	mech := gsstest.New()
	g := protect(t, server, mech)
	target := server.Targets()["tcp"]
	target.Security = &client.Security{Mechanism: mech, Service: rpc.GSSIntegrity}
	s := f.session(target, client.SessionConfig{})
	handles := func() (h wire.GSSCBHandles4) {
		f.set(func() {
			for _, session := range f.sessions {
				h = *session.back
			}
		})
		return h
	}
	first := handles()
	f.set(func() {
		g.Close() // ends all contexts
		f.noContext = 1
		f.flags = wire.Seq4StatusCBGSSContextsExpired
	})
	await.Until(t, "the server has another context", func() bool { return f.count(wire.OpBackchannelCtl) == 1 })
	second := handles()
	if bytes.Equal(first.HandleFromServer, second.HandleFromServer) || bytes.Equal(first.HandleFromClient, second.HandleFromClient) {
		t.Errorf("first %x and %x, then %x and %x", first.HandleFromServer, first.HandleFromClient, second.HandleFromServer, second.HandleFromClient)
	}
	f.only()
	k := f.caller()
	k.call = g.Back(second.HandleFromServer, second.HandleFromClient, rpc.GSSService(second.Service), mech.Name).Caller(k.call)
	recall := back{wire.OpCBRecall, &wire.CBRecall4Args{FH: wire.NFSFH4("file")}}
	if status, n := callbackOutcome(k.do(k.sequence(0, 1), recall)); n != 2 {
		t.Errorf("%v after %d", status, n)
	}
	// Once the server has it, the session does not offer it again.
	ran := f.count(wire.OpSequence)
	await.Until(t, "the keeper looked around again", func() bool { return f.count(wire.OpSequence) >= ran+3 })
	if n := f.count(wire.OpBackchannelCtl); n != 1 {
		t.Errorf("%d BACKCHANNEL_CTLs", n)
	}
	must(t, s.Close())
}
