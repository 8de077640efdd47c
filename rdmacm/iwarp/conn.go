package iwarp

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A Conn is a connection in full operation. It implements rdmacm.Conn with its three parts and
// the memory that it exposes (see "Parts and locks" in the package comment). Each of them embeds
// the Conn. The fields before the parts do not change after the set-up.
type Conn struct {
	p           *Provider
	sock        *net.TCPConn
	raw         syscall.RawConn
	handler     rdmacm.Handler
	agreed      agreement
	responder   bool
	depth       int // the largest number of RDMA Reads that the ULP may have outstanding
	peer, local netip.AddrPort
	private     []byte

	life    lifecycle
	tx      transmitter
	rx      receiver
	regions regions
}

var _ rdmacm.Conn = (*Conn)(nil)

// An agreement holds the parameters that the two sides of a connection agreed on.
type agreement struct {
	rdmacm.MPA
	// rtr is the form of the ready-to-receive message. On the responder's side it lists the
	// allowed forms.
	rtr wire.RTR
}

func newConn(p *Provider, sock *net.TCPConn, param *rdmacm.ConnParam, agreed agreement, private []byte) (*Conn, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		p: p, sock: sock, raw: raw, agreed: agreed,
		depth: min(agreed.ORD, param.OutboundReads),
		peer:  addrPort(sock.RemoteAddr()), local: addrPort(sock.LocalAddr()),
		private: private,
	}
	return c, c.init(param)
}

// init prepares the parts of the connection.
func (c *Conn) init(param *rdmacm.ConnParam) error {
	c.handler = param.Handler
	c.life.Conn, c.tx.Conn, c.rx.Conn, c.regions.Conn = c, c, c, c
	c.regions.all = make(map[*region]struct{})
	c.life.seat, c.life.done = rdmacm.Uncounted, make(chan struct{})
	c.rx.ready, c.rx.lent.Address = c.rx.readReady, clientaddr.Of(c.peer.Addr())
	c.Provide(param.Receives, param.ReceiveSize)
	return c.tx.init()
}

func (c *Conn) Peer() netip.AddrPort    { return c.peer }
func (c *Conn) Local() netip.AddrPort   { return c.local }
func (c *Conn) PeerPrivateData() []byte { return c.private }
func (c *Conn) Done() <-chan struct{}   { return c.life.done }

// rtrNames are the names of the forms of the ready-to-receive message (RFC 6581 §9.2).
var rtrNames = map[wire.RTR]string{wire.RTRSend: "send", wire.RTRWrite: "write", wire.RTRRead: "read"}

// Carrier implements rdmacm.Conn.
func (c *Conn) Carrier() rdmacm.Carrier {
	m := c.agreed.MPA
	if m.PeerToPeer {
		m.RTR = rtrNames[c.agreed.rtr]
	}
	return rdmacm.Carrier{Provider: c.p.Name(), Protocol: "iWARP", MPA: &m}
}

// Limits implements rdmacm.Conn. All connections have the same limits.
func (c *Conn) Limits() rdmacm.Limits { return c.p.Limits() }

// Register implements rdmacm.Conn.
func (c *Conn) Register(memory []byte, access rdmacm.Access) (rdmacm.Region, error) {
	return c.regions.register(memory, access)
}

// Disconnect closes the connection when all posted work is done and the peer has closed its half,
// and ends it after StallTimeout at the latest.
func (c *Conn) Disconnect() {
	c.life.limit(limitEnd, c.p.cfg.StallTimeout, rdmacm.ErrTimeout)
	c.tx.leave()
}

// Abort ends the connection at once, with err as the reason, or rdmacm.ErrAborted if err is nil.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = rdmacm.ErrAborted
	}
	c.life.end(err, true)
}
