package probe

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// serving returns a listener that answers these versions of NFS, and MOUNT over TCP.
func serving(t client.Transport, address string, versions ...uint32) Listener {
	l := Listener{Transport: t, Address: address, NFS: true, Programs: []Program{{Number: 100003, Versions: versions}}}
	if t == client.TCP && slices.Contains(versions, 3) {
		l.Programs = append(l.Programs, Program{Number: 100005, Versions: []uint32{3}})
	}
	return l
}

// The commands name what mount could not find out by itself, and what this machine lacks is said.
func TestMountCommands(t *testing.T) {
	all := machine{mount: true, rdma: true, keytab: true}
	both := Export{Export: client.Export{Path: "/data"}, byVersion4: true}
	only3 := Export{Export: client.Export{Path: "/data"}}
	secure := both
	secure.Flavors = []client.Flavor{client.Krb5p, client.Krb5}
	mixed, strange := both, both
	mixed.Flavors, strange.Flavors = []client.Flavor{client.None, client.Krb5i}, []client.Flavor{client.None, 6}
	named6 := serving(client.RDMA, "a:20049", 4)
	named6.six = true
	for _, c := range []struct {
		name    string
		report  Report
		machine machine
		want    []string
		lacks   string
	}{
		{"version 4, usual ports", Report{Host: "a", Transports: []Listener{serving(client.RDMA, "a:20049", 3, 4), serving(client.TCP, "a:2049", 3, 4)}, Exports: []Export{both}}, all,
			[]string{"mount -t nfs -o proto=rdma,port=20049 a:/data /mnt", "mount -t nfs a:/data /mnt"}, ""},
		{"another port, IPv6", Report{Host: "2001:db8::1", Transports: []Listener{serving(client.RDMA, "[2001:db8::1]:20049", 4), serving(client.TCP, "[2001:db8::1]:2050", 4)}, Exports: []Export{both}}, all,
			[]string{"mount -t nfs -o proto=rdma6,port=20049 '[2001:db8::1]:/data' /mnt", "mount -t nfs -o port=2050 '[2001:db8::1]:/data' /mnt"}, ""},
		{"a name with an IPv6 address", Report{Host: "a", Transports: []Listener{named6}, Exports: []Export{both}}, all,
			[]string{"mount -t nfs -o proto=rdma6,port=20049 a:/data /mnt"}, ""},
		{"Kerberos is not the first flavor", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: []Export{mixed}}, all,
			[]string{"mount -t nfs -o sec=krb5i a:/data /mnt"}, ""},
		{"flavors that mount lacks", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: []Export{strange}}, all, nil, "only none:flavor 6"},
		{"version 3 alone", Report{Host: "a", Transports: []Listener{serving(client.RDMA, "a:20049", 3), serving(client.TCP, "a:2049", 3)}, Exports: []Export{only3}}, all,
			[]string{"mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=2049,mountproto=tcp,nolock a:/data /mnt", "mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock a:/data /mnt"}, "rpcinfo -p a"},
		{"a name that version 4 does not have", Report{Host: "a", mountPort: 635, Transports: []Listener{serving(client.TCP, "a:2049", 3, 4)}, Exports: []Export{only3}}, all,
			[]string{"mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=635,mountproto=tcp,nolock a:/data /mnt"}, "rpcinfo -p a"},
		{"version 3 without MOUNT", Report{Host: "a", Transports: []Listener{serving(client.RDMA, "a:20049", 3)}, Exports: []Export{only3}}, all, nil, ""},
		{"no list of exports", Report{Host: "a", ExportsFault: "none", Transports: []Listener{serving(client.TCP, "a:2049", 4)}}, all,
			[]string{"mount -t nfs a:/ /mnt"}, ""},
		{"Kerberos alone", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: []Export{secure}}, machine{mount: true},
			[]string{"mount -t nfs -o sec=krb5p a:/data /mnt"}, "krb5.keytab"},
		{"no RDMA device", Report{Host: "a", Transports: []Listener{serving(client.RDMA, "a:20049", 4), serving(client.TCP, "a:2049", 4)}, Exports: []Export{both}}, machine{mount: true},
			[]string{"mount -t nfs a:/data /mnt"}, "rdma link add"},
		{"no mount.nfs", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: []Export{both}}, machine{rdma: true},
			[]string{"mount -t nfs a:/data /mnt"}, "nfs-common"},
		{"a path for a shell", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: []Export{{Export: client.Export{Path: "/a b;$c"}, byVersion4: true}}}, all,
			[]string{"mount -t nfs 'a:/a b;$c' /mnt"}, ""},
		{"refused", Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 3, 4)}, Exports: []Export{{Export: client.Export{Path: "/data"}, Refused: "no"}}}, all, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			how := c.report.mounting(c.machine)
			if !slices.Equal(how.Commands, c.want) {
				t.Errorf("commands are\n%s\nwant\n%s", strings.Join(how.Commands, "\n"), strings.Join(c.want, "\n"))
			}
			if text := strings.Join(how.Lacks, " "); (c.lacks == "") != (text == "") || !strings.Contains(text, c.lacks) {
				t.Errorf("it lacks %q, want %q", text, c.lacks)
			}
		})
	}
}

// The exports for which no command was made are counted.
func TestMoreExportsThanCommands(t *testing.T) {
	p := Report{Host: "a", Transports: []Listener{serving(client.TCP, "a:2049", 4)}, Exports: slices.Repeat([]Export{{Export: client.Export{Path: "/data"}, byVersion4: true}}, maxAsked+3)}
	var text strings.Builder
	p.mounting(machine{mount: true}).print(&text, &p)
	if !strings.Contains(text.String(), "and 3 more exports\n") {
		t.Error(text.String())
	}
}

// A refusal is explained with its remedy. Any other error, such as a time-out, is not taken for a refusal.
func TestWhyAMountIsRefused(t *testing.T) {
	for status, want := range map[mount3wire.Stat3]string{mount3wire.ErrAccess: "clients=", mount3wire.ErrNoEnt: "directory may be gone", mount3wire.ErrIO: "the server's log"} {
		if got := why(&client.MountError{Path: "/x", Status: status}); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", status, got, want)
		}
	}
	if got := why(errors.Join(os.ErrDeadlineExceeded)); got != "" {
		t.Errorf("a time-out is a refusal: %q", got)
	}
}
