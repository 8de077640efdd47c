package verbs_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// open makes a provider over d. At the end of the test it checks that the provider has freed
// all objects of the device.
func open(t *testing.T, d *fakedevice.Device, seats rdmacm.Seats) *verbs.Provider {
	t.Helper()
	p, err := verbs.New(verbs.Config{Library: d, Seats: seats})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if left := d.Left(); left != (fakedevice.Left{}) {
			t.Errorf("the provider leaves behind %+v", left)
		}
	})
	return p
}

func TestFakeSuite(t *testing.T) {
	small := func() *fakedevice.Device {
		d := fakedevice.New(false)
		d.Attributes.SGEs, d.Attributes.ReadSGEs, d.Attributes.MaxMessage = 2, 1, 256<<10
		return d
	}
	for name, device := range map[string]func() *fakedevice.Device{
		"InfiniBand": func() *fakedevice.Device { return fakedevice.New(false) },
		"iWARP":      func() *fakedevice.Device { return fakedevice.New(true) },
		"small":      small,
	} {
		t.Run(name, func(t *testing.T) {
			provider := func(t *testing.T, seats rdmacm.Seats) rdmacm.Provider { return open(t, device(), seats) }
			rdmatest.Run(t, func(t *testing.T) rdmacm.Provider { return provider(t, nil) }, rdmatest.Options{
				Listen: netip.MustParseAddrPort("127.0.0.1:0"), Counted: provider, Quick: true,
			})
		})
	}
}
