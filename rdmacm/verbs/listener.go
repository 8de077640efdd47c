package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// backlog is how many requests the kernel keeps for a listener.
const backlog = 256

// Listen starts to accept connections at addr, on each device that has it. [::] is every
// address of both families, as it is with TCP.
func (p *Provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	switch {
	case addr.Addr().IsUnspecified() && p.cfg.Skip != nil:
		return p.listenEverywhere(addr)
	case addr.Addr() == netip.IPv6Unspecified():
		return p.listenBoth(addr.Port())
	}
	return p.listen(addr)
}

func (p *Provider) listen(addr netip.AddrPort) (*listener, error) {
	l := &listener{p: p, requests: make(chan *request), closed: make(chan struct{})}
	var err error
	l.id, err = p.watch(l, func() (device.ID, error) { return p.channel.Listen(addr, true, backlog) })
	if err != nil {
		return nil, err
	}
	l.addr = netip.AddrPortFrom(addr.Addr(), l.id.Port())
	return l, nil
}

type listener struct {
	p        *Provider
	id       device.ID
	addr     netip.AddrPort
	requests chan *request
	closed   chan struct{}
	once     sync.Once
	arrivals sync.WaitGroup
}

func (l *listener) Limits() rdmacm.Limits { return l.p.Limits() }
func (l *listener) Addr() netip.AddrPort  { return l.addr }

func (l *listener) Accept() (rdmacm.Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.p.forget(l.id.Number())
		l.id.Close()
		l.arrivals.Wait()
	})
	return nil
}

// eventLocked implements sink.
func (l *listener) eventLocked(e *device.Event) {
	if e.Type != device.ConnectRequest {
		l.p.cfg.Log(fmt.Sprintf("RDMA listener at %v: %v, status %d", l.addr, e.Type, e.Status))
		return
	}
	r := &request{
		p: l.p, id: e.Made, peer: e.Peer, local: e.Local, data: e.Data,
		responder: int(e.Responder), initiator: int(e.Initiator), lost: make(chan struct{}),
	}
	l.p.sinks[r.id.Number()] = r
	l.arrivals.Go(func() { l.arrive(r) })
}

// arrive asks for a seat and hands the request to Accept.
func (l *listener) arrive(r *request) {
	seat, err := l.p.cfg.Census.Arrive(census.Peer{Addr: r.peer, Transport: "rdma"}, r)
	if err != nil {
		r.drop(nil)
		return
	}
	r.seat = seat
	timer := time.NewTimer(l.p.cfg.SetupTimeout)
	defer timer.Stop()
	select {
	case l.requests <- r:
	case <-timer.C:
		r.drop(nil)
	case <-r.lost:
		r.drop(nil)
	case <-l.closed:
		r.drop(nil)
	}
}

// A request is a peer that asks for a connection.
type request struct {
	p                    *Provider
	id                   device.ID
	peer, local          netip.AddrPort
	data                 []byte
	responder, initiator int
	seat                 *census.Seat

	once sync.Once
	lost chan struct{} // the peer has gone, or the seat
}

// eventLocked implements sink: the peer has given up.
func (r *request) eventLocked(*device.Event) { r.lose() }

func (r *request) lose() { r.once.Do(func() { close(r.lost) }) }

// End implements census.Holder.
func (r *request) End(census.Reason) { r.lose() }

// Busy implements census.Holder.
func (r *request) Busy() bool { return false }

func (r *request) Peer() netip.AddrPort  { return r.peer }
func (r *request) Local() netip.AddrPort { return r.local }
func (r *request) PrivateData() []byte   { return r.data }
func (r *request) Seat() *census.Seat    { return r.seat }

// drop refuses the request and forgets it.
func (r *request) drop(data []byte) error {
	err := r.id.Reject(data)
	r.p.forget(r.id.Number())
	r.id.Close()
	r.seat.Leave()
	return err
}

// Reject implements rdmacm.Request.
func (r *request) Reject(data []byte) error {
	if len(data) > rdmacm.MaxRejectData {
		r.drop(nil)
		return fmt.Errorf("verbs: %d bytes of private data exceed %d", len(data), rdmacm.MaxRejectData)
	}
	return r.drop(data)
}

var errGone = errors.New("verbs: the peer gave up before it was answered")

// Accept implements rdmacm.Request.
func (r *request) Accept(param rdmacm.ConnParam) (rdmacm.Conn, error) {
	c, err := r.accept(&param)
	if err != nil {
		return nil, fmt.Errorf("verbs: connection of %v: %w", r.peer, err)
	}
	return c, nil
}

func (r *request) accept(param *rdmacm.ConnParam) (*Conn, error) {
	err := checkParam(param, rdmacm.MaxAcceptData)
	select {
	case <-r.lost:
		err = errGone
	default:
	}
	var c *Conn
	if err == nil {
		c, err = newConn(r.p, r.id, param, param.InboundReads > 0)
	}
	if err != nil {
		r.drop(nil)
		return nil, err
	}
	c.local, c.peer, c.peerData, c.seat = r.local, r.peer, r.data, r.seat
	c.readDepth = min(param.OutboundReads, r.initiator, c.rnic.ReadsOutstanding)
	r.p.sinkOf(r.id, c)
	select {
	case <-r.lost: // the events that c takes from here on do not say so
		c.dismantle()
		return nil, errGone
	default:
	}
	c.mu.Lock()
	c.sendLocked() // receives
	c.mu.Unlock()
	err = c.dev.Accept(device.Param{
		Data: param.PrivateData, Initiator: uint8(c.readDepth),
		Responder: uint8(min(param.InboundReads, r.responder, c.rnic.ReadsServed)),
	})
	if err != nil {
		c.dismantle()
		return nil, err
	}
	r.seat.Hold((*seated)(c), &c.moved)
	go c.run()
	return c, nil
}

func checkParam(p *rdmacm.ConnParam, most int) error {
	if p.Handler == nil {
		panic("verbs: ConnParam without a Handler")
	}
	if len(p.PrivateData) > most {
		return fmt.Errorf("%d bytes of private data exceed %d", len(p.PrivateData), most)
	}
	p.OutboundReads, p.InboundReads = min(p.OutboundReads, 255), min(p.InboundReads, 255)
	return nil
}
