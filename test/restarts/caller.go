package restarts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A caller is one client of NFSv4.0 or 4.1. It lives longer than the daemon: it has the same
// client owner and verifier at each new daemon.
type caller struct {
	name     string
	minor    uint32
	verifier nfs4wire.Verifier4

	// The following fields are its state at the present daemon.
	conn     *client.Conn
	id       uint64
	proof    nfs4wire.Verifier4 // confirms id in minor version 0
	session  nfs4wire.SessionID4
	slot     uint32
	sequence uint32    // the next one in the slot; before there is a session, that of CREATE_SESSION
	heard    time.Time // when the caller sent its last call that was answered
	owners   int       // number of its open-owners at all daemons
}

// patience is the longest time that a caller waits for an answer. Only a daemon that hangs takes
// that long.
const patience = time.Minute

// A lock is an open of a file and a granted lock on the whole file.
type lock struct {
	open, lock       nfs4wire.StateID4
	openSeq, lockSeq uint32
}

// arrive connects to a daemon and creates a client ID there, and a session in minor version 1.
func (c *caller) arrive(at client.Target) error {
	if err := c.introduce(at); err != nil {
		return err
	}
	return c.confirm()
}

func (c *caller) dial(at client.Target) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.conn, err = client.Dial(ctx, at)
	return err
}

// introduce connects to a daemon and gets a client ID, which is not confirmed yet.
func (c *caller) introduce(at client.Target) (err error) {
	if err = c.dial(at); err != nil {
		return err
	}
	if c.minor == 0 {
		var res nfs4wire.SetClientID4Res
		err = c.do(nil, client.Op{Number: nfs4wire.OpSetClientID, Args: &nfs4wire.SetClientID4Args{
			Client:   nfs4wire.NFSClientID4{ID: []byte(c.name), Verifier: c.verifier},
			Callback: nfs4wire.CBClient4{CBProgram: 0x40000000, CBLocation: nfs4wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.0.0")}},
		}, Res: &res})
		c.id, c.proof = res.ResOK.Clientid, res.ResOK.SetclientidConfirm
		return err
	}
	var who nfs4wire.ExchangeID4Res
	err = c.do(nil, client.Op{Number: nfs4wire.OpExchangeID, Args: &nfs4wire.ExchangeID4Args{
		Clientowner: nfs4wire.ClientOwner4{Ownerid: []byte(c.name), Verifier: c.verifier},
	}, Res: &who})
	c.id, c.sequence = who.ResOK.Clientid, who.ResOK.Sequenceid
	return err
}

// confirm confirms the client ID, in minor version 1 by creating a session.
func (c *caller) confirm() error {
	if c.minor == 0 {
		return c.do(nil, client.Op{Number: nfs4wire.OpSetClientIDConfirm, Args: &nfs4wire.SetClientIDConfirm4Args{
			Clientid: c.id, SetclientidConfirm: c.proof,
		}})
	}
	channel := nfs4wire.ChannelAttrs4{Maxrequestsize: 64 << 10, Maxresponsesize: 64 << 10, MaxresponsesizeCached: 4 << 10, Maxoperations: 16, Maxrequests: 2}
	var made nfs4wire.CreateSession4Res
	err := c.do(nil, client.Op{Number: nfs4wire.OpCreateSession, Args: &nfs4wire.CreateSession4Args{
		Clientid: c.id, Sequence: c.sequence, ForeChanAttrs: channel, BackChanAttrs: channel, CBProgram: 0x40000000,
	}, Res: &made})
	c.session, c.sequence = made.ResOK.Sessionid, 1
	return err
}

// beside returns the same client on another connection, and in minor version 1 in the session's second slot. So one of
// its calls may hang while the client makes others.
func (c *caller) beside(at client.Target) (*caller, error) {
	b := &caller{name: c.name + ", beside", minor: c.minor, id: c.id, session: c.session, slot: 1, sequence: 1}
	return b, b.dial(at)
}

// leave closes the connection.
func (c *caller) leave() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// do makes a compound outside a session, and repeats it while the answer is NFS4ERR_DELAY.
func (c *caller) do(take func() error, ops ...client.Op) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		sent := time.Now()
		err := c.conn.Compound(ctx, c.minor, ops, take)
		cancel()
		if answered(err) {
			c.heard = sent
		}
		if client.StatusOf(err) != nfs4wire.NFS4ErrDelay {
			return err
		}
		time.Sleep(delay)
	}
}

// delay is the time that a caller waits before it repeats a call that was answered with
// NFS4ERR_DELAY.
const delay = 20 * time.Millisecond

// answered reports whether the daemon has answered a call that returned err.
func answered(err error) bool {
	_, refused := errors.AsType[*client.OpError](err)
	return err == nil || refused
}

// call makes a compound, with SEQUENCE in minor version 1, and repeats it while the answer is
// NFS4ERR_DELAY. The function make returns the operations for each attempt.
func (c *caller) call(make func() []client.Op) error {
	for {
		ops := make()
		if c.minor > 0 {
			ops = append([]client.Op{{Number: nfs4wire.OpSequence, Args: &nfs4wire.Sequence4Args{
				Sessionid: c.session, Sequenceid: c.sequence, Slotid: c.slot, HighestSlotid: 1,
			}, Res: new(nfs4wire.Sequence4Res)}}, ops...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		sent := time.Now()
		err := c.conn.Compound(ctx, c.minor, ops, nil)
		cancel()
		if answered(err) {
			c.heard = sent
			c.sequence++
		}
		if client.StatusOf(err) != nfs4wire.NFS4ErrDelay {
			return err
		}
		time.Sleep(delay)
	}
}

// renew renews the caller's lease.
func (c *caller) renew() error {
	return c.call(func() []client.Op {
		if c.minor > 0 {
			return nil // SEQUENCE renews
		}
		return []client.Op{{Number: nfs4wire.OpRenew, Args: &nfs4wire.Renew4Args{Clientid: c.id}, Res: new(nfs4wire.Renew4Res)}}
	})
}

// done sends RECLAIM_COMPLETE. It does nothing in minor version 0.
func (c *caller) done() error {
	if c.minor == 0 {
		return nil
	}
	return c.call(func() []client.Op {
		return []client.Op{{Number: nfs4wire.OpReclaimComplete, Args: &nfs4wire.ReclaimComplete4Args{}, Res: new(nfs4wire.ReclaimComplete4Res)}}
	})
}

// A file is one of the files that callers lock. dir is the handle of its directory, or nil for the server's root.
type file struct {
	name   string
	dir    client.Handle
	handle client.Handle
}

// take opens a file and locks it. If claims is true, it reclaims the open and the lock instead.
func (c *caller) take(f *file, claims bool) (*lock, error) {
	l := &lock{openSeq: 1, lockSeq: 1}
	c.owners++ // each open uses a new owner, whose seqids begin at 1
	owner := nfs4wire.StateOwner4{Clientid: c.id, Owner: fmt.Appendf(nil, "owner %d", c.owners)}
	var opened nfs4wire.Open4Res
	err := c.call(func() []client.Op {
		args := &nfs4wire.Open4Args{
			Seqid: l.openSeq, ShareAccess: nfs4wire.Open4ShareAccessBoth, Owner: owner,
			Openhow: nfs4wire.Openflag4{Opentype: nfs4wire.Open4Nocreate},
		}
		at := put(f.handle)
		if claims {
			args.Claim.Claim = nfs4wire.ClaimPrevious
		} else {
			args.Claim = nfs4wire.OpenClaim4{Claim: nfs4wire.ClaimNull, File: nfs4wire.UTF8String(f.name)}
			at = put(f.dir)
		}
		l.openSeq++
		return []client.Op{at, {Number: nfs4wire.OpOpen, Args: args, Res: &opened}}
	})
	if err != nil {
		return nil, err
	}
	l.open = opened.ResOK.Stateid
	if opened.ResOK.Rflags&nfs4wire.Open4ResultConfirm != 0 {
		var confirmed nfs4wire.OpenConfirm4Res
		err := c.call(func() []client.Op {
			args := &nfs4wire.OpenConfirm4Args{OpenStateid: l.open, Seqid: l.openSeq}
			l.openSeq++
			return []client.Op{put(f.handle), {Number: nfs4wire.OpOpenConfirm, Args: args, Res: &confirmed}}
		})
		if err != nil {
			return nil, err
		}
		l.open = confirmed.ResOK.Stateid
	}
	var locked nfs4wire.Lock4Res
	err = c.call(func() []client.Op {
		args := &nfs4wire.Lock4Args{Locktype: nfs4wire.WriteLt, Reclaim: claims, Length: nfs4wire.NFS4Maxfilelen, Locker: nfs4wire.Locker4{
			NewLockOwner: true, OpenOwner: nfs4wire.OpenToLockOwner4{OpenSeqid: l.openSeq, OpenStateid: l.open, LockSeqid: l.lockSeq, LockOwner: owner},
		}}
		l.openSeq++
		return []client.Op{put(f.handle), {Number: nfs4wire.OpLock, Args: args, Res: &locked}}
	})
	l.lockSeq++
	l.lock = locked.ResOK.LockStateid
	if err != nil && answered(err) && !claims {
		if closed := c.close(f, l); closed != nil {
			return nil, closed
		}
	}
	return l, err
}

// read reads the first byte of a file that the caller has locked.
func (c *caller) read(f *file, l *lock) error {
	return c.call(func() []client.Op {
		return []client.Op{put(f.handle), {Number: nfs4wire.OpRead, Args: &nfs4wire.Read4Args{Stateid: l.lock, Count: 1}, Res: new(nfs4wire.Read4Res)}}
	})
}

// find returns the handle of a name in a directory.
func (c *caller) find(dir client.Handle, name string) (client.Handle, error) {
	var fh ownHandle
	err := c.call(func() []client.Op {
		return []client.Op{
			put(dir), {Number: nfs4wire.OpLookup, Args: &nfs4wire.Lookup4Args{Objname: nfs4wire.UTF8String(name)}},
			{Number: nfs4wire.OpGetFH, Res: &fh},
		}
	})
	return fh.own, err
}

// giveBack unlocks a file and closes it.
func (c *caller) giveBack(f *file, l *lock) error {
	err := c.call(func() []client.Op {
		args := &nfs4wire.Locku4Args{Locktype: nfs4wire.WriteLt, Seqid: l.lockSeq, LockStateid: l.lock, Length: nfs4wire.NFS4Maxfilelen}
		l.lockSeq++
		return []client.Op{put(f.handle), {Number: nfs4wire.OpLocku, Args: args, Res: new(nfs4wire.Locku4Res)}}
	})
	if err != nil {
		return err
	}
	return c.close(f, l)
}

func (c *caller) close(f *file, l *lock) error {
	return c.call(func() []client.Op {
		args := &nfs4wire.Close4Args{Seqid: l.openSeq, OpenStateid: l.open}
		l.openSeq++
		return []client.Op{put(f.handle), {Number: nfs4wire.OpClose, Args: args, Res: new(nfs4wire.Close4Res)}}
	})
}

func put(h client.Handle) client.Op {
	if h == nil {
		return client.Op{Number: nfs4wire.OpPutRootFH}
	}
	return client.Op{Number: nfs4wire.OpPutFH, Args: &nfs4wire.PutFH4Args{Object: nfs4wire.NFSFH4(h)}}
}
