package krb5

import (
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
	bindingsSize  = 16
	flagsAt       = 4 + bindingsSize
	checksumSize  = flagsAt + 4
	delegationTag = 1
)

// parseFlags returns the flags in an authenticator's checksum field. It checks the form of a
// delegated credential but does not use it. It ignores extensions and channel bindings, because an
// acceptor without bindings has to accept any (RFC 4121 §4.1.1.2).
func parseFlags(sum types.Checksum) (flags uint32, err error) {
	b := sum.Checksum
	if sum.CksumType != checksumType {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is of type %d, not of GSS-API's", sum.CksumType)
	}
	if len(b) < checksumSize || binary.LittleEndian.Uint32(b) != bindingsSize {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is malformed")
	}
	flags, b = binary.LittleEndian.Uint32(b[flagsAt:]), b[checksumSize:]
	if flags&flagDelegate != 0 &&
		(len(b) < 4 || binary.LittleEndian.Uint16(b) != delegationTag || len(b)-4 < int(binary.LittleEndian.Uint16(b[2:]))) {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the delegation in the authenticator's checksum is malformed")
	}
	if flags&flagDCEStyle != 0 {
		return 0, failed(gss.Failure, generic, "contexts in DCE style are not served")
	}
	return flags, nil
}

// encodeFlags returns the checksum field of an authenticator, without channel bindings.
func encodeFlags(flags uint32) types.Checksum {
	b := make([]byte, checksumSize)
	binary.LittleEndian.PutUint32(b, bindingsSize)
	binary.LittleEndian.PutUint32(b[flagsAt:], flags)
	return types.Checksum{CksumType: checksumType, Checksum: b}
}
