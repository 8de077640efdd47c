package verbs

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// resolveTimeout is the time limit of each step in finding the route to a peer.
const resolveTimeout = 10 * time.Second

// A setup receives the events of the connection manager while this side dials.
type setup chan device.Event

// eventLocked implements sink. The channel has room for all events of a set-up.
func (s setup) eventLocked(e *device.Event) {
	select {
	case s <- *e:
	default:
	}
}

// Dial implements rdmacm.Provider.
func (p *Provider) Dial(ctx context.Context, addr netip.AddrPort, param rdmacm.ConnParam) (rdmacm.Conn, error) {
	c, err := p.dial(ctx, addr, &param)
	if err != nil {
		return nil, fmt.Errorf("verbs: dial %v: %w", addr, err)
	}
	return c, nil
}

func (p *Provider) dial(ctx context.Context, addr netip.AddrPort, param *rdmacm.ConnParam) (*Conn, error) {
	if err := checkParam(param, rdmacm.MaxRequestData); err != nil {
		return nil, err
	}
	events := make(setup, 8)
	id, err := p.watch(events, func() (device.ID, error) { return p.channel.Resolve(addr, resolveTimeout) })
	if err != nil {
		return nil, err
	}
	end := func() {
		p.forget(id.Number())
		p.leaving.Go(id.Close)
	}
	found, err := events.await(ctx, device.AddrResolved)
	if err == nil {
		if err = id.Route(resolveTimeout); err == nil {
			_, err = events.await(ctx, device.RouteResolved)
		}
	}
	var c *Conn
	if err == nil {
		c, err = p.newConn(id, found.Local, addr, param, true)
	}
	if err != nil {
		end()
		return nil, err
	}
	c.setup = events
	if err = p.heed(c); err == nil {
		c.Flush() // hands the promised receives to the device
		err = c.dev.Connect(device.Param{
			Data: param.PrivateData, Responder: uint8(min(param.InboundReads, c.rnic.ReadsServed)),
			Initiator: uint8(min(param.OutboundReads, c.rnic.ReadsOutstanding)),
		})
	}
	var e device.Event
	if err == nil {
		e, err = events.await(ctx, device.Established)
	}
	if err != nil {
		c.dismantle()
		return nil, err
	}
	c.local, c.peerData = e.Local, e.Data
	c.readDepth = min(param.OutboundReads, int(e.Initiator), c.rnic.ReadsOutstanding)
	p.mu.Lock()
	c.setup = nil
	p.mu.Unlock()
	go c.run()
	return c, nil
}

// await waits for the next event. If the event is not of the wanted type, the set-up has
// failed, and await returns an error.
func (s setup) await(ctx context.Context, wanted device.EventType) (device.Event, error) {
	select {
	case e := <-s:
		switch {
		case e.Type == wanted:
			return e, nil
		case e.Type == device.Rejected && (e.Status == consumerReject || e.Status == -int32(syscall.ECONNREFUSED) && len(e.Data) > 0):
			return e, &rdmacm.RejectedError{PrivateData: e.Data}
		case e.Type == device.Rejected:
			return e, fmt.Errorf("%w (%v, status %d)", syscall.ECONNREFUSED, e.Type, e.Status)
		case e.Status < 0:
			return e, fmt.Errorf("%v: %w", e.Type, syscall.Errno(-e.Status))
		}
		return e, fmt.Errorf("%v, status %d", e.Type, e.Status)
	case <-ctx.Done():
		return device.Event{}, ctx.Err()
	}
}

// consumerReject is the reason code of InfiniBand's REJ if the peer's ULP rejected the connection.
const consumerReject = 28
