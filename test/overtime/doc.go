// Package overtime judges the fate of a client's calls over time.
//
// A machine of this package makes calls as an NFS client does: a call keeps its XID, a timer
// sends copies of it on the same connection, and a new connection gets a copy of each call that
// has no answer. The network loses messages in one direction or in both, delays messages and
// delivers them after later messages of another connection, resets connections, and drops
// connections without telling the server. The disk is slow, and gets stuck once. A seed
// determines all of it.
//
// The clients' calls and their answers are a history. Blocks and sizes of files are registers,
// names are locks. A history is right if it can come from executing each call once, at one moment
// between its first sending and its answer: once is that model, and the checker is porcupine's.
// The package prints a wrong history with its seed, and with the events of one object up to the
// first impossible answer.
//
// The histories run under testing/synctest, over TCP connections in memory and over the RDMA
// provider of rdmatest, so that minutes cost milliseconds. OVERTIME_SEEDS is the number of seeds
// to try, OVERTIME_FROM the first one, OVERTIME_CLIENTS the size of the crowd that loses all its
// connections at once.
package overtime
