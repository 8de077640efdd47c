package server

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A listener that takes a connection and says nothing is stuck, over either transport, and the
// log says which. One that refuses connections is not: too many clients are no reason to end.
func TestOnlySilenceIsNoSignOfLife(t *testing.T) {
	for _, name := range []string{"tcp", "rdma"} {
		core, log := observer.New(zapcore.DebugLevel)
		s := &Server{log: zap.New(core), cfg: &Config{NFS: NFSConfig{Versions: []Choice{"3"}}}}
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
