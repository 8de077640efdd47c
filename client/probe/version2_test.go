package probe_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The report names the versions of RPC-over-RDMA that the server speaks, and the properties that it announces
// in version 2.
func TestProbeVersions(t *testing.T) {
	s := testserver.Start(t)
	for _, version2 := range []bool{false, true} {
		server, err := rdma.NewServer(rdma.Config{RPC: s.RPC, Pool: s.Pool, InlineSend: 8192, InlineReceive: 16384, Version2: version2})
		must(t, err)
		device := rdmatest.NewConfig(rdmatest.Config{Quiet: true})
		l, err := device.Listen(testserver.Loopback)
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		p := ask(t, client.Target{Transport: client.RDMA, Host: l.Addr().Addr().String(), Port: int(l.Addr().Port()), Provider: device})
		server.Close()
		<-ended
		var text bytes.Buffer
		p.Print(&text)
		x := p.Transports[0].RPCRDMA
		if x == nil {
			t.Fatalf("printed\n%s", text.String())
		}
		if !version2 {
			if !slices.Equal(x.Versions, []int{1}) || x.Version2 != nil || !strings.Contains(text.String(), "version 1\n") || len(p.Transports[0].Notes) > 0 {
				t.Errorf("a server of version 1 alone: %+v, printed\n%s", x, text.String())
			}
			continue
		}
		if !slices.Equal(x.Versions, []int{1, 2}) || !strings.Contains(text.String(), "versions 1, 2\n") {
			t.Errorf("a server of both versions: %+v, printed\n%s", x, text.String())
		}
		if v := x.Version2; v == nil || v.Send != 8192 || v.Receive != 16384 || v.Segments == 0 || v.Segment == 0 || v.Permitted == 0 {
			t.Errorf("properties %+v", x.Version2)
		}
		if !strings.Contains(text.String(), "up to 16384 bytes received, 8192 sent") {
			t.Errorf("printed\n%s", text.String())
		}
	}
}

// A server that says nothing to a proposal of version 2 is not left out of the report: clients have to know.
func TestProbeSilenceAboutVersion2(t *testing.T) {
	target := answering(t, nil, func(call []byte) []byte {
		p, _ := wire.ParsePrefix(call)
		if p.Version != wire.Version1 {
			return []byte{}
		}
		b := make([]byte, 64)
		return b[:wire.ErrorBody{Code: wire.ErrVers, Low: 3, High: 3}.Put(b, p)]
	})
	p := probe.Run(testserver.Within(t), probe.Config{
		Host: target.Host, Port: target.Port, Provider: target.Provider, Transports: []client.Transport{client.RDMA}, Timeout: 500 * time.Millisecond,
	})
	if x := p.Transports[0]; len(x.RPCRDMA.Versions) != 0 || !strings.Contains(strings.Join(x.Notes, " "), "does not answer a client that proposes") {
		t.Errorf("versions %v, notes %q", x.RPCRDMA.Versions, x.Notes)
	}
}
