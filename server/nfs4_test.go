package server_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// session makes an NFSv4.2 session with the daemon over a transport.
func (d *daemon) session(t testing.TB, transport string, callbacks client.Callbacks) client.NFS4 {
	t.Helper()
	at, over := d.tcp, client.TCP
	if transport == "rdma" {
		at, over = d.rdma, client.RDMA
	}
	s, err := client.DialSession(testContext(t), client.SessionConfig{
		Target:    client.Target{Transport: over, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()},
		Callbacks: callbacks,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.NFS4()
}

// The server calls a client back when a lock that it was denied becomes free (RFC 8881
// §20.11), over the client's own connection.
func TestWaitingClientIsToldOfALock(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testContext(t)
			told := make(chan string, 1)
			holder := d.session(t, transport, client.Callbacks{})
			waiter := d.session(t, transport, client.Callbacks{NotifyLock: func(_ client.Handle, owner []byte) { told <- string(owner) }})
			open := func(n client.NFS4) client.Opened4 {
				dir, err := n.Walk(ctx, nil, "/")
				if err != nil {
					t.Fatal(err)
				}
				o, err := n.Open(ctx, client.Open4{
					Dir: dir, Name: "lock-" + transport, Owner: []byte("opener"), Access: wire.Open4ShareAccessBoth,
					Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
				})
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			first, second := open(holder), open(waiter)
			if second.Flags&wire.Open4ResultMayNotifyLock == 0 {
				t.Error("OPEN does not say that clients are told of locks")
			}
			all := client.Range4{Length: 1<<64 - 1}
			held, err := holder.Lock(ctx, first.File, first.StateID, []byte("holder"), wire.WriteLt, all)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := waiter.Lock(ctx, second.File, second.StateID, []byte("waiter"), wire.WritewLt, all); client.StatusOf(err) != wire.NFS4ErrDenied {
				t.Fatal("a lock that another client has: ", err)
			}
			if _, err := holder.Unlock(ctx, first.File, held, wire.WriteLt, all); err != nil {
				t.Fatal(err)
			}
			select {
			case owner := <-told:
				if owner != "waiter" {
					t.Errorf("%q is told", owner)
				}
			case <-ctx.Done():
				t.Fatal("the waiting client is not called")
			}
			held, err = waiter.Lock(ctx, second.File, second.StateID, []byte("waiter"), wire.WritewLt, all)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := waiter.Unlock(ctx, second.File, held, wire.WriteLt, all); err != nil {
				t.Error(err)
			}
			// DESTROY_CLIENTID fails while a client holds state.
			for n, o := range map[client.NFS4]client.Opened4{holder: first, waiter: second} {
				if err := n.CloseFile(ctx, o.File, o.StateID); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
