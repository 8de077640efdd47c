package relay

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A backward carries the calls that the server makes (callbacks, RFC 8881 §2.10.3.1) to the client whose
// session it is, over the client's own connection. It implements rpc.Fallback. A call that cannot be
// carried is refused, so that the server learns at once that there is no way back.
type backward struct{ session *session }

// maxCallback is the longest callback, and the longest result of one, in bytes. Callbacks over RDMA have
// no chunks (RFC 8167 §5.3), so they are not longer than a message.
const maxCallback = 4 << 10

// newCalls returns what serves the callbacks of a session.
func newCalls(s *session) *client.Calls {
	server := rpc.NewServer(rpc.Config{Workers: 1, ReplyCacheBytes: 64 << 10})
	server.SetFallback(&backward{s})
	return &client.Calls{RPC: server, Pool: s.relay.pool}
}

var backwardRow = rpc.Procedure{Name: "CALLBACK", MaxArgs: maxCallback, MaxResults: maxCallback}

// Procedure implements rpc.Fallback.
func (b *backward) Procedure(uint32, uint32, uint32) *rpc.Procedure { return &backwardRow }

// Judge implements rpc.Fallback.
func (b *backward) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

// Serve implements rpc.Fallback. The client's reply completes the call.
func (b *backward) Serve(c *rpc.Call, _ *xdr.Writer) rpc.Outcome {
	k := b.session.conn.Caller()
	if k == nil {
		return rpc.SystemErr // the client has gone
	}
	c.Detach()
	h, args := &c.Header, c.Args.Rest()
	k.Start(&rpc.Exchange{
		Program: h.Program, Version: h.Version, Procedure: h.Procedure, Cred: h.Cred,
		Args: func(w *xdr.Writer) { w.FixedOpaque(args) }, MaxArgs: len(args), MaxResults: maxCallback,
		Done: func(x *rpc.Exchange) {
			c.Complete(func(w *xdr.Writer) rpc.Outcome {
				e, refused := errors.AsType[*rpc.ReplyError](x.Err)
				switch {
				case x.Err == nil:
					w.FixedOpaque(x.Results.Rest())
					return rpc.Done
				case refused && e.Denied && e.Auth != rpc.AuthOK:
					return rpc.Denied(e.Auth)
				case refused && !e.Denied:
					return rpc.Outcome{Stat: e.Stat, Low: e.Low, High: e.High}
				}
				return rpc.SystemErr
			})
		},
	})
	return rpc.Outcome{Pending: true}
}
