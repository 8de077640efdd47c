package nfs4test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// Far returns a Site for a server that runs elsewhere. Each of its Peers has a TCP connection of
// its own to the server's address, and Begin waits for the reply. The Site's fields for exports,
// state and the RPC server are nil. Peers with a Principal need the Site's Realm.
func Far(t testing.TB, server netip.AddrPort) *Site { return &Site{T: t, server: server} }

// patience is the longest time that a test waits for an event. The event happens much earlier
// unless the test fails.
const patience = time.Minute

// A wireTo is a connection to a server elsewhere. It makes one call at a time.
type wireTo struct {
	xid *atomic.Uint32
	// proven has the GSS contexts made on this connection, by principal.
	proven map[string]*gss.Client
	// over, unless nil, is the connection, over RDMA.
	over *rdma.Client

	mu   sync.Mutex
	conn net.Conn
}

func (s *Site) farPeer(minor uint32, machine byte) *Peer {
	s.T.Helper()
	if s.version2 {
		return &Peer{Site: s, Minor: minor, far: &wireTo{xid: &s.xid, over: s.dialVersion2()}}
	}
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, machine)}}
	conn, err := dialer.Dial("tcp", s.server.String())
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { conn.Close() })
	return &Peer{Site: s, Minor: minor, far: &wireTo{xid: &s.xid, conn: conn}}
}

// Hangup closes the connection of a Peer of a Far Site.
func (p *Peer) Hangup() {
	if p.far.over != nil {
		p.far.over.Close()
	} else {
		p.far.conn.Close()
	}
}

// begin sends a message to the server and waits for the reply. If the server closes the connection
// instead, the returned call is marked as dropped.
func (w *wireTo) begin(p *Peer, message []byte) *rpctest.Call {
	p.T.Helper()
	c := rpctest.NewCall(nil, message)
	c.Header.XID = binary.BigEndian.Uint32(message)
	if p.Principal != "" {
		c.End, c.Reply = rpctest.Sent, w.prove(p, message)
		c.Done <- struct{}{}
		return c
	}
	reply, err := w.exchange(message)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		c.End = rpctest.Dropped
	case err != nil:
		p.T.Fatal(err)
	default:
		c.End, c.Reply = rpctest.Sent, reply
	}
	c.Done <- struct{}{}
	return c
}

// exchange sends a record and reads the next one (RFC 5531 §11).
func (w *wireTo) exchange(message []byte) (reply []byte, err error) {
	if w.over != nil {
		return w.carry(message)
	}
	const last = 1 << 31
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn.SetDeadline(time.Now().Add(patience))
	var mark [4]byte
	binary.BigEndian.PutUint32(mark[:], last|uint32(len(message)))
	record := net.Buffers{mark[:], message}
	if _, err = record.WriteTo(w.conn); err != nil {
		return nil, err
	}
	for {
		if _, err = io.ReadFull(w.conn, mark[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(mark[:])
		at := len(reply)
		reply = append(reply, make([]byte, n&^last)...)
		if _, err = io.ReadFull(w.conn, reply[at:]); err != nil {
			return nil, err
		}
		if n&last != 0 {
			return reply, nil
		}
	}
}
