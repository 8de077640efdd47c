//go:build hostile

package hostile

import (
	"fmt"
	"net/netip"
	"testing"
)

// 1,500 silent sockets on the RDMA port, from many addresses and from the honest
// client's own, while honest clients set up connections (A5).
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

// 3,000 RDMA connections are set up and say nothing: the daemon ends them soon (A5).
func TestSetupsWithoutAnFPDU(t *testing.T) {
	s := stage(t, Config{})
	a := s.Attack(Setups{Peers: 3000}, Strangers(60))
	s.JudgeClients()
	s.JudgeMemory()
	s.JudgeFewer(a, 3000/2)
	s.JudgeEnd()
}

// As many idle TCP connections as the daemon takes, from one address, from several, and from the
// honest client's own. When an honest client comes, connections that never made a call give up
// their places (A5).
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

// Connections of each transport fill a daemon that has 600 descriptors: it keeps descriptors for
// files (A5).
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

// 10,000 idle clients of each transport: the daemon keeps serving. The test logs the memory that
// each client takes, and this is some tens of KiB.
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

// 64 clients, with 20 connections allowed for one address: clients in one /64 count as one
// address, clients in 64 networks do not.
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

// RDMA peers flood the daemon, from one address and from the honest client's own: the daemon
// serves an honest client's calls in turn, and an honest client can connect.
func TestFloods(t *testing.T) {
	one := Strangers(1)
	for _, c := range []struct {
		floods Floods
		source func(i int) netip.Addr
	}{
		{Floods{}, one},
		{Floods{Peers: 1, Mute: true}, one},
		{Floods{Peers: 12, Mute: true}, one},
		{Floods{Peers: 12, Mute: true}, SharedAddress},
		{Floods{Peers: 12}, one},
		{Floods{Peers: 64, Mute: true}, one},
		{Floods{Peers: 64}, SharedAddress},
		{Floods{Peers: 64}, Strangers(64)},
		{Floods{Peers: 64, Mute: true}, Strangers(64)},
		{Floods{Peers: 64}, Neighbours6(64)},
		{Floods{Peers: 64, Mute: true}, Strangers6(64)},
	} {
		t.Run(c.floods.String(), func(t *testing.T) {
			s := stage(t, Config{IPv6: c.source(0).Is6()})
			s.Attack(c.floods, c.source)
			s.JudgeSeries(Null)
			s.Judge()
		})
	}
}
