package wire

import "testing"

// An encoder that cannot write what it is told to write panics: it sends no bytes that its caller did not mean, and loses
// none.
func TestEncodersThatAreMisused(t *testing.T) {
	lists := Lists{Reads: at(0, Segment{1, 2, 3}), Writes: [][]Segment{{{4, 5, 6}}}, Reply: []Segment{{7, 8, 9}}}
	external := Prefix2{XID: 7, Version: Version2, Type: TypeCallExternal}
	size, size2 := lists.Size(), lists.Size2(TypeCallExternal)
	var h Call2
	if r := h.Parse(inline(Lists{Writes: lists.Writes})); r.Refused() {
		t.Fatalf("%+v", r)
	}
	for name, c := range map[string]struct {
		put  func()
		good bool
	}{
		"lists":                      {func() { lists.Put(make([]byte, size)) }, true},
		"lists, a byte too short":    {func() { lists.Put(make([]byte, size-1, 2*size)) }, false},
		"lists, half":                {func() { lists.Put(make([]byte, size/2)) }, false},
		"call":                       {func() { lists.Put2(make([]byte, size2), external, 0) }, true},
		"call, a byte too short":     {func() { lists.Put2(make([]byte, size2-1, 2*size2), external, 0) }, false},
		"call, the Call chunk alone": {func() { lists.Put2(make([]byte, MinCallExternal+ReadSegmentSize-8), external, 0) }, false},
		"reply":                      {func() { h.PutReply2(make([]byte, 256), Prefix2{Type: TypeReplyInline}, nil, 0) }, true},
		"a Reply chunk not offered":  {func() { h.PutReply2(make([]byte, 256), Prefix2{Type: TypeReplyExternal}, nil, 0) }, false},
		"error":                      {func() { ErrorBody2{Code: Err2System}.Put(make([]byte, MaxError2Size), Prefix2{}) }, true},
		"error, code 0":              {func() { ErrorBody2{}.Put(make([]byte, MaxError2Size), Prefix2{}) }, false},
		"error, an unknown code":     {func() { ErrorBody2{Code: 12}.Put(make([]byte, MaxError2Size), Prefix2{}) }, false},
		"properties":                 {func() { new(Properties).Put(make([]byte, 64), Prefix2{}, PropReverse, PropHostAuth) }, true},
		"property 0":                 {func() { new(Properties).Put(make([]byte, 64), Prefix2{}, 0) }, false},
		"property 7":                 {func() { new(Properties).Put(make([]byte, 64), Prefix2{}, PropReverse, 7) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); (p == nil) != c.good {
					t.Errorf("panics with %v", p)
				}
			}()
			c.put()
		})
	}
}
