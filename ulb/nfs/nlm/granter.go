package nlm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const (
	// granters is the largest number of goroutines that take awaited locks and call hosts, and grantersFrom that for the
	// hosts of one client address. Each works for one host at a time.
	granters     = 16
	grantersFrom = 4
	// grantRetry is the time after which the server calls a host again that did not answer, and grantCalls the number
	// of its calls. The lock goes to the next one that waits when grantKeeps has passed since the first call: Linux's
	// client, which the server perhaps cannot call, asks for it again each 30 s.
	grantRetry = 10 * time.Second
	grantCalls = 3
	grantKeeps = 31 * time.Second
)

// An awaited lock is one for which an owner of a host waits.
type awaited struct {
	host *state.Client
	// to leads back to where the LOCK came from. message is true if it was a LOCK_MSG, and name then names it.
	to      route
	message bool
	name    digest
	// lock is as it was in the LOCK. Its names are copies.
	lock      wire.Lock4
	exclusive bool
	owner     []byte
	length    uint64 // as the state has it

	// granter.mu guards the fields below.

	// ref is the file, as take or the LOCK has found it.
	ref state.Ref
	// taken is true once the lock is taken. before is then what the owner held of the range until that moment.
	taken  bool
	before state.Before
	// calls counts the calls to the host without an answer. The first of them began at the time first.
	calls int
	first time.Time
	// sent counts the calls that the host may have heard. All calls have the same cookie.
	sent   int
	cookie []byte
	// doubtful is true if the host has refused a lock of which an earlier call may have told it already.
	doubtful bool
	// retrying is true while a timer of retry runs.
	retrying bool
}

// awaited describes the lock of a request, which will wait for it.
func (r *request) awaited(host *state.Client, exclusive bool) *awaited {
	l := *r.lock
	l.CallerName, l.FileHandle, l.OH = bytes.Clone(l.CallerName), bytes.Clone(l.FileHandle), bytes.Clone(l.OH)
	return &awaited{
		host: host, to: routeOf(r.call), message: isMessage(wire.Procedure(r.call.Header.Procedure)), lock: l, exclusive: exclusive,
		name: r.message, owner: r.owner(), length: r.length(), ref: r.ref(host),
	}
}

// what returns the range of the lock for the state, without a Claimer.
func (w *awaited) what() state.HostRange {
	return state.HostRange{Ref: w.ref, Owner: w.owner, Offset: w.lock.Offset, Length: w.length}
}

// A granter takes awaited locks that have become free, and tells their hosts (GRANTED). It does the work of one host
// in the order of arrival. Client addresses take turns, so that hosts that do not answer keep few goroutines.
type granter struct {
	program *Program
	dial    func(from netip.Addr) rpc.Dialer
	send    func(from, to netip.AddrPort, message []byte)
	machine string // this server's name
	cred    rpc.AuthBytes
	ctx     context.Context
	cancel  context.CancelFunc
	calling sync.WaitGroup // calls to hosts
	answers answers

	mu      sync.Mutex
	ended   bool
	work    map[*state.Client][]*awaited // by host; the key is there while a goroutine works for it, or it is in a line
	lines   map[netip.Addr]*line         // by client address
	ready   []*line                      // the lines from which a goroutine may take a host
	running int
	// untold are, by host, the locks that are granted without that the host has said that it knows.
	untold map[*state.Client][]*awaited
	// letters wait for delivery, by the address of the host; the key is there while a goroutine delivers to it.
	letters map[netip.Addr][]func()
	ports   ports
}

// A line has the hosts of one client address that have work and wait for a goroutine.
type line struct {
	address netip.Addr
	hosts   []*state.Client
	running int  // number of goroutines that work for hosts of this address
	ready   bool // it is in granter.ready
}

func (g *granter) begin(p *Program, cfg *Config) {
	g.program, g.dial, g.send, g.machine = p, cfg.Dial, cfg.Send, cfg.Machine
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.lines, g.letters = make(map[netip.Addr]*line), make(map[netip.Addr][]func())
	g.work, g.untold = make(map[*state.Client][]*awaited), make(map[*state.Client][]*awaited)
	machine := cfg.Machine[:min(len(cfg.Machine), rpc.MaxMachineName)]
	g.cred, _ = rpc.AuthSysCred(0, machine, 0, 0, nil)
	if g.dial != nil {
		p.state.NotifyHosts(func(n state.LockNotice) { g.add(n.Tag.(*awaited)) })
	}
}

func (g *granter) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.cancel()
	g.calling.Wait()
}

// add makes a goroutine take the lock, or tell the host that it is taken. It does not block.
func (g *granter) add(w *awaited) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	queue, known := g.work[w.host]
	g.work[w.host] = append(queue, w)
	if known {
		return
	}
	address := clientaddr.Of(w.to.peer.Addr())
	l := g.lines[address]
	if l == nil {
		l = &line{address: address}
		g.lines[address] = l
	}
	l.hosts = append(l.hosts, w.host)
	g.offer(l)
}

// offer makes a goroutine take a host from the line, if one may. The caller holds g.mu.
func (g *granter) offer(l *line) {
	switch {
	case len(l.hosts) == 0 && l.running == 0:
		delete(g.lines, l.address)
	case l.ready || len(l.hosts) == 0 || l.running == grantersFrom:
	default:
		l.ready = true
		if g.ready = append(g.ready, l); g.running < granters {
			g.running++
			go g.run()
		}
	}
}

// again is add after some time.
func (g *granter) again(w *awaited, after time.Duration) {
	time.AfterFunc(after, func() { g.add(w) })
}

// retry is again after the time after which a process of this machine may have let go. However many calls and notices ask
// for it, there is one timer.
func (g *granter) retry(w *awaited) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.retrying {
		return
	}
	w.retrying = true
	time.AfterFunc(state.LocalRetry, func() {
		g.mu.Lock()
		w.retrying = false
		g.mu.Unlock()
		g.add(w)
	})
}

// run works until no line is ready.
func (g *granter) run() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.ready) > 0 && !g.ended {
		l := g.ready[0]
		g.ready = g.ready[1:]
		host := l.hosts[0]
		l.hosts, l.ready = l.hosts[1:], false
		l.running++
		g.offer(l)
		w := g.work[host][0]
		g.work[host] = g.work[host][1:]
		g.mu.Unlock()
		g.grant(w)
		g.mu.Lock()
		if len(g.work[host]) > 0 {
			l.hosts = append(l.hosts, host)
		} else {
			delete(g.work, host)
		}
		l.running--
		g.offer(l)
	}
	g.running--
}

// grant takes the lock, unless it is taken already, and tells the host.
func (g *granter) grant(w *awaited) {
	g.mu.Lock()
	taken, calls, doubtful := slices.Contains(g.untold[w.host], w), w.calls, w.doubtful
	g.mu.Unlock()
	switch {
	case taken && !g.has(w):
		g.settled(w)
		return
	case doubtful:
		g.accepted(w)
		return
	case !taken && (calls > 0 || !g.take(w)):
		return
	}
	began := time.Now()
	stat, late := g.lateAnswer(w)
	var err error
	switch {
	case late:
	case calls == grantCalls:
		g.program.release(w)
		return
	default:
		stat, err = g.tell(w)
	}
	switch {
	case errors.Is(err, errLost):
		g.settled(w)
	case err != nil:
		g.again(w, g.unanswered(w, began))
	case stat == wire.Granted:
		g.accepted(w)
	case g.doubts(w):
		g.again(w, grantKeeps)
	default: // the owner does not wait any more
		g.program.release(w)
	}
}

// accepted settles a lock that its host has accepted. If a call of the owner has settled it before, that call has decided
// what to remember.
func (g *granter) accepted(w *awaited) {
	if g.settled(w) {
		g.remember(w, wire.Granted)
	}
}

// doubts reports whether an owner that refuses a lock may have accepted it before: an earlier call has told the owner, and
// the answer was lost. Such an owner keeps the lock, unless it cancels within grantKeeps.
func (g *granter) doubts(w *awaited) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.doubtful = w.sent > 1
	return w.doubtful
}

// unanswered counts a call to the host without an answer. It returns when to call again or, after the last call, to take
// the lock back.
func (g *granter) unanswered(w *awaited, began time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.calls == 0 {
		w.first = began
	}
	if w.calls++; w.calls < grantCalls {
		return grantRetry
	}
	return grantKeeps - time.Since(w.first) // AfterFunc takes a time that has passed
}

// take takes the lock for its owner, if the owner still waits for it. It returns false if there is no lock to tell of. If
// the reason may pass, and no notice says when, it asks again.
func (g *granter) take(w *awaited) bool {
	p := g.program
	var conn rpc.Conn // only counts the use of the export
	e, file, err := p.enter(&conn, w.lock.FileHandle, false)
	if err != nil {
		g.retryIfWaits(w)
		return false
	}
	defer e.Leave(&conn)
	w.ref = state.Ref{Client: w.host, Key: state.FileKey{Domain: state.DomainOf(e.FS), Handle: file}, Export: e.ID}
	if e.NoLocks { // since the LOCK
		r := w.what()
		p.state.HostCancel(&r, w.exclusive)
		return false
	}
	// From the moment when the lock is taken, a call of its owner must find it among the untold.
	g.mu.Lock()
	g.untold[w.host] = append(g.untold[w.host], w)
	g.mu.Unlock()
	claimer, _ := vfs.As[vfs.Claimer](e.FS)
	d, s := p.state.HostLock(&state.LockArgs{
		Host: w.host, OwnerName: w.owner, Ref: w.ref, Offset: w.lock.Offset, Length: w.length, Write: w.exclusive,
		Claimer: claimer, Wait: true, Tag: w, IfWaits: true, Held: func(before state.Before) {
			g.mu.Lock()
			defer g.mu.Unlock()
			w.taken, w.before = true, before
		},
	})
	if verdict(s) == wire.Granted {
		return true
	}
	if g.settled(w); d == nil || d.ClientID == 0 {
		g.retryIfWaits(w)
	}
	return false
}

// retryIfWaits is retry, if the owner still waits for the lock.
func (g *granter) retryIfWaits(w *awaited) {
	r := w.what()
	if g.program.state.HostAwaits(&r, w.exclusive, w) {
		g.retry(w)
	}
}

// release takes back a lock that its owner does not want any more, or cannot be told of: the owner has again what it held
// before. It returns false if the lock is not taken, or if a call of the owner has settled it.
func (p *Program) release(w *awaited) bool {
	var conn rpc.Conn
	e, _, err := p.enter(&conn, w.lock.FileHandle, false)
	if err != nil {
		return p.granter.settled(w) // the locks of an export that is gone are gone as well
	}
	defer e.Leave(&conn)
	r := w.what()
	r.Claimer, _ = vfs.As[vfs.Claimer](e.FS)
	return p.state.HostRestore(&r, func() (state.Before, bool) {
		return w.before, p.granter.drop(w.host, func(other *awaited) bool { return other == w && w.taken })
	})
}

// cancelled takes back an untold lock for which an owner does not wait any more. It returns false if there is none.
func (p *Program) cancelled(r *state.HostRange, exclusive bool) bool {
	g := &p.granter
	g.mu.Lock()
	i := slices.IndexFunc(g.untold[r.Client], func(w *awaited) bool {
		return w.ref.Key == r.Key && bytes.Equal(w.owner, r.Owner) && w.lock.Offset == r.Offset && w.length == r.Length && w.exclusive == exclusive
	})
	if i < 0 {
		g.mu.Unlock()
		return false
	}
	w := g.untold[r.Client][i]
	g.mu.Unlock()
	done := p.release(w)
	if done {
		g.remember(w, wire.Denied)
	}
	return done
}

// remember keeps the status with which the waiting has ended, so that a LOCK_MSG that was BLOCKED does not lock if it comes
// again.
func (g *granter) remember(w *awaited, stat wire.Stat4) {
	if w.message && !w.to.stranger {
		g.program.messages.add(w.to.peer.Addr(), w.name, stat)
	}
}

// settled removes w from the untold locks. It returns false if a call of the owner has done so before.
func (g *granter) settled(w *awaited) bool {
	return g.drop(w.host, func(other *awaited) bool { return other == w })
}

// settle removes those untold locks of an owner that overlap a range, because the owner has called about it, so that
// the server neither tells the host of them nor takes them back.
func (g *granter) settle(r *state.HostRange) {
	g.drop(r.Client, func(w *awaited) bool {
		is := w.taken && w.ref.Key == r.Key && bytes.Equal(w.owner, r.Owner) && overlap(w.lock.Offset, w.length, r.Offset, r.Length)
		if is {
			g.remember(w, wire.Granted)
		}
		return is
	})
}

func overlap(a, aLength, b, bLength uint64) bool {
	return (a <= b || bLength == vfs.ToEnd || a-b < bLength) && (b <= a || aLength == vfs.ToEnd || b-a < aLength)
}

func (g *granter) drop(host *state.Client, those func(w *awaited) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.untold[host]
	left := slices.DeleteFunc(all, func(w *awaited) bool {
		is := those(w)
		if is {
			g.answers.forget(w)
		}
		return is
	})
	if g.untold[host] = left; len(left) == 0 {
		delete(g.untold, host)
	}
	return len(left) < len(all)
}
