// Package census counts the connections of a process, of all its listeners and
// transports together, and decides which have a place when there are too many.
//
// Each connection has a Seat, from the moment it arrives until its descriptor is
// closed. A seat goes through stages: it arrives (its set-up is under way), it is
// silent (set up, and nothing whole has come from the peer), it is a stranger's
// (the peer was heard, and made no call that a stranger could not make), it is a
// known peer's. The transports tell the stages; which calls make a peer known is
// not decided here.
//
// The Census bounds the seats in all and those of one client address. A newcomer
// that finds no seat free takes one from another connection, by the rules in
// victim.go: idle connections, however many, lock out no newcomer, and newcomers,
// however many, throw out no connection that works.
//
// Every stage but the last has a deadline, after which the Census ends the
// connection. Nothing on the way of a call looks at a clock or takes a lock for
// any of this.
package census
