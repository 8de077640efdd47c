package nfs4

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// An owner is sent as its name or, if it has no name, as the decimal digits of its number (RFC
// 8881 §5.9). The string is padded like any opaque.
func TestOwnersTravelByNameOrDigits(t *testing.T) {
	for _, c := range []struct {
		name string
		id   uint32
		want string
	}{
		{"alice@example.com", 1000, "alice@example.com"},
		{"", 0, "0"},
		{"", 1000, "1000"},
		{"", 1<<32 - 1, "4294967295"},
	} {
		var w xdr.Writer
		w.Reset(make([]byte, 0, 64))
		putIdentity(&w, []byte(c.name), c.id)
		w.Uint32(7)
		d := xdr.NewDecoder(w.Bytes())
		if got := string(d.Opaque(64)); got != c.want || d.Uint32() != 7 || d.Finish() != nil {
			t.Errorf("name %q, number %d: %q, want %q", c.name, c.id, got, c.want)
		}
	}
}
