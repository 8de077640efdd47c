package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// authNone returns the security parameters of a CREATE_SESSION whose client wants callbacks with
// AUTH_NONE.
func authNone() (p wire.CreateSession4ArgsSecParms) {
	p.Decode(xdr.NewDecoder(be.AppendUint32(be.AppendUint32(nil, 1), 0)))
	return p
}

// PingedClients are peers that make the daemon test their backchannels all the time: the daemon
// tests a backchannel by a CB_NULL, and the peers never answer it. Each peer binds its connection
// to the backchannel of its session again and again, or creates sessions and destroys them.
//
// Each peer costs the daemon one unanswered call for each session that the peer has.
type PingedClients struct {
	Peers     int
	Transport string
	// If Anew is true, the peers create and destroy sessions; otherwise they bind their connections
	// again and again. Calls is the number of calls after which a peer counts as standing; the peer
	// then continues.
	Anew  bool
	Calls int
}

func (b PingedClients) String() string {
	how := "bind their backchannel again and again"
	if b.Anew {
		how = "make sessions with a backchannel, and destroy them"
	}
	return fmt.Sprintf("%d clients on %s that %s, %d times at least, and answer nothing", b.Peers, b.Transport, how, b.Calls)
}

// Start implements Behaviour.
func (b PingedClients) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, b.Transport, i)
		if err != nil {
			return err
		}
		defer end()
		c := &client4{minor: 1, link: l, back: true}
		sequence, err := c.exchange(longName(i, 0))
		if err == nil {
			err = c.create(sequence, 1)
		}
		stood := false
		for n := 0; err == nil; n++ {
			if n >= b.Calls && !stood {
				stood = true
				stands()
			}
			if b.Anew {
				err = c.again(&sequence)
			} else {
				err = c.bindOften(64)
				n += 63
			}
		}
		return err
	})
}

// again destroys the session and creates another one.
func (c *client4) again(sequence *uint32) error {
	_, err := c.do(op4{wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: c.session}})
	if err == nil {
		*sequence++
		err = c.create(*sequence, 1)
	}
	return err
}

// bindOften sends n BIND_CONN_TO_SESSION calls, and then reads the replies.
func (c *client4) bindOften(n int) error {
	for range n {
		c.xid++
		if err := c.put(compound(c.xid, c.minor, []op4{{wire.OpBindConnToSession, &wire.BindConnToSession4Args{
			Sessid: c.session, Dir: wire.Cdfc4ForeOrBoth,
		}}}, 0, nil)); err != nil {
			return err
		}
	}
	for range n {
		if _, err := c.await(); err != nil {
			return err
		}
	}
	return nil
}

// An Answer is a peer's reaction to a call of the daemon: messages to send, or an error that ends
// the connection.
type Answer struct {
	What string
	Make func(call []byte) (messages [][]byte, err error)
}

// answered returns the head of an accepted reply (RFC 5531 §9) to the call with this XID.
func answered(xid uint32) (b []byte) {
	for _, word := range []uint32{xid, 1, 0, 0, 0, 0} {
		b = be.AppendUint32(b, word)
	}
	return b
}

// Answers are the reactions of hostile peers. No honest client reacts in these ways.
var Answers = []Answer{
	{"nothing", func([]byte) ([][]byte, error) { return nil, nil }},
	{"garbage", func(call []byte) ([][]byte, error) {
		return [][]byte{append(answered(be.Uint32(call)), bytes.Repeat([]byte{0xa5}, 400)...), answered(be.Uint32(call))}, nil
	}},
	{"under other XIDs", func(call []byte) (all [][]byte, err error) {
		for i := range uint32(16) {
			all = append(all, answered(be.Uint32(call)+1+i))
		}
		return all, nil
	}},
	{"what is cut off", func(call []byte) (all [][]byte, err error) {
		whole := append(answered(be.Uint32(call)), make([]byte, 64)...)
		return [][]byte{whole[:8], whole[:12], whole[:20], whole[:28]}, nil
	}},
	{"what is far too long", func(call []byte) ([][]byte, error) {
		return [][]byte{append(answered(be.Uint32(call)), make([]byte, 3500)...)}, nil
	}},
	{"that it is not the one", func(call []byte) ([][]byte, error) {
		b := answered(be.Uint32(call))
		for _, word := range []uint32{0, 0, 1, uint32(wire.OpCBSequence), 0, 1, 2, 3, 4, 5, 6, 7, 1<<32 - 1} {
			b = be.AppendUint32(b, word)
		}
		return [][]byte{b}, nil
	}},
	{"that it is out of order", func(call []byte) ([][]byte, error) {
		b := answered(be.Uint32(call))
		for _, word := range []uint32{uint32(wire.NFS4ErrSeqMisordered), 0, 1, uint32(wire.OpCBSequence), uint32(wire.NFS4ErrSeqMisordered)} {
			b = be.AppendUint32(b, word)
		}
		return [][]byte{b}, nil
	}},
	{"by hanging up", func([]byte) ([][]byte, error) { return nil, io.EOF }},
}

// Waiters are pairs of clients. The first client of a pair locks bytes and unlocks them. The second
// client asks for the same locks with many lock-owners. When a lock becomes free, the daemon
// notifies the second client by CB_NOTIFY_LOCK, and this client reacts with Answer.
//
// Each pair costs the daemon the unanswered calls to the second client. Their number is limited by
// the memory for replies that one client address may use.
type Waiters struct {
	Peers, Owners int
	Transport     string
	// Files has one file for each pair, because the daemon notifies only a limited number of
	// waiters of one file.
	Files []servertest.Handle
	Answer
}

func (b Waiters) String() string {
	return fmt.Sprintf("%d clients on %s with %d owners each that wait for locks, and answer %s when they are told", b.Peers, b.Transport, b.Owners, b.What)
}

// Start implements Behaviour.
func (b Waiters) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		var all [2]*lockClient
		for k := range all {
			l, end, err := dialLink(ctx, target, b.Transport, i)
			if err != nil {
				return err
			}
			defer end()
			c := &client4{minor: 1, link: l, back: k == 1}
			if all[k], err = c.lockClient(fmt.Appendf(nil, "waiter %d", lives.Add(1)), b.Files[i]); err != nil {
				return err
			}
		}
		holder, waiter := all[0], all[1]
		waiter.called = func(call []byte) error {
			messages, err := b.Make(call)
			for _, m := range messages {
				if err := waiter.put(m); err != nil {
					return err
				}
			}
			return err
		}
		for round := 0; ; round++ {
			// Each round locks other bytes, because the daemon reserves a released byte for a
			// while for the clients that waited for it.
			if err := b.round(holder, waiter, uint64(round)<<20); err != nil {
				return err
			}
			if round == 1 {
				stands()
			}
			wait(ctx, 50*time.Millisecond)
		}
	})
}

// lives counts clients, so that each client gets a name that no earlier client had.
var lives atomic.Uint64

// round locks bytes as the holder. Then the waiter asks for each of these bytes, each time with
// another lock-owner, and the holder unlocks the bytes.
func (b Waiters) round(holder, waiter *lockClient, at uint64) error {
	id, err := holder.lock([]byte("holder"), wire.WriteLt, at, uint64(b.Owners))
	if err != nil {
		return err
	}
	for k := range uint64(b.Owners) {
		if _, err := waiter.lock(longName(int(at>>20), int(k)), wire.WritewLt, at+k, 1); err != status4(wire.NFS4ErrDenied) {
			return fmt.Errorf("a lock that another client holds: %w", err)
		}
	}
	return holder.unlock(id, at, uint64(b.Owners))
}

// A lockClient is a client that has one file open.
type lockClient struct {
	*client4
	file []byte
	open wire.StateID4
	next uint32 // the sequence ID of the next request in slot 0
	// numbered is the seqid of the open-owner's last request. Only minor version 0 uses it.
	numbered uint32
}

// lockClient creates a client ID and a session, and opens a file.
func (c *client4) lockClient(name, file []byte) (*lockClient, error) {
	return c.openClient(name, file, 4)
}

// openClient creates a client ID and a session with this number of slots, and opens the file.
func (c *client4) openClient(name, file []byte, slots uint32) (*lockClient, error) {
	if err := c.start(name, slots); err != nil {
		return nil, err
	}
	l := &lockClient{client4: c, file: file, next: 2}
	d, err := l.inSlot(op4{wire.OpOpen, &wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte("opener")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
	}})
	if err == nil {
		d.Skip(4)
		var res wire.Open4Res
		res.Decode(d)
		l.open, err = res.ResOK.Stateid, d.Err()
	}
	return l, err
}

// inSlot makes a call about the file, in slot 0 of the session if there is one. The returned
// decoder is at the result of the first of ops.
func (l *lockClient) inSlot(ops ...op4) (*xdr.Decoder, error) {
	skip := 4 + 4
	ops = append([]op4{putFH(l.file)}, ops...)
	if l.minor > 0 {
		skip += 4 + 4 + wire.Sequence4ResOKMaxSize
		ops = append([]op4{l.sequence(0, l.next, false)}, ops...)
		l.next++
	}
	d, err := l.do(ops...)
	if err == nil {
		d.Skip(skip)
	}
	return d, err
}

// number returns the seqid of the open-owner's next request, and counts this request. The seqid is
// always 0 in minor versions above 0.
func (l *lockClient) number() uint32 {
	if l.minor == 0 {
		l.numbered++
	}
	return l.numbered
}

func (l *lockClient) lock(owner []byte, how wire.NFSLockType4, offset, length uint64) (id wire.StateID4, err error) {
	d, err := l.inSlot(l.locking(owner, how, offset, length))
	if err != nil {
		return id, err
	}
	d.Skip(4)
	var res wire.Lock4Res
	res.Decode(d)
	return res.ResOK.LockStateid, d.Err()
}

// locking returns a LOCK by an owner that has no lock stateid yet.
func (l *lockClient) locking(owner []byte, how wire.NFSLockType4, offset, length uint64) op4 {
	return op4{wire.OpLock, &wire.Lock4Args{Locktype: how, Offset: offset, Length: length,
		Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
			OpenSeqid: l.number(), OpenStateid: l.open, LockOwner: wire.StateOwner4{Clientid: l.id, Owner: owner},
		}}}}
}

func (l *lockClient) unlock(id wire.StateID4, offset, length uint64) error {
	_, err := l.inSlot(op4{wire.OpLocku, &wire.Locku4Args{Locktype: wire.WriteLt, LockStateid: id, Offset: offset, Length: length}})
	return err
}
