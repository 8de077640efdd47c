package gss

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// version1 is RPCSEC_GSS_VERS_1 (RFC 2203 §5.2), the only version that this package accepts.
const version1 = 1

// A procedure is rpc_gss_proc_t, the purpose of a call (RFC 2203 §5.2).
type procedure uint32

// Procedures of rpc_gss_proc_t.
const (
	procData         procedure = 0
	procInit         procedure = 1
	procContinueInit procedure = 2
	procDestroy      procedure = 3
)

// maxSeq is MAXSEQ, the largest sequence number (RFC 2203 §5.3.1).
const maxSeq = 0x80000000

// maxToken is the longest token of an initiator, in bytes. A Kerberos ticket with the groups of
// many domains is shorter.
const maxToken = 64 << 10

// maxReplyToken is the longest token of an acceptor, in bytes.
const maxReplyToken = 2 << 10

// maxHandle is the longest handle that a server may choose, in bytes. A credential, of at most
// rpc.MaxAuthBytes bytes, consists of five 4-byte words and the handle.
const maxHandle = rpc.MaxAuthBytes - 5*4

// nullProcedure is the procedure number of calls that make or destroy a context (RFC 2203 §5.2.2,
// §5.4).
const nullProcedure = 0

// A credential is rpc_gss_cred_vers_1_t (RFC 2203 §5.2). Its handle aliases the message.
type credential struct {
	proc    procedure
	seq     uint32
	service rpc.GSSService
	handle  []byte
}

var (
	errNoVersion = errors.New("gss: credential without a version")
	errVersion   = errors.New("gss: credential of another version")
)

// parse reads a credential's body. It also reads credentials of versions 2 and 3, which have the
// same form (RFC 5403 §3.2, RFC 7861 §2.1), and returns errVersion for them.
func (c *credential) parse(body []byte) error {
	*c = credential{}
	var d xdr.Decoder
	d.Reset(body, 0, nil)
	version := d.Uint32()
	if d.Err() != nil {
		return errNoVersion
	}
	c.proc, c.seq, c.service = procedure(d.Uint32()), d.Uint32(), rpc.GSSService(d.Uint32())
	c.handle = d.Opaque(maxHandle)
	err := d.Finish()
	if version != version1 {
		if err != nil {
			c.handle = nil
		}
		return errVersion
	}
	return err
}

// put writes the authenticator, flavor and body.
func (c *credential) put(w *xdr.Writer) {
	w.Uint32(uint32(rpc.AuthGSS))
	w.Uint32(uint32(5*4 + len(c.handle) + xdr.Pad(len(c.handle))))
	c.putBody(w)
}

func (c *credential) putBody(w *xdr.Writer) {
	w.Uint32(version1)
	w.Uint32(uint32(c.proc))
	w.Uint32(c.seq)
	w.Uint32(uint32(c.service))
	w.Opaque(c.handle)
}

// goodService reports whether s is a service of RPCSEC_GSS.
func goodService(s rpc.GSSService) bool { return s >= rpc.GSSNone && s <= rpc.GSSPrivacy }

// An initResult is rpc_gss_init_res (RFC 2203 §5.2.3.1).
type initResult struct {
	handle []byte
	major  Major
	minor  uint32
	window uint32
	token  []byte
}

func (r *initResult) put(w *xdr.Writer) {
	w.Opaque(r.handle)
	w.Uint32(uint32(r.major))
	w.Uint32(r.minor)
	w.Uint32(r.window)
	w.BoundedOpaque(r.token, maxReplyToken)
}

// read reads a result. Its slices alias the message.
func (r *initResult) read(d *xdr.Decoder) error {
	r.handle = d.Opaque(maxHandle)
	r.major, r.minor, r.window = Major(d.Uint32()), d.Uint32(), d.Uint32()
	r.token = d.Opaque(maxToken)
	return d.Finish()
}
