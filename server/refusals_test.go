package server

import (
	"net/netip"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// In a healthy Kerberos mount the client's machine acts under a principal without an account.
// That causes no line. A user's principal without an account causes a line, and so does a
// machine's principal that is refused for another reason.
func TestNoAlarmOfMachinesPrincipals(t *testing.T) {
	core, log := observer.New(zapcore.InfoLevel)
	s := &Server{log: zap.New(core)}
	for _, c := range []struct {
		principal string
		reason    gss.Reason
		line      bool
	}{
		{"nfs/client.example.org@EXAMPLE.ORG", gss.UnknownPrincipal, false}, {"CLIENT$@EXAMPLE.ORG", gss.UnknownPrincipal, false},
		{"alice@EXAMPLE.ORG", gss.UnknownPrincipal, true}, {"nfs/client.example.org@EXAMPLE.ORG", gss.RefusedExpired, true},
	} {
		s.lines = newClientLines(s.log, clientLineEvery)
		s.contextRefused(&gss.Event{Reason: c.reason, Peer: netip.MustParseAddrPort("192.0.2.1:700"), Principal: c.principal})
		if lines := log.TakeAll(); len(lines) == 1 != c.line {
			t.Errorf("%s: %v: %v", c.principal, c.reason, lines)
		}
	}
}
