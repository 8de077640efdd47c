package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// lockStride is the distance in bytes between two locked bytes of a client. The keeper of
// LockAskers locks other bytes than the lockHolders: its offsets are lockStride/2 higher.
const lockStride = 4

// lockTogether is the number of LOCKs in a compound. With this number, the call and its reply
// need no chunk.
const lockTogether = 32

// fileClient creates a client ID for a minor version and opens the file "victim" of an export. It
// connects over RDMA, because the export Stage.Secured accepts RDMA from any port, but TCP only
// from privileged ports. The connection lasts until ctx ends.
func fileClient(ctx context.Context, target Target, i int, minor uint32, in Place) (*lockClient, error) {
	p, _, err := known(ctx, target, i)
	if err != nil {
		return nil, err
	}
	c, name := &client4{minor: minor, link: rdmaLink{p}}, fmt.Appendf(nil, "many locks %d", lives.Add(1))
	if minor > 0 {
		return c.lockClient(name, in.Victim)
	}
	if err := c.introduce(name, netip.AddrPortFrom(target.Source(i), 9)); err != nil {
		return nil, err
	}
	l := &lockClient{client4: c, file: in.Victim}
	d, err := l.inSlot(putFH(in.Root), op4{wire.OpOpen, &wire.Open4Args{
		Seqid: l.number(), ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte("opener")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{File: []byte(victimName)},
	}})
	if err != nil {
		return nil, fmt.Errorf("OPEN: %w", err)
	}
	d.Skip(4 + 4 + 4)
	var opened wire.Open4Res
	opened.Decode(d)
	if err := d.Err(); err != nil {
		return nil, err
	}
	d, err = l.inSlot(op4{wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: opened.ResOK.Stateid, Seqid: l.number()}})
	if err != nil {
		return nil, fmt.Errorf("OPEN_CONFIRM: %w", err)
	}
	d.Skip(4)
	var confirmed wire.OpenConfirm4Res
	confirmed.Decode(d)
	l.open = confirmed.ResOK.Stateid
	return l, d.Err()
}

// hold locks n single bytes that lie lockStride apart, the first of them at `offset`. The function
// owner returns the name of the lock-owner of byte number i.
func (l *lockClient) hold(offset uint64, n int, owner func(i int) []byte) error {
	for i := 0; i < n; {
		var ops []op4
		for ; len(ops) < lockTogether && i < n; i++ {
			ops = append(ops, l.locking(owner(i), wire.WriteLt, offset+lockStride*uint64(i), 1))
		}
		if _, err := l.inSlot(ops...); err != nil {
			return fmt.Errorf("LOCK %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// close closes the file. The daemon then releases all locks of it.
func (l *lockClient) close() error {
	_, err := l.inSlot(op4{wire.OpClose, &wire.Close4Args{Seqid: l.number(), OpenStateid: l.open}})
	return err
}

// LockAskers are clients on RDMA, of NFSv4.1 and 4.0 in turn. The first one, the keeper, locks
// Places bytes of a file by one lock-owner and keeps them locked. The others ask all the time for
// locks that conflict with the keeper's. The daemon must deny each request. The requests of an
// asker alternate: one is a LOCK of lockStride bytes with WRITEW_LT by one of Owners lock-owners,
// which the daemon then enters in its queue of waiters; the next is a LOCK of the whole file with
// WRITE_LT by a further lock-owner.
//
// Each call of an asker costs the daemon a search among very many locks, and each lock-owner costs
// it an entry in the queue.
type LockAskers struct {
	Askers, Places, Owners int
	In                     Place
	*LockAnswers
}

// LockAnswers records the duration of each LOCK that was denied.
type LockAnswers struct {
	mu     sync.Mutex
	denied []time.Duration
}

func (a *LockAnswers) add(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied = append(a.denied, took)
}

// soFar returns the number of LOCKs that were denied, the time within which 99 of 100 of them
// were answered, and the time of the slowest one.
func (a *LockAnswers) soFar() (n int, p99, worst time.Duration) {
	a.mu.Lock()
	all := slices.Sorted(slices.Values(a.denied))
	a.mu.Unlock()
	n = len(all)
	return n, all[n*99/100], all[n-1]
}

func (b LockAskers) String() string {
	return fmt.Sprintf("a client with %d locks of a file, and %d that ask for it with %d owners each", b.Places, b.Askers, b.Owners)
}

// Start implements Behaviour.
func (b LockAskers) Start(ctx context.Context, target Target) *Attack {
	kept := make(chan struct{})
	var once sync.Once
	return attack(ctx, 1+b.Askers, func(ctx context.Context, i int, stands func()) error {
		ctx, end := context.WithCancel(ctx)
		defer end() // closes the connection
		l, err := fileClient(ctx, target, i, uint32(1-i%2), b.In)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := l.hold(lockStride/2, b.Places, func(int) []byte { return []byte("keeper") }); err != nil {
				return err
			}
			stands()
			once.Do(func() { close(kept) })
			return l.keep(ctx)
		}
		select {
		case <-kept:
		case <-ctx.Done():
			return ctx.Err()
		}
		for n := 0; ; n++ {
			owner, how, offset, length := fmt.Appendf(nil, "asker %d", n/2%b.Owners), wire.WritewLt, lockStride*rand.Uint64N(uint64(b.Places)), uint64(lockStride)
			if n%2 > 0 {
				owner, how, offset, length = []byte("of all"), wire.WriteLt, 0, 1<<64-1
			}
			begin := time.Now()
			if _, err := l.lock(owner, how, offset, length); err != status4(wire.NFS4ErrDenied) {
				return fmt.Errorf("a LOCK of what another client holds: %w", granted(err))
			}
			b.add(time.Since(begin))
			if n == 0 {
				stands()
			}
		}
	})
}

// errGranted says that the daemon granted a lock although another client holds it.
var errGranted = errors.New("it is granted")

func granted(err error) error {
	if err == nil {
		return errGranted
	}
	return err
}

// keep renews the lease each second until a renewal fails. The end of ctx makes the next renewal
// fail, because it closes the connection.
func (l *lockClient) keep(ctx context.Context) error {
	for {
		wait(ctx, time.Second)
		if err := l.renew(); err != nil {
			return err
		}
	}
}

// A lockHolder is a client that locks bytes of a file, each by another lock-owner. The first of
// these bytes is at the offset `first`.
type lockHolder struct {
	*lockClient
	first uint64
}

// lockHolders creates an NFSv4.1 client and an NFSv4.0 client. The parameter places is the number
// of bytes that they lock together, half of them each. At the end both clients renew their leases;
// renewed is a time before that.
func lockHolders(ctx context.Context, target Target, in Place, places int) (all []lockHolder, renewed time.Time, err error) {
	for i := range 2 {
		l, err := fileClient(ctx, target, i, uint32(1-i), in)
		if err != nil {
			return nil, renewed, err
		}
		all = append(all, lockHolder{l, lockStride * uint64(i*places/2)})
	}
	err = atOnce(all, func(h lockHolder) error {
		return h.hold(h.first, places/2, func(i int) []byte { return fmt.Appendf(nil, "owner %d", i) })
	})
	renewed = time.Now()
	for _, h := range all {
		if err == nil {
			err = h.renew()
		}
	}
	return all, renewed, err
}

// renew renews the lease.
func (l *lockClient) renew() error {
	if l.minor > 0 {
		_, err := l.inSlot()
		return err
	}
	_, err := l.do(op4{wire.OpRenew, &wire.Renew4Args{Clientid: l.id}})
	return err
}

// take asks for the lock of a byte until the client gets it, and then unlocks the byte. It returns
// an error if the client does not get the lock within the time limit. denied is the number of
// LOCKs that were denied; longest is the duration of the slowest LOCK.
func (l *lockClient) take(ctx context.Context, at uint64, limit time.Duration) (denied int, longest time.Duration, err error) {
	for end := time.Now().Add(limit); ; denied++ {
		begin := time.Now()
		id, err := l.lock([]byte("taker"), wire.WriteLt, at, 1)
		longest = max(longest, time.Since(begin))
		switch {
		case err == nil:
			return denied, longest, l.unlock(id, at, 1)
		case err != status4(wire.NFS4ErrDenied) || begin.After(end):
			return denied, longest, fmt.Errorf("LOCK at %d: %w", at, err)
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// atOnce calls the function do for all holders at the same time.
func atOnce(all []lockHolder, do func(h lockHolder) error) error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, h := range all {
		work.Go(func() { errs[i] = do(h) })
	}
	work.Wait()
	return errors.Join(errs...)
}
