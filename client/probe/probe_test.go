package probe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

func ask(t *testing.T, target client.Target) *probe.Report {
	return probe.Run(testserver.Within(t), probe.Config{
		Host: target.Host, Port: target.Port, Provider: target.Provider,
		Transports: []client.Transport{target.Transport}, Timeout: testserver.Patience, RoundTrips: 3,
	})
}

func TestProbeOurselves(t *testing.T) {
	s := testserver.Start(t)
	for name, target := range s.Targets() {
		t.Run(name, func(t *testing.T) {
			p := ask(t, target)
			if !p.Serves(true) || p.Transports[0].Fault != "" {
				t.Fatalf("found %+v", p)
			}
			if len(p.Exports) != 1 || p.Exports[0].Path != "/x" {
				t.Errorf("exports are %v, %s", p.Exports, p.ExportsFault)
			}
			x := p.Transports[0]
			if want := net.JoinHostPort(target.Host, fmt.Sprint(target.Port)); x.Transport != target.Transport || x.Address != want {
				t.Errorf("the report is of %v at %s, want %v at %s", x.Transport, x.Address, target.Transport, want)
			}
			if len(x.Programs) != 2 || x.Programs[0].Number != 100003 || x.Programs[0].Low != 3 || x.Programs[0].High != 3 || x.Programs[0].Versions[0] != 3 {
				t.Errorf("programs are %+v", x.Programs)
			}
			if x.RoundTrip == nil || x.RoundTrip.Calls != 3 || x.RoundTrip.Min <= 0 {
				t.Errorf("round trips are %+v", x.RoundTrip)
			}
			if target.Transport == client.RDMA {
				if r := x.RPCRDMA; r == nil || !r.PrivateData || r.InlineSend != 4096 || !r.RemoteInvalidation || r.Credits != rdma.DefaultStrangerCredits {
					t.Errorf("RPC-over-RDMA is %+v", r)
				}
			}
			if w := x.IWARP; (w != nil) != (name == "iwarp") || w != nil && (w.Revision != 2 || !w.Enhanced || !w.CRC || w.PeerIRD <= 0) {
				t.Errorf("iWARP is %+v", w)
			}
			var text bytes.Buffer
			p.Print(&text)
			if !strings.Contains(text.String(), "/x") {
				t.Errorf("printed\n%s", text.String())
			}
		})
	}
}

// The probe gets a server's NFSv4 properties in its highest minor version.
func TestProbeNFS4(t *testing.T) {
	for _, c := range []struct {
		name   string
		minors []int
		want   probe.NFS4
		text   string
	}{
		{"4.0", []int{0}, probe.NFS4{Lease: 90}, "lease 90 s"},
		{"4.1", []int{0, 1}, probe.NFS4{Minor: 1, Lease: 90, OwnerMajor: "testserver", Scope: "test"}, "testserver, minor 0; scope test"},
		{"4.2", nil, probe.NFS4{Minor: 2, Lease: 90, OwnerMajor: "testserver", Scope: "test"}, "testserver, minor 0; scope test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testserver.Start(t)
			s.ServeNFS4(t, 90*time.Second, c.minors...)
			for name, target := range s.Targets() {
				p := ask(t, target)
				got := p.Transports[0].NFS4
				if got == nil || (got.Slots == 0) != (c.want.Minor == 0) || (got.Request == 0) != (c.want.Minor == 0) || (got.Response == 0) != (c.want.Minor == 0) {
					t.Fatalf("%s: %+v, %q", name, got, p.Transports[0].Notes)
				}
				was := *got
				was.Slots, was.Request, was.Response, was.Flavors = 0, 0, 0, nil
				if known := len(got.Flavors) > 0; known != (c.want.Minor > 0) {
					t.Errorf("%s: flavors %v of the root", name, got.Flavors)
				}
				if !reflect.DeepEqual(was, c.want) {
					t.Errorf("%s: %+v", name, was)
				}
				var text bytes.Buffer
				p.Print(&text)
				if !strings.Contains(text.String(), c.text) {
					t.Errorf("%s: printed\n%s", name, text.String())
				}
			}
		})
	}
}

// serveTCP runs a TCP server that does not speak NFS.
func serveTCP(t *testing.T, f func(c net.Conn)) client.Target {
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	a := l.Addr().(*net.TCPAddr)
	return client.Target{Transport: client.RDMA, Host: a.IP.String(), Port: a.Port}
}

// greet is a TCP service that sends before the client does, such as mail.
func greet(c net.Conn) {
	io.WriteString(c, "220 mail.example.org ready for what you have to say\r\n")
	c.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, c)
}

// The report has a sentence for each usual fault.
func TestProbeFaults(t *testing.T) {
	closed := serveTCP(t, func(net.Conn) {})
	// No server listens on a port that was free a moment ago.
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	free := l.Addr().(*net.TCPAddr).Port
	l.Close()

	s := testserver.Start(t)
	plain := s.Targets()["tcp"]
	plain.Transport = client.RDMA
	wrong := s.Targets()["iwarp"]
	wrong.Transport = client.TCP

	over := func(target client.Target, t client.Transport) client.Target {
		target.Transport = t
		return target
	}
	for name, c := range map[string]struct {
		target client.Target
		say    string
	}{
		"closed port, RDMA":     {client.Target{Transport: client.RDMA, Host: "127.0.0.1", Port: free}, "Nothing listens on 127.0.0.1:"},
		"closed port, TCP":      {client.Target{Transport: client.TCP, Host: "127.0.0.1", Port: free}, "Nothing listens on 127.0.0.1:"},
		"service that greets":   {serveTCP(t, greet), "does not speak iWARP"},
		"service that closes":   {closed, "does not speak iWARP"},
		"NFS over TCP":          {plain, "does not speak iWARP"},
		"RPC to a greeting":     {over(serveTCP(t, greet), client.TCP), "does not speak RPC"},
		"RPC to an RDMA port":   {wrong, "does not speak RPC"},
		"name that is nobody's": {client.Target{Transport: client.TCP, Host: "nobody.invalid"}, "cannot be resolved"},
	} {
		t.Run(name, func(t *testing.T) {
			p := ask(t, c.target)
			if x := p.Transports[0]; p.Serves(false) || !strings.Contains(x.Fault, c.say) || x.Detail == "" {
				t.Errorf("says %q (%s)", x.Fault, x.Detail)
			}
			var text bytes.Buffer
			p.Print(&text)
			if !strings.Contains(text.String(), c.say) {
				t.Errorf("printed\n%s", text.String())
			}
		})
	}
}

// If a server accepts the connection and sends nothing, the report says so after Timeout.
func TestProbeSilence(t *testing.T) {
	for _, transport := range []client.Transport{client.TCP, client.RDMA} {
		target := serveTCP(t, func(c net.Conn) { io.Copy(io.Discard, c) })
		p := probe.Run(testserver.Within(t), probe.Config{
			Host: target.Host, Port: target.Port, Transports: []client.Transport{transport}, Timeout: 50 * time.Millisecond,
		})
		if x := p.Transports[0]; x.NFS || !strings.Contains(x.Fault, "in time") {
			t.Errorf("%s: says %q (%s)", transport, x.Fault, x.Detail)
		}
	}
}

// listen runs an RDMA listener that calls f for each request.
func listen(t *testing.T, p rdmacm.Provider, f func(r rdmacm.Request)) client.Target {
	l, err := p.Listen(testserver.Loopback)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			r, err := l.Accept()
			if err != nil {
				return
			}
			f(r)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	target := client.Target{Transport: client.RDMA, Host: l.Addr().Addr().String(), Port: int(l.Addr().Port())}
	if _, ok := p.(*iwarp.Provider); !ok {
		target.Provider = p
	}
	return target
}

func TestProbeRejectingListener(t *testing.T) {
	device, err := iwarp.New(iwarp.Config{})
	must(t, err)
	for _, p := range []rdmacm.Provider{device, rdmatest.New()} {
		private := make([]byte, wire.PrivateDataSize)
		wire.PrivateData{SendSize: 2048, ReceiveSize: 1024}.Put(private)
		for _, c := range []struct {
			private []byte
			say     string
		}{{nil, "rejected the connection."}, {private, "inline sizes 2048 and 1024"}} {
			target := listen(t, p, func(r rdmacm.Request) { r.Reject(c.private) })
			if x := ask(t, target).Transports[0]; x.NFS || !strings.Contains(x.Fault, c.say) {
				t.Errorf("%s: says %q (%s)", p.Name(), x.Fault, x.Detail)
			}
		}
	}
}

// A responder is an RDMA peer that answers each message with the result of answer. If that is
// nil, it ends the connection, and if it is empty, the responder says nothing.
type responder struct {
	conn   rdmacm.Conn
	ready  chan struct{}
	answer func(call []byte) []byte
}

func (h *responder) Received(r *rdmacm.Recv) {
	call := bytes.Clone(r.Bytes)
	r.Release()
	<-h.ready
	h.conn.Provide(1, 1024)
	reply := h.answer(call)
	if reply != nil && len(reply) == 0 {
		return
	}
	if reply == nil {
		h.conn.Abort(errors.New("test: had enough"))
		return
	}
	chain := &rdmacm.Chain{
		Work: []rdmacm.Work{{Op: rdmacm.OpSend, Local: [][]byte{reply}}},
		Done: func(*rdmacm.Chain, error, int) {},
	}
	h.conn.Post(chain)
}
func (h *responder) Closed(error) {}

func answering(t *testing.T, private []byte, answer func(call []byte) []byte) client.Target {
	return listen(t, rdmatest.New(), func(r rdmacm.Request) {
		h := &responder{ready: make(chan struct{}), answer: answer}
		c, err := r.Accept(rdmacm.ConnParam{PrivateData: private, Handler: h, Receives: 4, ReceiveSize: 1024})
		if err == nil {
			h.conn = c
			close(h.ready)
		}
	})
}

// The report names the versions of a server that speaks another version of RPC-over-RDMA, and
// tells that a server ended the connection.
func TestProbeForeignRPCRDMA(t *testing.T) {
	target := answering(t, nil, func(call []byte) []byte {
		p, _ := wire.ParsePrefix(call)
		b := make([]byte, 64)
		return b[:wire.ErrorBody{Code: wire.ErrVers, Low: 2, High: 3}.Put(b, p)]
	})
	x := ask(t, target).Transports[0]
	if x.NFS || !strings.Contains(x.Fault, "offers 2 to 3") {
		t.Errorf("says %q (%s)", x.Fault, x.Detail)
	}
	if x.RPCRDMA == nil || x.RPCRDMA.PrivateData || x.RPCRDMA.CallLimit != 1024 {
		t.Errorf("RPC-over-RDMA is %+v", x.RPCRDMA)
	}
	if len(x.Notes) == 0 || !strings.Contains(x.Notes[0], "no RPC-over-RDMA private data") {
		t.Errorf("notes are %q", x.Notes)
	}
	x = ask(t, answering(t, nil, func([]byte) []byte { return nil })).Transports[0]
	if x.NFS || !strings.Contains(x.Fault, "ended the connection") {
		t.Errorf("says %q (%s)", x.Fault, x.Detail)
	}
}

// Scripts read the JSON keys, so they do not change.
func TestProbeKeys(t *testing.T) {
	s := testserver.Start(t)
	b, err := json.Marshal(ask(t, s.Targets()["iwarp"]))
	must(t, err)
	for _, key := range []string{
		"host", "transports", "exports", "transport", "address", "nfs", "connect_ns", "iwarp", "mpa_revision", "enhanced",
		"crc", "markers", "peer_ird", "peer_ord", "ird", "ord", "peer_to_peer", "rtr", "rpcrdma", "private_data", "inline_send",
		"inline_receive", "call_limit", "reply_limit", "remote_invalidation", "credits", "programs", "program", "name",
		"versions", "low", "high", "round_trip", "calls", "min_ns", "median_ns", "max_ns", "path", "groups",
	} {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no key %s in %s", key, b)
		}
	}
}
