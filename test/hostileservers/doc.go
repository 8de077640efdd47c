// Package hostileservers runs nfsrdmad's tools, which are clients, against servers that are hostile, broken, or none of
// NFS: over TCP and over RDMA.
//
// Each tool is a process of its own. It must end by itself, tell a fault in a line, exit with 0 or 1, and keep its memory
// small, whatever the server sends. A relay must also end at SIGTERM, and serve on when its server does not.
//
// A server of tcp_servers_test.go deals with a TCP connection as it likes, and one of rdma_server_test.go with a connection
// over RDMA. One of mangled_test.go gives the answers of a real server, and changes them on the way: an octet, a length, a
// header of RPC-over-RDMA.
//
// RDMA is that of the software RNIC. With the flags -provider, -address and -program, the tests whose names end in RDMA, or
// have RDMAServers, run over a device. TestHostileServersOverDevices of test/kernel runs them over rxe in a guest.
package hostileservers
