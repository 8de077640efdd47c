package overtime

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// callsOfEach is the number of calls that each client of a crowd has under way.
const callsOfEach = 64

// A member is one client of a crowd. It makes MKDIR calls for callsOfEach different directories.
type member struct {
	at   netip.AddrPort
	way  way
	told map[uint32]wire.NFSStat3 // the status of the reply to each XID

	mu      sync.Mutex
	changed sync.Cond
	deaf    int // replies on connections with a smaller number are ignored
	number  int // number of the next connection
	greeted int // one more than the number of the latest connection on which hello was answered
}

// hello is the XID of a NULL call. Its reply grants credits.
const hello = 1 << 31

// An ear receives the replies of one connection.
type ear struct {
	*member
	number int
}

func (e ear) arrived(m []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	xid := binary.BigEndian.Uint32(m)
	if xid == hello {
		e.greeted = e.number + 1
		e.changed.Broadcast()
	}
	if e.number < e.deaf || xid == hello {
		return
	}
	d := xdr.NewDecoder(m)
	s := wire.NFS3ErrServerFault
	if _, _, err := rpc.ReadReply(d); err == nil {
		s = wire.NFSStat3(d.Uint32())
	}
	e.told[xid] = s
	e.changed.Broadcast()
}

func (ear) ended() {}

// connect makes a new connection and waits for the reply to hello.
func (m *member) connect(dial dialer) (err error) {
	m.number++
	if m.way, err = dial(m.at, ear{m, m.number - 1}); err != nil {
		return err
	}
	m.way.send(message("client", rpc.CallHeader{XID: hello, Program: wire.Program, Version: wire.Version}, func(*xdr.Writer) {}))
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.greeted < m.number {
		m.changed.Wait()
	}
	return nil
}

// send sends all calls over the present connection.
func (m *member) send(o *objects) {
	for i := range uint32(callsOfEach) {
		args := wire.Mkdir3Args{Where: wire.DirOpArgs3{Dir: wire.FileHandle3{Data: o.directories[1]},
			Name: wire.Filename3(fmt.Sprintf("%v %d", m.at.Addr(), i))}}
		h := rpc.CallHeader{XID: i, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcMkdir)}
		m.way.send(message("client", h, args.Encode))
	}
}

// If all clients of a crowd, each with 64 calls under way, lose their connections at once and
// send all calls again over new ones, the server executes no call twice and answers each.
func TestCrowdThatLosesAllConnectionsAtOnce(t *testing.T) {
	for _, over := range []string{"TCP", "RDMA"} {
		for _, done := range []string{"all was done", "a part was done"} {
			t.Run(over+", "+done, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { loseAll(t, over == "RDMA", done == "all was done") })
			})
		}
	}
}

func loseAll(t *testing.T, overRDMA, done bool) {
	n := int(number("OVERTIME_CLIENTS", 100))
	source := &dice{Rand: (&run{seed: 1}).random(ofDisk)}
	s, err := newSite(func() time.Duration { return 1 + source.upTo(100*time.Millisecond) }, rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var tr transport
	if overRDMA {
		tr, err = rdmaInMemory(s, rdma.Config{Credits: callsOfEach, StrangerCredits: callsOfEach})
	} else {
		tr = tcpInMemory(s, tcp.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	crowd := make([]*member, n)
	for i := range crowd {
		m := &member{at: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 700), told: make(map[uint32]wire.NFSStat3)}
		m.changed.L = &m.mu
		crowd[i] = m
	}
	all := func(f func(m *member)) {
		var g sync.WaitGroup
		for _, m := range crowd {
			g.Go(func() { f(m) })
		}
		g.Wait()
	}
	connect := func(m *member) {
		if err := m.connect(tr.dial); err != nil {
			t.Fatal(err)
		}
	}
	all(connect)
	all(func(m *member) {
		m.deaf = 1
		m.send(&s.objects)
	})
	release := func() {}
	if done {
		for s.rpc.Stats().InProgress > 0 {
			time.Sleep(time.Second)
		}
	} else {
		time.Sleep(time.Second)
		release = s.disk.stick() // until all calls are sent again
	}
	synctest.Wait()
	all(func(m *member) { m.way.reset() })
	synctest.Wait()
	time.AfterFunc(time.Second, release)
	all(func(m *member) {
		if m.at.Addr().As4()[3]%2 == 0 {
			m.at = netip.AddrPortFrom(m.at.Addr(), 701)
		}
		connect(m)
		m.send(&s.objects)
		m.mu.Lock()
		for len(m.told) < callsOfEach {
			m.changed.Wait()
		}
		m.mu.Unlock()
	})
	twice, others := 0, 0
	for _, m := range crowd {
		for _, s := range m.told {
			switch s {
			case wire.NFS3OK:
			case wire.NFS3ErrExist:
				twice++
			default:
				others++
			}
		}
		m.way.reset()
	}
	if twice > 0 || others > 0 {
		t.Errorf("%d of %d calls were executed twice, %d were answered otherwise", twice, n*callsOfEach, others)
	}
	t.Logf("%d clients: %+v", n, s.rpc.Stats().ReplyCache)
	tr.close()
	s.close()
}
