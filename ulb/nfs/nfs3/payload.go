package nfs3

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// memory returns n bytes of the call's payload memory for a result. It returns nil if the
// call has less than that (a READ of 0 bytes has none). The request holds the reference until
// eligible passes it on, and otherwise releases it when the procedure ends.
func (r *request) memory(n int) []byte {
	b, ref := r.call.ResultMemory(n)
	if ref != nil {
		r.held = ref
	}
	return b
}

// eligible returns data as a result that the transport may place directly. data lies in the
// memory that memory returned. The result now holds the reference.
func (r *request) eligible(data []byte) xdr.Eligible {
	e := xdr.Eligible{Data: data, Ref: r.held}
	r.held = nil
	return e
}

// giveBack releases payload memory that no result took.
func (r *request) giveBack() {
	if r.held != nil {
		r.held.Release()
		r.held = nil
	}
}
