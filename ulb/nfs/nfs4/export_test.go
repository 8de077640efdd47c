package nfs4

import (
	"reflect"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// GiveWay makes every compound let other calls run after each of its operations.
func (p *Program) GiveWay() {
	p.givesWay = func(*rpc.Call, time.Duration) bool { return true }
}

// TakeStateids returns the operations of a minor version whose arguments contain a stateid.
func (p *Program) TakeStateids(minor uint32) (all []wire.OpNum) {
	for _, op := range p.minors[minor].operations {
		if op != nil && hasStateid(argumentsOf(op)) {
			all = append(all, op.Number)
		}
	}
	return all
}

// argumentsOf returns the type of the arguments of an operation, or nil if it has none. It lets the
// operation decode no bytes: WithArgs then keeps the arguments, and does not run the operation.
func argumentsOf(op *Operation) reflect.Type {
	k := &Compound{Args: new(xdr.Decoder)}
	func() {
		defer func() { _ = recover() }() // an operation without arguments runs
		op.Run(k)
	}()
	if len(k.args) == 0 || k.args[0] == nil {
		return nil
	}
	return reflect.TypeOf(k.args[0]).Elem()
}

// hasStateid reports whether a type of nfs4wire, or one that it is made of, is a stateid.
func hasStateid(t reflect.Type) bool {
	switch {
	case t == nil:
		return false
	case strings.Contains(t.String(), "StateID4"): // also a list of stateids, which is a type with a method Next
		return true
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return hasStateid(t.Elem())
	case t.Kind() != reflect.Struct:
		return false
	}
	for i := range t.NumField() {
		if hasStateid(t.Field(i).Type) {
			return true
		}
	}
	return false
}

// Shared lists the operations that the minor versions have in common.
var Shared = shared

// MostOf returns the length of the longest values of a set of attributes, without the set itself, in bytes.
func MostOf(set *wire.Bitmap4) (n int) {
	for _, a := range attributeTable {
		if set.Has(a.number) {
			n += a.most
		}
	}
	return n
}

// ReservePiece is the number of bytes that ALLOCATE and DEALLOCATE change at a time.
const ReservePiece = reservePiece
