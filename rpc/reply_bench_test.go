package rpc_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// BenchmarkReplyCache makes calls that must not be executed twice, over many connections at once.
func BenchmarkReplyCache(b *testing.B) {
	for _, clients := range []int{1, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := rpc.NewServer(rpc.Config{})
			defer s.Close()
			s.Register(rpctest.NewProgram())
			var next atomic.Uint32
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				n := next.Add(1)
				client := n % uint32(clients)
				conn := s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(client >> 8), byte(client)}), uint16(n)), local, "tcp", true)
				c := rpctest.NewCall(conn, rpctest.Message(0, rpctest.BUMP, bump("")))
				m := rpctest.Message(0, rpctest.BUMP, bump(""))
				for xid := uint32(0); pb.Next(); xid++ {
					m[0], m[1], m[2], m[3] = byte(xid>>24), byte(xid>>16), byte(xid>>8), byte(xid)
					c.Again(conn, m)
					c.Run(s)
				}
			})
		})
	}
}
