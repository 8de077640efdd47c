// Package overtime tests that the server executes each call of a client exactly once, although
// calls and replies are delayed, lost and repeated.
//
// A machine of this package makes calls as an NFS client does: a call keeps its XID, a timer sends
// copies of it on the same connection, and a new connection gets a copy of each call that has no
// answer. The network loses messages in one direction or in both, delays messages, delivers them
// after later messages of another connection, resets connections, and drops connections without
// telling the server. The disk is slow, and may get stuck once. A seed determines all of this.
//
// The calls of the clients and their answers are a history. Each object of a history is checked by
// itself: a block of a file, the size of a file, a directory with its names, or the byte-range lock
// of NFSv4.0. A history is correct if the server can have executed each call exactly once, at one
// moment between the first sending of the call and its answer. The variable once is a model of
// this, and the library porcupine checks histories against the model. The package prints an
// incorrect history with its seed, and with the events of one object up to the first impossible
// answer.
//
// The histories run under testing/synctest, over TCP connections in memory and over the RDMA
// provider of rdmatest, so that minutes of the test's clock take milliseconds. OVERTIME_SEEDS is
// the number of seeds to try, OVERTIME_FROM the first seed, and OVERTIME_CLIENTS the number of
// clients in the crowd that loses all its connections at once.
package overtime
