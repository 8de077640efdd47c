package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

const connprop = `00000009 00000002 00000020 00000007 `

// The values of properties are checked: each has the length of its type. One bad value voids its message.
// Rows V2-45, V2-46, V2-47, V2-84, V2-85, V2-N12 of docs/conformance.md.
func TestProperties(t *testing.T) {
	before := DefaultProperties()
	before.ReceiveSize, before.HostAuth = 8192, []byte("old")
	with := func(change func(p *Properties)) Properties {
		p := before
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		hex  string
		want Properties // if there is no answer
		code ErrorCode2
	}{
		"none":              {`00000000`, before, 0},
		"Send size":         {`00000001 00000001 00000004 00010000`, with(func(p *Properties) { p.SendSize = 65536 }), 0},
		"receive size":      {`00000001 00000002 00000004 00004000`, with(func(p *Properties) { p.ReceiveSize = 16384 }), 0},
		"Send size 1024":    {`00000001 00000001 00000004 00000400`, with(func(p *Properties) { p.SendSize = 1024 }), 0},
		"receive size 1024": {`00000001 00000002 00000004 00000400`, with(func(p *Properties) { p.ReceiveSize = 1024 }), 0},
		"segment size":      {`00000001 00000003 00000004 00001000`, with(func(p *Properties) { p.SegmentSize = 4096 }), 0},
		"segment size 0":    {`00000001 00000003 00000004 00000000`, with(func(p *Properties) { p.SegmentSize = 0 }), 0},
		"segments":          {`00000001 00000004 00000004 00000003`, with(func(p *Properties) { p.Segments = 3 }), 0},
		"reverse":           {`00000001 00000005 00000004 00000003`, with(func(p *Properties) { p.Reverse = ReverseGeneral }), 0},
		"reverse, a later level": {`00000001 00000005 00000004 00000004`,
			with(func(p *Properties) { p.Reverse = ReverseNone }), 0},
		"token":        {`00000001 00000006 0000000c 00000005 68656c6c 6f000000`, with(func(p *Properties) { p.HostAuth = []byte("hello") }), 0},
		"empty token":  {`00000001 00000006 00000004 00000000`, with(func(p *Properties) { p.HostAuth = []byte{} }), 0},
		"no token":     {`00000001 00000006 00000000`, with(func(p *Properties) { p.HostAuth = nil }), 0},
		"default":      {`00000001 00000002 00000000`, with(func(p *Properties) { p.ReceiveSize = 4096 }), 0},
		"the last one": {`00000002 00000004 00000004 00000003 00000004 00000004 00000005`, with(func(p *Properties) { p.Segments = 5 }), 0},
		"unknown, then known": {`00000003 7fffffff 00000003 aabbcc00 00000000 00000000 00000004 00000004 00000005`,
			with(func(p *Properties) { p.Segments = 5 }), 0},
		"bytes behind them": {`00000000 00000007`, before, 0},

		"no count (V2-82)":                          {``, before, Err2BadXDR},
		"a count without properties (V2-82)":        {`00000001`, before, Err2BadXDR},
		"count 2^32-1 (V2-82)":                      {`ffffffff 00000007 00000000`, before, Err2BadXDR},
		"a property without its length (V2-82)":     {`00000001 00000001`, before, Err2BadXDR},
		"too short (V2-47)":                         {`00000001 00000002 00000002 10000000`, before, Err2BadPropval},
		"three bytes (V2-45)":                       {`00000001 00000001 00000003 00100000`, before, Err2BadPropval},
		"too long (V2-45)":                          {`00000001 00000001 00000008 00010000 00000000`, before, Err2BadPropval},
		"beyond the message (V2-84)":                {`00000001 00000001 00000004`, before, Err2BadPropval},
		"unknown, beyond the message (V2-84)":       {`00000001 7fffffff 00000009 00000000 00000000`, before, Err2BadPropval},
		"length 2^32-1 (V2-84)":                     {`00000001 7fffffff ffffffff 00000000`, before, Err2BadPropval},
		"token longer than its value (V2-46)":       {`00000001 00000006 00000008 00000005 68656c6c`, before, Err2BadPropval},
		"token of length 2^32-1 (V2-46)":            {`00000001 00000006 00000008 ffffffff 68656c6c`, before, Err2BadPropval},
		"token shorter than its value (V2-46)":      {`00000001 00000006 0000000c 00000001 68656c6c 6f000000`, before, Err2BadPropval},
		"token without its length (V2-46)":          {`00000001 00000006 00000003 00000000`, before, Err2BadPropval},
		"Send size 1023":                            {`00000001 00000001 00000004 000003ff`, before, Err2BadPropval},
		"receive size 1023":                         {`00000001 00000002 00000004 000003ff`, before, Err2BadPropval},
		"receive size 0":                            {`00000001 00000002 00000004 00000000`, before, Err2BadPropval},
		"a good value before a bad one (V2-85)":     {`00000002 00000002 00000004 00004000 00000001 00000003 00100000`, before, Err2BadPropval},
		"a good value before a short list (V2-85)":  {`00000002 00000002 00000004 00004000`, before, Err2BadXDR},
		"a token before a bad value (V2-85)":        {`00000002 00000006 00000000 00000002 00000002 10000000`, before, Err2BadPropval},
		"a good value behind a bad one (V2-85)":     {`00000002 00000001 00000003 00100000 00000002 00000004 00004000`, before, Err2BadPropval},
		"a default before a bad value (V2-85)":      {`00000002 00000002 00000000 00000001 00000003 00100000`, before, Err2BadPropval},
		"a bad value of an unimportant one (V2-85)": {`00000002 00000002 00000000 00000005 00000001 01000000`, before, Err2BadPropval},
	} {
		t.Run(name, func(t *testing.T) {
			p := before
			r := p.Parse(wiretest.Hex(connprop + c.hex))
			if r.Answer != (ErrorBody2{Code: c.code}) || r.Refused() != (c.code != 0) {
				t.Errorf("%+v, want %v", r, c.code)
			}
			if !reflect.DeepEqual(p, c.want) {
				t.Errorf("%+v, want %+v", p, c.want)
			}
		})
	}
}

// A peer that has announced nothing has the defaults of §5.2. Rows V2-12, V2-N12 of docs/conformance.md.
func TestDefaultProperties(t *testing.T) {
	want := Properties{SendSize: 4096, ReceiveSize: 4096, SegmentSize: 1048576, Segments: 16}
	if p := DefaultProperties(); !reflect.DeepEqual(p, want) {
		t.Errorf("%+v", p)
	}
	// A value without bytes stands for each of them.
	p := Properties{5000, 5000, 5000, 5000, ReverseGeneral, []byte("token")}
	if r := p.Parse(wiretest.Hex(connprop + `00000006 00000001 00000000 00000002 00000000 00000003 00000000
		00000004 00000000 00000005 00000000 00000006 00000000`)); r.Refused() || !reflect.DeepEqual(p, want) {
		t.Errorf("%+v %+v", p, r)
	}
}

// The five numbers fit into the first message of a client. Row V2-14 of docs/conformance.md.
func TestPutProperties(t *testing.T) {
	p := Properties{1 << 16, 1 << 17, 1 << 18, 30, ReverseContinued, []byte("hello")}
	which := []PropertyID{PropSendSize, PropReceiveSize, PropSegmentSize, PropSegments, PropReverse}
	if n := p.Size(which...); n != 80 || MaxFirstMessage != 1024 {
		t.Errorf("%d bytes of %d (V2-14)", n, MaxFirstMessage)
	}
	which = append(which, PropHostAuth)
	b := bytes.Repeat([]byte{0xee}, p.Size(which...)+4)
	p.Put(b, Prefix2{7, Version2, 32, TypeConnpropFinal}, which...)
	var q Properties
	q.SendSize, q.ReceiveSize = DefaultInline2, DefaultInline2
	if r := q.Parse(b[:len(b)-4]); r.Refused() || !reflect.DeepEqual(p, q) {
		t.Errorf("decoded as %+v %+v", q, r)
	}
	if !bytes.Equal(b[len(b)-8:], []byte{'o', 0, 0, 0, 0xee, 0xee, 0xee, 0xee}) {
		t.Errorf("ends with % x", b[len(b)-8:])
	}
}

// The properties of a peer outlive the message that announced them, although its buffer is used again.
func TestPropertiesOutliveTheMessage(t *testing.T) {
	p := DefaultProperties()
	for _, hex := range []string{`00000002 00000006 0000000c 00000005 68656c6c 6f000000 00000002 00000004 00004000`, `00000000`} {
		b := wiretest.Hex(connprop + hex)
		if r := p.Parse(b); r.Refused() {
			t.Fatalf("%+v", r)
		}
		for i := range b {
			b[i] = 0xee
		}
		want := DefaultProperties()
		want.ReceiveSize, want.HostAuth = 16384, []byte("hello")
		if !reflect.DeepEqual(p, want) {
			t.Errorf("%+v", p)
		}
	}
}
