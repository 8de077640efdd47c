package verbs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Config configures a Provider.
type Config struct {
	// Library gives access to the devices. It is required. See shim.Load.
	Library device.Library
	// Arena returns the payload memory, which is registered with each device. The provider calls Arena
	// when the first device is used; the memory stays mapped from then on. Arena may be nil.
	Arena func() []byte
	// SetupTimeout is how long a peer's request for a connection may wait for Accept, and the set-up
	// time limit of the Seats that the provider makes; 0 means 10 s. It does not limit Dial.
	SetupTimeout time.Duration
	// StallTimeout is the time after which a connection ends if its peer lets none of the posted
	// work complete; 0 means 30 s.
	StallTimeout time.Duration
	// Seats limits the accepted connections. If it is nil, the provider makes Seats with the
	// default limits.
	Seats rdmacm.Seats
	// Memory is the most memory that the messages of all connections can take, in bytes; 0 means that
	// there is no limit. The connections of one client address, and those of its site, may take the part
	// that fair.Tree.MayBorrow allows. The provider refuses a connection that would exceed these limits.
	Memory int64
	// Skip returns true for a device that a listener on all addresses must not use. With Skip,
	// such a listener listens on each address separately, and looks once a second for addresses
	// that were added or removed. If Skip is nil, the kernel listens on all devices.
	Skip func(d *device.Attributes) bool
	// Event, unless nil, is called for each event of a connection. It must not block.
	Event func(rdmacm.Event)
	// Log is called with messages for administrators of devices. It may be nil.
	Log func(text string)
}

// Limits of all connections: maxSend in bytes, maxLocal in pieces of one work. If a device has a lower
// limit, the provider divides a Write or a Read into several requests, and joins the pieces of a Send.
const (
	maxSend  = 256 << 10
	maxLocal = device.SGEs
)

// A Provider opens connections over the RDMA devices of this machine.
type Provider struct {
	cfg     Config
	channel device.Channel
	ended   chan struct{} // closed when takeEvents has ended
	closing chan struct{} // closed when Close is called
	faults  faults

	// mu guards the fields below. A goroutine that makes an ID holds mu until the ID is in
	// sinks, so that no event of the ID comes earlier. A goroutine that calls a sink holds mu as
	// well, so that the sink gets no event after forget.
	mu      sync.Mutex
	sinks   map[uint64]sink // by the number of the ID
	devices map[uint64]*rnic
	arena   []byte // set when devices has its first entry
	// memory counts the memory that the messages of connections take, in bytes. When a connection begins, it
	// reserves memory for all messages that it may have promised at a time. It reserves more for messages that
	// the ULP keeps; if it gets none, it copies them. So it never waits for memory.
	memory  fair.Tree[struct{}]
	leaving sync.WaitGroup // counts devices that are open, and IDs that are being closed
}

// A sink gets the events of an ID. The caller holds Provider.mu. A sink must not wait.
type sink interface {
	eventLocked(e *device.Event)
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a Provider.
func New(cfg Config) (*Provider, error) {
	if cfg.SetupTimeout == 0 {
		cfg.SetupTimeout = census.DefaultSetupTimeout
	}
	if cfg.StallTimeout == 0 {
		cfg.StallTimeout = 30 * time.Second
	}
	if cfg.Seats == nil {
		cfg.Seats = seats.Of(census.New(census.Config{SetupTimeout: cfg.SetupTimeout}))
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	channel, err := cfg.Library.Open()
	if err != nil {
		return nil, cannotOpen(err)
	}
	p := &Provider{
		cfg: cfg, channel: channel, ended: make(chan struct{}), closing: make(chan struct{}),
		sinks: make(map[uint64]sink), devices: make(map[uint64]*rnic), memory: fair.Tree[struct{}]{Size: cfg.Memory},
	}
	go p.takeEvents()
	return p, nil
}

// cannotOpen returns the error of a Provider for which the library opens no event channel. The
// library fails with ENODEV if the process can open no device, and with ENOENT if only the node of
// the connection manager is missing.
func cannotOpen(err error) error {
	switch {
	case errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("verbs: no RDMA device that this process can open: %w: 'rdma link' shows the machine's devices, and modprobe ib_uverbs makes their nodes; a container needs --device /dev/infiniband/uverbsN for each", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("verbs: no connection manager: %w: modprobe rdma_ucm makes its node; a container also needs --device /dev/infiniband/rdma_cm", err)
	}
	return fmt.Errorf("verbs: no connection manager: %w: nfsrdmad doctor tries the nodes in /dev/infiniband", err)
}

// Name returns "verbs".
func (p *Provider) Name() string { return "verbs" }

// Limits returns the limits of all connections. They offer no RemoteInvalidation, because rxe
// ends a connection whose peer invalidates an ordinary region, and siw does not report which
// region was invalidated.
func (p *Provider) Limits() rdmacm.Limits {
	return rdmacm.Limits{MaxSend: maxSend, MaxLocal: maxLocal}
}

// Close ends the provider. The caller has closed its listeners and ended its connections
// before. Close waits until all devices are closed.
func (p *Provider) Close() error {
	close(p.closing)
	p.leaving.Wait()
	p.channel.Close()
	<-p.ended
	return nil
}

func (p *Provider) takeEvents() {
	defer close(p.ended)
	err := p.channel.Events(func(e device.Event) {
		of := e.ID
		if e.Made != nil {
			of = e.Listener
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch s := p.sinks[of]; {
		case s != nil:
			s.eventLocked(&e)
		case e.Made != nil:
			p.leaving.Go(e.Made.Close) // the listener was closed, so no code answers the request
		}
	})
	if err != nil {
		p.cfg.Log("cannot read events of rdma_cm any more: " + err.Error())
	}
}

// watch calls the function make, which makes an ID, and arranges that s gets the events of the ID.
func (p *Provider) watch(s sink, make func() (device.ID, error)) (device.ID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := make()
	if err == nil {
		p.sinks[id.Number()] = s
	}
	return id, err
}

// heed makes c get the events of its ID from now on. It fails if the device was removed before.
func (p *Provider) heed(c *Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sinks[c.number] = c
	select {
	case <-c.rnic.gone:
		return ErrDeviceGone
	default:
		return nil
	}
}

// forget removes the sink of an ID. The sink gets no more events.
func (p *Provider) forget(number uint64) {
	p.mu.Lock()
	delete(p.sinks, number)
	p.mu.Unlock()
}
