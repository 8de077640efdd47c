package server

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// The advice for a connection that failed for lack of memory names the limit that is too small. That for
// a client at the wrong port has the right mount options.
func TestAdviceForAConnectionNamesTheLimit(t *testing.T) {
	at := func(name, addr string) *running {
		return &running{transport: &transport{name: name}, listeners: []*listener{{addr: netip.MustParseAddrPort(addr)}}}
	}
	s := &Server{transports: []*running{at("rdma", "0.0.0.0:20050"), at("rdma", "[::]:20050"), at("tcp", "0.0.0.0:2050")}}
	for _, c := range []struct {
		err   error
		names string
	}{
		{fmt.Errorf("96 KiB for messages: ibv_reg_mr: %w", syscall.ENOMEM), "memlock=-1:-1"},
		{fmt.Errorf("672 KiB for messages: %w", rdmacm.ErrNoMemory), "device_memory"},
		{rdmacm.ErrTimeout, "packets are lost"},
		{fmt.Errorf("%w: %w", rdmacm.ErrSetup, &doorway.Mistake{Speaks: doorway.RPC}), "-o proto=rdma,port=20050, or -o proto=tcp,port=2050"},
		{&doorway.Mistake{Speaks: doorway.MPA}, "proto=rdma,port=20050"},
		{&doorway.Mistake{Speaks: doorway.TLS}, "without TLS"},
		{&doorway.Mistake{Speaks: doorway.HTTP}, "health check"},
	} {
		if remedy := s.faultRemedy(c.err); !strings.Contains(remedy, c.names) {
			t.Errorf("%v: the advice is %q", c.err, remedy)
		}
	}
}
