package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Session is a session of NFS version 4.1 or 4.2 (RFC 8881 §2.10), with one client ID, over one
// connection or several. Any goroutine may make requests. At most as many requests are in progress as
// the server has slots; further requests wait for a slot.
//
// The Session replaces a lost connection, and sends unanswered requests again on their
// slots. If the server has forgotten the session, the Session makes a new one. It does not
// reclaim opens, locks and delegations, because it does not know them.
type Session struct {
	cfg       SessionConfig
	callbacks *rpc.Server
	pool      *mem.Pool
	back      callbackService
	// protected verifies callbacks under RPCSEC_GSS. Callbacks use the contexts that the session's
	// own connections have made.
	protected *gss.Server

	life    context.Context // ends with kill
	end     context.CancelFunc
	working sync.WaitGroup
	ending  sync.Once
	// made is the time at which the Session value was made. renewed is the time of the server's
	// last reply to a SEQUENCE, in nanoseconds after made.
	renewed atomic.Int64
	made    time.Time
	// flags are the status flags of the last SEQUENCE reply.
	flags atomic.Uint32
	sizes Sizes
	// delay fires when it is time to repeat the delayed requests. wake wakes the keeper (the
	// goroutine of keep), for the tasks in tasks.
	delay *time.Timer
	wake  chan struct{}
	tasks atomic.Uint32

	mu     sync.Mutex
	phase  phase
	why    error // the reason for phaseDead
	client identity
	limits nfs4wire.CreateSession4ResOK
	slots  *slotTable
	lease  time.Duration
	// maxRead and maxWrite are the server's attributes of these names, for its root, or 0.
	maxRead, maxWrite int64
	links             []*link
	// dialled is the number of connections made.
	dialled uint64
	turn    int // index in links where pickLocked continues
	// waiting lists the compounds that wait for a slot. The compounds in parked and delayed have a
	// slot: in parked they wait for a connection, in delayed for the time to be repeated.
	waiting, parked, delayed compoundList
	recovering               bool // a goroutine is making a new session
	pace                     pace // of remake, which alone uses it
	// offered is the server's handle of the context offered for callbacks, or nil.
	offered []byte
}

// phase is the state of a session.
type phase uint8

const (
	phaseUp     phase = iota
	phaseBroken       // the server no longer knows the session
	phaseDead         // no new session will be made
)

// identity holds the results of EXCHANGE_ID.
type identity struct {
	id       uint64
	sequence uint32 // sequence number of the next CREATE_SESSION, or 0 if only the server knows it
	server   ServerIdentity
	// Two steps follow a new client ID. told: Callbacks.Restarted has told the application that its state
	// is gone. completed: the server has executed RECLAIM_COMPLETE.
	told, completed bool
}

// A ServerIdentity is a server's description of itself in EXCHANGE_ID (RFC 8881 §2.5).
type ServerIdentity struct {
	// MinorID and MajorID are the server owner. Scope is the server scope.
	MinorID        uint64
	MajorID, Scope []byte
	// Implementation is the name of the server's software, or "".
	Implementation string
	// Flags are the flags in the result of EXCHANGE_ID, such as nfs4wire.Exchgid4FlagUseNonPNFS.
	Flags uint32
}

// DialSession connects, identifies the client, makes a session and, unless cfg.Reclaiming is set,
// sends RECLAIM_COMPLETE. ctx limits only this set-up; the session may outlive it.
func DialSession(ctx context.Context, cfg SessionConfig) (*Session, error) {
	s := &Session{cfg: cfg.withDefaults(), made: time.Now(), wake: make(chan struct{}, 1), lease: defaultLease}
	s.life, s.end = context.WithCancel(context.Background())
	s.delay = newStopped()
	s.pace.least = redialFirst
	s.back.session = s
	s.slots = newSlotTable(nfs4wire.SessionID4{}, 1) // used until there is a session
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
		if s.limits.Sessionid == (nfs4wire.SessionID4{}) || ctx.Err() != nil {
			s.Abandon() // the caller does not wait any more; the server drops a session with its lease
		} else {
			_ = s.close(ctx) // err is the first error
		}
		return nil, err
	}
	return s, nil
}

// newStopped returns a timer that does not run.
func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// open makes the connections, and the session over the first of them.
func (s *Session) open(ctx context.Context) error {
	for i, l := range s.links {
		conn, err := s.dial(ctx, l)
		if err != nil {
			return err
		}
		if i == 0 {
			err = s.begin(ctx, l, conn)
		} else if err = s.bind(ctx, conn); err == nil {
			s.mu.Lock()
			s.useLocked(l, conn)
			s.mu.Unlock()
		} else {
			// The server may be another one than the first: its connection must not carry the end of
			// the session.
			conn.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin makes the session. It sends RECLAIM_COMPLETE, unless SessionConfig.Reclaiming is set, and
// asks for the lease time and the largest READ and WRITE.
func (s *Session) begin(ctx context.Context, l *link, conn *Conn) error {
	err := s.identify(ctx, conn)
	var res nfs4wire.CreateSession4ResOK
	if err == nil {
		res, err = s.createSession(ctx, conn)
	}
	if err != nil {
		conn.Close()
		return err
	}
	s.mu.Lock()
	s.useLocked(l, conn)
	s.client.told = true // the application has had no state
	s.adoptLocked(res, newSlotTable(res.Sessionid, res.ForeChanAttrs.Maxrequests))
	s.mu.Unlock()
	s.working.Go(s.keep)
	if !s.cfg.Reclaiming {
		if err := s.ReclaimComplete(ctx); err != nil {
			return err
		}
	}
	attr, err := NFS4{Session: s, Patient: true}.Getattr(ctx, nil, nfs4wire.Bits(nfs4wire.Fattr4LeaseTime, nfs4wire.Fattr4Maxread, nfs4wire.Fattr4Maxwrite))
	s.mu.Lock()
	s.maxRead, s.maxWrite = int64(min(attr.MaxRead, MaxTransfer)), int64(min(attr.MaxWrite, MaxTransfer))
	s.sizeLocked()
	if attr.LeaseTime > 0 {
		s.lease = time.Duration(attr.LeaseTime) * time.Second
	}
	s.mu.Unlock()
	s.ask(0) // the keeper looks at the lease
	if _, refused := errors.AsType[*OpError](err); refused {
		return nil // this caller may not read attributes of the root; keep defaultLease
	}
	return err
}

// defaultLease is the lease time assumed for a server that does not state one.
const defaultLease = 90 * time.Second

// ReclaimComplete tells the server that the client reclaims nothing more (RFC 8881 §18.51). It
// succeeds even if the client has told the server before.
func (s *Session) ReclaimComplete(ctx context.Context) error {
	id := s.ClientID()
	err := NFS4{Session: s, Patient: true}.do(ctx, &Compound{
		Cache: true, Ops: []Op{{Number: nfs4wire.OpReclaimComplete, Args: &nfs4wire.ReclaimComplete4Args{}}},
	}, nil)
	if StatusOf(err) == nfs4wire.NFS4ErrCompleteAlready {
		err = nil
	}
	if err == nil {
		s.completed(id)
	}
	return err
}

// StatusOf returns the status of the failed operation if err is an OpError or wraps one, and else
// NFS4_OK.
func StatusOf(err error) nfs4wire.NFSStat4 {
	if e, ok := errors.AsType[*OpError](err); ok {
		return e.Status
	}
	return nfs4wire.NFS4OK
}

// ClientID returns the server's ID for the client.
func (s *Session) ClientID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.id
}

// Server returns the server's description of itself.
func (s *Session) Server() ServerIdentity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.server
}

// Limits returns the limits that CREATE_SESSION agreed on.
func (s *Session) Limits() nfs4wire.CreateSession4ResOK {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits
}

// Slots returns the number of requests that the server lets the session have in progress.
func (s *Session) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.slots.limit)
}

// RDMAInfo describes one of the session's connections over RDMA. ok is false if there is none.
func (s *Session) RDMAInfo() (i rdma.Info, ok bool) {
	for _, c := range s.conns(nil) {
		if i, ok = c.Info(); ok {
			return i, true
		}
	}
	return rdma.Info{}, false
}

// Lease returns the server's lease time: the time for which it keeps the state of a client that makes
// no requests.
func (s *Session) Lease() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// Status returns the server's flags in the last SEQUENCE, such as
// nfs4wire.Seq4StatusCBPathDown.
func (s *Session) Status() uint32 { return s.flags.Load() }

// Minor returns the minor version.
func (s *Session) Minor() uint32 { return s.cfg.Minor }

// Do makes a request and waits for its end. If all operations succeeded, Do calls the function
// take, unless it is nil, while the memory of the results is valid, and returns its error.
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

// setFlags stores the status flags of a SEQUENCE reply, and starts the tasks that they require.
// The goroutine that took the reply calls it.
func (s *Session) setFlags(flags uint32) {
	before := s.flags.Swap(flags)
	if before == flags {
		return
	}
	if flags&needsBinding != 0 && before&needsBinding == 0 {
		s.ask(taskBind)
	}
	if flags&needsContext != 0 {
		s.ask(taskOffer)
	}
	if s.cfg.Callbacks.Status != nil {
		s.cfg.Callbacks.Status(flags)
	}
}

// needsBinding are the flags by which a server reports that it cannot make callbacks.
const needsBinding = nfs4wire.Seq4StatusCBPathDown | nfs4wire.Seq4StatusCBPathDownSession | nfs4wire.Seq4StatusBackchannelFault

// needsContext are the flags by which a server reports that its contexts for callbacks have
// expired or soon will.
const needsContext = nfs4wire.Seq4StatusCBGSSContextsExpiring | nfs4wire.Seq4StatusCBGSSContextsExpired
