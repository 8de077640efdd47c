package nfs4

// tellWhat tells package rpc which operation begins, and on which object, for lists of the calls in progress. An operation
// with Op.Try ends at once, and is in no list.
func (k *Compound) tellWhat(op *Operation) {
	switch e := k.Current.Export; {
	case k.Op.Try:
	case e == nil:
		k.Call.Doing(uint32(op.Number), 0, nil)
	default:
		k.Call.Doing(uint32(op.Number), e.ID, k.Current.Handle.Bytes())
	}
}
