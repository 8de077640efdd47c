// Package interop holds tests against clients from other projects: libnfs's
// tools (Debian's libnfs-utils) and github.com/vmware/go-nfs-client, both of which
// speak NFS version 3 over TCP and ask rpcbind for ports. They meet the daemon
// over TCP, and over RDMA by way of 'nfsrdmad relay'.
//
// Requester and responder of this module are recorded as they talk to each other,
// and tshark has to name all that they say.
//
// The tests are behind the build tag "interop". They need to be root, as each runs
// in a network namespace of its own.
package interop
