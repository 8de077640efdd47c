// Package udp serves RPC programs over UDP (RFC 5531 §10): a datagram is a call or a reply. It is for the small programs
// beside NFSv3, whose clients use no other transport: the status monitor and the lock manager. It does not serve NFS.
//
// Anyone can write any source address into a datagram. So a Socket answers the calls of an address that has shown no file
// handle of this server only a few times a second, and sends no reply that is longer than its call.
package udp
