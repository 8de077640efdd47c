package hostile

import (
	"bufio"
	"context"
	"errors"
	"net"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A link carries whole RPC messages over either transport. One goroutine uses it.
type link interface {
	put(message []byte) error
	// next returns the daemon's next message: a reply, or a call to the client.
	next() ([]byte, error)
}

// dialLink connects over one of the Transports. The function end closes the connection.
func dialLink(ctx context.Context, target Target, transport string, i int) (l link, end func(), err error) {
	if transport == "rdma" {
		p, end, err := known(ctx, target, i)
		return rdmaLink{p}, end, err
	}
	c, err := dial(ctx, target.Source(i), target.TCP, 0)
	if err != nil {
		return nil, nil, err
	}
	return tcpLink(c), tie(ctx, c), nil
}

type recordLink struct {
	conn net.Conn
	in   *bufio.Reader
}

func tcpLink(c net.Conn) link { return recordLink{c, bufio.NewReader(c)} }

func (l recordLink) put(m []byte) error {
	_, err := l.conn.Write(record(m))
	return err
}

func (l recordLink) next() ([]byte, error) { return readRecord(l.in) }

type rdmaLink struct{ *rdmaPeer }

func (l rdmaLink) put(m []byte) error {
	_, err := l.conn.Write(l.message(rdmaMessage(chunks{}, m)))
	return err
}

func (l rdmaLink) next() ([]byte, error) {
	m, err := l.send()
	if err != nil {
		return nil, err
	}
	_, rest, err := headed(m)
	return rest, err
}

// send returns the daemon's next Send message, with its RPC-over-RDMA header.
func (p *rdmaPeer) send() (m []byte, err error) {
	for {
		ulpdu, err := p.receive()
		if err != nil {
			return nil, err
		}
		c := wire.ParseControl(ulpdu)
		switch {
		case c.Op == wire.Terminate:
			return nil, errors.New("the daemon terminates the connection")
		case c.Op.IsSend():
			m = append(m, ulpdu[wire.UntaggedSize:]...)
			if c.Last {
				return m, nil
			}
		}
	}
}

// errHeader says that the daemon sent a message that ends within the RPC-over-RDMA header.
var errHeader = errors.New("a header that ends too soon")

// headed splits an RPC-over-RDMA message: it returns the procedure, and the bytes that follow the
// lists of chunks (RFC 8166 §4.3).
func headed(m []byte) (procedure uint32, rest []byte, err error) {
	word := func() (n uint32) {
		if len(m) < 4 {
			m, err = nil, errHeader
			return 0
		}
		n, m = be.Uint32(m), m[4:]
		return n
	}
	skip := func(n int) {
		if n > len(m) {
			m, err = nil, errHeader
			return
		}
		m = m[n:]
	}
	for range 3 {
		word() // XID, version, credits
	}
	procedure = word()
	if procedure > rdmaNoMsg {
		return procedure, m, err
	}
	for word() != 0 { // Read list
		skip(4 + 16)
	}
	for word() != 0 { // Write list
		skip(int(min(word(), 1<<20)) * 16)
	}
	if word() != 0 { // Reply chunk
		skip(int(min(word(), 1<<20)) * 16)
	}
	return procedure, m, err
}
