package server_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A relay forwards one TCP connection to a daemon. It refuses further connections.
type relay struct {
	net.Listener
	// While mute is true, the relay drops the bytes that the daemon sends. said is closed when it
	// has dropped some.
	mute atomic.Bool
	said chan struct{}
	once sync.Once
	near net.Conn
}

// relayTo makes a relay to a daemon's TCP port.
func relayTo(t *testing.T, d *daemon) *relay {
	l, err := net.Listen("tcp", net.TCPAddrFromAddrPort(servertest.FreePort(t, d.tcp.Addr())).String())
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, said: make(chan struct{})}
	var done sync.WaitGroup
	done.Go(func() {
		var err error
		if r.near, err = l.Accept(); err != nil {
			return
		}
		far, err := net.Dial("tcp", d.tcp.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		done.Go(func() { io.Copy(far, r.near); far.(*net.TCPConn).CloseWrite() })
		buf := make([]byte, 64<<10)
		for {
			n, err := far.Read(buf)
			if r.mute.Load() {
				if n > 0 {
					r.once.Do(func() { close(r.said) })
				}
			} else if _, err := r.near.Write(buf[:n]); err != nil {
				return
			}
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		if r.near != nil {
			r.near.Close()
		}
		done.Wait()
	})
	return r
}

// cut ends the connection, and refuses new ones.
func (r *relay) cut() {
	r.Close()
	r.near.Close()
}

// A client may use one session over TCP and over RDMA at once (RFC 8881 §2.10.5). If one
// connection breaks before an answer, the client repeats the request over the other, and
// the server executes it once (§2.10.6).
func TestSessionOverBothTransports(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	r := relayTo(t, d)
	at := r.Addr().(*net.TCPAddr).AddrPort()
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: client.RDMA, Host: d.rdma.Addr().String(), Port: int(d.rdma.Port()), Cred: client.Self()},
		Trunk:  []client.Target{{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()}},
		Slots:  8,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := s.NFS4()
	dir, err := n.Walk(ctx, nil, "/")
	if err != nil {
		t.Fatal(err)
	}

	// Consecutive calls alternate between the two connections.
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	o, err := n.Open(ctx, client.Open4{
		Dir: dir, Name: "file", Owner: []byte("opener"), Access: wire.Open4ShareAccessBoth,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := n.Write(ctx, o.File, o.StateID, 0, data, wire.FileSync4); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if _, _, err := n.Read(ctx, o.File, o.StateID, 0, got); err != nil || string(got) != string(data) {
			t.Fatalf("what was written over one transport is not read over the other: %v", err)
		}
	}
	if err := n.CloseFile(ctx, o.File, o.StateID); err != nil {
		t.Fatal(err)
	}

	r.mute.Store(true)
	const all = 8
	failed := make(chan error, all)
	for i := range all {
		go func() {
			_, err := n.Mkdir(ctx, dir, strconv.Itoa(i), 0o755)
			failed <- err
		}()
	}
	<-r.said // the daemon executed some calls, and their answers are lost
	r.cut()
	for range all {
		if err := <-failed; err != nil {
			t.Errorf("a directory that was made once: %v", err)
		}
	}
	for i := range all {
		if _, err := os.Stat(filepath.Join(d.export, strconv.Itoa(i))); err != nil {
			t.Error(err)
		}
	}
}
