package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// A connection reserves memory for all the messages that it can have, and releases it when it
// ends. The provider refuses a connection for which too little memory is left, and a connection
// of a client that already has its part of all. The error says so. A refused connection reserves
// nothing.
func TestMessagesKeepToTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		var refused []error
		server := limited(t, verbs.Config{Library: d, Memory: 1 << 40, Event: func(e rdmacm.Event) {
			if e.Kind == rdmacm.EventSetupFailed {
				refused = append(refused, e.Err)
			}
		}})
		l := listen(t, server)
		defer l.Close()
		param := peerParam().ConnParam
		param.Handler = handler{}
		connect := func(from *verbs.Provider) (near, far rdmacm.Conn, err error) {
			accepted := make(chan rdmacm.Conn, 1)
			go func() {
				r, err := l.Accept()
				if err != nil {
					accepted <- nil
					return
				}
				c, _ := r.Accept(param)
				accepted <- c
			}()
			near, err = from.Dial(context.Background(), l.Addr(), param)
			return near, <-accepted, err
		}
		end := func(all ...rdmacm.Conn) {
			for _, c := range all {
				c.Disconnect()
			}
			for _, c := range all {
				<-c.Done()
			}
			synctest.Wait()
		}

		client := limited(t, verbs.Config{Library: d})
		near, far, err := connect(client)
		if err != nil {
			t.Fatal(err)
		}
		s := server.Stats()
		if len(s.Devices) != 1 || s.Devices[0].Connections != 1 || s.Devices[0].Name != "fake0" || s.Devices[0].MaxConnections == 0 || s.MemoryLimit != 1<<40 {
			t.Errorf("with a connection: %+v", s)
		}
		each := s.Memory
		if each == 0 || client.Stats().Memory != each {
			t.Errorf("the sides take %d and %d bytes", each, client.Stats().Memory)
		}
		end(near, far)
		if s := server.Stats(); s.Memory != 0 || s.Devices[0].Connections != 0 {
			t.Errorf("without connections: %+v", s)
		}

		// The server's memory suffices for two connections. Both would come from one client
		// address, which may have nine sixteenths.
		small := limited(t, verbs.Config{Library: d, Memory: 2 * each})
		near, far, err = connect(small)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := small.Dial(context.Background(), l.Addr(), param); !errors.Is(err, rdmacm.ErrNoMemory) {
			t.Errorf("a second connection of one client: %v", err)
		}
		if got := small.Stats().Memory; got != each {
			t.Errorf("a refused connection leaves %d bytes taken", got-each)
		}
		end(near, far)
		near, far, err = connect(small)
		if err != nil {
			t.Fatalf("memory does not come back: %v", err)
		}
		end(near, far)

		// The peer learns of the server's refusal by a rejection. The server reports it by an
		// event.
		none := limited(t, verbs.Config{Library: d, Memory: each - 1, Event: func(e rdmacm.Event) { refused = append(refused, e.Err) }})
		full := listen(t, none)
		defer full.Close()
		go func() {
			if r, err := full.Accept(); err == nil {
				if _, err := r.Accept(param); !errors.Is(err, rdmacm.ErrNoMemory) {
					t.Errorf("Accept returns %v", err)
				}
			}
		}()
		if _, err := client.Dial(context.Background(), full.Addr(), param); err == nil {
			t.Error("a connection without memory")
		}
		synctest.Wait()
		if len(refused) != 1 || !errors.Is(refused[0], rdmacm.ErrNoMemory) {
			t.Errorf("events of refusals: %v", refused)
		}
	})
}

// limited makes a provider and closes it at the end of the test.
func limited(t *testing.T, cfg verbs.Config) *verbs.Provider {
	p, err := verbs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A connection whose ULP keeps messages reserves memory for more buffers. What all connections have
// registered for messages never exceeds what they have reserved, nor Config.Memory. When there is no
// memory, messages are copied, and all arrive.
func TestKeptMessagesKeepToTheirMemory(t *testing.T) {
	const each = 96*4096 + 32*4096 // reserved at the beginning, with MaxReceives of 96
	for name, memory := range map[string]int64{"enough": 1 << 30, "short at once": 2 * each, "short later": 2*each + 400<<10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				var registered atomic.Int64
				d.FailRegister = func(length, _ int) error {
					registered.Add(int64(length))
					return nil
				}
				p := limited(t, verbs.Config{Library: d, Memory: memory})
				client := limited(t, verbs.Config{Library: d})
				l := listen(t, p)
				defer l.Close()
				var kept []*rdmacm.Recv
				keeping := peerParam()
				keeping.Receives, keeping.MaxReceives = 64, 96
				keeping.Received = func(p *rdmatest.Peer, m *rdmacm.Recv) {
					kept = append(kept, m)
					p.Promise(1)
				}
				accepted := make(chan *rdmatest.Peer)
				go func() { accepted <- rdmatest.AcceptPeer(t, l, keeping) }()
				a := rdmatest.DialPeer(t, client, l.Addr(), peerParam())
				b := <-accepted
				synctest.Wait()
				others := registered.Load() - 64*4096
				for i := range 512 {
					if err := a.Send(fmt.Appendf(nil, "message %d", i)); err != nil {
						t.Fatal(i, err)
					}
					synctest.Wait()
					has := p.Stats().Memory
					if used := registered.Load() - others; used > has || has > memory {
						t.Fatalf("%d bytes are registered, %d are reserved of %d", used, has, memory)
					}
				}
				for i, m := range kept {
					if want := fmt.Sprint("message ", i); string(m.Bytes) != want {
						t.Errorf("message %d became %q", i, m.Bytes)
					}
					m.Release()
				}
				if len(kept) != 512 {
					t.Errorf("%d messages of 512 have come", len(kept))
				}
				a.Conn().Disconnect()
				a.End()
				b.End()
				synctest.Wait()
				if has := p.Stats().Memory; has != 0 {
					t.Errorf("%d bytes stay reserved", has)
				}
			})
		})
	}
}
