package nfs3

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// memory hands out n bytes of the call's payload memory for a result, or nil
// where the call's plan did not ask for so much (a plan asks for none where a
// READ asks for nothing). The request keeps the reference until eligible passes
// it on, and gives it back in every other case, when its procedure ends.
func (r *request) memory(n int) []byte {
	b, ref := r.call.ResultMemory(n)
	if ref != nil {
		r.held = ref
	}
	return b
}

// eligible makes data, which lies in what memory handed out, a result that may be
// placed directly. The reference belongs to the result from now on.
func (r *request) eligible(data []byte) xdr.Eligible {
	e := xdr.Eligible{Data: data, Ref: r.held}
	r.held = nil
	return e
}

// giveBack ends what memory began, where no result took the reference.
func (r *request) giveBack() {
	if r.held != nil {
		r.held.Release()
		r.held = nil
	}
}
