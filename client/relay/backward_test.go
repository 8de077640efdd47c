package relay_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// recaller is a server whose procedure 1 calls the client back on the same connection, as a server of
// NFS version 4.1 does to recall a delegation.
type recaller struct{ ended chan recalled }

type recalled struct {
	err   error
	value uint32
}

var recallerBinding = rpc.Binding{Procedures: []rpc.Procedure{{Name: "NULL"}, {Name: "CALLME"}}}

func (r *recaller) Number() uint32                                 { return 0x30000222 }
func (r *recaller) Versions() (low, high uint32)                   { return 4, 4 }
func (r *recaller) Binding(uint32) *rpc.Binding                    { return &recallerBinding }
func (r *recaller) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }
func (r *recaller) Serve(c *rpc.Call, _ *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == 1 {
		c.Conn.Caller().Start(&rpc.Exchange{
			Program: 0x40000000, Version: 1, Procedure: 1, MaxArgs: 4, MaxResults: 64,
			Args: func(w *xdr.Writer) { w.Uint32(7) },
			Done: func(x *rpc.Exchange) {
				end := recalled{err: x.Err}
				if x.Err == nil {
					end.value = x.Results.Uint32()
				}
				r.ended <- end
			},
		})
	}
	return rpc.Done
}

// The relay carries a server's callbacks to the client, and the client's answer to the server. If the
// client goes without an answer, the server learns at once that the callback has failed.
func TestRelayCarriesCallbacks(t *testing.T) {
	for _, name := range []string{"memory", "memory2", "iwarp", "tcp"} {
		t.Run(name, func(t *testing.T) {
			s := testserver.Start(t)
			p := &recaller{make(chan recalled, 1)}
			s.RPC.Register(p)
			r := rawDial(t, startRelay(t, relay.Config{Target: s.Targets()[name]}))
			xid := uint32(0)
			callback := func() []byte {
				xid++
				r.send(rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: p.Number(), Version: 4, Procedure: 1}, nil))
				for {
					m := r.record()
					if m == nil {
						t.Fatal("the relay has ended the connection")
					}
					if _, kind, ok := rpc.MessageType(m); ok && kind == rpc.TypeCall {
						return m
					}
				}
			}
			r.send(rpctest.CallMessage(rpc.CallHeader{XID: 99, Program: p.Number(), Version: 4}, nil)) // grants credits
			if _, _, err := r.reply(); err != nil {
				t.Fatal(err)
			}
			m := callback()
			if got := m[len(m)-4:]; got[3] != 7 {
				t.Errorf("the arguments of the callback end with %x", got)
			}
			w := xdr.NewWriter(make([]byte, 0, 64))
			w.FixedOpaque(m[:4])
			for _, word := range []uint32{1, 0, 0, 0, 0, 42} { // REPLY, accepted, AUTH_NONE, SUCCESS, the results
				w.Uint32(word)
			}
			r.send(w.Bytes())
			if end := await.Receive(t, "the callback ends", p.ended); end.err != nil || end.value != 42 {
				t.Errorf("the server gets %d, %v", end.value, end.err)
			}
			callback()
			r.c.Close()
			if end := await.Receive(t, "the callback ends", p.ended); end.err == nil {
				t.Error("a callback to a client that has gone succeeded")
			}
		})
	}
}

// A callback on a connection that serves none is refused at once, and not ignored.
func TestCallbackThatNothingServesIsRefused(t *testing.T) {
	s := testserver.Start(t)
	p := &recaller{make(chan recalled, 1)}
	s.RPC.Register(p)
	for name, target := range s.Targets() {
		c := testserver.Dial(t, target)
		must(t, c.Null(testserver.Within(t), p.Number(), 4))
		must(t, c.Call(testserver.Within(t), &rpc.Exchange{Program: p.Number(), Version: 4, Procedure: 1}, nil))
		end := await.Receive(t, "the callback ends", p.ended)
		if e, ok := errors.AsType[*rpc.ReplyError](end.err); !ok || e.Stat != rpc.AcceptProgUnavail {
			t.Errorf("%s: %v", name, end.err)
		}
	}
}
