// Package xdrtest tests the types that xdrgen generates. It draws random values, lists
// the items of a value on the wire, and compares them with another implementation of the
// same definitions, whose types have the form of github.com/buildbarn/go-xdr.
//
// It is for tests only, and slow, because it works by reflection.
package xdrtest
