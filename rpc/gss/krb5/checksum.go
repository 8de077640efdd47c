package krb5

import (
	"crypto/md5"
	"crypto/subtle"
	"encoding/binary"

	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// checksumType is the type of the authenticator's checksum field. Instead of a checksum, the field
// contains the initiator's flags and channel bindings (RFC 4121 §4.1.1).
const checksumType = 0x8003

// The constants with the prefix flag are the flags that an initiator may set (RFC 4121 §4.1.1.1,
// RFC 2744 §3.9.1). The others are sizes and offsets of the field, in bytes, and the type of a
// delegation in it.
const (
	flagDelegate  = 1
	flagMutual    = 2
	flagReplay    = 4
	flagSequence  = 8
	flagConf      = 16
	flagInteg     = 32
	flagDCEStyle  = 0x1000
	bindingsSize  = md5.Size
	checksumSize  = 4 + bindingsSize + 4
	delegationAt  = checksumSize
	delegationTag = 1
)

// wishes has the contents of an authenticator's checksum field: the initiator's channel bindings,
// and flags for the properties that the initiator wants the context to have.
type wishes struct {
	bindings [bindingsSize]byte
	flags    uint32
}

// parseWishes decodes an authenticator's checksum field. It checks the form of a delegated
// credential but does not use it, and ignores extensions.
func parseWishes(sum types.Checksum) (w wishes, err error) {
	b := sum.Checksum
	if sum.CksumType != checksumType {
		return w, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is of type %d, not of GSS-API's", sum.CksumType)
	}
	if len(b) < checksumSize || binary.LittleEndian.Uint32(b) != bindingsSize {
		return w, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is malformed")
	}
	copy(w.bindings[:], b[4:])
	w.flags = binary.LittleEndian.Uint32(b[4+bindingsSize:])
	if w.flags&flagDelegate != 0 && !holdsDelegation(b[delegationAt:]) {
		return w, failed(gss.DefectiveToken, wrongChecksum, "the delegation in the authenticator's checksum is malformed")
	}
	if w.flags&flagDCEStyle != 0 {
		return w, failed(gss.Failure, generic, "contexts in DCE style are not served")
	}
	return w, nil
}

func holdsDelegation(b []byte) bool {
	return len(b) >= 4 && binary.LittleEndian.Uint16(b) == delegationTag && len(b)-4 >= int(binary.LittleEndian.Uint16(b[2:]))
}

// encode returns w as the checksum field of an authenticator.
func (w wishes) encode() types.Checksum {
	b := binary.LittleEndian.AppendUint32(nil, bindingsSize)
	b = append(b, w.bindings[:]...)
	b = binary.LittleEndian.AppendUint32(b, w.flags)
	return types.Checksum{CksumType: checksumType, Checksum: b}
}

// bindingsHash returns the Bnd field for channel bindings that consist of application data, or
// zeros if data is nil (RFC 4121 §4.1.1.2).
func bindingsHash(data []byte) (sum [bindingsSize]byte) {
	if data == nil {
		return sum
	}
	// First come type and length of both addresses, all zero, then the data's length.
	b := make([]byte, 16, 20+len(data))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	return md5.Sum(append(b, data...))
}

// bound reports whether the initiator's channel bindings equal data, the bindings of this side. If
// either side has none, it returns false. If they differ, it returns an error (RFC 4121 §4.1.1.2).
func (w wishes) bound(data []byte) (bool, error) {
	if data == nil || w.bindings == [bindingsSize]byte{} {
		return false, nil
	}
	ours := bindingsHash(data)
	if subtle.ConstantTimeCompare(ours[:], w.bindings[:]) == 0 {
		return false, failed(gss.BadBindings, generic, "the initiator's channel bindings are of another connection")
	}
	return true, nil
}
