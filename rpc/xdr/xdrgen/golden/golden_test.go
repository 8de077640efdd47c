package golden

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

func octets(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each construct is encoded and decoded as in RFC 4506 §4.
func TestWireFormat(t *testing.T) {
	for _, c := range []struct {
		name  string
		value xdrtest.Value
		want  string
	}{
		{"RFC 4506 §7", &File{
			Filename: []byte("sillyprog"),
			Type:     FileType{Kind: FileExec, Interpretor: []byte("lisp")},
			Owner:    []byte("john"),
			Data:     []byte("(quit)"),
		}, "00000009 73696c6c 7970726f 67000000 00000002 00000004 6c697370 00000004 6a6f686e 00000006 28717569 74290000"},
		{"scalars", &Scalars{-1, 2, 3, -4, 5, true},
			"ffffffff 00000002 00000003 fffffffffffffffc 0000000000000005 00000001"},
		{"opaques", &Opaques{[6]byte{1, 2, 3, 4, 5, 6}, [0]byte{}, []byte{7}, []byte{}, []byte("abc"), []byte("wxyz")},
			"01020304 05060000 00000001 07000000 00000000 00000003 61626300 00000004 7778797a"},
		{"typedefs", &Typed{9, Digest{1, 2, 3, 4, 5}, Cookie("ab"), Motto("m"), Triple{-1, 0, 1}, Several{7}},
			"0000000000000009 01020304 05000000 00000002 61620000 00000001 6d000000" +
				"ffffffff 00000000 00000001 00000001 00000007"},
		{"enum", ptr(Ultraviolet), "ffffffff"},
		{"open enum", ptr(Weather(77)), "0000004d"},
		{"arrays", &Arrays{[4]uint32{1, 2, 3, 4}, [2]Card{{Clubs, 2}, {Hearts, 3}}, []int64{-1}, []Card{{Hearts, 12}}, OptCard{true, Card{Clubs, 1}}},
			"00000001 00000002 00000003 00000004 00000000 00000002 00000001 00000003 00000001 ffffffffffffffff" +
				"00000001 00000001 0000000c 00000001 00000000 00000001"},
		{"optional", &Optional{Number: OptUint32{true, 5}, Home: OptPoint{true, Point{1, -1}}},
			"00000001 00000005 00000000 00000001 00000001 ffffffff"},
		{"union by enum", &ByEnum{Which: Binary, Data: []byte{1}}, "00000003 00000001 01000000"},
		{"union, void arm", &ByEnum{Which: None}, "00000000"},
		{"union, default", &WithDefault{Which: Other, Code: 8}, "00000009 00000008"},
		{"union, void default", &VoidDefault{Which: Data}, "00000002"},
		{"union by bool", &ByBool{Follows: true, Value: 1}, "00000001 0000000000000001"},
		{"union by int", &ByInt{Selector: -1, Negative: -2}, "ffffffff fffffffe"},
		{"union by constant", &ByInt{Selector: Magic, Magic: 1}, "00000007 00000001"},
		{"union by unsigned int", &ByUnsigned{Selector: 1, Text: []byte("a")}, "00000001 00000001 61000000"},
		{"external", &Flagged{Bitset(2<<32 | 1), 5}, "00000002 00000001 00000002 00000005"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := octets(t, c.want)
			w := xdr.NewWriter(make([]byte, 0, 256))
			c.value.Encode(w)
			if !bytes.Equal(w.Bytes(), want) || w.Overflow() {
				t.Errorf("encoded %x", w.Bytes())
			}
			got := reflect.New(reflect.TypeOf(c.value).Elem())
			d := xdr.NewDecoder(want)
			got.Interface().(xdrtest.Value).Decode(d)
			if d.Finish() != nil || !reflect.DeepEqual(got.Interface(), c.value) {
				t.Errorf("decoded %+v, %v", got.Elem(), d.Finish())
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// The decoder refuses values that the definition forbids.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		value  xdrtest.Value
		stream string
		want   error
	}{
		{"enum without the value", new(Color), "00000004", xdr.ErrBadValue},
		{"union without the arm", new(ByEnum), "00000009", xdr.ErrBadValue},
		{"union by half a bool", new(ByOneBool), "00000000", xdr.ErrBadValue},
		{"union by int without the arm", new(ByInt), "00000001", xdr.ErrBadValue},
		{"string beyond its bound", new(ByEnum), "00000001 00000009 000000000000000000000000", xdr.ErrTooLong},
		{"array beyond its bound", new(Several), "00000005 0000000000000000000000000000000000000000", xdr.ErrTooLong},
		{"array beyond the stream", new(Several), "00000004 00000000", xdr.ErrShort},
		{"two where one may be", new(OptCard), "00000002 00000000 00000001 00000000 00000001", xdr.ErrBadValue},
		{"iterator beyond the stream", new(Steps), "40000000 00000001 00000001", xdr.ErrShort},
		{"bad element of an iterator", new(Steps), "00000002 00000001 00000001 00000003 00000000", xdr.ErrBadValue},
		{"bad boolean in an array", new(MasksFlags), "00000001 00000002", xdr.ErrBadValue},
		{"list without an end", new(ItemList), "00000001 00000005", xdr.ErrShort},
		{"list with a bad link", new(ItemList), "00000001 00000005 00000002", xdr.ErrBadValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := xdr.NewDecoder(octets(t, c.stream))
			c.value.Decode(d)
			if !errors.Is(d.Finish(), c.want) {
				t.Errorf("%v, want %v", d.Finish(), c.want)
			}
			// An iterator whose Decode has failed is empty.
			if next := reflect.ValueOf(c.value).MethodByName("Next"); next.IsValid() {
				elem := reflect.New(next.Type().In(0).Elem())
				if next.Call([]reflect.Value{elem})[0].Bool() {
					t.Errorf("it has the element %+v", elem.Elem())
				}
			}
		})
	}
}

// The encoder refuses values that the definition forbids.
func TestNotEncoded(t *testing.T) {
	for name, v := range map[string]xdrtest.Value{
		"union without the arm": &ByEnum{Which: Other},
		"union by half a bool":  &ByOneBool{},
		"string":                &ByEnum{Which: Text, Text: make([]byte, 9)},
		"array":                 ptr(make(Several, 5)),
		"opaque":                ptr(make(Cookie, 6)),
		"eligible":              &Transfer{Block: xdr.Eligible{Data: make([]byte, Block+1)}},
	} {
		w := xdr.NewWriter(make([]byte, 0, 8192))
		if v.Encode(w); !w.Overflow() {
			t.Errorf("%s: encoded %x", name, w.Bytes())
		}
	}
}

// Random values of all types decode to the same values from their encodings.
func TestRoundTrip(t *testing.T) {
	for _, v := range []xdrtest.Value{
		new(Scalars), new(Opaques), new(Typed), new(Color), new(Weather), new(Arrays), new(Optional),
		new(ByEnum), new(WithDefault), new(VoidDefault), new(ByBool), new(ByOneBool), new(ByInt), new(ByUnsigned),
		new(Store), new(Answer), new(Twice), new(ItemList), new(ShelfList), new(Walk), new(Masks), new(Steps),
		new(Message), new(Transfer), new(File),
	} {
		fresh := func() xdrtest.Value {
			return reflect.New(reflect.TypeOf(v).Elem()).Interface().(xdrtest.Value)
		}
		t.Run(reflect.TypeOf(v).Elem().Name(), rapid.MakeCheck(func(t *rapid.T) {
			xdrtest.Check(t, fresh)
		}))
	}
}

// EncodeHead, the elements of the list, and EncodeTail give the same encoding as Encode, also for a
// list within a list.
func TestHalves(t *testing.T) {
	v := Answer{Found: true, Content: Store{Before: 1, After: 2}}
	w := xdr.NewWriter(make([]byte, 0, 128))
	v.EncodeHead(w)
	shelf := Shelf{Label: []byte("top")}
	PutShelfHead(w, &shelf)
	PutItem(w, &Item{Value: 7})
	EndItemList(w)
	shelf.EncodeTail(w)
	PutShelf(w, &Shelf{Label: []byte("low")})
	EndShelfList(w)
	v.EncodeTail(w)
	want := octets(t, "00000001 00000001"+
		"00000001 00000003 746f7000 00000001 00000007 00000000"+
		"00000001 00000003 6c6f7700 00000000"+
		"00000000 00000002")
	if !bytes.Equal(w.Bytes(), want) {
		t.Errorf("%x", w.Bytes())
	}
	var got Answer
	got.Decode(xdr.NewDecoder(want))
	again := xdr.NewWriter(make([]byte, 0, 128))
	if got.Encode(again); !bytes.Equal(again.Bytes(), want) {
		t.Errorf("encoded again: %x", again.Bytes())
	}

	nothing := Answer{}
	w.Reset(make([]byte, 0, 128))
	nothing.EncodeHead(w)
	nothing.EncodeTail(w)
	if !bytes.Equal(w.Bytes(), octets(t, "00000000")) {
		t.Errorf("without a list: %x", w.Bytes())
	}
}

// Types without bounded arrays are encoded and decoded without allocation.
func TestNoAllocation(t *testing.T) {
	for _, v := range []xdrtest.Value{
		new(Scalars), new(Opaques), new(Optional), new(ByEnum), new(WithDefault), new(Answer), new(Twice),
		new(ShelfList), new(Walk), new(Masks), new(Transfer), new(File),
	} {
		xdrtest.CheckAllocations(t, func() xdrtest.Value {
			return reflect.New(reflect.TypeOf(v).Elem()).Interface().(xdrtest.Value)
		})
	}
}

// The size constants are the largest sizes that the definitions permit: of the whole encoding, and
// without eligible content, of which only the count stays (RFC 8166 §3.4.4).
func TestSizes(t *testing.T) {
	for name, c := range map[string][2]int{
		"Scalars":     {ScalarsMaxSize, 4*3 + 8*2 + 4},
		"Arrays":      {ArraysMaxSize, 16 + 16 + 4 + 24 + 4 + 16 + 12},
		"Optional":    {OptionalMaxSize, 8 + 12 + 12},
		"ByEnum":      {ByEnumMaxSize, 4 + 4 + 8},
		"WithDefault": {WithDefaultMaxSize, 4 + 4 + 8},
		"File":        {FileMaxSize, 4 + 256 + 4 + 4 + 256 + 4 + 32 + 4 + 65536},
		"Transfer":    {TransferMaxReducedSize, 4 + 4 + 4},
		"Bitset":      {BitsetMaxSize, 4 + 2*4},
		"Flagged":     {FlaggedMaxSize, 4 + 2*4 + 4},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
}

// Constants have the right value in any notation.
func TestConstants(t *testing.T) {
	if Decimal != 12 || Negative != -3 || Hexadecimal != 0xdeadbeef || Octal != 493 || Largest != uint64(math.MaxUint64) ||
		Renamed != 3 || Program != 0x20000001 || Version1 != 1 || Version2 != 2 || BackProgram != 0x20000002 {
		t.Error("a constant is not what it was")
	}
	for v, want := range map[any]string{
		Azure: "BLUE", Color(7): "color(7)", Rain: "RAIN", V2ProcTwice: "ECHO_SAYTWICE",
		Procedure1(9): "procedure 9", BackProcNull: "BACK_NULL",
	} {
		if got := v.(interface{ String() string }).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
