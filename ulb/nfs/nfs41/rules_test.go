package nfs41

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A SEQUENCE renews its client's lease. So does a repeated SEQUENCE whose reply was lost (RFC 8881
// §8.3), but not a SEQUENCE that fails.
func TestSequenceRenewsTheLease(t *testing.T) {
	const lease = time.Minute
	for _, c := range []struct {
		name   string
		by     func(s *session) wire.NFSStat4
		status wire.NFSStat4
		stays  bool
	}{
		{"a new request", func(s *session) wire.NFSStat4 { return s.run(rootOp).Status }, wire.NFS4OK, true},
		{"one that comes again", func(s *session) wire.NFSStat4 {
			again := s.sequenceOp(0)
			again.Sequenceid--
			return s.with(again, rootOp).Status
		}, wire.NFS4OK, true},
		{"one out of order", func(s *session) wire.NFSStat4 {
			later := s.sequenceOp(0)
			later.Sequenceid++
			return s.with(later, rootOp).Status
		}, wire.NFS4ErrSeqMisordered, false},
		{"nothing", func(*session) wire.NFSStat4 { return wire.NFS4OK }, wire.NFS4OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, _ := site(t, Config{}, state.Config{Lease: lease})
				s := newClientSession(st.Peer(1), "client")
				want(t, "the first", s.run(rootOp), wire.NFS4OK, 2)
				time.Sleep(lease * 3 / 4)
				is(t, c.name, c.by(s), c.status)
				time.Sleep(lease * 3 / 4)
				evict(st, s.client)
				if stays := st.State.Client(s.client) != nil; stays != c.stays {
					t.Errorf("the client stays: %v, want %v", stays, c.stays)
				}
			})
		})
	}
}

// evict calls Manager.Evict for a client, which removes the client if its lease has run out.
func evict(s *nfs4test.Site, id uint64) {
	s.T.Helper()
	if err := s.State.Evict(s.State.Client(id)); err != nil {
		s.T.Fatal(err)
	}
}

// The size of a request is that of the whole message, including the parts that an RDMA transport
// carried in chunks (RFC 8881 §18.36.3, ca_maxrequestsize).
func TestRequestSizeCountsChunks(t *testing.T) {
	c := &rpc.Call{}
	c.MessageLen = 200
	c.Placed = []rpc.Placed{{Position: 100, Length: 4096}, {Position: 160, Length: 3}}
	if n := requestSize(c); n != 200+4096+3 {
		t.Errorf("the request has %d bytes", n)
	}
}

// A repetition must come from the same caller: for RPCSEC_GSS the same principal, whatever user
// number it has by now; for AUTH_SYS the same user number (RFC 8881 §2.10.6.1.3.1).
func TestRepetitionsAreTheSameCallers(t *testing.T) {
	of := func(c rpc.Cred) uint64 {
		call := &rpc.Call{}
		call.Cred = c
		return digestOf(&nfs4.Compound{Call: call, Args: xdr.NewDecoder([]byte("operations")), Count: 2})
	}
	gss := func(principal string, uid uint32) rpc.Cred {
		return rpc.Cred{Flavor: rpc.AuthGSS, Principal: principal, UID: uid, GID: uid}
	}
	served := func(s rpc.GSSService) rpc.Cred {
		return rpc.Cred{Flavor: rpc.AuthGSS, Principal: "alice@R", GSS: s}
	}
	sys := func(uid, gid uint32) rpc.Cred { return rpc.Cred{Flavor: rpc.AuthSys, UID: uid, GID: gid} }
	for _, c := range []struct {
		name string
		a, b rpc.Cred
		same bool
	}{
		{"one principal", gss("alice@R", 7), gss("alice@R", 7), true},
		{"one principal, whose number was asked for anew", gss("alice@R", 7), gss("alice@R", 8), true},
		{"two principals", gss("alice@R", 7), gss("bob@R", 7), false},
		{"two services", served(rpc.GSSPrivacy), served(rpc.GSSNone), false},
		{"one user", sys(7, 8), sys(7, 8), true},
		{"two users", sys(7, 8), sys(9, 8), false},
		{"two groups", sys(7, 8), sys(7, 9), false},
		{"two flavors", sys(7, 7), gss("", 7), false},
	} {
		if same := of(c.a) == of(c.b); same != c.same {
			t.Errorf("%s: the same request: %v, want %v", c.name, same, c.same)
		}
	}
}

// The stored replies of all sessions of one address may take three quarters of what its site may have, and the site
// three quarters of all. If there is no memory to store the reply of a request, the request gets
// NFS4ERR_DELAY, unless it is in slot 0 of its session.
func TestRepliesOfOneAddressLeaveRoomForOthers(t *testing.T) {
	st, m := site(t, Config{CacheMemory: 1 << 20}, state.Config{})
	ops := []nfs4test.Op{rootOp}
	for range 100 {
		ops = append(ops, op(wire.OpGetFH))
	}
	top := int64(0)
	for i := range 8 {
		p := st.Peer(1)
		args := createArgs(newClient(p, fmt.Sprint("client ", i), 1), 1)
		args.ForeChanAttrs.Maxrequests = 256
		s := sessionOf(p, args)
		for slot := range s.fore.Maxrequests {
			if r := s.with(s.sequenceOp(slot), ops...); r.Status != wire.NFS4OK && (r.Status != wire.NFS4ErrDelay || slot == 0) {
				t.Fatalf("session %d, slot %d: %v", i, slot, r.Status)
			}
			top = max(top, m.cache.others.Held())
		}
	}
	if most := m.cache.half*9/16 + maxCached; top > most || top < most/2 {
		t.Errorf("replies took %d bytes, want up to %d of %d", top, most, m.cache.half)
	}
}

// When the client has told the server a highest slot for calls, the server uses no higher slot;
// other calls wait (RFC 8881 §20.9.3, csr_target_highest_slotid).
func TestCallsKeepToTheTargetSlot(t *testing.T) {
	for target, most := range []int{1, 2, 3} {
		k := &client41{answer: func(c *calledBack, w *xdr.Writer) error {
			return c.replyWanting(w, wire.NFS4OK, wire.NFS4OK, uint32(target))
		}}
		s, far := backSession(t, k, nil)
		done := make(chan outcome, 10)
		s.Call(recallSlot(done))
		if o := <-done; o != (outcome{}) {
			t.Fatalf("target %d: the call that tells it: %+v", target, o)
		}
		k.speak(true)
		for range 5 {
			s.Call(recallSlot(done))
		}
		k.mu.Lock()
		var under []*rpc.Exchange
		for x := range k.waiting {
			under = append(under, x)
		}
		k.mu.Unlock()
		if len(under) != most {
			t.Errorf("target %d: %d calls are under way, want %d", target, len(under), most)
		}
		far.run(op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: far.id}))
		for _, x := range under {
			k.Cancel(x, rpc.ErrCallLost)
		}
		for range 5 {
			if o := <-done; o.err == nil {
				t.Errorf("target %d: a call of a session that ended: %+v", target, o)
			}
		}
	}
}

// The server accepts an RPCSEC_GSS context for callbacks only from a caller under RPCSEC_GSS. From
// another caller it does not even look up the handle, because a handle is no secret (RFC 8881
// §18.36.3, §18.33.3).
func TestContextsAreOfferedUnderGSSAlone(t *testing.T) {
	asked := 0
	st, _ := site(t, Config{BackContext: func(*rpc.Cred, []byte, []byte, rpc.GSSService) BackContext {
		asked++
		return &backContext{}
	}}, state.Config{})
	for _, c := range []struct {
		principal string
		status    wire.NFSStat4
		asked     int
	}{{"", wire.NFS4ErrNoEnt, 0}, {"user@TEST", wire.NFS4OK, 1}} {
		p := st.Peer(1)
		p.Principal = c.principal
		args := createArgs(newClient(p, "client of "+c.principal, 1), 1)
		args.SecParms = securityList(t, secGSS)
		asked = 0
		is(t, "CREATE_SESSION by "+c.principal, create(p, args).Status, c.status)
		if asked != c.asked {
			t.Errorf("CREATE_SESSION by %q: %d contexts were looked for, want %d", c.principal, asked, c.asked)
		}
		s := newClientSession(p, "other client of "+c.principal)
		asked = 0
		want(t, "BACKCHANNEL_CTL by "+c.principal, s.run(backchannelCtl(8, secGSS)), c.status, 2)
		if asked != c.asked {
			t.Errorf("BACKCHANNEL_CTL by %q: %d contexts were looked for, want %d", c.principal, asked, c.asked)
		}
	}
}

// A request may be as long as the agreed ca_maxrequestsize, and not a byte longer (RFC 8881
// §2.10.6.4). XDR pads a request to a multiple of four bytes. The server agrees to no more than the
// client asked for (§18.36.3).
func TestRequestsAsLongAsAgreed(t *testing.T) {
	p := peer(t)
	id := newClient(p, "client", 1)
	compound := func(s *session) []byte {
		return p.Message("", op(wire.OpSequence, s.sequenceOp(0)), rootOp, lookup(strings.Repeat("x", 200)))
	}
	size := uint32(len(compound(&session{Peer: p, seq: map[uint32]uint32{}})))
	for i, c := range []struct {
		agreed uint32
		want   wire.NFSStat4
		ops    int
	}{
		{size + 4, wire.NFS4ErrNoEnt, 3},
		{size, wire.NFS4ErrNoEnt, 3},
		{size - 1, wire.NFS4ErrReqTooBig, 1},
		{size - 4, wire.NFS4ErrReqTooBig, 1},
	} {
		args := createArgs(id, uint32(i+1))
		args.ForeChanAttrs.Maxrequestsize = c.agreed
		s := sessionOf(p, args)
		if s.fore.Maxrequestsize != c.agreed {
			t.Errorf("the server agrees to requests of %d bytes, the client asked for %d", s.fore.Maxrequestsize, c.agreed)
		}
		message := compound(s)
		if uint32(len(message)) != size {
			t.Fatalf("the request is %d bytes long, not %d", len(message), size)
		}
		want(t, fmt.Sprintf("%d bytes, where %d are agreed", size, c.agreed), p.Parse(p.End(p.Begin(message))), c.want, c.ops)
	}
}

// A longer request under the same sequence number is no repetition, even if it begins with all
// the bytes that the server compares (RFC 8881 §2.10.6.1.3.1).
func TestFalseRetryThatIsLonger(t *testing.T) {
	s := newClientSession(peer(t), "client")
	seq := s.sequenceOp(0)
	ops := func(last string) []nfs4test.Op {
		ops := []nfs4test.Op{rootOp}
		for range 1 + digested/200 {
			ops = append(ops, lookup(strings.Repeat("x", 200)))
		}
		return append(ops, lookup(last))
	}
	want(t, "the first", s.with(seq, ops("name")...), wire.NFS4ErrNoEnt, 3)
	want(t, "the first again", s.with(seq, ops("name")...), wire.NFS4ErrNoEnt, 3)
	want(t, "one that is longer at its end", s.with(seq, ops("another name")...), wire.NFS4ErrSeqFalseRetry, 1)
	want(t, "one that is shorter", s.with(seq, ops("")...), wire.NFS4ErrSeqFalseRetry, 1)
}

// While the server sends a stored reply again, the next request in the slot does not change that
// reply. Such a request may come, because the client may already have got the first copy of the
// reply (RFC 8881 §2.10.6.1.3).
func TestReplyThatIsSentAgainIsNotWrittenOver(t *testing.T) {
	p := peer(t)
	s := newClientSession(p, "client")
	want(t, "RECLAIM_COMPLETE", s.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})), wire.NFS4OK, 2)
	r := s.run(putExport(s), op(wire.OpOpen, &wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: s.client, Owner: []byte("me")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Create}, Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("file")},
	}), op(wire.OpWrite, &wire.Write4Args{
		Stateid: state.CurrentID, Stable: wire.FileSync4, Data: xdr.Eligible{Data: []byte("first---second--")},
	}), op(wire.OpGetFH))
	want(t, "OPEN, WRITE", r, wire.NFS4OK, 5)
	var fh wire.GetFH4Res
	r.Ops[4].Into(t, &fh)
	read := func(offset uint64) []nfs4test.Op {
		return []nfs4test.Op{op(wire.OpPutFH, &wire.PutFH4Args{Object: fh.ResOK.Object}), op(wire.OpRead, &wire.Read4Args{Offset: offset, Count: 8})}
	}
	first := s.sequenceOp(0)
	want(t, "a READ", s.run(read(0)...), wire.NFS4OK, 3)
	again := p.End(p.Begin(p.Message("", append([]nfs4test.Op{op(wire.OpSequence, first)}, read(0)...)...)))
	want(t, "the READ again", p.Parse(again), wire.NFS4OK, 3)
	if len(again.Lent) != 1 {
		t.Fatalf("the reply has %d payloads of the slot's memory", len(again.Lent))
	}
	want(t, "the next READ", s.run(read(8)...), wire.NFS4OK, 3)
	if got := string(again.Lent[0]); got != "first---" {
		t.Errorf("the transport that sends the reply of the first READ again finds %q", got)
	}
}

// If a peer has not sent a valid file handle yet, the server does not fetch the data of its long
// compound. The WRITE of that data gets NFS4ERR_REQ_TOO_BIG, in either minor version.
func TestLongCompoundOfAStranger(t *testing.T) {
	inEachMinor(t, func(t *testing.T, minor uint32) {
		site, _ := site(t, Config{}, state.Config{})
		p := site.Peer(minor)
		args := createArgs(newClient(p, "client", 1), 1)
		args.ForeChanAttrs.Maxrequestsize = 1 << 20
		s := sessionOf(p, args)
		if p.Conn.Known() {
			t.Fatal("the peer is known before it has shown a handle")
		}
		write := &wire.Write4Args{Data: xdr.Eligible{Data: make([]byte, 100)}}
		m := p.Message("", op(wire.OpSequence, s.sequenceOp(0)), rootOp, op(wire.OpWrite, write))
		c := rpctest.NewCall(p.Conn, m[:len(m)-8])
		c.Space, c.MessageLen = p.Room, 100<<10
		if plan, admitted := p.RPC.Admit(&c.Call); !admitted || !plan.Early {
			t.Fatalf("admitted %v, as %+v", admitted, plan)
		}
		p.RPC.Serve(&c.Call)
		want(t, "a long WRITE", p.Parse(p.End(c)), wire.NFS4ErrReqTooBig, 3)
	})
}
