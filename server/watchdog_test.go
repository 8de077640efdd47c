package server

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A listener that accepts a connection and does not answer is stuck, over either transport,
// and the log names it. A listener that refuses connections is not stuck, because too many
// clients are no reason to end the daemon.
func TestOnlySilenceIsNoSignOfLife(t *testing.T) {
	for _, name := range []string{"tcp", "rdma"} {
		core, log := observer.New(zapcore.DebugLevel)
		s := &Server{log: zap.New(core), cfg: &config.Config{NFS: config.NFS{Versions: []config.Choice{"3"}}}}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr).AddrPort()
		s.transports = []*running{{transport: transportOf(name), listeners: []*listener{{addr: addr}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if s.answers(ctx) || log.Len() != 1 || log.All()[0].ContextMap()["address"] != addr.String() {
			t.Errorf("%s: silence is a sign of life: %v", name, log.All())
		}
		cancel()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if !s.answers(ended) {
			t.Errorf("%s: the end of the daemon is taken for silence", name)
		}
		l.Close()
		if !s.answers(t.Context()) {
			t.Errorf("%s: a refusal is taken for silence", name)
		}
	}
}

// An address that this machine has lost, for example a floating address, does not show that
// the daemon is stuck: another machine has it.
func TestAddressThatIsGoneIsNoSilence(t *testing.T) {
	core, log := observer.New(zapcore.DebugLevel)
	s := &Server{log: zap.New(core), cfg: &config.Config{NFS: config.NFS{Versions: []config.Choice{"3"}}}}
	silent := &transport{name: "tcp", dial: func(ctx context.Context, _ netip.AddrPort) (rpc.Client, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	gone := netip.MustParseAddrPort("192.0.2.1:2049") // RFC 5737
	s.transports = []*running{{transport: silent, listeners: []*listener{{addr: gone}}}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if !s.answers(ctx) || log.Len() != 0 {
		t.Errorf("silence of another machine is taken for the daemon's: %v", log.All())
	}
}
