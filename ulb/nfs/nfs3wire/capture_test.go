package nfs3wire

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

//go:embed testdata/linux.txt
var linux string

// captured is one line of testdata/linux.txt.
type captured struct {
	procedure int // index into procedures
	res       bool
	stream    []byte
}

func (c captured) fresh() xdrtest.Value {
	if c.res {
		return procedures[c.procedure].res()
	}
	return procedures[c.procedure].args()
}

func captures(t testing.TB) []captured {
	t.Helper()
	var all []captured
	for line := range strings.Lines(linux) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		stream, err := hex.DecodeString(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		c := captured{procedure: -1, res: fields[1] == "res", stream: stream}
		for i, p := range procedures {
			if p.proc.String() == fields[0] {
				c.procedure = i
			}
		}
		if c.procedure < 0 {
			t.Fatalf("unknown procedure %s", fields[0])
		}
		all = append(all, c)
	}
	return all
}

// Captured arguments and results of Linux decode to the same values here and in go-xdr, and are
// encoded to the same bytes again.
func TestLinuxCapture(t *testing.T) {
	all := captures(t)
	if len(all) < 30 {
		t.Fatalf("only %d lines", len(all))
	}
	for _, c := range all {
		p := procedures[c.procedure]
		v := c.fresh()
		var d xdr.Decoder
		var places []xdr.Excised
		whole := c.stream
		if p.proc == ProcRead && c.res {
			data := make([]byte, binary.BigEndian.Uint32(whole[len(whole)-4:]))
			places = []xdr.Excised{{Data: data}}
			whole = append(bytes.Clone(whole), data...)
		}
		d.ResetPlaces(c.stream, 0, places)
		v.Decode(&d)
		if err := d.Finish(); err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		w := xdr.NewWriter(make([]byte, 0, 1<<14))
		v.Encode(w)
		if got := xdrtest.Stream(w); !bytes.Equal(got, whole) {
			t.Errorf("%T: encoded again\n%x\n%x", v, got, whole)
		}
		oracle := p.argsOracle
		if c.res {
			oracle = p.resOracle
		}
		theirs, err := oracle.Read(bytes.NewReader(whole))
		if err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		if got, want := xdrtest.Leaves(v), xdrtest.ForeignLeaves(theirs); !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %v\ngo-xdr: %v", v, got, want)
		}
	}
}

// Some captured values are compared with constants, because both codecs could make the same
// mistake.
func TestLinuxCaptureValues(t *testing.T) {
	for _, c := range captures(t) {
		v := c.fresh()
		v.Decode(xdr.NewDecoder(c.stream))
		switch v := v.(type) {
		case *Write3Args:
			if string(v.Data.Data) != "hello\n" || v.Count != 6 || v.Stable != FileSync || len(v.FileHandle.Data) != 20 {
				t.Errorf("%+v", v)
			}
		case *Mkdir3Args:
			if string(v.Where.Name) != "d" || v.Attributes.Mode != (SetMode3{true, 0o755}) || v.Attributes.UID.SetIt {
				t.Errorf("%+v", v)
			}
		case *Fsinfo3Res:
			if ok := v.ResOK; ok.ReadMax != 512<<10 || ok.WriteMax != 512<<10 || ok.TimeDelta != (NFSTime3{1, 0}) ||
				ok.Properties != FSF3Link|FSF3Symlink|FSF3Homogeneous|FSF3CanSetTime {
				t.Errorf("%+v", ok)
			}
		case *Symlink3Args:
			if text := v.Symlink.SymlinkData.Data; strings.Trim(string(text), "x") != "" || len(text) != 300 {
				t.Errorf("%q", text)
			}
		case *ReaddirPlus3Res:
			names := map[string]bool{}
			for e := (EntryPlus3{}); v.ResOK.Reply.Entries.Next(&e); {
				names[string(e.Name)] = true
			}
			if len(names) != 62 || !names["."] || !names[".."] || !names["file-with-a-long-name-60"] || !v.ResOK.Reply.EOF {
				t.Errorf("%d names, EOF %v", len(names), v.ResOK.Reply.EOF)
			}
		}
	}
}
