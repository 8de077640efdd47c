package nfs4wire

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

//go:embed testdata/linux.txt
var linux string

// captured is one line of testdata/linux.txt: a whole compound.
type captured struct {
	minor           string
	reply, callback bool
	stream          []byte
}

func captures(t testing.TB) (all []captured) {
	t.Helper()
	for line := range strings.Lines(linux) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		stream, err := hex.DecodeString(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, captured{
			minor: fields[0], stream: stream,
			reply: strings.HasSuffix(fields[1], "reply"), callback: strings.HasPrefix(fields[1], "cb"),
		})
	}
	return all
}

// walk decodes a compound up to its first operation. It then calls visit for each operation,
// and visit decodes the arguments or the result.
func (c captured) walk(d *xdr.Decoder, visit func(op int32)) error {
	if c.reply {
		d.Int32() // status
	}
	d.Opaque(NFS4OpaqueLimit) // tag
	if !c.reply {
		if minor := d.Uint32(); fmt.Sprintf("4.%d", minor) != c.minor {
			return fmt.Errorf("minor version %d", minor)
		}
		if c.callback {
			d.Uint32() // callback_ident
		}
	}
	for range d.Count(64, 4) {
		op := d.Int32()
		if d.Err() == nil {
			visit(op)
		}
	}
	return d.Finish()
}

// types returns the types of operation op from the table.
func (c captured) types(op int32) (fresh func() xdrtest.Value, oracle xdrtest.Foreign, name string) {
	if c.callback {
		return typesOf(callbacks, CBOpNum(op), c.reply)
	}
	return typesOf(operations, OpNum(op), c.reply)
}

func typesOf[N OpNum | CBOpNum](all []operation[N], op N, reply bool) (func() xdrtest.Value, xdrtest.Foreign, string) {
	for _, o := range all {
		if o.op == op {
			name := any(op).(fmt.Stringer).String()
			if reply {
				return o.res, o.resOracle, name
			}
			return o.args, o.argsOracle, name
		}
	}
	return nil, none, ""
}

// Captured compounds of Linux decode operation by operation to the same values here and in
// go-xdr, and are encoded to the same bytes again.
func TestLinuxCapture(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range captures(t) {
		d := xdr.NewDecoder(c.stream)
		err := c.walk(d, func(op int32) {
			fresh, oracle, name := c.types(op)
			if name == "" {
				t.Errorf("%s: operation %d", c.minor, op)
				return
			}
			seen[c.minor+" "+name] = true
			if fresh != nil {
				checkCaptured(t, fresh(), oracle, d, c.stream)
			}
		})
		if err != nil {
			t.Errorf("%s %x: %v", c.minor, c.stream, err)
		}
	}
	for _, name := range []string{
		"4.0 OP_READDIR",
		"4.0 OP_SETCLIENTID", "4.0 OP_SETCLIENTID_CONFIRM", "4.0 OP_OPEN", "4.0 OP_OPEN_CONFIRM", "4.0 OP_CLOSE",
		"4.1 OP_EXCHANGE_ID", "4.1 OP_CREATE_SESSION", "4.1 OP_SEQUENCE", "4.1 OP_RECLAIM_COMPLETE", "4.1 OP_OPEN",
		"4.1 OP_CB_SEQUENCE", "4.1 OP_READDIR", "4.1 OP_WRITE", "4.1 OP_READ", "4.2 OP_LOCK", "4.2 OP_CREATE", "4.2 OP_READLINK",
	} {
		if !seen[name] {
			t.Errorf("no %s among what was captured", name)
		}
	}
}

func checkCaptured(t *testing.T, v xdrtest.Value, oracle xdrtest.Foreign, d *xdr.Decoder, stream []byte) {
	from := d.Position()
	v.Decode(d)
	if d.Err() != nil {
		t.Errorf("%T: %v", v, d.Err())
		return
	}
	part := stream[from:d.Position()]
	if _, ok := v.(*open4Res); ok {
		part = shortAttrset(part)
	}
	w := xdr.NewWriter(make([]byte, 0, 1<<14))
	v.Encode(w)
	if got := xdrtest.Stream(w); !bytes.Equal(got, part) {
		t.Errorf("%T: encoded again\n%x\n%x", v, got, part)
	}
	if oracle.Read == nil {
		return
	}
	theirs, err := oracle.Read(bytes.NewReader(part))
	if err != nil {
		t.Errorf("%T: %v", v, err)
		return
	}
	if got, want := xdrtest.Leaves(v), xdrtest.ForeignLeaves(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("%T: %v\ngo-xdr: %v", v, got, want)
	}
}

// shortAttrset returns the result of an OPEN without the zero word in attrset that Linux's
// server sends. This package never encodes a bitmap with a zero word at the end.
func shortAttrset(res []byte) []byte {
	const at = 4 + StateID4MaxSize + ChangeInfo4MaxSize + 4
	if len(res) > at+8 && bytes.Equal(res[at:at+8], []byte{0, 0, 0, 1, 0, 0, 0, 0}) {
		return slices.Concat(res[:at+3], []byte{0}, res[at+8:])
	}
	return res
}

// Some captured values are compared with constants, because both codecs could make the same
// mistake.
func TestLinuxCaptureValues(t *testing.T) {
	found := map[string]int{}
	for _, c := range captures(t) {
		d := xdr.NewDecoder(c.stream)
		if err := c.walk(d, func(op int32) {
			if fresh, _, _ := c.types(op); fresh != nil {
				v := fresh()
				v.Decode(d)
				checkValue(t, v, found)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"WRITE", "EXCHANGE_ID", "CREATE_SESSION", "READLINK", "READDIR", "CB_RECALL_ANY"} {
		if found[name] == 0 {
			t.Errorf("no %s was checked", name)
		}
	}
}

func checkValue(t *testing.T, v xdrtest.Value, found map[string]int) {
	switch v := v.(type) {
	case *Write4Args:
		found["WRITE"]++
		if string(v.Data.Data) != "hello\n" || v.Stable != FileSync4 || v.Offset != 0 {
			t.Errorf("%+v", v)
		}
	case *ExchangeID4Args:
		found["EXCHANGE_ID"]++
		if v.StateProtect.How != Sp4None || v.Flags&Exchgid4FlagSuppMovedRefer == 0 || !v.ClientImplID.Present ||
			!bytes.HasPrefix(v.Clientowner.Ownerid, []byte("Linux NFSv4.")) {
			t.Errorf("%+v", v)
		}
	case *CreateSession4Args:
		found["CREATE_SESSION"]++
		if v.Flags&CreateSession4FlagConnBackChan == 0 || v.ForeChanAttrs.Maxrequests != 64 || v.ForeChanAttrs.Maxoperations != 8 {
			t.Errorf("%+v", v)
		}
	case *Readlink4Res:
		found["READLINK"]++
		if text := v.ResOK.Link.Data; strings.Trim(string(text), "x") != "" || len(text) != 300 {
			t.Errorf("%q", text)
		}
	case *Readdir4Res:
		found["READDIR"]++
		names := map[string]bool{}
		for e := (Entry4{}); v.ResOK.Reply.Entries.Next(&e); {
			names[string(e.Name)] = true
		}
		if !names["file-with-a-long-name-60"] || names["."] || !v.ResOK.Reply.EOF {
			t.Errorf("%d names, EOF %v", len(names), v.ResOK.Reply.EOF)
		}
	case *CBRecallAny4Args:
		found["CB_RECALL_ANY"]++
		if !v.TypeMask.Has(Rca4TypeMaskRdataDlg) {
			t.Errorf("%+v", v)
		}
	}
}
