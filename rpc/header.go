package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A verdict is the result of parsing a call's header.
type verdict uint8

const (
	headerGood verdict = iota
	headerNotACall
	headerMismatch // rpcvers is not 2
	headerBadCred
	headerBadVerf
)

// parse reads a call's header from the start of message. The fields alias message. If the verdict
// is not headerGood, the fields before the fault are set.
func (h *CallHeader) parse(message []byte) verdict {
	*h = CallHeader{}
	var d xdr.Decoder
	d.Reset(message, 0, nil)
	h.XID = d.Uint32()
	t := MsgType(d.Uint32())
	v := d.Uint32()
	switch {
	case d.Err() != nil || t != TypeCall:
		return headerNotACall
	case v != Version:
		return headerMismatch
	}
	h.Program, h.Version, h.Procedure = d.Uint32(), d.Uint32(), d.Uint32()
	if d.Err() != nil {
		return headerNotACall
	}
	h.Cred.Flavor = Flavor(d.Uint32())
	h.Cred.Body = d.Opaque(MaxAuthBytes)
	if d.Err() != nil {
		return headerBadCred
	}
	h.Verf.Flavor = Flavor(d.Uint32())
	h.Verf.Body = d.Opaque(MaxAuthBytes)
	if d.Err() != nil {
		return headerBadVerf
	}
	h.Size = d.Position()
	return headerGood
}

// moved points the slices of Header and Cred at c.Message, after the transport has replaced it by a
// copy of the message. The lengths are valid, because Admit has parsed the header.
func (c *Call) moved() {
	m, h := c.Message, &c.Header
	at := callFixed + authFixed
	n := len(h.Cred.Body)
	h.Cred.Body = m[at : at+n : at+n]
	if c.Cred.Machine != nil {
		from := at + machineAt
		to := from + len(c.Cred.Machine)
		c.Cred.Machine = m[from:to:to]
	}
	at += n + xdr.Pad(n) + authFixed
	n = len(h.Verf.Body)
	h.Verf.Body = m[at : at+n : at+n]
}
