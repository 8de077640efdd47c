package rpctest

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Message returns the RPC message of a call to the test program with AUTH_NONE. args writes the
// arguments; it may be nil.
func Message(xid, procedure uint32, args func(w *xdr.Writer)) []byte {
	return CallMessage(rpc.CallHeader{XID: xid, Program: Number, Version: 1, Procedure: procedure}, args)
}

// CallMessage returns the RPC message of a call with the header h. It contains the payloads that
// args writes.
func CallMessage(h rpc.CallHeader, args func(w *xdr.Writer)) []byte {
	w := xdr.NewWriter(make([]byte, 0, 128<<10))
	rpc.PutCall(w, &h)
	if args != nil {
		args(w)
	}
	if w.Overflow() {
		panic("rpctest: arguments do not fit")
	}
	var m []byte
	at := 0
	for _, p := range w.Payloads() {
		m = append(m, w.Bytes()[at:p.Position]...)
		m = append(m, p.Data...)
		m = append(m, make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(m, w.Bytes()[at:]...)
}
