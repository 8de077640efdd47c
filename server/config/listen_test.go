package config

import (
	"strings"
	"testing"
)

// A configuration that listens on no address, or twice on the same port of an address, is rejected.
// The error names the cause, and the line of the file.
func TestWhereToListenIsChecked(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		text string
		says []string
	}{
		{`tcp = ["none"]`, nil},
		{`rdma = ["none"]`, nil},
		{"tcp = [\"none\"]\nrdma = [\"none\"]", []string{"f:1: ", "nothing to listen on"}},
		{`rdma = [":2049"]`, []string{"f:1: ", `rdma = ":2049" and tcp = ":2049" are one port`, "20049"}},
		{`tcp = [":20049"]`, []string{"f:1: ", `rdma = ":20049" and tcp = ":20049" are one port`}},
		{`rdma = ["192.0.2.1:2049"]`, []string{`rdma = "192.0.2.1:2049" and tcp = ":2049" are one port`}},
		{"rdma = [\"192.0.2.1:2049\"]\ntcp = [\"192.0.2.2:2049\"]", nil},
		{"rdma = [\"192.0.2.1:2049\"]\ntcp = [\"0.0.0.0:2049\"]", []string{"are one port"}},
		{"rdma = [\"[2001:db8::1]:2049\"]\ntcp = [\"0.0.0.0:2049\"]", nil},
		{"rdma = [\"[::ffff:192.0.2.1]:2049\"]\ntcp = [\"192.0.2.1:2049\"]", []string{"are one port"}},
		{`tcp = [":2049", "192.0.2.1:2049"]`, []string{"f:1: ", `tcp = ":2049" and "192.0.2.1:2049"`, "leave one of them out"}},
		{"rdma = [\"127.0.0.1:0\"]\ntcp = [\"127.0.0.1:0\", \"127.0.0.1:0\"]", nil},
	} {
		cfg, err := parseConfig("f", []byte(c.text+"\n[[export]]\npath = \""+dir+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		err = cfg.CheckListening()
		if c.says == nil {
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is accepted", c.text)
			continue
		}
		for _, s := range c.says {
			if out := err.Error(); !strings.Contains(out, s) {
				t.Errorf("%q does not say %q", out, s)
			}
		}
	}
}
