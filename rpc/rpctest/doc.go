// Package rpctest is what tests of the rpc package and of transports share: a
// transport that is none (a Way that records what became of a call, with a Room
// to choose), and a toy program with a Binding, whose procedures show what a
// transport must carry: arguments and results that may be placed directly, unions
// around them, calls that stall, calls that must not be executed twice.
//
// It knows no upper layer of the product.
package rpctest
