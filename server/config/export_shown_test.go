package config

import (
	"reflect"
	"strings"
	"testing"
)

// The options of an export are shown in the form in which they are read, and as they are in force.
func TestOptionsAreShownAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"":   "rw,sync,root_squash,secure,sec=sys",
		"ro": "ro,sync,root_squash,secure,sec=sys",
		"async,all_squash,anonuid=5,anongid=6,insecure,fsid=0,utf8,locks=none,nested,crossmnt,manage_gids,require_account": "rw,async,all_squash,insecure,sec=sys,anonuid=5,anongid=6,fsid=0,manage_gids,require_account,nested,crossmnt,locks=none,utf8",
		"no_root_squash,sec=krb5p:krb5i,sec=sys@192.0.2.0/24;2001:db8::/32,clients=192.0.2.0/24;2001:db8::/32":             "rw,sync,no_root_squash,secure,sec=krb5p:krb5i,sec=sys@192.0.2.0/24,sec=sys@2001:db8::/32,clients=192.0.2.0/24,2001:db8::/32",
	} {
		var o, again ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if o.String() != want {
			t.Errorf("%q is shown as %s", text, o.String())
		}
		if err := again.UnmarshalText([]byte(o.String())); err != nil || !reflect.DeepEqual(again.given, o.given) || OptionsOf(again.given) != want {
			t.Errorf("%s is read as %+v, %v", &o, again.given, err)
		}
	}
	// Each option is shown.
	for i := range exportOptions {
		text := exportOptions[i].name
		if value := map[string]string{"anonuid": "5", "anongid": "6", "clients": "192.0.2.0/24", "sec": "krb5p:krb5", "fsid": "0", "locks": "none"}[text]; value != "" {
			text += "=" + value
		}
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil || !strings.Contains(","+o.String()+",", ","+text+",") {
			t.Errorf("%s is shown as %s, %v", text, &o, err)
		}
	}
}

func TestOpenExports(t *testing.T) {
	for text, open := range map[string]bool{
		"": true, "rw,all_squash": true, "ro": false, "clients=192.0.2.0/24": false, "clients=192.0.2.0/24,0.0.0.0/0": true, "sec=krb5": false, "sec=krb5:sys": true,
	} {
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil || o.Open() != open {
			t.Errorf("%q: %v, %v", text, o.Open(), err)
		}
	}
}
