// Package xdrtest has functions for tests of the types that xdrgen generates. They draw random
// values, list the items of a value on the wire, and compare the types with another implementation
// of the same definitions: types in the form of github.com/buildbarn/go-xdr.
//
// It is for tests only, and slow, because it works by reflection.
package xdrtest
