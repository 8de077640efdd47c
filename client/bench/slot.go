package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A kind is the part of a workload that does not depend on the version of NFS.
type kind struct {
	// needs is the kind of files that the bench makes for the workload. entry is the format of the
	// names in a directory that the workload lists.
	needs groundKind
	entry string
	// data is true if each slot needs a buffer of Config.Size bytes, and writes if the buffer is
	// sent to the server.
	data, writes bool
	// requests is the number of requests of one operation; 0 means 1.
	requests int
	// next, unless nil, sets the slot up for its next operation, for example with an offset in the
	// file.
	next func(s *slot)
}

// A slot keeps one request in progress. The goroutine that takes the reply sends the next request,
// and allocates no memory between the two.
type slot struct {
	b *bench
	c *conn
	requester

	began time.Duration // since the bench's start
	buf   []byte
	sinks [1][]byte
	draw  *rand.Rand

	// The state of the operation in progress.
	step   int // number of the request within the operation, from 0
	offset uint64
	pause  time.Duration // before the request is repeated, because the server has asked to wait
	name   []byte        // for the workload create: the file's name
	serial uint64
}

// A requester makes the requests of a slot, in one version of NFS.
type requester interface {
	// send sends the request with the number slot.step of the operation in progress.
	send()
	// answer checks a reply. n is the number of payload bytes that the request moved.
	answer() (n int, err error)
}

func newSlot(b *bench, c *conn, number int, r requester) slot {
	s := slot{b: b, c: c, requester: r, draw: rand.New(rand.NewPCG(uint64(c.number), uint64(number)))}
	if b.kind.data {
		s.buf = make([]byte, b.cfg.Size)
		s.sinks[0] = s.buf
	}
	s.name = fmt.Appendf(make([]byte, 0, 64), "c%d-s%d-", c.number, number)
	return s
}

// begin starts an operation at the time now, which is counted from the bench's start. If no operation
// may begin any more, the slot stops.
func (s *slot) begin(now time.Duration) {
	if !s.b.claim() {
		s.b.stopped()
		return
	}
	s.began, s.step = now, 0
	if s.b.kind.next != nil {
		s.b.kind.next(s)
	}
	s.send()
}

// The first and the longest time that a slot waits before it repeats a request.
const (
	pauseFirst = 20 * time.Millisecond
	pauseMost  = time.Second
)

// done takes a reply and sends the next request. It repeats the request after a pause if the server asks
// for that (NFS3ERR_JUKEBOX, NFS4ERR_DELAY), unless the measurement has ended.
func (s *slot) done() {
	n, err := s.answer()
	if err != nil && statusOf(err) == wire.NFS4ErrDelay {
		s.c.delayed.Add(1)
		s.pause = min(max(pauseFirst, 2*s.pause), pauseMost)
		time.AfterFunc(s.pause, s.repeat)
		return
	}
	s.pause = 0
	if err != nil {
		s.b.fail(err)
		s.b.stopped()
		return
	}
	if s.step++; s.step < s.b.kind.requests {
		s.send()
		return
	}
	s.begin(s.b.took(s.c, s.began, n))
}

// repeat sends the request of the operation in progress again.
func (s *slot) repeat() {
	if s.b.stop.Load() {
		s.b.stopped()
		return
	}
	s.send()
}

// rename chooses a file name that the slot has not used before.
func (s *slot) rename() {
	s.serial++
	base := len(s.name)
	for base > 0 && s.name[base-1] != '-' {
		base--
	}
	s.name = strconv.AppendUint(s.name[:base], s.serial, 10)
}

// blocks returns how many READs or WRITEs of Config.Size bytes a file takes.
func (b *bench) blocks() uint64 { return max(uint64(b.cfg.FileSize)/uint64(b.cfg.Size), 1) }

func (s *slot) sequential() {
	s.offset = (s.c.cursor.Add(1) - 1) % s.b.blocks() * uint64(s.b.cfg.Size)
}

func (s *slot) random() { s.offset = s.draw.Uint64N(s.b.blocks()) * uint64(s.b.cfg.Size) }

// errShort returns the error for a READ that returned n bytes, fewer than the file had at the start.
func (s *slot) errShort(n int) error {
	return fmt.Errorf("bench: READ of %d bytes at %d gave %d: the file became shorter during the measurement", len(s.buf), s.offset, n)
}
