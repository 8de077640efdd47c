//go:build verbs

package verbs_test

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
)

// realDevice makes a provider, and returns an address of a device of this machine's kernel.
func realDevice(t *testing.T) (*verbs.Provider, netip.AddrPort) {
	t.Helper()
	at := os.Getenv("VERBS_ADDRESS")
	if at == "" {
		t.Skip("VERBS_ADDRESS is not set: no RDMA device to test with")
	}
	library, err := shim.Load()
	if err != nil {
		t.Fatal(err)
	}
	p, err := verbs.New(verbs.Config{Library: library, Log: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, netip.AddrPortFrom(netip.MustParseAddr(at), 0)
}

// Where the process has no descriptor left for a connection, the attempt fails, and later ones succeed.
func TestLastDescriptor(t *testing.T) {
	p, at := realDevice(t)
	l, err := p.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	param := rdmacm.ConnParam{Handler: handler{}, Receives: 4, ReceiveSize: 4096}
	go func() {
		for {
			r, err := l.Accept()
			if err != nil {
				return
			}
			r.Accept(param)
		}
	}()
	dial := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := p.Dial(ctx, l.Addr(), param)
		if err == nil {
			c.Disconnect()
			<-c.Done()
		}
		return err
	}
	if err := dial(); err != nil { // opens the device
		t.Fatal(err)
	}
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	for left := range uint64(4) {
		next, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		few := unix.Rlimit{Cur: uint64(next.Fd()) + left, Max: all.Max}
		next.Close()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d descriptors left: %v", left, dial())
		unix.Setrlimit(unix.RLIMIT_NOFILE, &all)
	}
	if err := dial(); err != nil {
		t.Errorf("with all descriptors again: %v", err)
	}
}
