package gss_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// exercise makes calls of all sizes and kinds, and checks their results.
func exercise(t *testing.T, k rpc.Caller, sizes ...int) {
	t.Helper()
	check := func(what string, n int, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s of %d bytes: %v", what, n, err)
		}
	}
	check("NULL", 0, rpc.Do(context.Background(), k, rpctest.NewExchange(rpctest.NULL, nil), nil))
	for _, n := range sizes {
		check("ECHO", n, rpctest.Echo(k, min(n, rpctest.MaxEcho)))
		check("PUT", n, rpctest.Put(k, n))
		check("GET", n, rpctest.Get(k, n, false))
		check("GET with a sink", n, rpctest.Get(k, n, true))
		check("WIDE", n, rpctest.Wide(k, min(n, rpctest.MaxWide)))
	}
}

func TestServices(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, gss.Config{})
			exercise(t, s.client(s.wire(), service), 0, 1, 2, 3, 4, 1000, 70_001, rpctest.MaxData)
			if st := s.gss.Stats(); st.Contexts != 1 || st.Made != 1 || st.Calls < 40 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A mechanism that needs several tokens of the initiator makes a context.
func TestContextOfSeveralTokens(t *testing.T) {
	for _, tokens := range []int{2, 3, 7} {
		m := gsstest.New()
		m.Tokens = tokens
		s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
		cfg := s.config(rpc.GSSIntegrity)
		cfg.Mechanism = m
		exercise(t, s.clientOf(s.wire(), cfg), 10)
		if st := s.gss.Stats(); st.Contexts != 1 || st.HalfMade != 0 || m.Accepted.Load() != 1 {
			t.Errorf("%d tokens: %+v", tokens, st)
		}
	}
}

// The program gets the caller's identity and the protection of the call in rpc.Cred.
func TestCredentialReachesTheProgram(t *testing.T) {
	for name, service := range services {
		s := newSite(t, gss.Config{})
		var seen []rpc.Cred
		s.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
			seen = append(seen, rpc.Cred{
				Flavor: a.Cred.Flavor, UID: a.Cred.UID, GID: a.Cred.GID, Groups: a.Cred.Groups,
				Principal: a.Cred.Principal, Anonymous: a.Cred.Anonymous, GSS: a.Cred.GSS, Mechanism: a.Cred.Mechanism,
			})
			return rpc.Done
		}
		if _, err := bump(s.client(s.wire(), service)); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 {
			t.Fatalf("%s: judged %d times", name, len(seen))
		}
		c := seen[0]
		if c.Flavor != rpc.AuthGSS || c.UID != 1000 || c.GID != 100 || len(c.Groups) != 2 || c.Anonymous ||
			c.Principal != "user@TEST" || c.GSS != service || !bytes.Equal(c.Mechanism, s.mech.OID()) {
			t.Errorf("%s: %+v", name, &c)
		}
	}
}

// A principal without a user number is anonymous, and gets no groups.
func TestPrincipalWithoutNumbersIsAnonymous(t *testing.T) {
	var events []gss.Event
	s := newSite(t, gss.Config{
		Identify: func(string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return 0, 0, []uint32{0}, false, nil
		},
		Notify: func(e *gss.Event) { events = append(events, *e) },
	})
	var cred rpc.Cred
	s.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
		cred.UID, cred.GID, cred.Groups, cred.Anonymous = a.Cred.UID, a.Cred.GID, a.Cred.Groups, a.Cred.Anonymous
		return rpc.Done
	}
	if _, err := bump(s.client(s.wire(), rpc.GSSNone)); err != nil {
		t.Fatal(err)
	}
	if !cred.Anonymous || cred.UID != rpc.NobodyID || cred.GID != rpc.NobodyID || len(cred.Groups) != 0 {
		t.Errorf("%+v", &cred)
	}
	if len(events) != 1 || events[0].Reason != gss.UnknownPrincipal || events[0].Principal != "user@TEST" ||
		events[0].Peer != peer || events[0].Cause == "" || events[0].Remedy == "" {
		t.Errorf("%+v", events)
	}
}

// If a reply refers to memory that other replies also use, such as pages of a file, GSSPrivacy does
// not encrypt that memory in place.
func TestPrivacyLeavesSharedPayloadsAlone(t *testing.T) {
	s := newSite(t, gss.Config{})
	k := s.client(s.wire(), rpc.GSSPrivacy)
	want := bytes.Clone(rpctest.Same())
	x := rpctest.NewExchange(rpctest.SAME, put([]byte{0, 1, 0, 1}))
	if err := rpc.Do(context.Background(), k, x, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rpctest.Same(), want) {
		t.Error("memory that others use was changed")
	}
}

// Under GSSPrivacy, arguments and results cannot be read in transit. Under the other services they
// can.
func TestOnlyPrivacyHidesArgumentsAndResults(t *testing.T) {
	secret := bytes.Repeat([]byte("a secret."), 20)
	for name, service := range services {
		s := newSite(t, gss.Config{})
		w := s.wire()
		k := s.client(w, service)
		there, back := false, false
		w.change = func(m []byte) []byte { there = bytes.Contains(m, secret[:9]); return m }
		w.back = func(m []byte) []byte { back = bytes.Contains(m, secret[:9]); return m }
		if err := rpc.Do(context.Background(), k, rpctest.NewExchange(rpctest.ECHO, put(append([]byte{0, 0, 0, 180}, secret...))), nil); err != nil {
			t.Fatal(err)
		}
		w.change, w.back = nil, nil
		if want := service != rpc.GSSPrivacy; there != want || back != want {
			t.Errorf("%s: readable there %v, back %v", name, there, back)
		}
	}
}
