// Package nlm serves the locks of NFSv3: the Network Lock Manager version 4 (RFC 1813 appendix II), and the versions 1 and
// 3 (X/Open C702), which differ in the size of offsets. It is served on NFS's own ports, as MOUNT is; a client finds the
// port through rpcbind.
//
// A caller is a host: the name that it gives itself, at its address. Its owners are pairs of a process number and
// an opaque name, both of which come back as they came. Package state keeps the locks, in one table with those of
// NFSv4 clients and of the processes of this machine.
//
// macOS and BSD lock by calls with _MSG, which the server answers by calls with _RES. The package serves all calls that
// clients send to servers, and sends those that servers send to clients.
package nlm
