package config

import (
	"errors"
	"net/netip"
	"testing"
)

// No text of a user makes the package panic: neither a configuration file, nor a file like /etc/exports, nor a
// flag. An error about the file names its line, if it is about one.
func FuzzTextOfUsers(f *testing.F) {
	for _, m := range fileMistakes {
		f.Add(m.text)
	}
	f.Add("/srv/a 192.0.2.0/24(rw,sec=krb5:sys) gss/krb5p(ro) \\\n -ro,fsid=root host(mp=/x)\n\"/b\\040c\" *.example.org 10.0.0.1/255.0.0.0\n")
	f.Add("/srv/a:/name,ro,clients=192.0.2.0/24;::/0,sec=krb5p@10.0.0.0/8")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseConfig("f", []byte(text)); err != nil {
			if at, ok := errors.AsType[*Error](err); !ok || at.Err == nil || at.File == "" {
				t.Errorf("%q: %#v", text, err)
			}
		}
		_, _ = ParseExport(text)
		ConvertExports(text, func(string) ([]netip.Addr, error) { return []netip.Addr{netip.IPv6Loopback()}, nil })
	})
}
