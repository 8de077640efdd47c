//go:build verbs

package verbs_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
)

// TestSuite runs the conformance suite over the device with the address in VERBS_ADDRESS. The
// guests of the kernel lab have such a device.
func TestSuite(t *testing.T) {
	at := os.Getenv("VERBS_ADDRESS")
	if at == "" {
		t.Skip("VERBS_ADDRESS is not set: no RDMA device to test with")
	}
	provider := func(t *testing.T, seats rdmacm.Seats) rdmacm.Provider {
		library, err := shim.Load()
		if err != nil {
			t.Fatal(err)
		}
		p, err := verbs.New(verbs.Config{Library: library, Seats: seats, Log: func(s string) { t.Log(s) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	rdmatest.Run(t, func(t *testing.T) rdmacm.Provider { return provider(t, nil) }, rdmatest.Options{
		Listen: netip.AddrPortFrom(netip.MustParseAddr(at), 0), Counted: provider, Quick: true,
	})
}
