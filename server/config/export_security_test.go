package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

func TestSecOption(t *testing.T) {
	for text, want := range map[string][]export.Security{
		"":                               {export.Sys},
		"ro":                             {export.Sys},
		"sec=krb5p":                      {export.Krb5p},
		"sec=krb5p:krb5i:sys":            {export.Krb5p, export.Krb5i, export.Sys},
		"sec=krb5:krb5,rw":               {export.Krb5},
		"ro,sec=sys,root_squash":         {export.Sys},
		"sec=krb5p,sec=sys@192.0.2.0/24": {export.Krb5p},
	} {
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var e export.Export
		if o.Apply(&e); !slices.Equal(e.Security, want) {
			t.Errorf("%q: %v, want %v", text, e.Security, want)
		}
	}
	for text, want := range map[string]string{
		"":         "[]",
		"sec=krb5": "[]",
		"sec=krb5p,sec=sys@192.0.2.0/24;2001:db8::/32":                     "[{192.0.2.0/24 [sys]} {2001:db8::/32 [sys]}]",
		"sec=krb5p,sec=sys@192.0.2.0/24,2001:db8::/32":                     "[{192.0.2.0/24 [sys]} {2001:db8::/32 [sys]}]",
		"sec=sys:krb5i@192.0.2.7,ro,sec=sys":                               "[{192.0.2.7/32 [sys krb5i]}]",
		"sec=krb5,sec=sys@10.0.0.0/8,sec=krb5i@10.1.0.0/16":                "[{10.0.0.0/8 [sys]} {10.1.0.0/16 [krb5i]}]",
		"clients=10.0.0.0/8,sec=krb5,sec=sys@10.1.0.0/16":                  "[{10.1.0.0/16 [sys]}]",
		"clients=10.1.0.0/16;10.2.0.0/16,sec=krb5,sec=sys@10.0.0.0/8":      "[{10.0.0.0/8 [sys]}]",
		"sec=krb5,sec=sys@10.0.0.0/8,sec=krb5,sec=sys@10.0.0.0/8,insecure": "[{10.0.0.0/8 [sys]}]",
	} {
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var e export.Export
		if o.Apply(&e); fmt.Sprint(e.Networks) != want {
			t.Errorf("%q: %v, want %v", text, e.Networks, want)
		}
	}
	for text, says := range map[string]string{
		"sec=krb4": "no flavor", "sec=": "no flavor", "sec": "needs a value", "sec=sys;krb5": "no flavor",
		"sec=sys:": "no flavor", "sec=sys,sec=krb5": "contradict",
		"sec=krb5@192.0.2.0/24":                                     "add sec=FLAVOR without a network",
		"sec=sys,sec=krb5@192.0.2.0":                                "", // a single address
		"sec=sys,sec=krb5@":                                         `after the '@', no network`,
		"sec=sys,sec=krb5@host":                                     `"host" is not a network`,
		"sec=sys,sec=@10.0.0.0/8":                                   "no flavor",
		"sec=sys,sec=krb5@10.0.0.1/8":                               "write 10.0.0.0/8",
		"sec=sys,sec=krb5@::ffff:10.0.0.0/104":                      "IPv6 form of an IPv4 network: write 10.0.0.0/8",
		"sec=sys,sec=krb5@fe80::1%eth0":                             "write fe80::1",
		"clients=::ffff:192.0.2.1":                                  "write 192.0.2.1/32",
		"sec=sys,sec=krb5@10.0.0.0/8,sec=sys@10.0.0.0/8":            "contradict",
		"sec=sys,sec=krb5@10.0.0.0/8,sec=sys@10.0.0.0/8;11.0.0.0/8": "given twice for 10.0.0.0/8",
		"clients=192.0.2.0/24,sec=sys,sec=krb5@10.0.0.0/8":          "matches no network",
	} {
		var o ExportOptions
		err := o.UnmarshalText([]byte(text))
		if says == "" && err == nil {
			continue
		}
		if err == nil || says == "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
