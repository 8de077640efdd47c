package overtime

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A way is the client's end of one connection to the server.
type way interface {
	// send sends one RPC message. It may block until the connection can take the message. After
	// the end of the connection it does nothing.
	send(message []byte)
	// half closes the sending direction: no more messages will come.
	half()
	// reset ends both directions of the connection at once.
	reset()
}

// A listener receives the messages that arrive on a way. Over RDMA, several goroutines may call
// arrived at the same time.
type listener interface {
	arrived(message []byte)
	// ended is called when the way receives no further message. Over RDMA, calls of arrived may
	// still be under way then.
	ended()
}

// A dialer connects from a client's address and port. Port 0 means any port. An error means that
// no connection can be made now.
type dialer func(from netip.AddrPort, l listener) (way, error)

// A tcpWay carries messages as records (RFC 5531 §11).
type tcpWay struct {
	net.Conn
	abort func()
}

// overTCP returns the way over a TCP connection, and starts a goroutine that passes each message
// that arrives to l. The function abort resets the connection.
func overTCP(c net.Conn, abort func(), l listener) *tcpWay {
	w := &tcpWay{c, abort}
	go w.receive(l)
	return w
}

const lastFragment = 1 << 31

func (w *tcpWay) send(m []byte) {
	w.Write(append(binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(m))), m...))
}

func (w *tcpWay) half()  { w.Conn.(interface{ CloseWrite() error }).CloseWrite() }
func (w *tcpWay) reset() { w.abort() }

func (w *tcpWay) receive(l listener) {
	defer l.ended()
	for {
		var message []byte
		for last := false; !last; {
			var mark [4]byte
			if _, err := io.ReadFull(w, mark[:]); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(mark[:])
			last = n&lastFragment != 0
			fragment := make([]byte, n&^lastFragment)
			if _, err := io.ReadFull(w, fragment); err != nil {
				return
			}
			message = append(message, fragment...)
		}
		l.arrived(message)
	}
}

// An rdmaWay sends messages inline, in RDMA_MSG (RFC 8166 §3.5), as many at a time as the server
// has granted credits.
type rdmaWay struct {
	listener
	conn rdmacm.Conn

	mu       sync.Mutex
	credited sync.Cond
	granted  int
	used     int
	over     bool
}

// inline is the length of the largest message of either side, in bytes.
const inline = 4096

// most is the number of credits that an rdmaWay asks for.
const most = 64

// overRDMA returns the way over the RDMA connection that the function connect makes.
func overRDMA(connect func(p rdmacm.ConnParam) (rdmacm.Conn, error), l listener) (*rdmaWay, error) {
	w := &rdmaWay{listener: l, granted: 1}
	w.credited.L = &w.mu
	var err error
	private := make([]byte, wire.PrivateDataSize)
	wire.PrivateData{SendSize: inline, ReceiveSize: inline}.Put(private)
	w.conn, err = connect(rdmacm.ConnParam{PrivateData: private, Handler: w, Receives: most + 8, ReceiveSize: inline, InboundReads: 8})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *rdmaWay) send(m []byte) {
	w.mu.Lock()
	for !w.over && w.used >= w.granted {
		w.credited.Wait()
	}
	over := w.over
	w.used++
	w.mu.Unlock()
	if over {
		return
	}
	// Three empty lists of chunks follow the prefix.
	b := make([]byte, wire.PrefixSize+12, wire.PrefixSize+12+len(m))
	wire.Prefix{XID: binary.BigEndian.Uint32(m), Version: 1, Credits: most, Proc: wire.ProcMsg}.Put(b)
	b = append(b, m...)
	w.conn.Post(&rdmacm.Chain{Work: []rdmacm.Work{{Op: rdmacm.OpSend, Local: [][]byte{b}}}, Done: func(*rdmacm.Chain, error, int) {}})
	w.conn.Flush()
}

func (w *rdmaWay) half()  { w.conn.Disconnect() }
func (w *rdmaWay) reset() { w.conn.Abort(nil) }

// Received implements rdmacm.Handler.
func (w *rdmaWay) Received(r *rdmacm.Recv) {
	var h wire.Header
	var m []byte
	err := h.Parse(r.Bytes)
	if err == nil && h.Proc == wire.ProcMsg {
		m = append(m, r.Bytes[h.Size:]...)
	}
	r.Release()
	w.conn.Provide(1, inline)
	w.mu.Lock()
	w.used--
	if err == nil {
		w.granted = min(int(h.Credits), most)
	}
	w.credited.Broadcast()
	w.mu.Unlock()
	if m != nil {
		go w.arrived(m) // in a goroutine of its own, because it may block
	}
}

// Closed implements rdmacm.Handler.
func (w *rdmaWay) Closed(error) {
	w.mu.Lock()
	w.over = true
	w.credited.Broadcast()
	w.mu.Unlock()
	w.ended()
}
