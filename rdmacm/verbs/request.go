package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// backlog is the number of waiting requests that the kernel keeps for an address.
const backlog = 256

// A bound is one address on which a listener listens, with its ID.
type bound struct {
	l        *listener
	id       device.ID
	addr     netip.AddrPort
	device   uint64      // number of the device of the address, or 0 if it is not known. Only look uses it
	removed  atomic.Bool // the device of the address was removed, or the address has moved to another one
	closed   chan struct{}
	arrivals sync.WaitGroup
}

func (l *listener) bind(addr netip.AddrPort) (*bound, error) {
	b := &bound{l: l, closed: make(chan struct{})}
	var err error
	b.id, err = l.p.watch(b, func() (device.ID, error) { return l.p.channel.Listen(addr, true, backlog) })
	if err != nil {
		return nil, err
	}
	b.addr = netip.AddrPortFrom(addr.Addr(), b.id.Port())
	if a, err := b.id.Attributes(); err == nil { // a wildcard has no device
		b.device = a.Device
	}
	return b, nil
}

func (b *bound) close() {
	close(b.closed)
	b.l.p.forget(b.id.Number())
	b.id.Close()
	b.arrivals.Wait()
}

// eventLocked implements sink.
func (b *bound) eventLocked(e *device.Event) {
	p := b.l.p
	if e.Type != device.ConnectRequest {
		b.removed.Store(b.removed.Load() || e.Type == device.DeviceRemoval || e.Type == device.AddrChange)
		p.cfg.Log(fmt.Sprintf("RDMA listener at %v: %v, status %d", b.addr, e.Type, e.Status))
		return
	}
	r := &request{
		p: p, id: e.Made, peer: e.Peer, local: e.Local, data: e.Data,
		responder: int(e.Responder), initiator: int(e.Initiator), seat: rdmacm.Uncounted,
		lost: make(chan struct{}),
	}
	p.sinks[r.id.Number()] = r
	b.arrivals.Go(func() { b.arrive(r) })
}

// arrive asks for a seat and hands the request to the listener's Accept. It drops the request if
// Seats refuses it, or if Accept does not take it within Config.SetupTimeout.
func (b *bound) arrive(r *request) {
	cfg := &b.l.p.cfg
	seat, err := cfg.Seats.Arrive(r.peer, r)
	if err != nil {
		r.drop(nil)
		return
	}
	r.seat = seat
	timer := time.NewTimer(cfg.SetupTimeout)
	defer timer.Stop()
	select {
	case b.l.requests <- r:
	case <-timer.C:
		r.drop(nil)
	case <-r.lost:
		r.drop(nil)
	case <-b.closed:
		r.drop(nil)
	}
}

// A request is a peer's request for a connection.
type request struct {
	p                    *Provider
	id                   device.ID
	peer, local          netip.AddrPort
	data                 []byte
	responder, initiator int
	seat                 rdmacm.Seat

	once sync.Once
	lost chan struct{} // closed when the peer has gone, or the request has lost its seat
}

// eventLocked implements sink. Any event means that the peer has given up.
func (r *request) eventLocked(*device.Event) { r.lose() }

func (r *request) lose() { r.once.Do(func() { close(r.lost) }) }

// End implements rdmacm.Holder.
func (r *request) End(error) { r.lose() }

// Busy implements rdmacm.Holder.
func (r *request) Busy() bool { return false }

func (r *request) Peer() netip.AddrPort  { return r.peer }
func (r *request) Local() netip.AddrPort { return r.local }
func (r *request) PrivateData() []byte   { return r.data }
func (r *request) Seat() rdmacm.Seat     { return r.seat }

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
	r.p.event(rdmacm.Event{Kind: rdmacm.EventRejected, Peer: r.peer})
	return r.drop(data)
}

var errGone = errors.New("verbs: the peer gave up before it was answered")

// Accept implements rdmacm.Request.
func (r *request) Accept(param rdmacm.ConnParam) (rdmacm.Conn, error) {
	c, err := r.accept(&param)
	if err != nil {
		if errors.Is(err, rdmacm.ErrNoMemory) || census.IsShortage(err) {
			r.p.cfg.Seats.EvictStranger() // makes room for the client's next attempt
		}
		r.p.event(rdmacm.Event{Kind: rdmacm.EventSetupFailed, Peer: r.peer, Err: err})
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
		c, err = r.p.newConn(r.id, r.local, r.peer, param, param.InboundReads > 0)
	}
	if err != nil {
		r.drop(nil)
		return nil, err
	}
	c.peerData, c.seat = r.data, r.seat
	c.readDepth = min(param.OutboundReads, r.initiator, c.rnic.ReadsOutstanding)
	err = r.p.heed(c)
	select {
	case <-r.lost: // the event that closed lost went to r, so c does not get it
		err = errGone
	default:
	}
	if err == nil {
		c.Flush() // hands the promised receives to the device
		err = c.dev.Accept(device.Param{
			Data: param.PrivateData, Initiator: uint8(c.readDepth),
			Responder: uint8(min(param.InboundReads, r.responder, c.rnic.ReadsServed)),
		})
	}
	if err != nil {
		c.dismantle()
		return nil, err
	}
	r.seat.Hold(rdmacm.HolderOf(c), &c.moved)
	if c.rnic.SIW && c.readDepth > 0 {
		time.AfterFunc(nudgeAfter, c.nudge)
	}
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
