package rdma

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Defaults of a DialConfig.
const (
	DefaultTimeout         = time.Minute
	defaultCallbackCredits = 32
	defaultRedial          = 100 * time.Millisecond
	defaultRedialMost      = 5 * time.Second
)

// A DialConfig configures a Client. Zero values mean the defaults.
type DialConfig struct {
	// Credits is the number of credits that every call requests. The client never has more
	// calls outstanding.
	Credits int
	// InlineSend and InlineReceive are as in Config.
	InlineSend, InlineReceive int
	// RemoteInvalidation lets the peer invalidate the memory that this side exposes. That
	// is safe because each piece of memory is exposed for one call only (RFC 8797 §4.1).
	RemoteInvalidation bool
	// Timeout is how long a call may wait for its answer. If an answer is late, the client ends the
	// connection. 0 means DefaultTimeout, the time that Linux's clients use.
	Timeout time.Duration
	// If Reconnect is true and the connection ends, the client sends unanswered calls again on a
	// new connection, with the same XIDs. If Reconnect is false, these calls end with
	// rpc.ErrCallLost, and so do all later ones.
	Reconnect bool
	// redial is the wait before the second attempt to connect again. The wait doubles with each
	// attempt, up to redialMost, until the server answers a call. A connection on which no call was
	// answered counts as a failed attempt.
	redial, redialMost time.Duration
	// If NoPlacement is true, the client offers no chunks for direct placement, as under RPCSEC_GSS
	// with integrity or privacy (RFC 8166 §8.2.2). Then rpc.Exchange.Sinks only give the sizes of
	// results.
	NoPlacement bool
	// If Version2 is true, the client proposes version 2 of RPC-over-RDMA
	// (draft-ietf-nfsv4-rpcrdma-version-two-07) on each connection. If the server does not accept that,
	// the client uses version 1, on the same connection if the server says so (Client.connect).
	Version2 bool
	// If OnlyVersion2 is true, too, the client uses no other version. If the server does not accept
	// version 2, Dial fails with ErrVersion2, and an attempt to reconnect counts as failed.
	OnlyVersion2 bool
	// maxSegment is the longest segment of a chunk, in bytes.
	maxSegment int

	// Callbacks serves the calls that the peer makes (RFC 8167). If it is nil, the client serves
	// none. At most callbackCredits of these calls are served at a time; they must not have chunks.
	Callbacks       Calls
	callbackCredits int
}

func (c DialConfig) withDefaults() (DialConfig, error) {
	c.Credits = cmp.Or(c.Credits, DefaultCredits)
	c.InlineSend = cmp.Or(c.InlineSend, DefaultInlineSize)
	c.InlineReceive = cmp.Or(c.InlineReceive, DefaultInlineSize)
	if c.Version2 {
		c.InlineReceive = max(c.InlineReceive, leastReceive2)
	}
	c.maxSegment = cmp.Or(c.maxSegment, 1<<30)
	c.callbackCredits = cmp.Or(c.callbackCredits, defaultCallbackCredits)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.redial = cmp.Or(c.redial, defaultRedial)
	c.redialMost = cmp.Or(c.redialMost, defaultRedialMost)
	switch {
	case !inlineSize(c.InlineSend) || !inlineSize(c.InlineReceive):
		return c, errInlineSize
	case c.Credits < 1 || c.callbackCredits < 1 || c.maxSegment < 1:
		return c, errors.New("rdma: a limit is out of range")
	case c.Timeout < 0 || c.redial < 0 || c.redialMost < 0:
		return c, errors.New("rdma: a time is negative")
	}
	return c, nil
}

// A Client makes calls to one server, over one connection at a time. It
// implements rpc.Caller.
type Client struct {
	caller
	provider rdmacm.Provider
	addr     netip.AddrPort
	config   DialConfig
	own      wire.PrivateData
	stats    Stats
	failed   *failedXIDs

	// versions is what the client knows of the server's versions.
	versions versionMemory

	life    context.Context // cancelled by Close
	end     context.CancelFunc
	working sync.WaitGroup // counts the goroutine that runs reconnect
	gone    sync.WaitGroup // counts connections until they have ended

	// Guarded by mu.
	link    *connection  // nil while there is no connection
	waiting exchangeList // exchanges that wait for a connection
	dialing bool
	closed  bool
	pause   time.Duration // the wait before the next attempt to connect
	lost    error         // if not nil, the reason why the client makes no further connection
}

var _ rpc.Caller = (*Client)(nil)

// Dial connects to a server. The end of ctx ends only the attempt to connect, not the Client.
func Dial(ctx context.Context, provider rdmacm.Provider, addr netip.AddrPort, config DialConfig) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{provider: provider, addr: addr, config: config, failed: newFailedXIDs()}
	c.own = wire.PrivateData{
		RemoteInvalidation: config.RemoteInvalidation && provider.Limits().RemoteInvalidation,
		SendSize:           config.InlineSend,
		ReceiveSize:        config.InlineReceive,
	}
	c.xid, c.takeOver = rand.Uint32(), c.lose
	c.life, c.end = context.WithCancel(context.Background())
	k, err := c.connect(ctx)
	if err != nil {
		c.end()
		c.gone.Wait()
		return nil, err
	}
	c.mu.Lock()
	c.link = k
	c.mu.Unlock()
	k.start()
	return c, nil
}

// connectWith makes a connection. Its caller calls start. If propose is true, the framing is that of
// version 2, and its caller proposes that version (connect).
func (c *Client) connectWith(ctx context.Context, propose bool) (*connection, error) {
	k := newConnection(c.own, &c.stats, nil)
	k.dialed, k.version2 = true, propose
	k.onClosed = func(err error) { c.disconnected(k, err) }
	k.versionRefused = func() { c.versions.note(false) }
	receives, callbacks := 0, 0
	if c.config.Callbacks != nil {
		callbacks = c.config.callbackCredits
		receives = callbacks
	}
	if propose {
		receives += window2
	}
	param := k.param(receives, c.config.Credits+receives)
	param.InboundReads, param.OutboundReads = defaultReads, defaultReads
	device, err := c.provider.Dial(ctx, c.addr, param)
	if err != nil {
		return nil, err
	}
	k.agree(device)
	if propose {
		k.framing = newVersion2(k, uint32(receives))
	}
	q := newRequester(k, &c.caller, c.config.Credits)
	q.noPlacement, q.timeout = c.config.NoPlacement, c.config.Timeout
	q.ownSegment, q.maxSegment = c.config.maxSegment, c.config.maxSegment
	if c.config.Callbacks != nil {
		s := newResponder(k, c.config.Callbacks, callbacks, c.failed)
		s.noChunks = true
		s.conn.SetCaller(c)
	}
	c.gone.Add(1)
	c.stats.Connections.Add(1)
	c.stats.Accepted.Add(1)
	return k, nil
}

// Start implements rpc.Caller.
func (c *Client) Start(x *rpc.Exchange) {
	c.mu.Lock()
	e := c.numberLocked(x)
	next, why := c.placeLocked(e)
	c.mu.Unlock()
	c.placed(e, next, why)
}

// placeLocked queues e on the present connection, or lets it wait for the next one. If e
// was cancelled, or if there will be no next connection, it returns the reason. The caller
// then releases mu and passes the results to placed.
func (c *Client) placeLocked(e *exchange) (next *exchange, why error) {
	e.stage, e.age = stageWaiting, 0
	switch {
	case e.cancelled != nil:
		why = e.cancelled
	case c.closed:
		why = errClientClosed
	case c.lost != nil:
		why = c.lost
	case c.link != nil && !c.link.requester.ended:
		return c.link.requester.enqueueLocked(e), nil
	case c.link != nil && !c.config.Reconnect:
		// The connection has ended, but disconnected has not run yet.
		c.lost = c.link.requester.why
		why = c.lost
	default:
		c.waiting.insert(e)
		c.redialLocked()
		return nil, nil
	}
	e.stage = stageEnded
	return nil, why
}

// placed does what is left to do for e after placeLocked, whose results next and why are. It needs mu
// released. If why is not nil, it ends e with this error. Otherwise it sends next, unless next is
// nil.
func (c *Client) placed(e, next *exchange, why error) {
	if why != nil {
		e.finish(&c.mu, why)
	} else if next != nil {
		next.q.pump(next)
	}
}

// lose takes over an exchange whose connection ended before its answer came: it queues the exchange
// for the next connection, or ends it. If the connection is only about to end (requester.dying), the
// exchange waits in its queue for that end, and lose is then called again.
func (c *Client) lose(e *exchange, _ error) {
	c.mu.Lock()
	next, why := c.placeLocked(e)
	c.mu.Unlock()
	c.placed(e, next, why)
}

// disconnected is called when the connection k has ended. It removes k from the client.
func (c *Client) disconnected(k *connection, err error) {
	c.stats.Connections.Add(-1)
	c.mu.Lock()
	if c.link == k {
		c.link = nil
		if !c.config.Reconnect && c.lost == nil {
			c.lost = k.requester.why
		}
	}
	c.mu.Unlock()
	c.gone.Done()
}

// redialLocked starts to connect again, unless that is under way.
func (c *Client) redialLocked() {
	if c.dialing || c.closed || !c.config.Reconnect {
		return
	}
	c.dialing = true
	c.working.Add(1)
	go c.reconnect()
}

// reconnect tries to connect until it succeeds or the client is closed.
func (c *Client) reconnect() {
	defer c.working.Done()
	for {
		select {
		case <-time.After(c.nextPause()):
		case <-c.life.Done():
			return
		}
		if k, err := c.connect(c.life); err == nil {
			c.resume(k)
			return
		}
	}
}

// nextPause returns the wait before the next attempt to connect. If the server answered a call on the
// last connection, the wait is 0; otherwise it grows with each attempt.
func (c *Client) nextPause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		c.answered, c.pause = false, 0
	}
	wait := c.pause
	c.pause = min(max(c.config.redial, 2*wait), c.config.redialMost)
	return wait
}

// resume makes k the client's connection and sends the waiting calls on it.
func (c *Client) resume(k *connection) {
	c.mu.Lock()
	c.dialing = false
	closed, ended := c.closed, k.requester.ended
	switch {
	case closed:
	case ended: // after it had settled the version
		c.redialLocked()
	default:
		c.link = k
		for _, e := range c.waiting.removeAll() {
			e.q = k.requester
			k.requester.queue.insert(e)
		}
	}
	c.mu.Unlock()
	k.start()
	if closed {
		k.device.Abort(errClientClosed)
		return
	}
	if !ended {
		k.requester.resume()
	}
}

// Close ends the connection. Unanswered calls end with an error. Close returns when no
// goroutine of the client runs any more.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	k := c.link
	idle := true
	if k != nil {
		idle = k.requester.pending.n == 0 && k.requester.queue.First == nil
	}
	waiting := c.waiting.removeAll()
	for _, e := range waiting {
		e.stage = stageEnded
	}
	c.mu.Unlock()
	c.end()
	for _, e := range waiting {
		e.finish(&c.mu, errClientClosed)
	}
	if k != nil {
		if idle {
			k.device.Disconnect()
		} else {
			k.device.Abort(errClientClosed)
		}
	}
	c.working.Wait()
	c.gone.Wait()
	return nil
}

// Info describes a connection.
type Info struct {
	Local, Peer netip.AddrPort
	// Version is the version of RPC-over-RDMA that the connection uses.
	Version int
	// Carrier is the provider and the device below the connection.
	Carrier rdmacm.Carrier
	// Private is the peer's private data. If Found is false, the peer sent none that could
	// be decoded, and Private holds the defaults.
	Private wire.PrivateData
	Found   bool
	// SendLimit and ReceiveLimit are the agreed inline thresholds, in bytes.
	// RemoteInvalidation is true if replies may invalidate STags.
	SendLimit, ReceiveLimit int
	RemoteInvalidation      bool
	// Granted is the last grant of credits, 1 before the first reply. In version 2 it is how many
	// messages the server permits at present.
	Granted uint32
	// Properties are those of the peer in version 2. In version 1 they are zero.
	Properties Properties
	// ReadDepth is how many RDMA Reads the peer allows this side to have outstanding.
	ReadDepth int
}

// Info describes the present connection. ok is false if there is none.
func (c *Client) Info() (i Info, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.link
	if k == nil || k.requester.ended {
		return Info{}, false
	}
	i = Info{
		Local: k.device.Local(), Peer: k.device.Peer(), Carrier: k.device.Carrier(),
		SendLimit: k.sendLimit, ReceiveLimit: k.receiveLimit, RemoteInvalidation: k.invalidate,
		Granted: k.requester.credits.granted, ReadDepth: k.device.ReadDepth(),
	}
	i.Version = 1
	if v, ok := k.framing.(*version2); ok {
		i.Version, i.Granted, i.Properties = 2, v.granted(), v.inEffect
	}
	i.Private, i.Found = wire.ParsePrivateData(k.device.PeerPrivateData())
	return i, true
}
