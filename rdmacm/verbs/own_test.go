package verbs_test

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// A listener can be reached at the addresses of devices whose port carries traffic. It cannot
// be reached over a device that was removed or that Config.Skip excludes.
func TestOwnAddressesAreThoseOfDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		skipped := false
		p, err := verbs.New(verbs.Config{Library: d, Skip: func(*device.Attributes) bool { return skipped }})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		at := netip.MustParseAddrPort("192.0.2.1:20049")
		check := func(what string, want ...netip.AddrPort) {
			t.Helper()
			if got := p.Own(at); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		check("a device", at)
		d.SetActive(false)
		check("a port that is down")
		d.SetActive(true)
		skipped = true
		check("a device that is skipped")
		skipped = false
		d.Remove(false)
		check("a device that is gone")
	})
}
