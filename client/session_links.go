package client

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A link is one of the connections of a session. The Session's lock guards it.
type link struct {
	number int
	target Target
	conn   *Conn // nil while it is being replaced
	pace   pace  // of redial
}

// The first and the longest time that a session waits before it tries again to connect.
const (
	redialFirst = 100 * time.Millisecond
	redialMost  = 5 * time.Second
)

// dial makes a connection for l. The connection accepts callbacks.
func (s *Session) dial(ctx context.Context, l *link) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	t := l.target
	t.Calls = &Calls{s.callbacks, s.pool}
	return Dial(ctx, t)
}

// useLocked makes conn the connection of l.
func (s *Session) useLocked(l *link, conn *Conn) {
	s.dialled++
	conn.number = s.dialled
	l.conn = conn
}

// lostLocked starts to replace conn, the connection of the link l, because it can no longer be
// used. It does nothing if l has another connection by now, or the session has ended.
func (s *Session) lostLocked(l *link, conn *Conn) {
	if l.conn != conn || s.phase == phaseDead {
		return
	}
	l.conn = nil
	s.working.Go(func() { s.redial(l, conn) })
}

// redial replaces a link's lost connection. It tries until it succeeds or the session ends.
func (s *Session) redial(l *link, old *Conn) {
	old.Close()
	for sleep(s.life, l.pace.next(s.renewed.Load())) {
		conn, err := s.dial(s.life, l)
		if err == nil && s.rebound(l, conn) {
			s.dispatch()
			return
		}
	}
}

// sleep waits for d. It returns false if ctx ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rebound asks the server to bind a new connection to the session, and makes it the connection of
// l. If it returns false, it has closed the connection.
func (s *Session) rebound(l *link, conn *Conn) bool {
	err := s.bind(s.life, conn)
	_, answered := errors.AsType[*OpError](err)
	s.mu.Lock()
	up := (err == nil || answered) && s.phase != phaseDead
	if up {
		// The link uses the connection even if the server refused to bind it. If the server refused
		// because it has forgotten the session, the next SEQUENCE will fail, and then the Session
		// makes a new session.
		s.useLocked(l, conn)
		s.mendLocked()
	}
	s.mu.Unlock()
	if !up {
		conn.Close()
	}
	return up
}

// bind tells the server that a connection serves the session, for callbacks too
// (RFC 8881 §18.34).
func (s *Session) bind(ctx context.Context, conn *Conn) error {
	s.mu.Lock()
	args := nfs4wire.BindConnToSession4Args{Sessid: s.limits.Sessionid, Dir: nfs4wire.Cdfc4ForeOrBoth}
	s.mu.Unlock()
	var res nfs4wire.BindConnToSession4Res
	return s.plain(ctx, conn, []Op{{Number: nfs4wire.OpBindConnToSession, Args: &args, Res: &res}}, nil)
}

// anyConn returns a connection that is up, or nil.
func (s *Session) anyConn() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.pickLocked(nil); l != nil {
		return l.conn
	}
	return nil
}

// conns returns the connections that are up, except that of the link but.
func (s *Session) conns(but *link) (all []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l != but && l.conn != nil {
			all = append(all, l.conn)
		}
	}
	return all
}

// plain makes a request without the session's SEQUENCE, and waits for the reply. If the server asks to
// wait before the first operation, plain repeats the request, for as long as SessionConfig.Timeout
// allows. It calls the function take as Do does.
func (s *Session) plain(ctx context.Context, conn *Conn, ops []Op, take func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for wait := patienceFirst; ; wait = min(2*wait, patienceMost) {
		err := conn.Compound(ctx, s.cfg.Minor, ops, take)
		e, refused := errors.AsType[*OpError](err)
		if !refused || e.Status != nfs4wire.NFS4ErrDelay || e.Op != ops[0].Number || !sleep(ctx, wait) {
			return err
		}
	}
}

// Compound makes a COMPOUND of ops without a session, with the Target's credential, and waits for
// the reply. It is for minor version 0, and for the operations that make sessions. It calls the
// function take as Session.Do does.
func (c *Conn) Compound(ctx context.Context, minor uint32, ops []Op, take func() error) error {
	return c.Call(ctx, &rpc.Exchange{
		Program: nfs4wire.Program, Version: nfs4wire.Version, Procedure: nfs4wire.ProcCompound,
		Binding: compoundBinding,
		Args:    func(w *xdr.Writer) { putCompound(w, minor, nil, ops) },
		MaxArgs: sequenceRoom + defaultMaxArgs,
	}, func(d *xdr.Decoder) error {
		n, status := beginResults(d)
		if _, err := readOps(d, ops, n, status); err != nil {
			return err
		}
		if take != nil {
			return take()
		}
		return nil
	})
}
