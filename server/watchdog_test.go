package server

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// The watchdog counts a listener as stuck, over either transport, if it accepts a connection and
// does not answer, and the log names it. A listener that refuses connections does not count as
// stuck, because too many clients are no reason to end the daemon.
func TestOnlySilenceIsNoSignOfLife(t *testing.T) {
	software, err := providers.Open(providers.IWARP, providers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	carriers := map[string]carrier{"tcp": &tcpCarrier{}, "rdma": &rdmaCarrier{providers: []providers.Provider{software}}}
	for name := range carriers {
		core, log := observer.New(zapcore.DebugLevel)
		s := &Server{log: zap.New(core), cfg: &config.Config{NFS: config.NFS{Versions: []string{"3"}}}}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr).AddrPort()
		s.transports = []*running{{transport: transportOf(name), carrier: carriers[name], listeners: []*listener{{addr: addr}}}}
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

// The watchdog does not call an address that this machine no longer has, for example a floating
// address, because another machine may have it now.
func TestAddressThatIsGoneIsNotAsked(t *testing.T) {
	gone := netip.MustParseAddrPort("192.0.2.1:2049") // RFC 5737
	if all := new(tcpCarrier).ways(gone); len(all) != 0 {
		t.Errorf("the daemon would ask at %v", all[0].at)
	}
}

// over is a carrier whose list of ways the test sets.
type over struct {
	carrier
	all []way
}

func (o *over) ways(netip.AddrPort) []way { return o.all }

// An RDMA device that cannot connect the machine to itself never answers, nor does one whose port
// is down. Neither shows that the daemon is stuck. The daemon is stuck if a device answered
// before and does not answer any more.
func TestSilenceOverADeviceCountsAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{log: zap.NewNop(), cfg: &config.Config{NFS: config.NFS{Versions: []string{"3"}}}}
		answering, goesDown := false, false
		port := &over{}
		up := []way{{by: providers.Verbs, at: netip.MustParseAddrPort("192.0.2.1:20049"), device: true, dial: func(ctx context.Context) (rpc.Client, error) {
			if answering {
				return answered{}, nil
			}
			<-ctx.Done()
			if goesDown {
				port.all = nil
			}
			return nil, ctx.Err()
		}}}
		s.transports = []*running{{transport: transportOf("rdma"), carrier: port, listeners: []*listener{{}}}}
		check := func(what string, want bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if got := s.answers(ctx); got != want {
				t.Errorf("%s: the daemon is alive: %v, want %v", what, got, want)
			}
		}
		check("no device", true)
		port.all = up
		check("a device that never answered", true)
		answering = true
		check("a device that answers", true)
		answering = false
		check("a device that answered before", false)
		goesDown = true
		check("a port that goes down", true)
		check("a port that is down", true)
	})
}

// answered is a client whose calls all succeed at once.
type answered struct{ rpc.Client }

func (answered) Start(x *rpc.Exchange) { x.Done(x) }
func (answered) Close()                {}
