package client

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Close makes all requests fail with ErrSessionClosed. Then it ends the session and the client ID on
// the server, and closes the connections. A second call waits until the first has ended. The
// function Done of a request and functions that serve callbacks must not call Close, because it
// waits for them.
func (s *Session) Close() error { return s.close(context.Background()) }

// close is Close. When ctx ends, it stops waiting for the server to end the session and the client ID.
func (s *Session) close(ctx context.Context) (err error) {
	s.kill(ErrSessionClosed)
	s.ending.Do(func() {
		s.working.Wait()
		err = s.destroy(ctx)
		s.closeAll()
	})
	return err
}

// Abandon is like Close, but does not tell the server, as if the client had crashed.
func (s *Session) Abandon() {
	s.kill(ErrSessionClosed)
	s.ending.Do(func() {
		s.working.Wait()
		s.closeAll()
	})
}

// kill makes the session refuse new requests, and ends all waiting requests and the session's own
// goroutines.
func (s *Session) kill(why error) {
	s.mu.Lock()
	if s.phase != phaseDead {
		s.phase, s.why = phaseDead, why
	}
	s.mu.Unlock()
	s.end()
	s.endWaiting(why)
}

// endWaiting ends all requests that wait for a slot, a connection or a repetition. It does not
// end requests that were sent and have no reply yet.
func (s *Session) endWaiting(why error) {
	for {
		s.mu.Lock()
		var c *Compound
		for _, l := range []*compoundList{&s.parked, &s.delayed, &s.waiting} {
			if c = l.pop(); c != nil {
				break
			}
		}
		s.mu.Unlock()
		if c == nil {
			return
		}
		c.finish(why)
	}
}

// destroy tells the server that the session and the client ID are not used any more.
func (s *Session) destroy(ctx context.Context) error {
	conn := s.anyConn()
	if conn == nil {
		return nil // the server drops the client's state when the lease ends
	}
	s.mu.Lock()
	session := nfs4wire.DestroySession4Args{Sessionid: s.limits.Sessionid}
	client := nfs4wire.DestroyClientID4Args{Clientid: s.client.id}
	s.mu.Unlock()
	err := s.plain(ctx, conn, []Op{{Number: nfs4wire.OpDestroySession, Args: &session}}, nil)
	if StatusOf(err) == nfs4wire.NFS4ErrBadSession {
		err = nil // the server had forgotten the session
	}
	if err != nil {
		return err
	}
	err = s.plain(ctx, conn, []Op{{Number: nfs4wire.OpDestroyClientID, Args: &client}}, nil)
	if StatusOf(err) == nfs4wire.NFS4ErrStaleClientID {
		err = nil
	}
	return err
}

func (s *Session) closeAll() {
	for _, c := range s.conns(nil) {
		c.Close()
	}
	s.endWaiting(ErrSessionClosed)
	s.callbacks.Close()
	s.protected.Close()
	s.pool.Close()
}
