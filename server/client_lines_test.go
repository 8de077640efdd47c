package server

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// All addresses of an IPv6 /64 prefix count as one client, because a host may use any of
// them. Lines about different subjects are counted separately.
func TestOneHostMakesFewLines(t *testing.T) {
	core, log := observer.New(zapcore.WarnLevel)
	c := newClientLines(zap.New(core), clientLineEvery)
	for i := range 1000 {
		a := netip.MustParseAddr("2001:db8::").As16()
		binary.BigEndian.PutUint64(a[8:], uint64(i))
		c.write(zapcore.WarnLevel, "one thing", netip.AddrFrom16(a))
	}
	c.write(zapcore.WarnLevel, "another thing", netip.MustParseAddr("2001:db8::1"))
	c.write(zapcore.DebugLevel, "a third", netip.MustParseAddr("2001:db8::1"))
	if log.Len() != 2 {
		t.Errorf("%d lines, want one about each thing: %v", log.Len(), log.All())
	}
}
