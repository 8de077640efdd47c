package hostile

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An honestSession is a client of NFSv4.1 that opens files of one export and reads them.
type honestSession struct {
	client.NFS4
	dir client.Handle
}

// arrive4 connects over one of the Transports, creates a client ID and a session, and looks up an
// export.
func (d *Daemon) arrive4(ctx context.Context, transport, export string) (*honestSession, error) {
	at, over := d.TCP, client.TCP
	if transport == "rdma" {
		at, over = d.RDMA, client.RDMA
	}
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: over, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()},
		Minor:  1, Timeout: Patience,
	})
	if err != nil {
		return nil, fmt.Errorf("a session: %w", err)
	}
	h := &honestSession{NFS4: s.NFS4()}
	if h.dir, err = h.Walk(ctx, nil, export); err != nil {
		s.Abandon()
		return nil, fmt.Errorf("LOOKUP %s: %w", export, err)
	}
	return h, nil
}

// openOne opens one of the honest files, locks a byte of it, reads this byte, and closes the
// file.
func (h *honestSession) openOne(ctx context.Context, i int) error {
	owner := fmt.Appendf(nil, "honest %d", i)
	o, err := h.Open(ctx, client.Open4{
		Dir: h.dir, Name: honestName(i % honestFiles), Owner: owner, Access: wire.Open4ShareAccessRead,
	})
	if err != nil {
		return fmt.Errorf("OPEN: %w", err)
	}
	at := client.Range4{Offset: uint64(i), Length: 1}
	lock, err := h.Lock(ctx, o.File, o.StateID, owner, wire.ReadLt, at)
	if err != nil {
		return fmt.Errorf("LOCK: %w", err)
	}
	var b [1]byte
	n, _, err := h.Read(ctx, o.File, o.StateID, uint64(i), b[:])
	if err == nil && n != 1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	if _, err := h.Unlock(ctx, o.File, lock, wire.ReadLt, at); err != nil {
		return fmt.Errorf("LOCKU: %w", err)
	}
	if err := h.CloseFile(ctx, o.File, o.StateID); err != nil {
		return fmt.Errorf("CLOSE: %w", err)
	}
	return nil
}

// Sessions connects one honest client of NFSv4.1 over each transport, before the attack.
// JudgeClients then judges these clients too.
func (s *Stage) Sessions() {
	s.t.Helper()
	s.sessions = make(map[string]*honestSession)
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	for _, transport := range Transports {
		h, err := s.arrive4(ctx, transport, openName)
		if err == nil {
			s.t.Cleanup(h.Session.Abandon)
			err = h.openOne(ctx, 0)
		}
		if err != nil {
			s.t.Fatalf("NFSv4.1 over %s before the attack: %v", transport, err)
		}
		s.sessions[transport] = h
	}
}

// judgeSessions judges clients of NFSv4.1. One client connected before the attack: it opens a file,
// locks and reads a byte, and closes the file. Another client connects during the attack, creates a
// client ID and a session, and does the same. For both the same longest time is allowed as for a
// READ (see Stage.bound).
func (s *Stage) judgeSessions(judge judging) {
	for transport, there := range s.sessions {
		judge("OPEN over "+transport, transport, readsJudged/2, 2*readEvery, there.openOne)
		judge("session over "+transport, transport, arrivalsJudged, arriveEvery, func(ctx context.Context, i int) error {
			h, err := s.arrive4(ctx, transport, openName)
			if err != nil {
				return err
			}
			defer h.Session.Abandon()
			if err := h.openOne(ctx, i); err != nil {
				return err
			}
			return h.Session.Close()
		})
	}
}
