package hostile

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// op4 is one operation of a compound (RFC 8881 §2.3).
type op4 struct {
	number wire.OpNum
	args   encoder
}

// compound returns a call with operations of a minor version. If change is not nil, it may change
// the encoded bytes of all operations except the first `spared` ones.
func compound(xid, minor uint32, ops []op4, spared int, change func(b []byte)) []byte {
	b := call(xid, nfsProgram, wire.ProcCompound)
	be.PutUint32(b[16:], wire.Version)
	w := xdr.NewWriter(make([]byte, 0, 64*kib))
	w.Opaque(nil)
	w.Uint32(minor)
	w.Uint32(uint32(len(ops)))
	at := w.Len()
	for i, o := range ops {
		if i == spared {
			at = w.Len()
		}
		w.Uint32(uint32(o.number))
		if o.args != nil {
			o.args.Encode(w)
		}
	}
	body := whole(w)
	if change != nil && at < len(body) {
		change(body[at:])
	}
	return append(b, body...)
}

// whole returns the encoded bytes of w, with each payload inserted at its position.
func whole(w *xdr.Writer) (b []byte) {
	words, at := w.Bytes(), 0
	for _, p := range w.Payloads() {
		b = append(append(b, words[at:p.Position]...), p.Data...)
		b = append(b, make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(b, words[at:]...)
}

// A client4 is an NFSv4 client on one connection. From minor version 1 on it has one session. It
// makes one call at a time.
type client4 struct {
	minor uint32
	link
	// If back is true, sessions have a backchannel over their connection. If called is not nil,
	// await passes the daemon's calls to it; otherwise the client does not answer them.
	back   bool
	called func(call []byte) error
	xid    uint32
	id     uint64
	// verifier is the verifier of the client owner. A client that takes the name of another client
	// can have a verifier of its own.
	verifier wire.Verifier4
	made     uint32 // the sequence number of the next CREATE_SESSION
	session  wire.SessionID4
	slots    uint32
}

// A status4 is the status of an operation that failed.
type status4 wire.NFSStat4

// A refusal is a reply to a call that the daemon did not execute.
type refusal struct {
	how  string
	stat uint32
}

func (r refusal) Error() string { return fmt.Sprintf("the call was %s: %d", r.how, r.stat) }

func (s status4) Error() string { return wire.NFSStat4(s).String() }

// do makes a call, and returns a decoder at the result of the first operation. If an operation
// failed, the error is a status4.
func (c *client4) do(ops ...op4) (*xdr.Decoder, error) {
	d, err := c.send(ops, 0, nil)
	if err != nil {
		return nil, err
	}
	status := wire.NFSStat4(d.Uint32())
	d.Opaque(1 << 20)
	d.Uint32()
	switch {
	case d.Err() != nil:
		return nil, d.Err()
	case status != wire.NFS4OK:
		return d, status4(status)
	}
	return d, nil
}

// send sends the COMPOUND that the function compound builds from the arguments, waits for the reply,
// and returns a decoder for its results.
func (c *client4) send(ops []op4, spared int, change func(b []byte)) (*xdr.Decoder, error) {
	c.xid++
	if err := c.put(compound(c.xid, c.minor, ops, spared, change)); err != nil {
		return nil, err
	}
	b, err := c.await()
	for err == nil && be.Uint32(b) != c.xid {
		b, err = c.await() // skips replies to earlier calls that the client did not wait for
	}
	if err != nil {
		return nil, err
	}
	d := xdr.NewDecoder(b)
	d.Skip(4 + 4) // XID, reply
	if reply := d.Uint32(); reply != 0 {
		return nil, refusal{"denied", reply}
	}
	d.Skip(4)
	d.Opaque(400)
	if accepted := d.Uint32(); accepted != 0 {
		return nil, refusal{"refused", accepted}
	}
	return d, nil
}

// await returns the next reply. It passes calls of the daemon that arrive before the reply to
// c.called, or ignores them if c.called is nil.
func (c *client4) await() ([]byte, error) {
	for {
		b, err := c.next()
		switch {
		case err != nil:
			return nil, err
		case len(b) < 8:
			return nil, fmt.Errorf("a message of %d bytes", len(b))
		case be.Uint32(b[4:]) != 0:
			return b, nil
		case c.called == nil:
		default:
			if err := c.called(b); err != nil {
				return nil, err
			}
		}
	}
}

// exchange creates a client ID for this name. It returns the sequence number for CREATE_SESSION.
func (c *client4) exchange(name []byte) (sequence uint32, err error) {
	d, err := c.do(op4{wire.OpExchangeID, &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Ownerid: name, Verifier: c.verifier}}})
	if err != nil {
		return 0, err
	}
	d.Skip(4)
	var res wire.ExchangeID4Res
	res.Decode(d)
	c.id = res.ResOK.Clientid
	return res.ResOK.Sequenceid, d.Err()
}

// create creates a session and asks for this number of slots; c.slots is the number that the
// daemon grants.
func (c *client4) create(sequence, slots uint32) error {
	channel := wire.ChannelAttrs4{
		Maxrequestsize: 1 << 20, Maxresponsesize: 1 << 20, MaxresponsesizeCached: 64 * kib, Maxoperations: 128, Maxrequests: slots,
	}
	return c.createAs(sequence, channel)
}

// createAs creates a session with these attributes of the fore channel.
func (c *client4) createAs(sequence uint32, channel wire.ChannelAttrs4) error {
	back := wire.ChannelAttrs4{
		Maxrequestsize: 4 * kib, Maxresponsesize: 4 * kib, MaxresponsesizeCached: 4 * kib, Maxoperations: 8, Maxrequests: 16,
	}
	args := &wire.CreateSession4Args{
		Clientid: c.id, Sequence: sequence, ForeChanAttrs: channel, BackChanAttrs: back, CBProgram: 0x40000000,
	}
	if c.back {
		args.Flags, args.SecParms = wire.CreateSession4FlagConnBackChan, authNone()
	}
	d, err := c.do(op4{wire.OpCreateSession, args})
	if err != nil {
		return err
	}
	d.Skip(4)
	var res wire.CreateSession4Res
	res.Decode(d)
	c.session, c.slots = res.ResOK.Sessionid, res.ResOK.ForeChanAttrs.Maxrequests
	return d.Err()
}

// start creates a client ID and a session, and sends RECLAIM_COMPLETE.
func (c *client4) start(name []byte, slots uint32) error {
	sequence, err := c.exchange(name)
	if err == nil {
		err = c.create(sequence, slots)
	}
	if err == nil {
		_, err = c.do(c.sequence(0, 1, false), op4{wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}})
	}
	return err
}

func (c *client4) sequence(slot, number uint32, keep bool) op4 {
	return op4{wire.OpSequence, &wire.Sequence4Args{
		Sessionid: c.session, Slotid: slot, Sequenceid: number, HighestSlotid: slot, Cachethis: keep,
	}}
}

func putFH(h []byte) op4 { return op4{wire.OpPutFH, &wire.PutFH4Args{Object: h}} }
