package rdma

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
)

// A client that may use version 2 only never calls with version 1, whether the server refuses its proposal or
// ends the connection. It proposes again on each connection, because the server may speak version 2 by then.
func TestOnlyVersion2(t *testing.T) {
	for name, answer := range map[string][]byte{
		"refused": words(0xbad, 2, 1, 4, 1, 1, 1),
		"dropped": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, provider: rdmatest.NewConfig(rdmatest.Config{})}
			s.device = s.provider
			var err error
			if s.listener, err = s.device.Listen(netip.MustParseAddrPort("192.0.2.1:20049")); err != nil {
				t.Fatal(err)
			}
			defer s.listener.Close()
			done := make(chan error, 1)
			go func() {
				_, err := Dial(t.Context(), s.device, s.listener.Addr(), DialConfig{Version2: true, OnlyVersion2: true})
				done <- err
			}()
			s.p = s.accept(nil)
			s.p.Receive()
			if answer != nil {
				s.sendRaw(answer)
			} else {
				s.p.Conn().Abort(nil)
			}
			if err := ended(t, done); !errors.Is(err, ErrVersion2) {
				t.Errorf("Dial: %v", err)
			}
		})
	}

	b := newBench(t, benchConfig{server: Config{Version2: true}})
	k := b.dial(DialConfig{Version2: true, OnlyVersion2: true, Reconnect: true})
	k.versions.note(true) // as if an earlier server at the address had refused
	b.server.connections()[0].device.Abort(errors.New("the network fails"))
	if err := do(t, k, null(), nil); err != nil {
		t.Fatal(err)
	}
	if i, _ := k.Info(); i.Version != 2 {
		t.Errorf("the next connection has version %d", i.Version)
	}
}
