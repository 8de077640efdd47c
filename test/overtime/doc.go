// Package overtime judges what becomes of a client's calls over time.
//
// A machine of this package makes calls as an NFS client does: a call keeps its XID, a
// timer sends copies of it on the same connection, and a new connection gets a copy of
// each call that has no answer. The network loses what is sent in one direction or in
// both, holds it back and delivers it behind what was sent later on another connection,
// resets connections, and forgets them without a word to the server. The disk is slow,
// and is stuck once. All of it is drawn by a seed.
//
// What the clients asked and were told is a history. Blocks and sizes of files are
// registers, names are locks. The history is right if an execution of each call at one
// moment between its first sending and its answer could have given it: once is that
// model, and the checker is porcupine's. A history that is wrong is printed with its seed,
// and with what happened to the one object up to the first answer that cannot be.
//
// The histories are made under testing/synctest, over TCP connections in memory and over
// the RDMA provider of rdmatest, so that minutes cost milliseconds. OVERTIME_SEEDS says how many seeds
// to try, OVERTIME_FROM the first one, OVERTIME_CLIENTS how large the crowd is that loses all its
// connections at once.
package overtime
