// Package interop holds tests against clients of other projects: libnfs's tools (Debian's
// libnfs-utils) and github.com/vmware/go-nfs-client. Both speak NFS version 3 over TCP and ask
// rpcbind for ports. They use the daemon over TCP, and over RDMA through 'nfsrdmad relay'.
//
// Other tests record this module's requester and responder, and tshark must name all their
// messages.
//
// The tests have the build tag "interop". They need root, because each runs in a network
// namespace of its own.
package interop
