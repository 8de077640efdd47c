// Package census counts the connections of a process, of all its listeners and transports together,
// and decides which of them may stay when there are too many.
//
// Each connection has a Seat, from the moment it arrives until its descriptor is closed. A seat
// goes through stages: Arriving (its set-up is under way), Silent (it is set up, and no whole
// message has come from the peer), Stranger (messages have come, but no call that only a known peer
// makes), Known. The transports report the stages; the protocols decide which calls make a peer
// known.
//
// The Census bounds the number of seats, in all and for one client address. If no seat is free, a
// newcomer takes one from another connection, by the rules in victim.go: no number of idle
// connections locks out newcomers, and no number of newcomers displaces a connection that works.
//
// Every stage but the last has a deadline, after which the Census ends the connection. For this,
// handling a call never reads a clock or takes a lock.
package census
