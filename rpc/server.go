package rpc

import "net/netip"

// Config bounds a Server.
type Config struct {
	// Workers is the most goroutines that calls which may block run on, for
	// all lanes together (default 1024); LaneWorkers for one lane (64).
	Workers, LaneWorkers int
	// ReplyCacheEntries and ReplyCacheBytes bound the duplicate-request cache
	// (defaults 8192 and 8 MiB).
	ReplyCacheEntries int
	ReplyCacheBytes   int64
}

// NewConn is for transports: a connection that calls will come by.
func (s *Server) NewConn(peer, local netip.AddrPort, transport string, privileged bool) *Conn {
	return &Conn{
		ID: s.connID.Add(1), Peer: peer, Local: local,
		Transport: transport, Privileged: privileged,
		done: make(chan struct{}),
	}
}
