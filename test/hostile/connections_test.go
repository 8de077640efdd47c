//go:build hostile

package hostile

import (
	"fmt"
	"net/netip"
	"testing"
)

// Honest clients can set up RDMA connections while 1,500 sockets are open on the RDMA port and
// send nothing. The sockets have many addresses, or the honest client's own.
func TestSilentSocketsOnTheRDMAPort(t *testing.T) {
	for _, c := range []struct {
		name   string
		source func(int) netip.Addr
	}{
		{"50 addresses", Strangers(50)}, {"shared address", SharedAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{})
			s.Attack(SilentSockets{Peers: 1500, RDMA: true}, c.source)
			s.Judge()
		})
	}
}

// The daemon soon ends RDMA connections on which the peer sends nothing after the set-up: at
// least half of 3,000 within 12 s.
func TestSetupsWithoutAnFPDU(t *testing.T) {
	s := stage(t, Config{})
	a := s.Attack(Setups{Peers: 3000}, Strangers(60))
	s.JudgeClients()
	s.JudgeMemory()
	s.JudgeFewer(a, 3000/2)
	s.JudgeEnd()
}

// An honest client can connect while idle TCP connections fill the daemon's limit on connections:
// the daemon ends connections that never made a call. The idle connections have one address,
// several addresses, or the honest client's own.
func TestIdleConnectionsUpToTheLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		source func(int) netip.Addr
	}{
		{"one address", Strangers(1)}, {"30 addresses", Strangers(30)}, {"shared address", SharedAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Limits: "connections = 300"})
			s.Attack(SilentSockets{Peers: 300}, c.source)
			s.Judge()
		})
	}
}

// Connections of each transport cannot use all of a daemon's 600 descriptors: the daemon reserves
// descriptors for files.
func TestConnectionsDoNotTakeAllDescriptors(t *testing.T) {
	for _, c := range []struct {
		name      string
		behaviour Behaviour
	}{
		{"RDMA set-ups", Setups{Peers: 700}},
		{"RDMA clients", IdleClients{Peers: 700, RDMA: true}},
		{"TCP sockets", SilentSockets{Peers: 700}},
		{"TCP clients", IdleClients{Peers: 700}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{Descriptors: 600})
			s.Attack(c.behaviour, Strangers(20))
			s.Judge()
		})
	}
}

// With 10,000 idle clients, over TCP or over RDMA, the daemon serves honest clients, and each
// idle client takes at most 64 KiB of its memory.
func TestTenThousandIdleClients(t *testing.T) {
	for _, transport := range Transports {
		t.Run(transport, func(t *testing.T) {
			s := stage(t, Config{Limits: "connections = 12000"})
			a := s.Attack(IdleClients{Peers: 10000, RDMA: transport == "rdma"}, Strangers(100))
			s.JudgeIdle(a)
			s.JudgeClients()
			s.JudgeMemory()
			s.JudgeEnd()
		})
	}
}

// Honest clients are served, and can connect, while 64 peers connect and close as fast as they can, from
// one address or from 4,000.
func TestChurn(t *testing.T) {
	for _, n := range []int{1, 4000} {
		if !everything() && n == 1 {
			continue
		}
		t.Run(fmt.Sprint(n, " addresses"), func(t *testing.T) {
			s := stage(t, Config{})
			s.Attack(Churn{Peers: 64}, Strangers(n))
			s.JudgeClients()
			s.JudgeEnd()
		})
	}
}

// The daemon counts the clients of one IPv6 /64 as one address: of 64 such clients it refuses
// those beyond connections_per_client. It refuses none of 64 clients in 64 networks.
func TestAPrefixOfIPv6IsOneAddress(t *testing.T) {
	const clients, may = 64, 20
	for _, c := range []struct {
		name        string
		source      func(int) netip.Addr
		least, most int64 // bounds of the number of clients that are turned away
	}{
		{"one network of 64 bits", Neighbours6(clients), clients - may, 1 << 30}, {"64 networks", Strangers6(clients), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage(t, Config{IPv6: true, Limits: fmt.Sprint("connections = 200\nconnections_per_client = ", may)})
			a := s.Attack(IdleClients{Peers: clients}, c.source)
			s.JudgeClients()
			if n := a.Refused.Load() + a.Ended.Load(); n < c.least || n > c.most {
				t.Errorf("%d are turned away, want %d to %d: %v", n, c.least, c.most, a)
			}
		})
	}
}

// While RDMA peers flood the daemon with input, the daemon answers an honest client's calls, and
// an honest client can connect. The peers have one address, or the honest client's own.
func TestFloods(t *testing.T) {
	one := Strangers(1)
	for _, c := range []struct {
		floods Floods
		source func(i int) netip.Addr
		short  bool // runs without the full matrix, too
	}{
		{Floods{}, one, false},
		{Floods{Peers: 1, Mute: true}, one, false},
		{Floods{Peers: 12, Mute: true}, one, false},
		{Floods{Peers: 12, Mute: true}, SharedAddress, true},
		{Floods{Peers: 12}, one, false},
		{Floods{Peers: 64, Mute: true}, one, true},
		{Floods{Peers: 64}, SharedAddress, true},
		{Floods{Peers: 64}, Strangers(64), true},
		{Floods{Peers: 64, Mute: true}, Strangers(64), false},
		{Floods{Peers: 64}, Neighbours6(64), false},
		{Floods{Peers: 64, Mute: true}, Strangers6(64), true},
	} {
		if !c.short && !everything() {
			continue
		}
		t.Run(c.floods.String(), func(t *testing.T) {
			s := stage(t, Config{IPv6: c.source(0).Is6()})
			s.Attack(c.floods, c.source)
			s.JudgeSeries(Null)
			s.Judge()
		})
	}
}
