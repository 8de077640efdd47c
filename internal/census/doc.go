// Package census counts the connections of a process, of all its listeners and transports together,
// and decides which of them may stay when there are too many.
//
// Each connection has a Seat, from the moment it arrives until its descriptor is closed. A seat
// goes through stages: Arriving (the connection is being set up), Silent (it is set up, and no
// whole message has come from the peer), Stranger (messages have come, but the peer is not known),
// Known (the peer has sent something that only a real client has, such as a file handle of this
// server). The transports report the stages; the protocols decide which calls make a peer known.
//
// The Census limits the number of seats, in all and for each client address. If no seat is free, a
// newcomer takes the seat of another connection, by the rules in victim.go. So idle connections,
// however many, do not lock out newcomers, and newcomers, however many, do not displace a
// connection that works.
//
// Every stage except Known has a deadline, after which the Census ends the connection. These
// deadlines cost calls no time: no call reads a clock or takes a lock for them.
package census
