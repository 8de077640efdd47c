package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// RandomCompounds are peers on TCP that send random compounds. Some arguments come from a list of
// special values, others are random, and some calls have changed bytes. Half of the peers use
// sessions of NFSv4.2, the others are clients of NFSv4.0.
//
// Each peer costs the daemon the execution of its calls. No compound may cause a fault of the
// server.
type RandomCompounds struct {
	Peers int
	// Handles are the file handles for PUTFH; the first is a directory. Calls is the number of
	// calls after which a peer counts as standing; the peer then continues.
	Handles [][]byte
	Calls   int
}

func (b RandomCompounds) String() string {
	return fmt.Sprintf("%d NFSv4 clients that send compounds drawn by lot, %d each at least", b.Peers, b.Calls)
}

// Start implements Behaviour.
func (b RandomCompounds) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		conn, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, conn)()
		d := &drawing{Rand: rand.New(rand.NewPCG(uint64(i), 1)), handles: b.Handles}
		d.client = &client4{link: tcpLink(conn), minor: 2 * uint32(i%2)}
		for n, most := 0, b.Calls; ; {
			calls, err := d.life(i, most-n)
			if n += calls; n >= most {
				stands()
				most = 1 << 62
			}
			if err != nil {
				return err
			}
		}
	})
}

// A drawing generates the random compounds of one peer.
type drawing struct {
	*rand.Rand
	client   *client4
	handles  [][]byte
	sequence uint32
}

// life makes up to max(n, 100) calls. A client of NFSv4.2 first creates a client ID and a session,
// and life returns early if a call changes the session or its slot.
func (d *drawing) life(peer, n int) (calls int, err error) {
	c := d.client
	if c.minor == 0 {
		d.sequence = 0
	} else if err := c.start(fmt.Appendf(nil, "drawn %d %d", peer, d.Uint32()), 4); err != nil {
		return 0, err
	}
	d.sequence = 2
	for range max(n, 100) {
		var ops []op4
		if c.minor > 0 {
			ops = append(ops, c.sequence(0, d.sequence, d.IntN(2) == 0))
		}
		for range 1 + d.IntN(3) {
			ops = append(ops, putFH(d.handles[d.IntN(len(d.handles))]))
			if d.IntN(2) == 0 {
				ops = append(ops, op4{number: wire.OpSaveFH})
			}
			for range 1 + d.IntN(4) {
				ops = append(ops, d.op())
			}
		}
		spared := 0
		if c.minor > 0 {
			spared = 1
		}
		results, err := c.send(ops, spared, func(b []byte) {
			for range d.IntN(4) - 1 {
				b[d.IntN(len(b))] = byte(d.Uint32())
			}
		})
		var refused refusal
		if err != nil && !errors.As(err, &refused) {
			return calls, err
		}
		calls++
		if c.minor > 0 && err == nil {
			switch s := firstStatus(results); s {
			case wire.NFS4OK:
				d.sequence++
			case wire.NFS4ErrBadXDR, wire.NFS4ErrReqTooBig, wire.NFS4ErrTooManyOps, wire.NFS4ErrRepTooBig, wire.NFS4ErrRepTooBigToCache:
			default:
				return calls, nil // an operation changed the session or its slot
			}
		}
	}
	return calls, nil
}

// firstStatus returns the status of a compound's first result, or of the compound if it has no
// results.
func firstStatus(d *xdr.Decoder) wire.NFSStat4 {
	status := wire.NFSStat4(d.Uint32())
	d.Opaque(1 << 20)
	if n := d.Uint32(); n == 0 || d.Err() != nil {
		return status
	}
	d.Skip(4)
	return wire.NFSStat4(d.Uint32())
}

// drawn are the operations from which random compounds are made, with the types of their
// arguments.
var drawn = []struct {
	number wire.OpNum
	args   encoder
}{
	{wire.OpAccess, &wire.Access4Args{}}, {wire.OpClose, &wire.Close4Args{}}, {wire.OpCommit, &wire.Commit4Args{}},
	{wire.OpCreate, &wire.Create4Args{}}, {wire.OpDelegpurge, &wire.DelegPurge4Args{}}, {wire.OpDelegreturn, &wire.DelegReturn4Args{}},
	{wire.OpGetattr, &wire.Getattr4Args{}}, {wire.OpGetFH, nil}, {wire.OpLink, &wire.Link4Args{}}, {wire.OpLock, &wire.Lock4Args{}},
	{wire.OpLockt, &wire.Lockt4Args{}}, {wire.OpLocku, &wire.Locku4Args{}}, {wire.OpLookup, &wire.Lookup4Args{}},
	{wire.OpLookupp, nil}, {wire.OpNverify, &wire.Nverify4Args{}}, {wire.OpOpen, &wire.Open4Args{}}, {wire.OpOpen, &wire.Open4Args{}},
	{wire.OpOpenattr, &wire.Openattr4Args{}}, {wire.OpOpenConfirm, &wire.OpenConfirm4Args{}},
	{wire.OpOpenDowngrade, &wire.OpenDowngrade4Args{}}, {wire.OpPutPubFH, nil}, {wire.OpPutRootFH, nil}, {wire.OpRead, &wire.Read4Args{}},
	{wire.OpReaddir, &wire.Readdir4Args{}}, {wire.OpReadlink, nil}, {wire.OpRemove, &wire.Remove4Args{}}, {wire.OpRename, &wire.Rename4Args{}},
	{wire.OpRenew, &wire.Renew4Args{}}, {wire.OpRestoreFH, nil}, {wire.OpSecInfo, &wire.SecInfo4Args{}}, {wire.OpSetattr, &wire.Setattr4Args{}},
	{wire.OpSetClientID, &wire.SetClientID4Args{}}, {wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{}},
	{wire.OpVerify, &wire.Verify4Args{}}, {wire.OpWrite, &wire.Write4Args{}}, {wire.OpReleaseLockOwner, &wire.ReleaseLockOwner4Args{}},
	{wire.OpBackchannelCtl, &wire.BackchannelCtl4Args{}}, {wire.OpBindConnToSession, &wire.BindConnToSession4Args{}},
	{wire.OpExchangeID, &wire.ExchangeID4Args{}}, {wire.OpCreateSession, &wire.CreateSession4Args{}},
	{wire.OpFreeStateID, &wire.FreeStateID4Args{}}, {wire.OpSetSSV, &wire.SetSsv4Args{}}, {wire.OpTestStateID, &wire.TestStateID4Args{}},
	{wire.OpDestroyClientID, &wire.DestroyClientID4Args{}}, {wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}},
	{wire.OpAllocate, &wire.Allocate4Args{}}, {wire.OpCopy, &wire.Copy4Args{}}, {wire.OpCopyNotify, &wire.CopyNotify4Args{}},
	{wire.OpDeallocate, &wire.Deallocate4Args{}}, {wire.OpIOAdvise, &wire.IOAdvise4Args{}}, {wire.OpOffloadCancel, &wire.OffloadCancel4Args{}},
	{wire.OpOffloadStatus, &wire.OffloadStatus4Args{}}, {wire.OpReadPlus, &wire.ReadPlus4Args{}}, {wire.OpSeek, &wire.Seek4Args{}},
	{wire.OpClone, &wire.Clone4Args{}}, {wire.OpGetXattr, &wire.GetXattr4Args{}}, {wire.OpSetXattr, &wire.SetXattr4Args{}},
	{wire.OpListXattrs, &wire.ListXattrs4Args{}}, {wire.OpRemoveXattr, &wire.RemoveXattr4Args{}},
	{wire.OpIllegal, nil}, {wire.OpLayoutget, nil},
}

// op returns a random operation.
func (d *drawing) op() op4 {
	o := drawn[d.IntN(len(drawn))]
	if o.args == nil {
		return op4{number: o.number}
	}
	v := reflect.New(reflect.TypeOf(o.args).Elem())
	d.fill(v.Elem())
	return op4{o.number, v.Interface().(encoder)}
}

// drawnNumbers, drawnNames and drawnStates are special values, which random arguments have more
// often than other values.
var (
	drawnNumbers = []uint64{0, 1, 2, 3, 4, 7, 128, 4096, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1}
	drawnNames   = []string{"", ".", "..", "a", "b", "c", "a/b", "\xff\xfe", "a\x00b", "empty0", "empty1", victimName, manyName, strings.Repeat("n", 255), strings.Repeat("n", 300)}
	drawnStates  = []wire.StateID4{{}, {Seqid: 1}, {Seqid: 1<<32 - 1}, {Seqid: 1<<32 - 1, Other: [12]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}}
)

func (d *drawing) number() uint64 {
	switch d.IntN(4) {
	case 0:
		return d.Uint64()
	case 1:
		return drawnNumbers[d.IntN(len(drawnNumbers))]
	}
	return d.Uint64N(8)
}

// fill sets v to a random value.
func (d *drawing) fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *wire.StateID4:
		if *p = drawnStates[d.IntN(len(drawnStates))]; d.IntN(2) == 0 {
			*p = wire.StateID4{Seqid: 1} // the current stateid
		}
		return
	case *wire.FAttr4:
		*p = d.attributes()
		return
	case *wire.Bitmap4:
		for range d.IntN(12) {
			p.Set(d.Uint32N(96))
		}
		return
	case *wire.UTF8String:
		*p = wire.UTF8String(drawnNames[d.IntN(len(drawnNames))])
		return
	case *uint64:
		if *p = d.number(); d.IntN(4) == 0 {
			*p = d.client.id
		}
		return
	case *xdr.Eligible:
		p.Data = make([]byte, d.IntN(3000))
		return
	case *wire.StateOwner4:
		*p = wire.StateOwner4{Clientid: d.client.id, Owner: fmt.Append(nil, d.IntN(3))}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				d.fill(v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			d.fill(v.Index(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(make([]byte, d.IntN(1100)))
		}
	case reflect.Bool:
		v.SetBool(d.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(int32(d.number())))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(uint32(d.number())))
	}
}

// attributes returns random attributes. Their values have about the right length.
func (d *drawing) attributes() (a wire.FAttr4) {
	for range d.IntN(4) {
		a.Attrmask.Set([]uint32{1, 3, 4, 12, 33, 36, 37, 48, 54, 81, 75, 58, 84}[d.IntN(13)])
	}
	w := xdr.NewWriter(make([]byte, 0, 4096))
	for range d.IntN(5) {
		switch d.IntN(3) {
		case 0:
			w.Uint32(uint32(d.number()))
		case 1:
			w.Uint64(d.number())
		default:
			w.Opaque([]byte(drawnNames[d.IntN(len(drawnNames))]))
		}
	}
	a.AttrVals = w.Bytes()
	return a
}
