// Package interop tests the daemon with clients of other projects: the tools of libnfs (Debian's
// libnfs-utils) and github.com/vmware/go-nfs-client. Both use NFSv3 over TCP and ask rpcbind for
// ports. They connect to the daemon over TCP, and over RDMA through `nfsrdmad relay`.
//
// Debian's Prometheus scrapes the daemon, and evaluates the dashboard and the alerts in configs.
//
// Other tests record the messages between this module's requester and responder. tshark must name
// all of them.
//
// The tests have the build tag "interop". They need root, because each runs in its own network
// namespace.
package interop
