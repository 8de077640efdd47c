// Package rpctest helps to test package rpc and the transports. Its Call has a Way
// without a network, which records the end of the call and offers a Room of the test's
// choice. Its toy program has a Binding and procedures for everything that a transport
// must carry: arguments and results that may be placed directly, unions around them,
// calls that stall, and calls that must not be executed twice.
//
// The package knows no real upper layer.
package rpctest
