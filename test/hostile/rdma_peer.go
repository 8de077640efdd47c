package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Numbers of RPC-over-RDMA version 1 (RFC 8166 §4).
const (
	rdmaVersion = 1
	rdmaMsg     = 0
	rdmaNoMsg   = 1 // the call is in a Read chunk at position 0
	// credits is the number of outstanding calls that a peer asks for.
	credits = 128
)

// A segment describes memory that a peer claims to expose (RFC 8166 §3.4.3).
type segment struct {
	handle, length uint32
	offset         uint64
}

func (s segment) append(b []byte) []byte {
	b = be.AppendUint32(b, s.handle)
	b = be.AppendUint32(b, s.length)
	return be.AppendUint64(b, s.offset)
}

// chunks are the chunks of a message: a Read chunk at a position, a Write chunk, and a Reply
// chunk. Each has one segment. A chunk of length 0 is absent.
type chunks struct {
	position           uint32
	read, write, reply segment
}

// rdmaMessage returns a call with its RPC-over-RDMA header (RFC 8166 §4.3). If c has a Read chunk
// at position 0, this chunk holds the call, and the message has only the header.
func rdmaMessage(c chunks, call []byte) []byte {
	b := append([]byte(nil), call[:4]...) // the XID
	proc := uint32(rdmaMsg)
	if c.read.length > 0 && c.position == 0 {
		proc, call = rdmaNoMsg, nil
	}
	for _, word := range []uint32{rdmaVersion, credits, proc} {
		b = be.AppendUint32(b, word)
	}
	if c.read.length > 0 {
		b = be.AppendUint32(b, 1)
		b = be.AppendUint32(b, c.position)
		b = c.read.append(b)
	}
	b = be.AppendUint32(b, 0)
	if c.write.length > 0 {
		b = be.AppendUint32(b, 1)
		b = be.AppendUint32(b, 1)
		b = c.write.append(b)
	}
	b = be.AppendUint32(b, 0)
	if c.reply.length > 0 {
		b = be.AppendUint32(b, 1)
		b = be.AppendUint32(b, 1)
		b = c.reply.append(b)
	} else {
		b = be.AppendUint32(b, 0)
	}
	return append(b, call...)
}

// An rdmaPeer is a scripted iWARP peer. One goroutine uses it.
type rdmaPeer struct {
	conn *net.TCPConn
	in   *bufio.Reader
	crc  bool
	msn  uint32 // sequence number of the last Send
	// buf has the last FPDU that arrived, without its length field.
	buf []byte
}

// setupTimeout is the longest time that a peer waits for the reply to its MPA request.
const setupTimeout = 20 * time.Second

// dialRDMA connects and sets up an RDMA connection up to the MPA reply. The daemon then waits for
// the first FPDU. See dial for the parameter window.
func dialRDMA(ctx context.Context, from netip.Addr, to netip.AddrPort, window int) (*rdmaPeer, error) {
	c, err := dial(ctx, from, to, window)
	if err != nil {
		return nil, err
	}
	p := &rdmaPeer{conn: c, in: bufio.NewReaderSize(c, 512)}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	c.SetDeadline(time.Now().Add(setupTimeout))
	if err := p.setUp(); err != nil {
		c.Close()
		return nil, fmt.Errorf("set-up: %w", err)
	}
	c.SetDeadline(time.Time{})
	return p, nil
}

// known connects peer i of an attack and makes a NULL call. The daemon then treats the connection
// as one whose set-up is complete. But rpc.Conn.Known is false there until the peer makes a call
// with a file handle or creates a session. The end of ctx, or a call of the function end, closes
// the connection.
func known(ctx context.Context, target Target, i int) (p *rdmaPeer, end func(), err error) {
	if p, err = dialRDMA(ctx, target.Source(i), target.RDMA, 0); err != nil {
		return nil, nil, err
	}
	end = tie(ctx, p.conn)
	if err := p.null(); err != nil {
		end()
		return nil, nil, err
	}
	return p, end, nil
}

// setUp sends the MPA request that the Linux client sends (RFC 6581 §9), and waits for the reply.
// It returns an error if the daemon rejects the connection.
func (p *rdmaPeer) setUp() error {
	f := rawpeer.LinuxRequest()
	data := make([]byte, wire.EnhancedSize, wire.EnhancedSize+len(f.Private))
	f.Enhanced.Put(data)
	data = append(data, f.Private...)
	b := make([]byte, wire.MPAHeaderSize, wire.MPAHeaderSize+len(data))
	wire.MPAHeader{Flags: f.Flags | wire.MPAEnhanced, Revision: f.Revision, Length: len(data)}.Put(b)
	if _, err := p.conn.Write(append(b, data...)); err != nil {
		return err
	}
	if _, err := io.ReadFull(p.in, b); err != nil {
		return err
	}
	h, err := wire.ParseMPAHeader(b)
	if err != nil {
		return err
	}
	if _, err := p.in.Discard(h.Length); err != nil {
		return err
	}
	if h.Flags&wire.MPARejected != 0 {
		return errors.New("the daemon rejects the connection")
	}
	p.crc = h.Flags&wire.MPAChecksum != 0
	return nil
}

// fpdu returns the FPDU that carries a ULPDU.
func (p *rdmaPeer) fpdu(ulpdu []byte) []byte {
	b := make([]byte, wire.FPDUSize(len(ulpdu)))
	wire.PutFPDU(b, ulpdu, p.crc)
	return b
}

// message returns an FPDU with the next Send message of the connection, in one segment.
func (p *rdmaPeer) message(m []byte) []byte {
	p.msn++
	return p.fpdu(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: p.msn}, m))
}

// readResponse returns one segment of the response to an RDMA Read: n zero bytes at offset `at`
// of its sink.
func (p *rdmaPeer) readResponse(r wire.Read, at, n uint32) []byte {
	return p.fpdu(rawpeer.Tagged(wire.Tagged{
		Op: wire.ReadResponse, Last: at+n == r.Size, STag: r.SinkSTag, Offset: r.SinkOffset + uint64(at),
	}, make([]byte, n)))
}

// receive waits for an FPDU and returns its ULPDU. The ULPDU is valid until the next call of
// receive.
func (p *rdmaPeer) receive() ([]byte, error) {
	var head [wire.LengthSize]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return nil, err
	}
	n := wire.ULPDULength(head[:])
	rest := wire.FPDUSize(n) - wire.LengthSize
	if cap(p.buf) < rest {
		p.buf = make([]byte, rest)
	}
	p.buf = p.buf[:rest]
	if _, err := io.ReadFull(p.in, p.buf); err != nil {
		return nil, err
	}
	if n < wire.TaggedSize {
		return nil, fmt.Errorf("a ULPDU of %d bytes", n)
	}
	return p.buf[:n], nil
}

// null makes a NULL call and waits for the reply, which grants credits.
func (p *rdmaPeer) null() error {
	if _, err := p.conn.Write(p.message(rdmaMessage(chunks{}, nullCall(1)))); err != nil {
		return err
	}
	return p.reply()
}

// reply waits until the daemon's next Send message has arrived, and discards it.
func (p *rdmaPeer) reply() error {
	for {
		ulpdu, err := p.receive()
		if err != nil {
			return err
		}
		c := wire.ParseControl(ulpdu)
		if c.Op == wire.Terminate {
			return errors.New("the daemon terminates the connection")
		}
		if c.Op.IsSend() && c.Last {
			return nil
		}
	}
}
