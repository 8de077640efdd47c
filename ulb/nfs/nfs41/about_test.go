package nfs41

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A client's implementation is what it said in EXCHANGE_ID, up to a bound, with the minor version of that.
func TestAboutTheImplementation(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	long := strings.Repeat("n", maxTold+1)
	for i, c := range []struct {
		minor                uint32
		name, domain         string
		silent               bool
		wantName, wantDomain string
	}{
		{1, "Linux 6.12", "kernel.org", false, "Linux 6.12", "kernel.org"},
		{2, long, long, false, long[1:], long[1:]},
		{2, "", "", true, "", ""},
	} {
		p := site.Peer(c.minor)
		args := exchangeArgs(string(rune('a'+i)), 1)
		args.ClientImplID.Present = !c.silent
		args.ClientImplID.Value = wire.NFSImplID4{Name: wire.UTF8String(c.name), Domain: wire.UTF8String(c.domain)}
		res := exchange(p, args)
		is(t, "EXCHANGE_ID", res.Status, wire.NFS4OK)
		want := About{Minor: c.minor, Implementation: c.wantName, Domain: c.wantDomain}
		if a, ok := AboutOf(m.state.Client(res.ResOK.Clientid)); !ok || a != want {
			t.Errorf("%+v, %v, want %+v", a, ok, want)
		}
	}
}

// A client wants callbacks once it has bound a connection for them, and is reached until it leaves one unanswered.
func TestAboutTheCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &client41{}
		s, far := backSession(t, k, nil)
		about := func(what string, wanted, reached bool) {
			t.Helper()
			a, ok := AboutOf(s.Client())
			if !ok || a.Wanted != wanted || a.Reached != reached || reached && a.Back != far.Conn.Peer {
				t.Errorf("%s: %+v, %v", what, a, ok)
			}
		}
		about("a connection for callbacks", true, true)
		k.speak(true)
		done := make(chan outcome, 1)
		s.Call(recallSlot(done))
		time.Sleep(time.Hour)
		<-done
		about("a call without an answer", true, false)
		none := newClientSession(far.Site.Peer(1), "without")
		if a, ok := AboutOf(far.Site.State.Client(none.client)); !ok || a.Wanted || a.Reached {
			t.Errorf("a client without callbacks: %+v, %v", a, ok)
		}
	})
}
