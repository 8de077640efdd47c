package rdma

import (
	"context"
	"errors"
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

// A DialConfig says how a Client behaves. Zero values are the defaults.
type DialConfig struct {
	// Credits are requested with every call: no more calls are outstanding.
	Credits int
	// InlineSend and InlineReceive: see Config.
	InlineSend, InlineReceive int
	// RemoteInvalidation lets the peer invalidate what this side exposes: all
	// of it is exposed for one call only (RFC 8797 §4.1).
	RemoteInvalidation bool
	// Timeout bounds how long an answer may take; a connection on which one is
	// late is given up. 0: DefaultTimeout, after which Linux's clients do the same.
	Timeout time.Duration
	// Reconnect: when the connection ends, calls that were not answered are sent
	// again on a new one, with their XIDs. Otherwise they end with
	// rpc.ErrCallLost, and so do all later ones.
	Reconnect bool
	// redial is how long to wait before the second attempt to connect anew; it doubles
	// up to redialMost, until a call was answered: connections that end before that are
	// no better than none.
	redial, redialMost time.Duration
	// NoPlacement: nothing is placed directly, as under RPCSEC_GSS with
	// integrity or privacy (RFC 8166 §8.2.2). Sinks only say how large their
	// results get.
	NoPlacement bool
	// maxSegment is the longest segment that chunks are cut into, in bytes.
	maxSegment int

	// Callbacks gets the calls that the peer makes (RFC 8167); nil: none are
	// served. callbackCredits of them are served at a time, none of
	// them with chunks.
	Callbacks       Calls
	callbackCredits int
}

func (c DialConfig) withDefaults() (DialConfig, error) {
	for _, v := range []struct {
		v *int
		d int
	}{
		{&c.Credits, DefaultCredits}, {&c.InlineSend, DefaultInlineSize}, {&c.InlineReceive, DefaultInlineSize},
		{&c.maxSegment, 1 << 30}, {&c.callbackCredits, defaultCallbackCredits},
	} {
		if *v.v == 0 {
			*v.v = v.d
		}
	}
	for _, v := range []struct{ v, d *time.Duration }{
		{&c.Timeout, ptr(DefaultTimeout)}, {&c.redial, ptr(defaultRedial)}, {&c.redialMost, ptr(defaultRedialMost)},
	} {
		if *v.v == 0 {
			*v.v = *v.d
		}
	}
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

func ptr[T any](v T) *T { return &v }

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

	life    context.Context // ends with Close
	end     context.CancelFunc
	working sync.WaitGroup // redial
	gone    sync.WaitGroup // connections

	// Guarded by mu.
	link    *connection  // nil while there is none
	waiting exchangeList // for a connection
	dialing bool
	closed  bool
	pause   time.Duration // before the next attempt to connect
	lost    error         // why there will be no connection any more
}

var _ rpc.Caller = (*Client)(nil)

// Dial connects to a server. ctx bounds the connecting only.
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
	c.takeOver = c.lose
	c.life, c.end = context.WithCancel(context.Background())
	k, err := c.connect(ctx)
	if err != nil {
		c.end()
		return nil, err
	}
	c.mu.Lock()
	c.link = k
	c.mu.Unlock()
	k.start()
	return c, nil
}

// connect makes a connection that is not started yet.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	k := newConnection(c.own, &c.stats, nil)
	k.dialed = true
	k.onClosed = func(err error) { c.disconnected(k, err) }
	receives := 0
	if c.config.Callbacks != nil {
		receives = c.config.callbackCredits
	}
	param := k.param(receives, c.config.Credits+receives)
	param.InboundReads, param.OutboundReads = defaultReads, defaultReads
	device, err := c.provider.Dial(ctx, c.addr, param)
	if err != nil {
		return nil, err
	}
	k.agree(device)
	q := newRequester(k, &c.caller, c.config.Credits)
	q.noPlacement, q.maxSegment, q.timeout = c.config.NoPlacement, c.config.maxSegment, c.config.Timeout
	if c.config.Callbacks != nil {
		s := newResponder(k, c.config.Callbacks, c.config.callbackCredits, c.failed)
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
	e := c.number(x)
	next, why := c.place(e)
	c.mu.Unlock()
	c.placed(e, next, why)
}

// place finds a connection for e, or lets it wait for one; why is not nil where
// there will be none. placed goes on, once mu is let go. mu is held.
func (c *Client) place(e *exchange) (next *exchange, why error) {
	e.stage = stageWaiting
	switch {
	case e.cancelled != nil:
		why = e.cancelled
	case c.closed:
		why = errClientClosed
	case c.lost != nil:
		why = c.lost
	case c.link != nil && !c.link.requester.ended:
		return c.link.requester.enqueue(e), nil
	case c.link != nil && !c.config.Reconnect:
		// It has ended, and disconnected is still to come.
		c.lost = c.link.requester.why
		why = c.lost
	default:
		c.waiting.insert(e)
		c.redial()
		return nil, nil
	}
	e.stage = stageEnded
	return nil, why
}

// placed is the rest of place.
func (c *Client) placed(e, next *exchange, why error) {
	if why != nil {
		e.finish(&c.mu, why)
	} else if next != nil {
		next.q.pump(next)
	}
}

// lose takes over an exchange whose connection ended before its answer came.
func (c *Client) lose(e *exchange, why error) {
	c.mu.Lock()
	if !c.config.Reconnect && c.lost == nil {
		c.lost = why
	}
	next, why := c.place(e)
	c.mu.Unlock()
	c.placed(e, next, why)
}

// disconnected is called when a connection is gone.
func (c *Client) disconnected(k *connection, err error) {
	c.stats.Connections.Add(-1)
	c.mu.Lock()
	if c.link == k {
		c.link = nil
	}
	if !c.config.Reconnect && c.lost == nil {
		c.lost = k.requester.why
	}
	c.mu.Unlock()
	c.gone.Done()
}

// redial starts to connect anew, unless that is under way. mu is held.
func (c *Client) redial() {
	if c.dialing || c.closed || !c.config.Reconnect {
		return
	}
	c.dialing = true
	c.working.Add(1)
	go c.reconnect()
}

// reconnect tries until there is a connection, or the client is closed.
func (c *Client) reconnect() {
	defer c.working.Done()
	for {
		timer := time.NewTimer(c.nextPause())
		select {
		case <-timer.C:
		case <-c.life.Done():
			timer.Stop()
			c.mu.Lock()
			c.dialing = false
			c.mu.Unlock()
			return
		}
		if k, err := c.connect(c.life); err == nil {
			c.resume(k)
			return
		}
	}
}

// nextPause is how long to wait before the next attempt to connect: none if the last
// connection was good for an answer, and longer each time until one is.
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

// resume makes k the client's connection and hands it what waits.
func (c *Client) resume(k *connection) {
	c.mu.Lock()
	c.dialing = false
	closed := c.closed
	if !closed {
		c.link = k
		for e := c.waiting.head; e != nil; e = c.waiting.head {
			c.waiting.remove(e)
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
	k.requester.resume()
}

// Close ends the connection. Calls that are not answered end with an error. It
// returns when nothing of the client runs any more.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	k := c.link
	idle := true
	if k != nil {
		idle = k.requester.pending.n == 0 && k.requester.queue.head == nil
	}
	var waiting []*exchange
	for e := c.waiting.head; e != nil; e = c.waiting.head {
		c.waiting.remove(e)
		e.stage = stageEnded
		waiting = append(waiting, e)
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

// Info is what is known of a connection.
type Info struct {
	Local, Peer netip.AddrPort
	// Private is what the peer said when connecting; Found is false where it
	// said nothing that is understood, and Private is the default.
	Private wire.PrivateData
	Found   bool
	// SendLimit and ReceiveLimit are the inline thresholds agreed on, in
	// bytes; RemoteInvalidation: replies may invalidate.
	SendLimit, ReceiveLimit int
	RemoteInvalidation      bool
	// Granted is the last grant of credits, 1 before the first reply.
	Granted uint32
	// ReadDepth is how many RDMA Reads the peer allows this side.
	ReadDepth int
}

// Info describes the present connection; ok is false where there is none.
func (c *Client) Info() (i Info, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.link
	if k == nil || k.requester.ended {
		return Info{}, false
	}
	i = Info{
		Local: k.device.Local(), Peer: k.device.Peer(),
		SendLimit: k.sendLimit, ReceiveLimit: k.receiveLimit, RemoteInvalidation: k.invalidate,
		Granted: k.requester.credits.granted, ReadDepth: k.device.ReadDepth(),
	}
	i.Private, i.Found = wire.ParsePrivateData(k.device.PeerPrivateData())
	return i, true
}
