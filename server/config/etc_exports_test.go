package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func lookupForTest(host string) ([]netip.Addr, error) {
	if host == "client.example.org" {
		return []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}, nil
	}
	return nil, errors.New("no such host")
}

// Each line of /etc/exports becomes an export with the options that Linux's server would use, or is refused.
func TestConvertExports(t *testing.T) {
	for line, want := range map[string]struct{ path, options, note string }{
		"/srv *(rw)":        {"/srv", "rw,sync,root_squash,secure,sec=sys", ""},
		"/srv":              {"/srv", "ro,sync,root_squash,secure,sec=sys", "read-only"},
		"/srv 192.0.2.0/24": {"/srv", "ro,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", ""},
		"/srv 192.0.2.0/24(rw) 2001:db8::/32(rw)":                      {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24,2001:db8::/32", ""},
		"/srv 192.0.2.7/255.255.255.0(rw,async)":                       {"/srv", "rw,async,root_squash,secure,sec=sys,clients=192.0.2.0/24", ""},
		"/srv 192.0.2.7/24(rw)":                                        {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", ""},
		"/srv -rw,insecure 192.0.2.1 192.0.2.2":                        {"/srv", "rw,sync,root_squash,insecure,sec=sys,clients=192.0.2.1/32,192.0.2.2/32", ""},
		"/srv client.example.org(rw)":                                  {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.7,2001:db8::7", "if its address changes"},
		`"/srv/my data" *(ro)`:                                         {"/srv/my data", "ro,sync,root_squash,secure,sec=sys", ""},
		`/srv/my\040data *(ro)`:                                        {"/srv/my data", "ro,sync,root_squash,secure,sec=sys", ""},
		"/srv *(rw,no_subtree_check)":                                  {"/srv", "rw,sync,root_squash,secure,sec=sys", "no_subtree_check is ignored"},
		"/srv *(rw,all_squash,anonuid=5,anongid=6,crossmnt,fsid=root)": {"/srv", "rw,sync,all_squash,secure,anonuid=5,anongid=6,crossmnt,fsid=0,sec=sys", ""},
		"/srv *(rw,fsid=7)":                                            {"/srv", "rw,sync,root_squash,secure,sec=sys", "fsid=7 is ignored"},
		"/srv *(rw,sec=krb5p:krb5i)":                                   {"/srv", "rw,sync,root_squash,secure,sec=krb5p:krb5i", ""},
		"/srv *(rw) gss/krb5(rw)":                                      {"/srv", "rw,sync,root_squash,secure,sec=sys:krb5", ""},
		"/srv gss/krb5(rw)":                                            {"/srv", "rw,sync,root_squash,secure,sec=krb5", ""},
		"/srv *(rw,sec=krb5) 192.0.2.0/24(rw,sec=sys)":                 {"/srv", "rw,sync,root_squash,secure,sec=krb5,sec=sys@192.0.2.0/24", ""},
		"/srv 192.0.2.0/24(rw,sec=krb5) 10.0.0.0/8(rw)":                {"/srv", "rw,sync,root_squash,secure,sec=krb5,sec=sys@10.0.0.0/8,clients=192.0.2.0/24,10.0.0.0/8", ""},
		"/srv 192.0.2.0/24(rw) @trusted(rw)":                           {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", "netgroups are not looked up"},
		"/srv 192.0.2.0/24(rw) *.example.org(rw)":                      {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", "wildcards"},
		"/srv 192.0.2.0/24(rw) gone.example.org(rw)":                   {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", "cannot be looked up"},
		"/srv 192.0.2.0/24 (rw)":                                       {"/srv", "ro,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24", "remove the blank"},
		"/srv 192.0.2.0/24(rw,mp) 10.0.0.0/8(rw)":                      {"/srv", "rw,sync,root_squash,secure,sec=sys,clients=10.0.0.0/8", "does not check that a file system is mounted"},
		"/srv @trusted(rw)":                                            {"/srv", "", "is left out, because none of its clients"},
		"/srv *(rw,xprtsec=mtls)":                                      {"/srv", "", "TLS is not served"},
		"/srv *(rw,strange)":                                           {"/srv", "", "strange is not known"},
		"/srv *(ro) 192.0.2.0/24(rw)":                                  {"/srv", "", "different options"},
		"srv *(ro)":                                                    {"srv", "", "no absolute path"},
	} {
		all := ConvertExports("# comment\n\n"+line+" # more\n", lookupForTest)
		if len(all) != 1 || all[0].Line != 3 || all[0].Path != want.path || all[0].Options != want.options || all[0].Refused != (want.options == "") {
			t.Errorf("%s\n %+v", line, all)
			continue
		}
		var notes []string
		for _, n := range all[0].Notes {
			notes = append(notes, n.Text)
		}
		if said := strings.Join(notes, "; "); !strings.Contains(said, want.note) || want.note == "" && said != "" {
			t.Errorf("%s: %s", line, said)
		}
	}
	const continued = "/a \\\n\t192.0.2.1(rw) \\\n\t192.0.2.2(rw)\n/b *(ro)"
	if all := ConvertExports(continued, lookupForTest); len(all) != 2 || all[1].Line != 4 || !strings.HasSuffix(all[0].Options, "clients=192.0.2.1/32,192.0.2.2/32") {
		t.Errorf("%+v", all)
	}
}

// Each option of exports(5) is an option here, or one that convert knows.
func TestEveryOptionOfLinuxIsKnown(t *testing.T) {
	for _, name := range strings.Fields(`secure insecure rw ro sync async no_wdelay nohide crossmnt no_subtree_check insecure_locks no_auth_nlm
		mountpoint mp fsid refer replicas pnfs no_pnfs security_label xprtsec sec root_squash no_root_squash all_squash no_all_squash
		anonuid anongid wdelay hide subtree_check secure_locks auth_nlm no_acl`) {
		ours := slices.ContainsFunc(exportOptions, func(o exportOption) bool { return o.name == name })
		if !ours && linuxOption(name) == nil {
			t.Errorf("%s is not known", name)
		}
	}
}
