package probe

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// Text from a server stays on its own line of the report, and cannot control the terminal.
func TestServerTextCannotControlTheReport(t *testing.T) {
	evil := "/x\x1b]0;owned\a\r\x1b[2J\xff\n  RPCSEC_GSS           known"
	p := Report{
		Transports: []Listener{{
			Transport: "tcp", NFS: true, Programs: []Program{{Name: "NFS", Number: 100003, Versions: []uint32{3}}},
			NFS4: &NFS4{Implementation: evil, Scope: evil, OwnerMajor: evil}, Notes: []string{evil}, ContextFault: evil,
		}},
		Exports: []Export{{Export: client.Export{Path: evil, Groups: []string{evil}}}, {Export: client.Export{Path: "/größe \"a\""}}},
	}
	var b strings.Builder
	p.Print(&b)
	if strings.ContainsAny(b.String(), "\x1b\a\r") || !utf8.ValidString(b.String()) {
		t.Errorf("the report has characters that move something on a terminal: %q", b.String())
	}
	if n := strings.Count(b.String(), "\n  RPCSEC_GSS"); n != 1 {
		t.Errorf("%d lines are about RPCSEC_GSS, want the report's own:\n%s", n, b.String())
	}
	if !strings.Contains(b.String(), "/größe \"a\" ") {
		t.Errorf("a name of letters was changed:\n%s", b.String())
	}
}
