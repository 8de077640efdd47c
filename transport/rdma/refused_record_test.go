package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// A refuser refuses each call. Then it changes the call's record, as another connection does that
// takes the record out of the pool for a call of its own.
type refuser struct {
	Calls
	next  rpc.Plan
	taken *call
}

func (r *refuser) Admit(c *rpc.Call) (rpc.Plan, bool) {
	r.taken = c.Way.(*call)
	c.Way.Refuse(rpc.RefuseNotACall)
	r.taken.plan = r.next
	return rpc.Plan{}, false
}

// When a call has been refused, its record belongs to the next call, perhaps of another
// connection: the transport writes nothing more into it.
func TestARefusedCallLeavesItsRecordAlone(t *testing.T) {
	k, _, feed := newInstant(t)
	r := &refuser{Calls: k.responder.calls, next: rpc.Plan{Reply: 100, Results: 1 << 20, Placement: true}}
	k.responder.calls = r
	feed(message{xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)}.bytes())
	if r.taken.plan != r.next {
		t.Errorf("the next call's plan is %+v, want %+v", r.taken.plan, r.next)
	}
}
