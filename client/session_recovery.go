package client

import (
	"context"
	"errors"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maintenance lists the operations that the server is to accept only from the client's own
// principal, if the client's calls have integrity protection.
var maintenance = nfs4wire.Bits(uint32(nfs4wire.OpExchangeID), uint32(nfs4wire.OpCreateSession), uint32(nfs4wire.OpBindConnToSession),
	uint32(nfs4wire.OpDestroySession), uint32(nfs4wire.OpDestroyClientID))

// identify sends EXCHANGE_ID (RFC 8881 §18.35). If the connection protects the integrity of
// calls, identify asks the server to accept the operations of maintenance from the client's
// principal alone (SP4_MACH_CRED, §2.10.8.3). If the server refuses that, identify asks again
// without it.
func (s *Session) identify(ctx context.Context, conn *Conn) error {
	if c := conn.secured; c != nil && c.service != rpc.GSSNone {
		protect := nfs4wire.StateProtect4A{How: nfs4wire.Sp4MachCred, MachOps: nfs4wire.StateProtectOps4{MustEnforce: maintenance}}
		err := s.exchange(ctx, conn, protect)
		switch StatusOf(err) {
		case nfs4wire.NFS4OK, nfs4wire.NFS4ErrDelay, nfs4wire.NFS4ErrClIDInUse:
			return err
		}
	}
	return s.exchange(ctx, conn, nfs4wire.StateProtect4A{How: nfs4wire.Sp4None})
}

// exchange sends EXCHANGE_ID and stores its results.
func (s *Session) exchange(ctx context.Context, conn *Conn, protect nfs4wire.StateProtect4A) error {
	args := nfs4wire.ExchangeID4Args{
		Clientowner:  nfs4wire.ClientOwner4{Verifier: s.cfg.Verifier, Ownerid: s.cfg.Owner},
		StateProtect: protect,
		ClientImplID: nfs4wire.OptNFSImplID4{Present: true, Value: nfs4wire.NFSImplID4{Domain: []byte("github.com"), Name: []byte("nfsrdmad client")}},
	}
	var res nfs4wire.ExchangeID4Res
	return s.plain(ctx, conn, []Op{{nfs4wire.OpExchangeID, &args, &res}}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		ok := &res.ResOK // its texts are valid only now
		before := s.client
		s.client = identity{id: ok.Clientid, sequence: ok.Sequenceid, server: ServerIdentity{
			MinorID: ok.ServerOwner.MinorID, MajorID: slices.Clone(ok.ServerOwner.MajorID),
			Scope: slices.Clone(ok.ServerScope), Flags: ok.Flags,
		}}
		if ok.Clientid == before.id && ok.Flags&nfs4wire.Exchgid4FlagConfirmedR != 0 {
			// It is the client that the server knows already. Its number is that of this side, if this
			// side still trusts it (RFC 8881 §18.35.3).
			s.client.told, s.client.completed = before.told, before.completed
			if before.sequence != 0 {
				s.client.sequence = before.sequence
			}
		}
		if ok.ServerImplID.Present {
			s.client.server.Implementation = string(ok.ServerImplID.Value.Name)
		}
		return nil
	})
}

// createSession makes a session on the server (RFC 8881 §18.36).
func (s *Session) createSession(ctx context.Context, conn *Conn) (nfs4wire.CreateSession4ResOK, error) {
	back := s.offer(conn)
	s.mu.Lock()
	args := offerArgs{&nfs4wire.CreateSession4Args{
		Clientid: s.client.id, Sequence: s.client.sequence,
		Flags: nfs4wire.CreateSession4FlagConnBackChan,
		ForeChanAttrs: nfs4wire.ChannelAttrs4{
			Maxrequestsize: maxRequest, Maxresponsesize: maxRequest, MaxresponsesizeCached: maxKeptReply,
			Maxoperations: maxOperations, Maxrequests: uint32(s.cfg.Slots),
		},
		BackChanAttrs: nfs4wire.ChannelAttrs4{
			Maxrequestsize: maxCallback, Maxresponsesize: maxCallback, MaxresponsesizeCached: maxCallback,
			Maxoperations: maxOperations, Maxrequests: backSlots,
		},
		CBProgram: callbackProgram,
	}, back}
	s.mu.Unlock()
	var res nfs4wire.CreateSession4Res
	err := s.plain(ctx, conn, []Op{{nfs4wire.OpCreateSession, &args, &res}}, nil)
	if err == nil {
		s.mu.Lock()
		s.client.sequence++
		s.mu.Unlock()
	}
	return res.ResOK, err
}

// adoptLocked makes s use a new session.
func (s *Session) adoptLocked(res nfs4wire.CreateSession4ResOK, slots *slotTable) {
	s.limits, s.slots = res, slots
	slots.longest = int(res.ForeChanAttrs.Maxrequestsize)
	s.sizeLocked()
	s.back.acceptFrom(res.Sessionid, res.BackChanAttrs.Maxrequests)
	s.flags.Store(0)
}

// mendLocked starts to make a new session if the server has forgotten the present one, and there is
// a connection for it.
func (s *Session) mendLocked() {
	if s.phase != phaseBroken || s.recovering {
		return
	}
	if l := s.pickLocked(nil); l != nil {
		conn := l.conn
		s.recovering = true
		s.working.Go(func() { s.remake(l, conn) })
	}
}

// remake makes a new session over conn, the connection of l. It sends the waiting requests, and
// calls Callbacks.Restarted if the server has forgotten the client.
func (s *Session) remake(l *link, conn *Conn) {
	if !sleep(s.life, s.pace.next(s.renewed.Load())) {
		return
	}
	s.mu.Lock()
	old := []nfs4wire.SessionID4{s.limits.Sessionid}
	s.mu.Unlock()
	given, err := s.regain(conn)
	old = append(old, given...)
	s.mu.Lock()
	s.recovering = false
	e, answered := errors.AsType[*OpError](err)
	if err != nil && !answered {
		s.lostLocked(l, conn)
		s.mendLocked() // over another link's connection
	}
	// The application is told once for each client ID, whatever has disturbed the recovery.
	tell := err == nil && !s.client.told
	s.client.told = s.client.told || tell
	s.mu.Unlock()
	switch {
	case answered:
		s.kill(e)
		return
	case err != nil:
		return
	}
	s.dispatch()
	for _, c := range s.conns(l) {
		// The server has bound the connection of l already. If bind fails, the next request on the
		// connection fails too, and the Session then replaces the connection.
		_ = s.bind(s.life, c)
	}
	for _, id := range old { // these sessions may still exist
		_ = s.plain(s.life, conn, []Op{{Number: nfs4wire.OpDestroySession, Args: &nfs4wire.DestroySession4Args{Sessionid: id}}}, nil)
	}
	if tell && s.cfg.Callbacks.Restarted != nil {
		s.cfg.Callbacks.Restarted()
	}
}

// regain takes the steps of recovery until there is a session, or a step fails for good. It returns
// the sessions that it has made and given up. An error that is no *OpError means that the connection
// is of no use.
func (s *Session) regain(conn *Conn) (given []nfs4wire.SessionID4, err error) {
	var tries [stepDone]int
	var made nfs4wire.CreateSession4ResOK
	var slots *slotTable
	for at := stepCreate; at != stepDone; {
		if tries[at]++; tries[at] > 1 && !sleep(s.life, s.pace.next(s.renewed.Load())) {
			return given, context.Cause(s.life)
		}
		switch at {
		case stepIdentify:
			err = s.identify(s.life, conn)
		case stepCreate:
			if slots != nil {
				given = append(given, made.Sessionid)
			}
			if made, err = s.createSession(s.life, conn); err == nil {
				slots = newSlotTable(made.Sessionid, made.ForeChanAttrs.Maxrequests)
			}
		case stepComplete:
			// RECLAIM_COMPLETE goes out before any waiting request, because before it the server grants
			// no new opens and locks (RFC 8881 §18.51.3).
			err = s.complete(conn, slots)
		}
		if _, answered := errors.AsType[*OpError](err); err != nil && !answered {
			return given, err
		}
		status := StatusOf(err)
		switch at.after(status) {
		case onward:
			at++
		case again:
		case number:
			s.mu.Lock()
			s.client.sequence++
			s.mu.Unlock()
		case fromIdentify:
			if status == nfs4wire.NFS4ErrSeqMisordered {
				s.mu.Lock()
				s.client.sequence = 0 // the server knows the number
				s.mu.Unlock()
			}
			at = stepIdentify
		case fromCreate:
			at = stepCreate
		case final:
			return given, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseBroken {
		s.phase = phaseUp
	}
	s.adoptLocked(made, slots)
	for _, l := range []*compoundList{&s.parked, &s.delayed} {
		s.moveOrphansLocked(l)
	}
	return given, nil
}

// complete sends RECLAIM_COMPLETE as the first request of a session, unless the server has executed it
// for this client ID, or the application sends it.
func (s *Session) complete(conn *Conn, slots *slotTable) error {
	s.mu.Lock()
	id, due := s.client.id, !s.client.completed && !s.cfg.Reclaiming
	s.mu.Unlock()
	if !due {
		return nil
	}
	first := slots.take()
	defer func() { first.busy = false }()
	args := nfs4wire.Sequence4Args{Sessionid: slots.session, Sequenceid: first.seq, Cachethis: true}
	var res nfs4wire.Sequence4Res
	err := s.plain(s.life, conn, []Op{
		{nfs4wire.OpSequence, &args, &res},
		{nfs4wire.OpReclaimComplete, &nfs4wire.ReclaimComplete4Args{}, nil},
	}, nil)
	e, refused := errors.AsType[*OpError](err)
	if err == nil || refused && e.Op == nfs4wire.OpReclaimComplete {
		first.seq++
	}
	if err == nil || StatusOf(err) == nfs4wire.NFS4ErrCompleteAlready {
		s.completed(id)
		return nil
	}
	return err
}

// completed notes that the server has executed RECLAIM_COMPLETE for a client ID.
func (s *Session) completed(id uint64) {
	s.mu.Lock()
	s.client.completed = s.client.completed || s.client.id == id
	s.mu.Unlock()
}

// moveOrphansLocked empties l. The requests in l have slots of an earlier session; now they wait for
// slots of the present session. It ends the requests that cannot be sent again.
func (s *Session) moveOrphansLocked(l *compoundList) {
	for c := l.pop(); c != nil; c = l.pop() {
		if why := s.orphanedLocked(c); why != nil {
			s.working.Go(func() { c.finish(why) })
		}
	}
}
