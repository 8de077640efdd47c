package exports

import (
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// The text of an export's options, read as configuration, gives the same options. Each option is in one of the texts.
func TestOptionsAreToldAsTheyAreWritten(t *testing.T) {
	texts := []string{
		"", "ro", "rw,async,no_root_squash,insecure", "sync,root_squash,secure", "all_squash,anonuid=5,anongid=6",
		"manage_gids,clients=192.0.2.0/24;2001:db8::/32,sec=krb5p:krb5", "sec=krb5i,sec=sys:krb5@192.0.2.0/24;198.51.100.7,require_account",
		"fsid=0", "nested,crossmnt,utf8",
	}
	read := func(text string) *export.Export {
		t.Helper()
		var o config.ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		e := new(export.Export)
		o.Apply(e)
		return e
	}
	for _, text := range texts {
		e := read(text)
		told := OptionsOf(e)
		if again := read(told); !reflect.DeepEqual(again, e) {
			t.Errorf("%q is told as %q: %+v and %+v", text, told, e, again)
		}
	}
	help, _, _ := strings.Cut(config.ExportOptionsHelp(), ".\n")
	for word := range strings.FieldsSeq(help) {
		name, _, _ := strings.Cut(word, "=")
		if !strings.Contains(strings.Join(texts, ","), name) {
			t.Errorf("no text has the option %q", name)
		}
	}
}
