package rdma

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A client that may use version 2 only never calls with version 1, whether the server refuses its proposal or
// ends the connection. It proposes again on each connection, because the server may speak version 2 by then.
func TestOnlyVersion2(t *testing.T) {
	for name, answer := range map[string][]byte{
		"refused": words(0xbad, 2, 1, 4, 1, 1, 1),
		"dropped": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := listening(t, rdmatest.Config{})
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
	b.connection().device.Abort(errors.New("the network fails"))
	if err := do(t, k, null(), nil); err != nil {
		t.Fatal(err)
	}
	if i, _ := k.Info(); i.Version != 2 {
		t.Errorf("the next connection has version %d", i.Version)
	}
}

// ended2 is the device of a connection that has ended.
type ended2 struct{ rdmacm.Conn }

func (ended2) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// A version that the server has accepted just before the connection ends is not lost.
func TestVersionBeforeTheEnd(t *testing.T) {
	k := &connection{messages: messages{device: ended2{}}}
	for range 64 {
		decided := make(chan uint32, 1)
		decided <- wire.Version2
		if version, silent := k.awaitVersion(t.Context(), decided); version != wire.Version2 || silent {
			t.Fatalf("version %d, silent %v", version, silent)
		}
	}
}

// A client proposes version 2 again although the connection of its proposal has ended: not every end says that the
// server does not know that version.
func TestProposalAfterAnEnd(t *testing.T) {
	s, _ := newScript2(t, DialConfig{Reconnect: true}, nil)
	if !s.client.versions.proposes() {
		t.Error("the client does not propose version 2 any more")
	}
}
