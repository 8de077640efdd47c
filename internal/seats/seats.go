// Package seats lets RDMA providers count their connections in a census.Census, through the
// interface rdmacm.Seats.
package seats

import (
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Of returns c as an rdmacm.Seats.
func Of(c *census.Census) rdmacm.Seats { return counted{c} }

type counted struct{ *census.Census }

// Arrive implements rdmacm.Seats.
func (c counted) Arrive(peer netip.AddrPort, h rdmacm.Holder) (rdmacm.Seat, error) {
	s, err := c.Census.Arrive(census.Peer{Addr: peer, Transport: "rdma"}, h)
	if err != nil {
		return nil, err
	}
	return seat{s}, nil
}

type seat struct{ *census.Seat }

// Hold implements rdmacm.Seat.
func (s seat) Hold(h rdmacm.Holder, moved *atomic.Uint64) { s.Seat.Hold(h, moved) }
