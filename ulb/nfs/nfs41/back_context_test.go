package nfs41

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A backContext is a BackContext for tests. It puts its name into the credential of each call.
type backContext struct {
	name   string
	expiry time.Time // the zero value means never
	ended  bool
	adds   int
}

func (c *backContext) Usable(now time.Time) bool { return !c.ended && now.Before(c.Expiry()) }
func (c *backContext) CallSize(n int) int        { return n + c.adds }
func (c *backContext) Expiry() time.Time {
	if c.expiry.IsZero() {
		return time.Now().Add(1000 * time.Hour)
	}
	return c.expiry
}

func (c *backContext) Caller(k rpc.Caller) rpc.Caller { return &backCaller{k, c} }

type backCaller struct {
	rpc.Caller
	*backContext
}

func (c *backCaller) Start(x *rpc.Exchange) {
	x.Cred = rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: []byte(c.name)}
	c.Caller.Start(x)
}

// gssSession makes a session whose client offers the given callback credentials. contexts are the
// RPCSEC_GSS contexts that the server can find, by handle.
func gssSession(t *testing.T, k *client41, contexts map[string]*backContext, offers ...wire.CallbackSecParms4) (*Session, *session) {
	site, m := site(t, Config{BackContext: func(_ *rpc.Cred, server, _ []byte, _ rpc.GSSService) BackContext {
		if c := contexts[string(server)]; c != nil {
			c.name = string(server)
			return c
		}
		return nil
	}}, state.Config{Lease: 90 * time.Second})
	p := site.Peer(1)
	p.Principal = "host/client@TEST"
	p.Conn.SetCaller(k)
	args := createArgs(newClient(p, "client", 1), 1)
	args.Flags = wire.CreateSession4FlagConnBackChan
	args.SecParms = securityList(t, offers...)
	s := sessionOf(p, args)
	return m.sessions.find(&s.id), s
}

func offer(handle string) wire.CallbackSecParms4 {
	return wire.CallbackSecParms4{Secflavor: wire.RPCSECGSS, GSSHandles: wire.GSSCBHandles4{
		Service: wire.RpcGSSSvcPrivacy, HandleFromServer: []byte(handle), HandleFromClient: []byte("theirs")}}
}

// by makes a call, and returns its flavor and the name in its credential.
func by(t *testing.T, s *Session, k *client41) string {
	t.Helper()
	done := make(chan outcome, 1)
	s.Call(recallSlot(done))
	if o := <-done; o != (outcome{}) {
		return o.err.Error()
	}
	c := k.calls[len(k.calls)-1]
	return map[rpc.Flavor]string{rpc.AuthNone: "AUTH_NONE", rpc.AuthSys: "AUTH_SYS", rpc.AuthGSS: "RPCSEC_GSS"}[c.flavor] + " " + c.signer
}

// Calls use the credential that the client offered first. If that is a context, they use the
// context that lasts longest. They use only credentials that the client offered.
func TestCallsUnderAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
		for _, c := range []struct {
			name     string
			offers   []wire.CallbackSecParms4
			contexts map[string]*backContext
			want     string
		}{
			{"alone", []wire.CallbackSecParms4{offer("a")}, map[string]*backContext{"a": {}}, "RPCSEC_GSS a"},
			{"before AUTH_SYS", []wire.CallbackSecParms4{offer("a"), secSys}, map[string]*backContext{"a": {}}, "RPCSEC_GSS a"},
			{"behind AUTH_SYS", []wire.CallbackSecParms4{secSys, offer("a")}, map[string]*backContext{"a": {}}, "AUTH_SYS "},
			{"two", []wire.CallbackSecParms4{offer("a"), offer("b")}, map[string]*backContext{"a": {expiry: late}, "b": {expiry: soon}}, "RPCSEC_GSS a"},
			{"one of them ended", []wire.CallbackSecParms4{offer("a"), offer("b")}, map[string]*backContext{"a": {ended: true}, "b": {expiry: soon}}, "RPCSEC_GSS b"},
			{"all ended", []wire.CallbackSecParms4{offer("a"), offer("b")}, map[string]*backContext{"a": {ended: true}, "b": {ended: true}}, ErrNoPath.Error()},
			{"all ended, and AUTH_SYS", []wire.CallbackSecParms4{offer("a"), secSys}, map[string]*backContext{"a": {ended: true}}, "AUTH_SYS "},
			{"longer than the client takes", []wire.CallbackSecParms4{offer("a")}, map[string]*backContext{"a": {adds: 1 << 20}}, ErrTooLarge.Error()},
		} {
			k := &client41{}
			s, _ := gssSession(t, k, c.contexts, c.offers...)
			if got := by(t, s, k); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	})
}

// SEQUENCE reports expired contexts to the client, and BACKCHANNEL_CTL replaces them (RFC
// 8881 §18.33.3, §18.46.3).
func TestContextsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &client41{}
		contexts := map[string]*backContext{
			"a": {expiry: time.Now().Add(2 * time.Minute)}, "b": {expiry: time.Now().Add(10 * time.Minute)}, "c": {},
		}
		s, far := gssSession(t, k, contexts, offer("a"))
		flags := func(when string, want uint32) {
			t.Helper()
			if got := flagsOf(t, far.run()); got != want {
				t.Errorf("%s: flags %#x, want %#x", when, got, want)
			}
		}
		flags("at first", 0)
		time.Sleep(31 * time.Second)
		flags("less than a lease before the end", wire.Seq4StatusCBGSSContextsExpiring)
		ctl := func(list ...wire.CallbackSecParms4) {
			t.Helper()
			want(t, "BACKCHANNEL_CTL", far.run(backchannelCtl(8, list...)), wire.NFS4OK, 2)
		}
		ctl(offer("b"))
		flags("with another", 0)
		if got := by(t, s, k); got != "RPCSEC_GSS b" {
			t.Error(got)
		}
		contexts["b"].ended = true
		flags("after the other was destroyed", wire.Seq4StatusCBGSSContextsExpiring)
		if got := by(t, s, k); got != "RPCSEC_GSS a" {
			t.Error(got)
		}
		time.Sleep(50 * time.Second)
		far.run()
		time.Sleep(50 * time.Second)
		flags("after the end", wire.Seq4StatusCBGSSContextsExpired)
		if Reachable(s.Client()) {
			t.Error("the client counts as reachable")
		}
		if got := by(t, s, k); got != ErrNoPath.Error() {
			t.Error(got)
		}
		ctl(secNone)
		if got := by(t, s, k); got != "AUTH_NONE " {
			t.Error(got)
		}
		flags("under AUTH_NONE", wire.Seq4StatusCBGSSContextsExpired)
		k.mu.Lock()
		nulls := k.nulls
		k.mu.Unlock()
		ctl(offer("c"))
		flags("at last", 0)
		if got := by(t, s, k); got != "RPCSEC_GSS c" || k.nulls != nulls+1 {
			t.Errorf("%s, and the client was asked %d times whether it answers", got, k.nulls-nulls)
		}
		if n := len(s.security.Load().contexts); n != 1 {
			t.Errorf("%d contexts are kept", n)
		}
	})
}

// backchannelCtl returns a BACKCHANNEL_CTL with the given callback credentials.
func backchannelCtl(program uint32, list ...wire.CallbackSecParms4) nfs4test.Op {
	args := &wire.BackchannelCtl4Args{CBProgram: program}
	w := xdr.NewWriter(make([]byte, 0, 512))
	w.Uint32(uint32(len(list)))
	for i := range list {
		list[i].Encode(w)
	}
	args.SecParms.Decode(xdr.NewDecoder(w.Bytes()))
	return op(wire.OpBackchannelCtl, args)
}
