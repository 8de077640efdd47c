package hostile

import (
	"context"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// UnansweredReads are peers on RDMA that make large WRITEs and answer late, slowly or never the
// RDMA Reads by which the daemon fetches the data.
//
// Each peer costs the daemon the memory for the data of all its WRITEs.
type UnansweredReads struct {
	Peers int
	// Writes is the number of WRITEs that each peer has under way. Size is the length of the data
	// of one WRITE, in bytes.
	Writes, Size int
	Handle       []byte
	// Long is true if the calls themselves are in Read chunks, so that the daemon cannot check
	// them before it has fetched them.
	Long bool
	// Delay is the time that passes before the peer begins to answer an RDMA Read. Trickle is the
	// number of bytes of an answer that the peer then sends each second; 0 means all at once. If
	// both are 0, the peer never answers.
	Delay   time.Duration
	Trickle int
}

func (b UnansweredReads) String() string {
	how := "never answer the RDMA Reads"
	if b.Delay > 0 {
		how = fmt.Sprintf("answer each RDMA Read after %v", b.Delay)
	}
	if b.Trickle > 0 {
		how = fmt.Sprintf("answer the RDMA Reads by %d bytes a second", b.Trickle)
	}
	what := "WRITEs"
	if b.Long {
		what = "Long calls"
	}
	return fmt.Sprintf("%d RDMA connections with %d %s of %d bytes each that %s", b.Peers, b.Writes, what, b.Size, how)
}

// Start implements Behaviour.
func (b UnansweredReads) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		p, end, err := known(ctx, target, i)
		if err != nil {
			return err
		}
		defer end()
		for k := range b.Writes {
			head := writeHead(uint32(2+k), b.Handle, uint64(k*b.Size), uint32(b.Size), unstable)
			c := chunks{position: uint32(len(head)), read: segment{handle: uint32(2 + k), length: uint32(b.Size)}}
			if b.Long {
				c.position = 0
			}
			m := rdmaMessage(c, head)
			if _, err := p.conn.Write(p.message(m)); err != nil {
				return err
			}
		}
		stands()
		return b.answer(ctx, p)
	})
}

// A due is an RDMA Read and the time at which the peer begins to answer it.
type due struct {
	wire.Read
	at time.Time
}

// answer receives RDMA Reads until the connection ends. It answers them in order, unless b.Delay
// and b.Trickle are both 0: then it answers none.
func (b UnansweredReads) answer(ctx context.Context, p *rdmaPeer) error {
	reads := make(chan due, credits*16)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		b.answerEach(ctx, p, reads)
	}()
	defer func() {
		cancel()
		p.conn.Close()
		<-answered
	}()
	for {
		ulpdu, err := p.receive()
		if err != nil {
			return err
		}
		c := wire.ParseControl(ulpdu)
		if c.Op != wire.ReadRequest || len(ulpdu) < wire.UntaggedSize+wire.ReadRequestSize {
			continue
		}
		d := due{wire.ParseRead(ulpdu[wire.UntaggedSize:]), time.Now().Add(b.Delay)}
		select {
		case reads <- d:
		default:
			return fmt.Errorf("more than %d RDMA Reads are outstanding", cap(reads))
		}
	}
}

// answerSegment is the number of bytes of an answer in one FPDU.
const answerSegment = 32 << 10

func (b UnansweredReads) answerEach(ctx context.Context, p *rdmaPeer, reads <-chan due) {
	if b.Delay == 0 && b.Trickle == 0 {
		return
	}
	for {
		select {
		case r := <-reads:
			wait(ctx, time.Until(r.at))
			piece := uint32(answerSegment)
			if b.Trickle > 0 {
				piece = uint32(b.Trickle)
			}
			for at := uint32(0); at < r.Size && ctx.Err() == nil; {
				n := min(piece, r.Size-at)
				if _, err := p.conn.Write(p.readResponse(r.Read, at, n)); err != nil {
					return
				}
				at += n
				if b.Trickle > 0 {
					wait(ctx, time.Second)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}
