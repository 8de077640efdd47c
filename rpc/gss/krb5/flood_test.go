package krb5

import (
	"bufio"
	stdcontext "context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// fromOne is Config.MaxPerAddress of the server.
const fromOne = 4096

// A flood is a server over TCP, and a client address that sends it many calls that make contexts.
type flood struct {
	testing.TB
	kdc    *testKDC
	ticket *ticket
	gss    *gss.Server
	addr   string
	// answered counts the replies to the flood's calls. made counts those of its calls that made a
	// context.
	answered, made atomic.Int64
}

func newFlood(t testing.TB) *flood {
	now := time.Now()
	f := &flood{TB: t}
	f.kdc, f.ticket = freshTicket(t, func(p *messages.EncTicketPart) {
		p.AuthTime, p.StartTime, p.EndTime = now.Add(-time.Hour), now.Add(-time.Hour), now.Add(time.Hour)
	})
	f.ticket.end = now.Add(time.Hour)
	f.gss = gss.New(gss.Config{Mechanisms: []gss.Mechanism{f.kdc.acceptor()}, MaxPerAddress: fromOne})
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	calls, program := rpc.NewServer(rpc.Config{}), rpctest.NewProgram()
	calls.Register(program)
	calls.Protect(rpc.AuthGSS, f.gss)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	transport := tcp.NewServer(tcp.Config{RPC: calls, Pool: pool})
	served := make(chan error, 1)
	go func() { served <- transport.Serve(l) }()
	t.Cleanup(func() {
		transport.Close()
		<-served
		calls.Close()
		f.gss.Close()
		program.Wait()
		pool.Close()
	})
	return f
}

// token returns a new AP-REQ.
func (f *flood) token() []byte {
	i := &initiator{config: &Config{}, ticket: f.ticket, tickets: new(tickets)}
	token, _, err := i.Step(nil, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	return token
}

// initCall returns a TCP record with a call that makes a context from token.
func initCall(token []byte) []byte {
	w := xdr.NewWriter(make([]byte, 0, 128+len(token)))
	w.Uint32(0) // space for the record mark
	for _, v := range []uint32{7, 0, 2, rpctest.Number, rpctest.LowVersion, 0, uint32(rpc.AuthGSS), 20, 1, 1, 0, 1, 0, 0, 0} {
		w.Uint32(v)
	}
	w.Opaque(token)
	b := w.Bytes()
	binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4))
	return b
}

// send sends n calls on a connection without waiting for replies, and reads the replies.
func (f *flood) send(call func(i int) []byte, n int) {
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.Error(err)
		return
	}
	defer conn.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		out := bufio.NewWriterSize(conn, 64<<10)
		for i := range n {
			if _, err := out.Write(call(i)); err != nil {
				f.Error(err)
				return
			}
		}
		if err := out.Flush(); err != nil {
			f.Error(err)
		}
	})
	defer wg.Wait()
	in := bufio.NewReader(conn)
	record := make([]byte, 4096)
	for range n {
		if _, err := io.ReadFull(in, record[:4]); err != nil {
			f.Error(err)
			return
		}
		reply := record[:binary.BigEndian.Uint32(record)&^(1<<31)]
		if _, err := io.ReadFull(in, reply); err != nil {
			f.Error(err)
			return
		}
		d := xdr.NewDecoder(reply)
		if _, _, err := rpc.ReadReply(d); err != nil {
			f.Error(err)
			return
		}
		d.Opaque(400)
		if d.Uint32() == 0 {
			f.made.Add(1)
		}
		f.answered.Add(1)
	}
}

// honest returns a client at another address.
func (f *flood) honest() (*tcp.Conn, *gss.Client) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := tcp.Dial(f.Context(), f.addr, tcp.DialConfig{Dial: from.DialContext})
	if err != nil {
		f.Fatal(err)
	}
	m := New(Config{Keytab: f.kdc.path})
	m.tickets.put(&ticket{Ticket: f.ticket.Ticket, session: f.ticket.session, end: f.ticket.end, client: f.ticket.client, realm: f.ticket.realm, server: principalText([]string{"nfs", testHost}, "")})
	c, err := gss.NewClient(f.Context(), conn, gss.ClientConfig{
		Mechanism: m, Target: target, Service: rpc.GSSIntegrity, Program: rpctest.Number, Version: rpctest.LowVersion})
	if err != nil {
		f.Fatal(err)
	}
	return conn, c
}

func bump(ctx stdcontext.Context, k rpc.Caller) error {
	x := rpctest.NewExchange(rpctest.BUMP, func(w *xdr.Writer) { w.Opaque([]byte("tag")) })
	return rpc.Do(ctx, k, x, nil)
}

// One address makes 100,000 calls with new AP-REQs, repeated ones and garbage. A client at another
// address still gets answers, under its context and for new contexts, because the executor serves
// connections in turn. The memory that the flood leaves in use is bounded.
func TestFloodOfContexts(t *testing.T) {
	calls := 100_000
	if raceEnabled || testing.Short() {
		calls = 8_000
	}
	const connections = 20
	f := newFlood(t)
	conn, old := f.honest()
	defer conn.Close()
	defer old.Close()

	fresh := make([][]byte, calls/20)
	for i := range fresh {
		fresh[i] = initCall(f.token())
	}
	bad := f.token()
	bad[len(bad)/2] ^= 1
	garbage := initCall(bad)
	before := heap()
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() {
			// Of twenty calls, one has a new token, three repeat that token, and the others are
			// garbage.
			f.send(func(i int) []byte {
				if i%20 < 4 {
					return fresh[c+connections*(i/20)]
				}
				return garbage
			}, calls/connections)
		})
	}
	var served atomic.Int64
	wg.Go(func() {
		for f.answered.Load() < int64(calls) && served.Load() < 1_000 && !t.Failed() {
			if err := bump(t.Context(), old); err != nil {
				t.Error(err)
			}
			served.Add(1)
		}
	})
	var waited, most int64
	rounds := int64(0)
	for f.answered.Load() < int64(calls) && rounds < 20 {
		at := f.answered.Load()
		conn, k := f.honest()
		n := f.answered.Load() - at
		waited, most, rounds = waited+n, max(most, n), rounds+1
		for _, k := range []*gss.Client{old, k} {
			if err := bump(t.Context(), k); err != nil {
				t.Errorf("after %d calls: %v", at, err)
			}
		}
		k.Close()
		conn.Close()
		if t.Failed() {
			break
		}
	}
	wg.Wait()
	grown := heap() - before
	runtime.KeepAlive(fresh)
	st := f.gss.Stats()
	t.Logf("%d contexts made, %d kept, %d bytes more in use; %d honest contexts, in the time of %d calls each, %d at most; %d honest calls",
		f.made.Load(), st.Contexts, grown, rounds, waited/max(rounds, 1), most, served.Load())
	if int(f.made.Load()) != len(fresh) || st.Contexts > fromOne+1 {
		t.Errorf("%d contexts were made, %d are kept", f.made.Load(), st.Contexts)
	}
	if !raceEnabled && !testing.Short() && rounds < 5 {
		t.Errorf("%d honest contexts were made meanwhile", rounds)
	}
	if grown > 48<<20 {
		t.Errorf("%d bytes more are in use", grown)
	}
}
