package server

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// The server checks its registration with rpcbind once a minute and on request. If rpcbind
// cannot be reached, one line says so.
func TestRegistrationIsComparedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		s := &Server{log: zap.New(core), cfg: &config.Config{NFS: config.NFS{Versions: []string{"3"}}}}
		s.transports = []*running{
			{transport: transportOf("tcp"), listeners: []*listener{{addr: netip.MustParseAddrPort("127.0.0.1:2049")}}},
			{transport: transportOf("rdma")},
		}
		var asked atomic.Int32
		r := s.newRegistration()
		r.client.Dial = func(context.Context, string, string) (rpc.Client, error) {
			asked.Add(1)
			return nil, errors.New("no rpcbind")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.keep(ctx)
		}()
		const dials = 2 // one over the socket and one over the port
		for i := range 3 {
			time.Sleep(time.Minute)
			synctest.Wait()
			if asked.Load() != int32(i+1)*dials {
				t.Errorf("asked %d times within %d minutes", asked.Load()/dials, i+1)
			}
		}
		r.soon()
		synctest.Wait()
		if asked.Load() != 4*dials {
			t.Errorf("asked %d times in 3 minutes and once more", asked.Load()/dials)
		}
		if log.Len() != 1 {
			t.Errorf("%d lines: %v", log.Len(), log.All())
		}
		cancel()
		<-ended
		r.remove(t.Context())
		before := asked.Load()
		if r.compare(t.Context()); asked.Load() != before {
			t.Error("registered after the end")
		}
	})
}
