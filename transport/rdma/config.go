package rdma

import (
	"cmp"
	"errors"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Defaults of a Config.
const (
	DefaultCredits = 128
	// DefaultStrangerCredits is the default grant to a peer that has not proved to be a client yet
	// (rpc.Conn.Known). It is enough for the calls that a client makes before it has mounted
	// anything.
	DefaultStrangerCredits = 16
	DefaultInlineSize      = 4096
	defaultMaxCall         = 1<<20 + 64<<10
	defaultMaxReply        = 1<<20 + 64<<10
	// defaultReads is how many RDMA Reads a connection may have outstanding; the peer may allow
	// fewer.
	defaultReads = 64
)

// spareReceives is how many messages a connection is ready to receive (rdmacm.Conn.Provide) in
// addition to the calls that the peer has credits for. They are messages that are not calls, such
// as the RDMA_DONE of peers that predate RFC 8166, and messages that this side discards. After each
// of them, the connection is at once ready for another one.
const spareReceives = 8

// Calls serves the calls that a Responder receives; *rpc.Server implements it.
type Calls interface {
	NewConn(peer, local netip.AddrPort, transport string, privileged bool) *rpc.Conn
	// Admit decides whether a call will be served, and what memory it needs. If it returns false,
	// it has already answered or dropped the call through c.Way.
	Admit(c *rpc.Call) (rpc.Plan, bool)
	// Serve runs an admitted call. The call is answered once through c.Way, during Serve or later.
	// Hand does the same, but runs the call on another goroutine. A goroutine that must not run the
	// call itself calls Hand.
	Serve(c *rpc.Call)
	Hand(c *rpc.Call)
}

// A Config configures a Server. Zero values mean the defaults.
type Config struct {
	// RPC serves the calls. Required.
	RPC Calls
	// Pool supplies payload memory. Required.
	Pool *mem.Pool
	// Credits is how many calls of one connection are served at a time, and the number of credits
	// that every reply grants (RFC 8166 §3.3.1). A peer that has not proved to be a client yet
	// (rpc.Conn.Known) gets StrangerCredits instead.
	Credits, StrangerCredits int
	// InlineSend and InlineReceive are the largest messages that the server sends and
	// accepts, in bytes: multiples of 1024 up to MaxInline. A peer may reduce them.
	InlineSend, InlineReceive int
	// maxCall is the largest number of bytes that the Read list of one call may move. It is also
	// the largest length of a call in a Position-Zero Read chunk, in bytes.
	maxCall int
	// maxReply is how much memory a call in a Position-Zero Read chunk may reserve for its reply,
	// in bytes, at most. The call reserves it before its procedure is known.
	maxReply int
	// reads is how many RDMA Reads one connection may have outstanding; the peer may allow fewer.
	reads int
	// RemoteInvalidation lets replies invalidate an STag of their call, if the peer and the
	// device support it (RFC 8797 §4.1).
	RemoteInvalidation bool
	// Each call that the server makes to a peer, on the peer's connection (RFC 8167), requests
	// callbackCredits credits.
	callbackCredits int
	// If Version2 is true, the server also speaks version 2 of RPC-over-RDMA
	// (draft-ietf-nfsv4-rpcrdma-version-two-07), with clients that propose it.
	Version2 bool
	// Chosen, if set, is called when the first message of a client has decided the version of its
	// connection, with the client's address. It is not called if Version2 is false. It must not block.
	Chosen func(peer netip.AddrPort, version int)
	// Event, if set, is called for each Fault, from any goroutine. It must not block.
	Event func(Event)
}

// withDefaults replaces zero values by the defaults, and checks the other values.
func (c Config) withDefaults() (Config, error) {
	c.Credits = cmp.Or(c.Credits, DefaultCredits)
	c.StrangerCredits = cmp.Or(c.StrangerCredits, min(DefaultStrangerCredits, c.Credits))
	c.InlineSend = cmp.Or(c.InlineSend, DefaultInlineSize)
	c.InlineReceive = cmp.Or(c.InlineReceive, DefaultInlineSize)
	if c.Version2 {
		c.InlineReceive = max(c.InlineReceive, leastReceive2)
	}
	c.maxCall = cmp.Or(c.maxCall, defaultMaxCall)
	c.maxReply = cmp.Or(c.maxReply, defaultMaxReply)
	c.reads = cmp.Or(c.reads, defaultReads)
	c.callbackCredits = cmp.Or(c.callbackCredits, defaultCallbackCredits)
	switch {
	case c.RPC == nil || c.Pool == nil:
		return c, errors.New("rdma: a server needs RPC and Pool")
	case c.Credits < 1 || c.Credits > 1<<16:
		return c, errors.New("rdma: Credits is not within 1..65536")
	case c.StrangerCredits < 1 || c.StrangerCredits > c.Credits:
		return c, errors.New("rdma: StrangerCredits is not within 1..Credits")
	case !inlineSize(c.InlineSend) || !inlineSize(c.InlineReceive):
		return c, errInlineSize
	case c.maxCall < 0 || c.maxReply < 0 || c.reads < 0 || c.callbackCredits < 0:
		return c, errors.New("rdma: a limit of the configuration is negative: use 0 for its default")
	case c.maxCall > 1<<30 || c.maxReply > 1<<30:
		return c, errors.New("rdma: a limit exceeds 1 GiB")
	}
	return c, nil
}

var errInlineSize = errors.New("rdma: inline sizes are multiples of 1024 up to 262144")

func inlineSize(n int) bool { return n >= wire.DefaultInline && n <= wire.MaxInline && n%1024 == 0 }
