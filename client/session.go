package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Session is one of NFS version 4.1 or 4.2 (RFC 8881 §2.10), with one client ID, over
// one connection or several. Requests may come from any goroutine; as many are under
// way as the server has slots for, the others wait.
//
// A lost connection is made anew, and what was not answered is sent again on its slot.
// If the server has forgotten the session, it is made anew as well; opens, locks and
// delegations are not reclaimed: a Session knows none.
type Session struct {
	cfg       SessionConfig
	callbacks *rpc.Server
	pool      *mem.Pool
	back      callbackService
	// protected verifies callbacks that come under contexts of ours.
	protected *gss.Server

	life    context.Context // ends with Close
	end     context.CancelFunc
	working sync.WaitGroup
	ending  sync.Once
	// renewed is when the server last answered a SEQUENCE, in nanoseconds since made.
	renewed atomic.Int64
	made    time.Time
	// flags are those of the last SEQUENCE.
	flags atomic.Uint32
	// delay fires when what the server put off is to be sent again; wake has the
	// keeper look around.
	delay *time.Timer
	wake  chan struct{}

	mu     sync.Mutex
	phase  phase
	why    error // of phaseDead
	client identity
	limits nfs4wire.CreateSession4ResOK
	slots  *slotTable
	lease  time.Duration
	links  []*link
	turn   int // of links
	// waiting have no slot; parked have one and wait for a connection; delayed have
	// one and wait for delay.
	waiting, parked, delayed compoundList
	recovering               bool // a goroutine is at it
	// The keeper is to bind the backchannel, to tell the server of fewer slots, or to offer
	// another context for callbacks.
	rebind, tell, reoffer bool
	// offered is the server's handle of the context that it may make callbacks under, nil
	// where there is none.
	offered []byte
}

// phase is how a session is.
type phase uint8

const (
	phaseUp     phase = iota
	phaseBroken       // the server knows the session no more
	phaseDead         // it will not be made anew
)

// identity is what EXCHANGE_ID came to.
type identity struct {
	id       uint64
	sequence uint32 // of the next CREATE_SESSION
	server   ServerIdentity
}

// A ServerIdentity is what a server says of itself in EXCHANGE_ID (RFC 8881 §2.5).
type ServerIdentity struct {
	// MinorID and MajorID are the server owner; Scope is its scope.
	MinorID        uint64
	MajorID, Scope []byte
	// Implementation is its name, or "".
	Implementation string
	// Flags are those of EXCHANGE_ID, such as nfs4wire.Exchgid4FlagUseNonPNFS.
	Flags uint32
}

// DialSession connects, names the client, makes a session and says RECLAIM_COMPLETE.
// ctx bounds that, not the session.
func DialSession(ctx context.Context, cfg SessionConfig) (*Session, error) {
	s := &Session{cfg: cfg.withDefaults(), made: time.Now(), wake: make(chan struct{}, 1), lease: defaultLease}
	s.life, s.end = context.WithCancel(context.Background())
	s.delay = newStopped()
	s.back.session = s
	s.slots = newSlotTable(nfs4wire.SessionID4{}, 1) // until there is a session
	s.callbacks = rpc.NewServer(rpc.Config{Workers: 1})
	s.callbacks.Register(&s.back)
	s.protected = gss.New(gss.Config{MaxContexts: backContexts, MaxPerAddress: backContexts, MaxPerPrincipal: backContexts + 1})
	s.callbacks.Protect(rpc.AuthGSS, s.protected)
	var err error
	if s.pool, err = mem.NewPool(mem.Config{Ceiling: mem.MinCeiling}); err != nil {
		return nil, err
	}
	for i := range s.cfg.Connections {
		s.links = append(s.links, &link{number: i, target: s.cfg.target(i)})
	}
	if err = s.open(ctx); err != nil {
		if s.limits.Sessionid == (nfs4wire.SessionID4{}) {
			s.Abandon()
		} else {
			_ = s.Close() // what went wrong is in err
		}
		return nil, err
	}
	return s, nil
}

// newStopped is a timer that does not run.
func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// open sets the session up.
func (s *Session) open(ctx context.Context) error {
	first := s.links[0]
	conn, err := s.dial(ctx, first)
	if err != nil {
		return err
	}
	first.conn = conn
	if err := s.identify(ctx, conn); err != nil {
		return err
	}
	if err := s.create(ctx, conn); err != nil {
		return err
	}
	s.working.Go(s.keep)
	if err := s.begin(ctx); err != nil {
		return err
	}
	for _, l := range s.links[1:] {
		conn, err := s.dial(ctx, l)
		if err != nil {
			return err
		}
		s.mu.Lock()
		l.conn = conn
		s.mu.Unlock()
		if err := s.bind(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// begin says RECLAIM_COMPLETE, and asks how long the lease is.
func (s *Session) begin(ctx context.Context) error {
	if !s.cfg.Reclaiming {
		if err := s.ReclaimComplete(ctx); err != nil {
			return err
		}
	}
	var attr Attributes4
	err := s.NFS4().lease(ctx, &attr)
	if attr.LeaseTime > 0 {
		s.mu.Lock()
		s.lease = time.Duration(attr.LeaseTime) * time.Second
		s.mu.Unlock()
		s.lookAround()
	}
	if _, refused := errors.AsType[*OpError](err); refused {
		return nil // a root that this caller may not look at
	}
	return err
}

// defaultLease is taken for the lease of a server that does not tell.
const defaultLease = 90 * time.Second

// ReclaimComplete says that the client reclaims nothing more (RFC 8881 §18.51). It is
// no error if that was said before.
func (s *Session) ReclaimComplete(ctx context.Context) error {
	err := s.Do(ctx, &Compound{
		Cache: true, Ops: []Op{{Number: nfs4wire.OpReclaimComplete, Args: &nfs4wire.ReclaimComplete4Args{}}},
	}, nil)
	if StatusOf(err) == nfs4wire.NFS4ErrCompleteAlready {
		return nil
	}
	return err
}

// StatusOf is the status of the operation whose failure err is: NFS4_OK if it is none.
func StatusOf(err error) nfs4wire.NFSStat4 {
	if e, ok := errors.AsType[*OpError](err); ok {
		return e.Status
	}
	return nfs4wire.NFS4OK
}

// ClientID is what the server calls the client.
func (s *Session) ClientID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.id
}

// Server is what the server said of itself.
func (s *Session) Server() ServerIdentity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.server
}

// Limits are what CREATE_SESSION agreed on.
func (s *Session) Limits() nfs4wire.CreateSession4ResOK {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits
}

// Lease is how long the server keeps what the client holds without hearing of it.
func (s *Session) Lease() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// Status is what the server had to tell at the last SEQUENCE, such as
// nfs4wire.Seq4StatusCBPathDown.
func (s *Session) Status() uint32 { return s.flags.Load() }

// Minor is the minor version.
func (s *Session) Minor() uint32 { return s.cfg.Minor }

// Do makes a request and waits for its end. take, unless nil, is called while what the
// results refer to is valid, if all operations succeeded.
func (s *Session) Do(ctx context.Context, c *Compound, take func() error) error {
	done := make(chan error, 1)
	c.Done = func(c *Compound) {
		err := c.Err
		if err == nil && take != nil {
			err = take()
		}
		done <- err
	}
	s.Start(c)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.Cancel(c, context.Cause(ctx))
		return <-done
	}
}

// setFlags takes note of what the server tells. It is called on the goroutine that took
// a reply.
func (s *Session) setFlags(flags uint32) {
	if s.flags.Load() == flags {
		return
	}
	before := s.flags.Swap(flags)
	if before == flags {
		return
	}
	if flags&needsBinding != 0 && before&needsBinding == 0 {
		s.mu.Lock()
		s.rebind = true
		s.mu.Unlock()
		s.lookAround()
	}
	if flags&needsContext != 0 {
		s.mu.Lock()
		s.reoffer = true
		s.mu.Unlock()
		s.lookAround()
	}
	if s.cfg.Callbacks.Status != nil {
		s.cfg.Callbacks.Status(flags)
	}
}

// needsBinding are flags by which a server says that it cannot make callbacks.
const needsBinding = nfs4wire.Seq4StatusCBPathDown | nfs4wire.Seq4StatusCBPathDownSession | nfs4wire.Seq4StatusBackchannelFault

// needsContext are flags by which a server says that it cannot make callbacks under a context
// that it was offered, or soon cannot.
const needsContext = nfs4wire.Seq4StatusCBGSSContextsExpiring | nfs4wire.Seq4StatusCBGSSContextsExpired

// lookAround wakes the keeper.
func (s *Session) lookAround() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Server identities are handed out; their texts are the caller's to keep.
func identityOf(res *nfs4wire.ExchangeID4ResOK) ServerIdentity {
	i := ServerIdentity{
		MinorID: res.ServerOwner.MinorID, MajorID: slices.Clone(res.ServerOwner.MajorID),
		Scope: slices.Clone(res.ServerScope), Flags: res.Flags,
	}
	if res.ServerImplID.Present {
		i.Implementation = string(res.ServerImplID.Value.Name)
	}
	return i
}
