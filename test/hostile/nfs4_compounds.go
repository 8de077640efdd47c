package hostile

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Compounds are NFSv4.2 clients on TCP, each with one session, that send a Repeated compound over
// and over. Each slot has a compound under way.
//
// Each peer costs the daemon the goroutines and the processor time that execute its compounds.
type Compounds struct {
	Peers, Slots int
	Repeated
}

// A Repeated is a compound that Compounds send.
type Repeated struct {
	What string
	// File is the file that each client opens first.
	File []byte
	// Ops returns the operations of the client's compound number n, without SEQUENCE.
	Ops func(c *lockClient, n uint64) []op4
	// Want is the status that the compound must end with.
	Want wire.NFSStat4
}

func (b Compounds) String() string {
	return fmt.Sprintf("%d NFSv4.2 clients on TCP with %d compounds under way: %s", b.Peers, b.Slots, b.What)
}

// Start implements Behaviour.
func (b Compounds) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, "tcp", i)
		if err != nil {
			return err
		}
		defer end()
		first := &client4{minor: 2, link: l}
		c, err := first.openClient(fmt.Appendf(nil, "compounds %d", lives.Add(1)), b.File, uint32(b.Slots))
		if err != nil {
			return err
		}
		sequences := make([]uint32, min(uint32(b.Slots), c.slots))
		sequences[0] = c.next - 1
		n := uint64(0)
		put := func(slot uint32) error {
			sequences[slot]++
			ops := append([]op4{c.sequence(slot, sequences[slot], false)}, b.Ops(c, n)...)
			n++
			return c.put(compound(slot, c.minor, ops, 0, nil))
		}
		for slot := range sequences {
			if err := put(uint32(slot)); err != nil {
				return err
			}
		}
		stands()
		for {
			m, err := c.await()
			if err == nil {
				err = ended(m, b.Want)
			}
			if err == nil {
				err = put(be.Uint32(m))
			}
			if err != nil {
				return err
			}
		}
	})
}

// ended returns an error unless m is the reply to a compound that ended with the status want.
func ended(m []byte, want wire.NFSStat4) error {
	d := xdr.NewDecoder(m)
	d.Skip(6 * 4) // XID, reply, accepted, verifier, success
	status := wire.NFSStat4(d.Uint32())
	if d.Err() != nil {
		return d.Err()
	}
	if status != want {
		return status4(status)
	}
	return nil
}

// ShortCopies copies 4 KiB from one file to another, 31 times.
func ShortCopies(from, to []byte) Repeated {
	return Repeated{What: "31 COPYs", File: to, Ops: func(c *lockClient, _ uint64) []op4 {
		const size = 4 * kib
		ops := []op4{putFH(from), {number: wire.OpSaveFH}, putFH(to)}
		for k := range uint64(31) {
			ops = append(ops, op4{wire.OpCopy, &wire.Copy4Args{
				DstStateid: c.open, SrcOffset: k * size, DstOffset: mib + k*size, Count: size, Consecutive: true, Synchronous: true,
			}})
		}
		return ops
	}}
}

// RefusedCopies is ShortCopies from a file to itself, which the daemon refuses (RFC 7862 §15.2.3).
func RefusedCopies(file []byte) Repeated {
	r := ShortCopies(file, file)
	r.What, r.Want = r.What+" that are refused", wire.NFS4ErrInvalid
	return r
}

// Clones clones a whole file to another one, 31 times.
func Clones(from, to []byte) Repeated {
	return Repeated{What: "31 CLONEs", File: to, Ops: func(c *lockClient, _ uint64) []op4 {
		return append([]op4{putFH(from), {number: wire.OpSaveFH}, putFH(to)},
			times(31, op4{wire.OpClone, &wire.Clone4Args{DstStateid: c.open}})...)
	}}
}

// asked are the attributes that the compounds below ask for: all that the daemon has of a file,
// except its ACL.
var asked = wire.Bits(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19, 20, 21, 22, 23, 26, 27, 28, 29, 30, 31, 33, 35, 36, 37, 41, 42, 43, 44, 45, 47, 51, 52, 53, 55)

// Listings lists a directory with the attributes of its entries, as many as one reply can have.
// Half of the compounds begin at cookie 0, the others at cookies that the daemon never issued.
func Listings(dir, file []byte) Repeated {
	return Repeated{What: "READDIR with attributes", File: file, Ops: func(_ *lockClient, n uint64) []op4 {
		cookie := uint64(0)
		if n%2 > 0 {
			cookie = 3 + n*0x9e3779b97f4a7c15>>2
		}
		return []op4{putFH(dir), {wire.OpReaddir, &wire.Readdir4Args{
			Cookie: cookie, Dircount: mib, Maxcount: mib, AttrRequest: asked,
		}}}
	}}
}

// A compound has 127 operations at most, besides SEQUENCE. opsTogether is the number of groups of
// three operations in it.
const opsTogether = 42

// LookUps looks up a name in a directory and asks for its attributes, as often as a compound can.
func LookUps(dir, file []byte, name string) Repeated {
	return Repeated{What: "LOOKUP and GETATTR", File: file, Ops: func(*lockClient, uint64) []op4 {
		return times(opsTogether, putFH(dir), op4{wire.OpLookup, &wire.Lookup4Args{Objname: []byte(name)}},
			op4{wire.OpGetattr, &wire.Getattr4Args{AttrRequest: asked}})
	}}
}

// currentStateID is the special value for the current stateid: the stateid that an earlier
// operation of the same compound has set (RFC 8881 §16.2.3.1.2).
var currentStateID = wire.StateID4{Seqid: 1}

// Reopens opens a name of a directory and closes it, as often as a compound can. Each OPEN is by
// another open-owner.
func Reopens(dir, file []byte, name string) Repeated {
	return Repeated{What: "OPEN and CLOSE", File: file, Ops: func(c *lockClient, n uint64) (ops []op4) {
		for k := range opsTogether {
			ops = append(ops, putFH(dir), op4{wire.OpOpen, &wire.Open4Args{
				ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: c.id, Owner: fmt.Append(nil, n, k)},
				Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{File: []byte(name)},
			}}, op4{wire.OpClose, &wire.Close4Args{OpenStateid: currentStateID}})
		}
		return ops
	}}
}

// RepeatedLocks locks `held` single bytes of a file and keeps them locked. Then it locks another
// byte, tests for locks of all the bytes that it has locked, and unlocks the byte, as often as a
// compound can. All locks are by one lock-owner, and lie beyond the bytes that honest clients
// lock.
func RepeatedLocks(file []byte, held uint64) Repeated {
	const at = 1 << 32
	return Repeated{What: fmt.Sprintf("%d LOCKs, then LOCK, LOCKT and LOCKU", held), File: file, Ops: func(c *lockClient, n uint64) []op4 {
		ops, owner := []op4{putFH(file)}, []byte("locker")
		for k := range uint64(opsTogether) {
			first := at + lockStride*(n*opsTogether+k)
			ops = append(ops, c.locking(owner, wire.WriteLt, first, 1))
			if n*opsTogether >= held {
				ops = append(ops, op4{wire.OpLockt, &wire.Lockt4Args{
					Locktype: wire.WriteLt, Offset: at, Length: lockStride * held, Owner: wire.StateOwner4{Clientid: c.id, Owner: owner},
				}}, op4{wire.OpLocku, &wire.Locku4Args{Locktype: wire.WriteLt, LockStateid: currentStateID, Offset: first, Length: 1}})
			}
		}
		return ops
	}}
}
