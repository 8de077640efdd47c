// Package rpctest is for tests of package rpc and of the transports. Its Call is an rpc.Call with a
// Way that uses no network: it records the end of the call, and the test chooses its Room. Its test
// program has procedures for all cases that a transport has to handle: arguments and results that
// are eligible for direct data placement, unions around them, calls that block, and calls that must
// not be executed twice.
//
// The package imports no real program, such as NFS.
package rpctest
