package server

import (
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// rxeTree returns the files of a machine with one rxe device that is ready for use.
func rxeTree() map[string]string {
	return map[string]string{
		"sys/class/infiniband/rxe0/node_type":                 "1: CA\n",
		"sys/class/infiniband/rxe0/parent":                    "eth0\n",
		"sys/class/infiniband/rxe0/ports/1/state":             "4: ACTIVE\n",
		"sys/class/infiniband/rxe0/ports/1/link_layer":        "Ethernet\n",
		"sys/class/infiniband/rxe0/ports/1/gids/0":            "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
		"sys/class/infiniband/rxe0/ports/1/gids/1":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0": "eth0\n",
		"sys/class/infiniband_verbs/uverbs3/ibdev":            "rxe0\n",
		"sys/class/net/eth0/mtu":                              "9000\n",
		"dev/infiniband/rdma_cm":                              "",
		"dev/infiniband/uverbs3":                              "",
	}
}

// doctor reports what RDMA devices lack, and what to do about it.
func TestDoctorOfDevices(t *testing.T) {
	const device = "RDMA device rxe0"
	for _, c := range []struct {
		name   string
		change func(files map[string]string, d *deviceTree)
		what   string
		ok     bool
		detail []string
	}{
		{"all is there", nil, device, true, []string{"RoCE, port 1 active, interface eth0, addresses 10.0.2.15, 1 GIDs"}},
		{"all is there", nil, "RDMA devices", true, []string{"rxe0"}},
		{"all is there", nil, "RDMA connection manager", true, []string{"/dev/infiniband/rdma_cm"}},
		{"all is there", nil, "locked memory", true, []string{"no limit"}},
		{"no libraries", func(_ map[string]string, d *deviceTree) {
			d.library = func() error { return errors.New("libibverbs.so.1 is missing: apt-get install libibverbs1") }
		}, "RDMA libraries", false, []string{"apt-get install"}},
		{"no device", func(files map[string]string, _ *deviceTree) { clear(files) }, "RDMA devices", false, []string{"software RNIC needs none", "rdma link add"}},
		{"devices of another namespace", func(files map[string]string, _ *deviceTree) {
			clear(files)
			files["sys/module/ib_core/parameters/netns_mode"] = "N\n"
		}, "RDMA devices", false, []string{"exclusive", "rdma dev set"}},
		{"no connection manager", func(files map[string]string, _ *deviceTree) { delete(files, "dev/infiniband/rdma_cm") },
			"RDMA connection manager", false, []string{"modprobe rdma_ucm", "--device"}},
		{"no verbs", func(files map[string]string, _ *deviceTree) {
			delete(files, "sys/class/infiniband_verbs/uverbs3/ibdev")
		},
			device, false, []string{"modprobe ib_uverbs"}},
		{"no node", func(files map[string]string, _ *deviceTree) { delete(files, "dev/infiniband/uverbs3") },
			device, false, []string{"/dev/infiniband/uverbs3 is not there", "--device"}},
		{"the port is down", func(files map[string]string, _ *deviceTree) {
			files["sys/class/infiniband/rxe0/ports/1/state"] = "1: DOWN\n"
		}, device, false, []string{"port 1 down", "ip link set eth0 up"}},
		{"no subnet manager", func(files map[string]string, _ *deviceTree) {
			files["sys/class/infiniband/rxe0/ports/1/state"] = "2: INIT\n"
			files["sys/class/infiniband/rxe0/ports/1/link_layer"] = "InfiniBand\n"
		}, device, false, []string{"InfiniBand, port 1 init", "opensm"}},
		{"no address", func(_ map[string]string, d *deviceTree) { d.addresses = func(string) []string { return nil } },
			device, false, []string{"addresses none", "ip address add"}},
		{"small packets", func(files map[string]string, _ *deviceTree) { files["sys/class/net/eth0/mtu"] = "1500\n" },
			device, true, []string{"mtu 4200"}},
		{"siw", func(files map[string]string, _ *deviceTree) {
			for name, text := range maps.Clone(files) {
				delete(files, name)
				files[strings.ReplaceAll(name, "rxe0", "siw0")] = strings.ReplaceAll(text, "rxe0", "siw0")
			}
			files["sys/class/infiniband/siw0/node_type"] = "4: RNIC\n"
		}, "RDMA device siw0", true, []string{"iWARP", "auto leaves it alone"}},
		{"little locked memory", func(_ map[string]string, d *deviceTree) { d.memlock = func() uint64 { return 8 << 20 } },
			"locked memory", false, []string{"8M", "512M", "LimitMEMLOCK=infinity"}},
		{"little locked memory, with the capability", func(files map[string]string, d *deviceTree) {
			d.memlock = func() uint64 { return 8 << 20 }
			files["proc/self/status"] = "Name:\tx\nCapEff:\t0000000000004000\n"
		}, "locked memory", true, []string{"CAP_IPC_LOCK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &deviceTree{
				root: t.TempDir(), library: func() error { return nil },
				addresses: func(name string) []string { return map[string][]string{"eth0": {"10.0.2.15"}}[name] },
				memlock:   func() uint64 { return unix.RLIM_INFINITY },
			}
			files := rxeTree()
			if c.change != nil {
				c.change(files, d)
			}
			for name, text := range files {
				path := filepath.Join(d.root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			for _, provider := range []string{config.Auto, providers.Verbs} {
				cfg := &config.Config{RNIC: config.RNIC{Provider: provider}}
				if err := cfg.Check(); err != nil {
					t.Fatal(err)
				}
				found := false
				for _, f := range d.findings(cfg) {
					if f.Needed != (provider == providers.Verbs && !strings.HasPrefix(f.What, "RDMA device ")) {
						t.Errorf("provider %s: needed %v: %+v", provider, f.Needed, f)
					}
					if f.What != c.what {
						continue
					}
					found = true
					if f.OK != c.ok {
						t.Errorf("%+v", f)
					}
					for _, text := range c.detail {
						if !strings.Contains(f.Detail, text) {
							t.Errorf("%q does not say %q", f.Detail, text)
						}
					}
				}
				if !found {
					t.Errorf("nothing is said of %q", c.what)
				}
			}
		})
	}
}

// The doctor names the addresses of a device at which the daemon serves clients: no link-local ones.
func TestDoctorNamesNoLinkLocalAddress(t *testing.T) {
	var all []net.Addr
	for _, text := range []string{"192.0.2.1/24", "169.254.7.7/16", "2001:db8::1/64", "fe80::1/64"} {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	if got, want := offered(all), []string{"192.0.2.1", "2001:db8::1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
