// Package xdrtest tests the types that xdrgen generates: it draws random
// values of them, tells what a value says on the wire item by item, and holds
// that against another implementation of the same definitions, whose types
// have the shape of github.com/buildbarn/go-xdr's.
//
// It is for tests only, and slow: all of it is reflection.
package xdrtest
