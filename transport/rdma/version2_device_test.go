//go:build verbs

package rdma

import (
	"net/netip"
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
)

// kernelDevice returns the provider for RDMA devices, and the address in VERBS_ADDRESS, which is that of a device. It
// skips the benchmark if VERBS_ADDRESS is not set.
func kernelDevice(b *testing.B) (rdmacm.Provider, netip.Addr) {
	at := os.Getenv("VERBS_ADDRESS")
	if at == "" {
		b.Skip("VERBS_ADDRESS is not set: no RDMA device to measure with")
	}
	library, err := shim.Load()
	if err != nil {
		b.Fatal(err)
	}
	p, err := verbs.New(verbs.Config{Library: library})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p, netip.MustParseAddr(at)
}

// BenchmarkVersionsOverDevices is BenchmarkVersions over a device of this machine's kernel.
func BenchmarkVersionsOverDevices(b *testing.B) { benchVersions(b, kernelDevice) }
